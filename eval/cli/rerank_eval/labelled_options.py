"""Options of the commands that take files of labelled texts."""

from __future__ import annotations

import click

# As `encoders.DEFAULT_MODEL`, which `--help` cannot wait for.
MODEL = "all-MiniLM-L6-v2"

models_option = click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    default=(MODEL,),
    show_default=True,
    help="A sentence-transformers model, glove-6b-50d, or a file of word vectors. Several times.",
)
text_option = click.option(
    "--text", metavar="COLUMN", help="Column of texts.  [default: text, content, body, ...]"
)
label_option = click.option(
    "--label", metavar="COLUMN", default="label", show_default=True, help="Column of labels."
)
limit_option = click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(min=1),
    help="A quick look: N texts, a random sample that is always the same.",
)
skip_option = click.option(
    "--skip-malformed",
    "on_error",
    flag_value="skip",
    default="raise",
    help="Leave malformed rows out and count them, instead of stopping at the first.",
)
