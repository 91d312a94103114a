"""`surprise-rerank demo`: a tour, with an index of what every installation has."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from surprise_rerank.core._files import cache_folder
from surprise_rerank.eval.cli.exits import when_interrupted
from surprise_rerank.eval.cli.surprise_rerank.serve import run_http

if TYPE_CHECKING:
    from surprise_rerank._documents import Document

# The first characters of a description say what a function is for; examples and references follow.
_READ = 1000

# What `auto` has first answers, and what cosine has first does not. The last one is of another topic.
TRIED = (
    "find where a function is zero",
    "remove noise from a signal",
    "are two groups of measurements different",
    "who won the world cup",
)
TOUR = """

What to try in the page:
  find where a function is zero
      finders of roots come first; by cosine, which the page has too, tables of Bessel functions' zeros
  remove noise from a signal
      a filter comes first; by cosine, how to find a signal's envelope
  are two groups of measurements different
      a test of groups comes first; each line shows what moved it
  who won the world cup
      nothing here answers it, and the verdict says so
  Filter: {"must": [{"key": "metadata.library", "match": {"value": "scipy"}}]}
Then your own documents:
  surprise-rerank index FOLDER-OR-FILES --index my-index
  surprise-rerank serve --index my-index --page
"""


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of TCP; 0 takes a free one.")
@click.option("--page/--no-page", default=True, help="Open the page in the browser.")
def demo(*, port: int, page: bool) -> None:
    """Take a tour: index the demo, open a page to search it in, and say what to try.

    The documents are descriptions of NumPy's and SciPy's functions, encoded once in a minute or two.
    """
    from surprise_rerank.connectors.attached._settings import PipelineSettings
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.server import ServerOptions
    from surprise_rerank.eval.cli.options import load_model
    from surprise_rerank.eval.retrieval.settings import DEFAULTS

    place = cache_folder() / "tour"
    with (
        when_interrupted("What was stored stays; run the same command again to go on."),
        DocumentIndex.open(place, load_model(DEFAULTS.model)) as index,
    ):
        index.sync(list(_documents()), prune=True, show_progress=True)
    run_http(
        PipelineSettings(str(place)), ServerOptions(tried=TRIED), "127.0.0.1", port, said=TOUR, opens=page
    )


def _documents() -> Iterator[Document]:
    """What each function is called, and what it is for."""
    from surprise_rerank._documents import Document
    from surprise_rerank.connectors.readers._demo import DemoDocumentation

    for entry in DemoDocumentation().entries:
        text = f"{entry.question} {entry.text}"[:_READ]
        yield Document(entry.id, text, entry.id, {"library": entry.id.partition(".")[0]})
