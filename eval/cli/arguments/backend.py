"""The options that say what computes a model, and in which precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from surprise_rerank.eval.retrieval.settings import DEFAULTS, Backend, Precision

backend_option = click.option(
    "--backend",
    type=click.Choice(get_args(Backend)),
    default=DEFAULTS.backend,
    show_default=True,
    help="What computes the model; `auto` is the fastest that is installed.",
)


def precision_option(more: str, **settings: Any) -> Callable[[Any], Any]:
    """The option `--precision`.

    Args:
        more: the end of its help: what int8 is calibrated on.
        settings: of `click.option`, such as its default.
    """
    return click.option(
        "--precision",
        type=click.Choice(get_args(Precision)),
        help="Of the numbers that the model multiplies; `auto` is the fastest that this processor has "
        f"instructions for. {more}",
        **settings,
    )
