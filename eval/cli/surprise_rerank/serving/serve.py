"""`surprise-rerank serve`: re-ranking and search as a web service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.connectors.qdrant.location import Location
from surprise_rerank.connectors.server.options import TOKEN_VARIABLE, ServerOptions
from surprise_rerank.core.settings import option
from surprise_rerank.errors import DataError
from surprise_rerank.eval.cli.arguments.location import config_field, folder_or_url
from surprise_rerank.eval.cli.arguments.search import DiversityArguments, SystemChoice, pool_field
from surprise_rerank.eval.cli.options import options_of, takes
from surprise_rerank.eval.cli.surprise_rerank.serving.running import logs_option, run_service

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached.settings import PipelineSettings

_EXAMPLES = f"""\b
Examples:
  surprise-rerank serve
  surprise-rerank serve --index my-index --min-surprise .95
  {TOKEN_VARIABLE}=... surprise-rerank serve --host 0.0.0.0 --index http://qdrant:6333/papers

\b
  curl localhost:8000/v1/rerank -H 'Content-Type: application/json' \\
    -d '{{"query": "why do dogs bark", "documents": ["Cats sleep.", "Dogs bark to warn."]}}'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceArguments(DiversityArguments):
    """What is served, and where."""

    model: str | None = option(
        None, metavar="NAME", help="Of texts.  [default: the index's, or all-MiniLM-L6-v2]"
    )
    system: str | None = option(
        None,
        kind=SystemChoice(),
        help="What ranks.  [default: the best that the index stores enough for; dynamax without one]",
    )
    pool: int = pool_field()
    min_surprise: float | None = option(
        None,
        low=0,
        high=1,
        help="Leave out what is less surprising, in /v1/rerank, /v2/rerank and /v1/search.",
    )
    config: str | None = config_field()
    host: str = option(
        "127.0.0.1", help=f"Where to listen. What other machines reach needs ${TOKEN_VARIABLE}."
    )
    port: int = option(8000, low=0, high=65535, help="Of TCP; 0 takes a free one, which the log names.")

    def settings(self, folder: str | None, url: str | None, collection: str) -> PipelineSettings:
        """As settings of pipelines.

        Raises:
            UsageError: if both a folder and a server are named in one way.
        """
        from surprise_rerank.connectors.attached.settings import PipelineSettings

        place = folder_or_url(folder, url)
        names: dict[str, Any] = {"config": self.config, **self.variety}
        return PipelineSettings(
            *place, collection, self.model, self.system, self.pool, self.min_surprise, **names
        )


@click.command(epilog=_EXAMPLES)
@options_of(Location)
@takes(arguments=ServiceArguments)
@options_of(ServerOptions)
@logs_option
@click.version_option(package_name="surprise-rerank")
def serve(
    *,
    arguments: ServiceArguments,
    folder: str | None,
    url: str | None,
    collection: str,
    json_logs: bool | None,
    **limits: Any,
) -> None:
    """Serve re-ranking, and search over an index, by HTTP.

    POST /v1/rerank and /v2/rerank are Cohere's and Jina's, POST /rerank is that of Text Embeddings Inference,
    POST /v1/search searches the index, and GET / is a page to search it in. GET /ready, /metrics, /info and
    /openapi.json describe the rest. The log goes to the error stream and holds no text. After SIGTERM,
    running requests are finished; then the command leaves with 0.
    """
    try:
        settings = arguments.settings(folder, url, collection)
    except DataError as error:
        raise click.UsageError(str(error)) from error
    run_service(settings, arguments.host, arguments.port, limits, as_json=json_logs)
