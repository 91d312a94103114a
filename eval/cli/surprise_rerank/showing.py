"""How results of a search are shown: blocks on a terminal, rows in a pipe or a file, or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from surprise_rerank.candidates import Hit, Verdict, verdict_json
from surprise_rerank.connectors.highlights import Excerpt, excerpts
from surprise_rerank.documents import without_title
from surprise_rerank.eval.cli.output.console import Output, hit_json, shown_surprise
from surprise_rerank.eval.cli.surprise_rerank.search_results import Asked, SearchResult

if TYPE_CHECKING:
    from surprise_rerank.eval.cli.output.blocks import Block

Group: TypeAlias = tuple[str | int | None, list[Hit]]

_DOUBTFUL = "what is shown hardly answers this; --min-surprise leaves it out"


class Shown:
    """Shows what was found, one question after another.

    Args:
        out: where to.
        asked: the search; where it has groups, each has a value.
    """

    def __init__(self, out: Output, asked: Asked) -> None:
        self._out = out
        self._asked = asked
        self._group_by = asked.settings.group_by
        self._columns: list[str] = []  # of rows; the first question that has any decides

    def show(self, system: str, result: SearchResult, groups: Sequence[Group]) -> None:
        """Show the groups of a question's hits."""
        if self._out.as_json:
            self._out.json(self._json(system, result, groups))
        elif self._out.is_terminal:
            self._print_blocks(result, groups)
        else:
            self._print_rows(result, groups)

    def _json(self, system: str, result: SearchResult, groups: Sequence[Group]) -> Mapping[str, Any]:
        head = {
            "query": result.query.text,
            "system": system,
            "seconds": result.total,
            "verdict": verdict_json(result.ranking.verdict),
        }
        own = [
            {"value": value, "hits": [hit_json(hit, rank) for rank, hit in self._ranked(hits)]}
            for value, hits in groups
        ]
        return {**head, "groups": own} if self._group_by is not None else {**head, "hits": own[0]["hits"]}

    def _print_rows(self, result: SearchResult, groups: Sequence[Group]) -> None:
        question, hits = result.query.text, [hit for _, own in groups for hit in own]
        verdict = in_words(result.ranking.verdict, anything=bool(hits))
        if verdict:  # beside the rows, which are for programs
            self._out.note(verdict if self._asked.is_single else f"{question}: {verdict}")
        if not hits:
            return
        if not self._columns:
            self._columns = self._columns_for(hits)
            self._out.rows([self._columns])
        self._out.rows(
            self._row(question, value, rank, hit) for value, own in groups for rank, hit in self._ranked(own)
        )

    def _columns_for(self, hits: Sequence[Hit]) -> list[str]:
        shown = {
            "question": not self._asked.is_single,
            "group": self._group_by is not None,
            "rank": True,
            "surprise": any(hit.surprise is not None for hit in hits),
            "score": True,
            "id": True,
            "duplicates": self._asked.collapse is not None,
            "title": True,
            "text": True,
        }
        return [name for name, is_shown in shown.items() if is_shown]

    def _row(self, question: str, value: str | int | None, rank: int, hit: Hit) -> list[str]:
        cells = {
            "question": question,
            "group": str(value),
            "rank": str(rank),
            "surprise": "" if hit.surprise is None else f"{shown_surprise(hit.surprise):.4f}",
            "score": f"{hit.score:.4f}",
            "id": hit.id,
            "duplicates": " ".join(hit.duplicates),
            "title": hit.title,
            "text": body(hit),
        }
        return [cells[name] for name in self._columns]

    def _print_blocks(self, result: SearchResult, groups: Sequence[Group]) -> None:
        from rich.console import Console
        from rich.text import Text

        from surprise_rerank.eval.cli.output.blocks import excerpt_length, print_blocks, print_text
        from surprise_rerank.eval.reports.one_line import one_line

        console = Console()
        if not self._asked.is_single:
            print_text(Text(one_line(result.query.text), style="bold"), console, apart=True)
        console.print()  # below a note, too, where the error stream is the same terminal
        hits = [hit for _, own in groups for hit in own]
        texts = [body(hit) for hit in hits]
        found = iter(excerpts(result.query.text, texts, result.language, excerpt_length(console)))
        for number, (value, own) in enumerate(groups):
            if self._group_by is not None:
                heading = Text.assemble(f"{self._group_by}: ", (one_line(str(value)), "bold"))
                print_text(heading, console, apart=number > 0)
            print_blocks([_block(rank, hit, next(found)) for rank, hit in self._ranked(own)], console)
        verdict = in_words(result.ranking.verdict, anything=bool(hits)) or (
            "" if hits else "nothing was found"
        )
        status, colon, reason = one_line(verdict).partition(":")
        print_text(Text.assemble((status, "bold"), colon, reason), console, apart=bool(hits))

    def _ranked(self, hits: Sequence[Hit]) -> Iterator[tuple[int, Hit]]:
        return enumerate(hits, start=self._asked.settings.offset + 1 if self._group_by is None else 1)


def _block(rank: int, hit: Hit, excerpt: Excerpt) -> Block:
    from surprise_rerank.eval.cli.output.blocks import Block

    more = (f"nearly the same: {', '.join(hit.duplicates)}",) if hit.duplicates else ()
    return Block(
        rank, hit.id, hit.title, body(hit), excerpt.text, excerpt.marks, hit.surprise, hit.score, more
    )


def body(hit: Hit) -> str:
    """The text without the title, which is shown before it."""
    return without_title(hit.text, hit.title, 0 if hit.passage is None else hit.passage.start)


def in_words(verdict: Verdict | None, *, anything: bool) -> str:
    """The verdict, and what to do; empty where there is none.

    Args:
        verdict: on the whole ranking.
        anything: whether any document is shown.
    """
    if verdict is None:
        return ""
    said = f"{verdict.status}: {verdict.reason}"
    if verdict.status == "weak":
        return f"{said}. Ask in other words, or look further down"
    if verdict.status == "off-topic":
        refused = _DOUBTFUL if anything else "nothing is shown; a lower --min-surprise shows more"
        return f"{said}. Ask about what the documents hold ({refused})"
    return said
