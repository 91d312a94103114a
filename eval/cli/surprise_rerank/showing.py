"""How results of a search are shown: blocks on a terminal, rows in a pipe or a file, or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from surprise_rerank.eval.cli.arguments.search import SearchArguments
from surprise_rerank.eval.cli.output.console import Output, shown_surprise
from surprise_rerank.eval.cli.surprise_rerank.found import Found, FoundHit

if TYPE_CHECKING:
    from rich.console import Console

    from surprise_rerank.eval.cli.output.blocks import Block

Group: TypeAlias = "tuple[str | int | None, list[FoundHit]]"

_DOUBTFUL = "what is shown hardly answers this; --min-surprise leaves it out"


class Shown:
    """Shows what was found, one question after another.

    Args:
        out: where to.
        arguments: of the search.
        scores: whether to show the system's own scores beside the surprise.
        group_by: the path whose values make groups; else there is one, without a value.
    """

    def __init__(
        self, out: Output, arguments: SearchArguments, *, scores: bool, group_by: str | None
    ) -> None:
        self._out = out
        self._arguments = arguments
        self._scores = scores
        self._group_by = group_by
        self._columns: list[str] = []  # of rows; the first question that has any decides

    def show(self, found: Found, groups: Sequence[Group]) -> None:
        """Show the groups of a question's hits."""
        if self._out.as_json:
            self._out.json(self._json(found, groups))
        elif self._out.is_terminal:
            self._print_blocks(found, groups)
        else:
            self._print_rows(found, groups)

    def _json(self, found: Found, groups: Sequence[Group]) -> Mapping[str, Any]:
        head = {
            "query": found.question,
            "system": found.system,
            "seconds": found.seconds,
            "verdict": found.verdict,
        }
        own = [
            {"value": value, "hits": [hit.to_json(rank) for rank, hit in self._ranked(hits)]}
            for value, hits in groups
        ]
        return {**head, "groups": own} if self._group_by is not None else {**head, "hits": own[0]["hits"]}

    def _print_rows(self, found: Found, groups: Sequence[Group]) -> None:
        verdict, is_single = in_words(found), self._arguments.is_single
        if verdict:  # beside the rows, which are for programs
            self._out.note(verdict if is_single else f"{found.question}: {verdict}")
        hits = [(value, rank, hit) for value, own in groups for rank, hit in self._ranked(own)]
        if not hits:
            return
        if not self._columns:
            self._columns = self._columns_for([hit for _, _, hit in hits])
            self._out.rows([self._columns])
        self._out.rows(self._row(found, value, rank, hit) for value, rank, hit in hits)

    def _columns_for(self, hits: Sequence[FoundHit]) -> list[str]:
        is_judged = any(hit.surprise is not None for hit in hits)
        shown = {
            "question": not self._arguments.is_single,
            "group": self._group_by is not None,
            "rank": True,
            "surprise": is_judged,
            "score": self._scores or not is_judged,
            "id": True,
            "duplicates": self._arguments.collapse is not None,
            "title": True,
            "text": True,
        }
        return [name for name, is_shown in shown.items() if is_shown]

    def _row(self, found: Found, value: str | int | None, rank: int, hit: FoundHit) -> list[str]:
        cells = {
            "question": found.question,
            "group": str(value),
            "rank": str(rank),
            "surprise": "" if hit.surprise is None else f"{shown_surprise(hit.surprise):.4f}",
            "score": f"{hit.score:.4f}",
            "id": hit.id,
            "duplicates": " ".join(hit.duplicates),
            "title": hit.title,
            "text": hit.body,
        }
        return [cells[name] for name in self._columns]

    def _print_blocks(self, found: Found, groups: Sequence[Group]) -> None:
        from rich.console import Console
        from rich.text import Text

        from surprise_rerank.eval.cli.output.blocks import print_blocks, print_text
        from surprise_rerank.eval.reports.one_line import one_line

        console = Console()
        if not self._arguments.is_single:
            print_text(Text(one_line(found.question), style="bold"), console, apart=True)
        console.print()  # below a note, too, where the error stream is the same terminal
        sentences = _sentences(found, groups, console)
        for number, (value, hits) in enumerate(groups):
            if self._group_by is not None:
                heading = Text.assemble(f"{self._group_by}: ", (one_line(str(value)), "bold"))
                print_text(heading, console, apart=number > 0)
            print_blocks(
                [self._block(rank, hit, sentences[id(hit)]) for rank, hit in self._ranked(hits)], console
            )
        verdict = in_words(found) or ("" if any(hits for _, hits in groups) else "nothing was found")
        status, colon, reason = one_line(verdict).partition(":")
        print_text(Text.assemble((status, "bold"), colon, reason), console, apart=bool(sentences))

    def _block(self, rank: int, hit: FoundHit, sentence: Mapping[str, Any]) -> Block:
        from surprise_rerank.eval.cli.output.blocks import Block

        more = []
        if self._scores:
            parts = ", ".join(f"{name} {own:.4f}" for name, own in hit.parts.items())
            more.append(f"score {hit.score:.4f}" + (f": {parts}" if parts else ""))
        if hit.duplicates:
            more.append(f"nearly the same: {', '.join(hit.duplicates)}")
        marks = [(int(start), int(end)) for start, end in sentence["marks"]]
        return Block(
            rank, hit.id, hit.title, hit.body, sentence["text"], marks, hit.surprise, hit.score, tuple(more)
        )

    def _ranked(self, hits: Sequence[FoundHit]) -> Iterator[tuple[int, FoundHit]]:
        return enumerate(hits, start=self._arguments.offset + 1 if self._group_by is None else 1)


def _sentences(found: Found, groups: Sequence[Group], console: Console) -> Mapping[int, Mapping[str, Any]]:
    """The sentence of each hit that matched best, by the hit's identity; those that a server gave stay."""
    hits = {id(hit): hit for _, own in groups for hit in own}
    given = {key: hit.excerpt for key, hit in hits.items() if hit.excerpt is not None}
    if len(given) == len(hits):
        return given
    from surprise_rerank.connectors.highlights import excerpts
    from surprise_rerank.eval.cli.output.blocks import excerpt_length

    most = excerpt_length(console)
    texts = [hit.body for hit in hits.values()]
    made = excerpts(found.question, texts, found.language, most)
    return {key: excerpt.to_json() for key, excerpt in zip(hits, made, strict=True)}


def in_words(found: Found) -> str:
    """The verdict, and what to do; empty where there is none."""
    if found.verdict is None:
        return ""
    status = found.verdict["status"]
    said = f"{status}: {found.verdict['reason']}"
    if status == "weak":
        return f"{said}. Ask in other words, or look further down"
    if status == "off-topic":
        refused = "nothing is shown; a lower --min-surprise shows more" if not found.hits else _DOUBTFUL
        return f"{said}. Ask about what the documents hold ({refused})"
    return said
