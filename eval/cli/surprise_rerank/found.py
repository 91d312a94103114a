"""What a search has found, as it is shown: from an index that is opened here, or from a server."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from surprise_rerank.documents import without_title
from surprise_rerank.eval.cli.arguments.location import server_client
from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.candidates import Hit
    from surprise_rerank.connectors.qdrant.location import Location


@dataclass(frozen=True, slots=True)
class FoundHit:
    """A document that was found, in the order of the fields of JSON.

    Attributes:
        id: the document's.
        score: the system's.
        surprise: the share of other questions whose best candidate scores less; None without a background.
        parts: what each scorer added.
        title: of the document.
        text: its best passage, or all of it.
        passage: number, start and end of that passage; None where documents are whole.
        metadata: of the document.
        duplicates: ids of near-duplicates that were folded into it.
        excerpt: a sentence of the text as `Excerpt.to_json` has it, where a server gave one; not in JSON.
    """

    id: str
    score: float
    surprise: float | None
    parts: Mapping[str, float]
    title: str
    text: str
    passage: Mapping[str, int] | None
    metadata: Mapping[str, Any]
    duplicates: tuple[str, ...] = ()
    excerpt: Mapping[str, Any] | None = None

    @property
    def body(self) -> str:
        """The text without the title, which is shown before it."""
        start = 0 if self.passage is None else self.passage["start"]
        return without_title(self.text, self.title, start)

    @classmethod
    def of(cls, hit: Hit) -> FoundHit:
        """A hit of a ranking."""
        return cls(
            hit.id,
            hit.score,
            hit.surprise,
            dict(hit.parts),
            hit.title,
            hit.text,
            None if hit.passage is None else asdict(hit.passage),
            dict(hit.metadata),
            hit.duplicates,
        )

    @classmethod
    def of_server(cls, values: Mapping[str, Any]) -> FoundHit:
        """A hit of a server's answer, in which a score of a document that has none is null."""
        numbers = {name: math.nan if own is None else own for name, own in values.get("parts", {}).items()}
        score = values.get("score")
        return cls(
            values["id"],
            -math.inf if score is None else float(score),
            values.get("surprise"),
            numbers,
            values.get("title", ""),
            values.get("text") or "",
            values.get("passage"),
            values.get("metadata", {}),
            tuple(values.get("duplicates", ())),
            values.get("excerpt"),
        )

    def to_json(self, rank: int) -> dict[str, Any]:
        """As JSON values, with its place."""
        values = {"rank": rank, **asdict(self)}
        del values["excerpt"]
        return values


@dataclass(frozen=True, slots=True)
class Found:
    """What was found for a question.

    Attributes:
        question: in words.
        system: that ranked.
        seconds: how long it took.
        hits: those that score enough, behind the offset.
        pool: how many candidates there were.
        verdict: `verdict_json`; None of a server that gives none.
        language: of the documents' words; that of a server is not known.
    """

    question: str
    system: str
    seconds: float
    hits: list[FoundHit]
    pool: int
    verdict: Mapping[str, Any] | None
    language: str = "english"


def found_here(
    location: Location, arguments: SearchArguments, out: Output, config: str | None
) -> Iterator[Found]:
    """What an index gives for each question, in their order.

    Raises:
        SurpriseRerankError: as `search_results`.
    """
    from surprise_rerank.candidates import verdict_json
    from surprise_rerank.eval.cli.surprise_rerank.search_results import search_results

    for system, result in search_results(location, arguments, out, config):
        hits = [FoundHit.of(hit) for hit in arguments.hits(result.ranking)]
        ranking = result.ranking
        verdict = verdict_json(ranking.verdict)
        yield Found(
            result.query.text, system.name, result.total, hits, len(ranking), verdict, result.language
        )


def found_by_server(
    url: str, arguments: SearchArguments, out: Output, most: int, depth: int | None
) -> Iterator[Found]:
    """What a server gives for each question, in their order.

    Args:
        url: of a running `surprise-rerank serve`; its token is in the environment.
        arguments: without what the server was started with.
        out: for notes.
        most: how many hits are asked for.
        depth: size of the candidate pool; the server's own where None.

    Raises:
        SurpriseRerankError: if the server refuses, or cannot be reached.
    """
    from surprise_rerank.eval.cli.arguments.filters import filter_values

    questions = arguments.questions()
    condition = None if arguments.condition is None else filter_values(arguments.condition)
    with server_client(url) as client:
        for number, question in enumerate(questions):
            start = time.perf_counter()
            answer = client.search(
                question,
                most,
                arguments.min_surprise,
                filter=condition,
                system=arguments.system,
                depth=depth,
                excerpts=out.is_terminal and not out.as_json,
                **arguments.variety,
            )
            seconds = time.perf_counter() - start
            if number == 0:
                how = "by" if arguments.system else "as it was started, by"
                out.note(f"ranked by {client.url}, {how} {answer.system}")
            hits = arguments.hits(FoundHit.of_server(hit) for hit in answer.hits)
            yield Found(question, answer.system, seconds, hits, len(answer.hits), answer.verdict)
