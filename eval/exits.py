"""How a command ends: bad input is one line and exit code 2, an interruption 130."""

from __future__ import annotations

import contextlib
import sys
import unicodedata
from collections.abc import Iterator
from typing import IO, Any, NoReturn

import click

from surprise_rerank.errors import SurpriseRerankError

# Direction marks, with which a text can look like another one.
_DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class Interrupted(click.ClickException):
    """An interruption, with a sentence on what it leaves behind."""

    exit_code = 130

    def show(self, file: IO[Any] | None = None) -> None:
        """The sentence, on the error stream."""
        click.echo(f"\nInterrupted. {self.message}".rstrip(), file=file, err=True)


@contextlib.contextmanager
def telling(message: str) -> Iterator[None]:
    """Have an interruption of the block tell this sentence.

    Raises:
        Interrupted: in place of a KeyboardInterrupt.
    """
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(message) from error


def run(command: click.Command, interrupted: str = "") -> None:
    """Run a command: bad input is one line and exit code 2, an interruption 130.

    Args:
        command: with its arguments from `sys.argv`.
        interrupted: a sentence for an interruption that tells nothing itself.
    """
    try:
        sys.exit(command(standalone_mode=False) or 0)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else command.name
        _fail(f"{error.format_message()} (see {path} --help)")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SurpriseRerankError as error:
        _fail(str(error))
    except OSError as error:
        from surprise_rerank.connectors.folders import explain

        _fail(f"{error.filename or 'file'}: {explain(error)}")
    except (KeyboardInterrupt, click.Abort):
        Interrupted(interrupted).show()
        sys.exit(130)


def one_line(text: str) -> str:
    r"""A text in one line in which nothing moves a cursor or turns the direction of writing.

    >>> one_line("a\n b\x1b[31mc\u202e")
    'a b\\x1b[31mc\\u202e'
    """
    return "".join(map(_shown, " ".join(text.split())))


def _shown(character: str) -> str:
    if unicodedata.category(character) in ("Cc", "Cs") or character in _DIRECTIONS:
        return character.encode("unicode_escape").decode("ascii")
    return character


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {one_line(message)}", err=True)
    sys.exit(2)
