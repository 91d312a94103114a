"""How a command ends: bad input is one line and exit code 2, an interruption 130."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from types import FrameType
from typing import IO, Any, NoReturn

import click

from surprise_rerank._errors import SurpriseRerankError
from surprise_rerank.eval.reports.one_line import one_line


class Interrupted(click.ClickException):
    """An interruption, with a sentence on what it leaves behind."""

    exit_code = 130

    def show(self, file: IO[Any] | None = None) -> None:
        """The sentence, on the error stream; on a terminal below the `^C`."""
        above = "\n" if sys.stderr.isatty() else ""
        click.echo(f"{above}Interrupted. {self.message}".rstrip(), file=file, err=True)


class Commands(click.Group):
    """A group of commands whose interruption is an `Interrupted`, before click adds an empty line.

    An option with one value is refused where it comes twice: click takes the last one without a word.
    """

    def make_context(self, *arguments: Any, **more: Any) -> click.Context:
        """Read the options."""
        with when_interrupted(""):
            return super().make_context(*arguments, **more)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the options of the group itself."""
        _refuse_repeated(ctx, args)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, and look through its options."""
        name, command, arguments = super().resolve_command(ctx, args)
        if command is not None:
            _refuse_repeated(click.Context(command, parent=ctx, info_name=name), arguments)
        return name, command, arguments

    def invoke(self, ctx: click.Context) -> Any:
        """Run what was asked for."""
        with when_interrupted(""):
            return super().invoke(ctx)


def _refuse_repeated(ctx: click.Context, args: list[str]) -> None:
    try:
        _, _, order = ctx.command.make_parser(ctx).parse_args(list(args))
    except click.UsageError:  # which comes again where the options are read
        return
    for option, times in Counter(order).items():
        if times > 1 and isinstance(option, click.Option) and not (option.multiple or option.is_flag):
            raise click.UsageError(f"{option.opts[0]} is given {times} times; give it once", ctx)


_interruptions: list[int] = []

_SWALLOWED = 0.5  # seconds after which an interruption that nobody handles has been swallowed


def interrupt(number: int, frame: FrameType | None) -> None:
    """The handler of Ctrl-C, which remembers it: a library may swallow it, or make another error of it."""

    def show(unraisable: sys.UnraisableHookArgs) -> None:  # but an interruption: that one comes again
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            sys.__unraisablehook__(unraisable)

    _interruptions.append(number)
    sys.unraisablehook = show
    if hasattr(signal, "SIGALRM"):  # Windows has none
        signal.signal(signal.SIGALRM, _again)
    _interrupt_again(_SWALLOWED)
    raise KeyboardInterrupt


def _again(number: int, frame: FrameType | None) -> None:
    """Interrupt what goes on as if nothing had been; what is being cleaned up gets its time."""
    if sys.exc_info()[0] is None:
        interrupt(signal.SIGINT, frame)
    _interrupt_again(_SWALLOWED)


def _interrupt_again(seconds: float) -> None:
    """In so many seconds; in none, never."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextlib.contextmanager
def when_interrupted(message: str) -> Iterator[None]:
    """A block whose interruption, or what a library made of one, is an `Interrupted` with this sentence."""
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        _interrupt_again(0)
        if isinstance(error, Interrupted) or not (isinstance(error, KeyboardInterrupt) or _interruptions):
            raise
        raise Interrupted(message) from error


def run(command: click.Command, interrupted: str = "") -> None:
    """Run a command: bad input is one line and exit code 2, an interruption 130 and a sentence on it."""
    try:
        sys.exit(command(standalone_mode=False) or 0)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else command.name
        _fail(f"{error.format_message()} (see {path} --help)")
    except Interrupted as error:
        Interrupted(error.message or interrupted).show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except SurpriseRerankError as error:
        _fail(str(error))
    except OSError as error:
        from surprise_rerank.core._files import explain

        _fail(f"{error.filename or 'file'}: {explain(error)}")
    except (KeyboardInterrupt, click.Abort):
        Interrupted(interrupted).show()
        sys.exit(130)


def _fail(message: str) -> NoReturn:
    click.echo(f"Error: {one_line(message)}", err=True)
    sys.exit(2)
