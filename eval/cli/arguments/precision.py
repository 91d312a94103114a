"""The option that says in which precision a model is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import click

from surprise_rerank.eval.retrieval.settings import Precision


def precision_option(more: str, **settings: Any) -> Callable[[Any], Any]:
    """The option `--precision`.

    Args:
        more: the end of its help: what int8 is calibrated on.
        settings: of `click.option`, such as its default.
    """
    return click.option(
        "--precision",
        type=click.Choice(get_args(Precision)),
        help=f"Of the numbers that the model multiplies. {more}",
        **settings,
    )
