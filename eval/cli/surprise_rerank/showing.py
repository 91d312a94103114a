"""How results of a search are shown: blocks on a terminal, rows in a pipe or a file, or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from surprise_rerank.candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank.eval.cli.output.console import Output, body, hit_json, shown_percentile
from surprise_rerank.eval.cli.surprise_rerank.search_results import SearchCommand, SearchResult
from surprise_rerank.rerank.grouping import group_path

Group: TypeAlias = tuple[str | int | None, Ranking]

_DOUBTFUL = "what is shown hardly answers this; --min-percentile leaves it out"


class Shown:
    """Shows what was found, one question after another.

    Args:
        out: where to.
        command: the search; where it has groups, each has a value.
    """

    def __init__(self, out: Output, command: SearchCommand) -> None:
        self._out = out
        self._command = command
        self._group_by = command.settings.group_by
        if self._group_by is not None:
            group_path(self._group_by)  # refuses one before anything is searched
        self._columns: list[str] = []  # of rows; the first question that has any decides

    def show(self, result: SearchResult) -> None:
        """Show the hits of a question, or groups of them."""
        groups = self._groups(result)
        if self._out.as_json:
            answer = result.answer
            verdict = verdict_json(answer.verdict)
            head = {
                "query": answer.query.text,
                "system": result.system.name,
                "seconds": sum(answer.seconds.values()),
            }
            hits_of_groups = [[hit_json(hit, rank) for rank, hit in self._ranked(hits)] for _, hits in groups]
            named = [{"value": groups[i][0], "hits": hits} for i, hits in enumerate(hits_of_groups)]
            shown = {"hits": hits_of_groups[0]} if self._group_by is None else {"groups": named}
            self._out.json({**head, "verdict": verdict, **shown})
        elif self._out.is_terminal:
            self._print_blocks(result, groups)
        else:
            self._print_rows(result, groups)

    def _groups(self, result: SearchResult) -> list[Group]:
        answer, command = result.answer, self._command
        if self._group_by is None:
            return [(None, answer.shown)]
        groups: list[Group] = [
            *answer.groups(self._group_by, command.top, command.settings.group_size).items()
        ]
        if len(groups) < command.top:
            many = f"{len(groups)} groups among {len(answer.ranking)} candidates"
            self._out.note(f"{many}; a larger --pool looks for more")
        return groups

    def _print_rows(self, result: SearchResult, groups: Sequence[Group]) -> None:
        question, hits = result.answer.query.text, [hit for _, of_group in groups for hit in of_group]
        verdict = in_words(result.answer.verdict, anything=bool(hits))
        if verdict:  # beside the rows, which are for programs
            self._out.note(verdict if self._command.is_single else f"{question}: {verdict}")
        rows = [
            {
                **({} if self._command.is_single else {"question": question}),
                **({} if self._group_by is None else {"group": str(value)}),
                "rank": str(rank),
                "percentile": "" if hit.percentile is None else f"{shown_percentile(hit.percentile):.4f}",
                "score": f"{hit.score:.4f}",
                "id": hit.id,
                **({} if self._command.collapse is None else {"duplicates": " ".join(hit.duplicates)}),
                "title": hit.title,
                **({"place": str(hit.place or "")} if self._command.passages else {}),
                "text": body(hit),
            }
            for value, of_group in groups
            for rank, hit in self._ranked(of_group)
        ]
        if rows and not self._columns:
            judged = any(hit.percentile is not None for hit in hits)
            self._columns = [name for name in rows[0] if judged or name != "percentile"]
            self._out.rows([self._columns])
        self._out.rows([row[name] for name in self._columns] for row in rows)

    def _print_blocks(self, result: SearchResult, groups: Sequence[Group]) -> None:
        from rich.console import Console
        from rich.text import Text

        from surprise_rerank.connectors.highlights import excerpts
        from surprise_rerank.eval.cli.output.blocks import excerpt_length, print_blocks, print_text
        from surprise_rerank.eval.reports.one_line import one_line

        console = Console()
        if not self._command.is_single:
            print_text(Text(one_line(result.answer.query.text), style="bold"), console, apart=True)
        console.print()  # below a note, too, where the error stream is the same terminal
        hits = [hit for _, of_group in groups for hit in of_group]
        length = excerpt_length(console)
        texts = iter(excerpts(result.answer.query.text, [*map(body, hits)], result.language, length))
        for number, (value, of_group) in enumerate(groups):
            if self._group_by is not None:
                heading = Text.assemble(f"{self._group_by}: ", (one_line(str(value)), "bold"))
                print_text(heading, console, apart=number > 0)
            print_blocks([(rank, hit, next(texts)) for rank, hit in self._ranked(of_group)], console)
        verdict = in_words(result.answer.verdict, anything=bool(hits)) or (
            "" if hits else "nothing was found"
        )
        status, colon, reason = one_line(verdict).partition(":")
        print_text(Text.assemble((status, "bold"), colon, reason), console, apart=bool(hits))

    def _ranked(self, hits: Ranking) -> Iterator[tuple[int, Hit]]:
        return enumerate(hits, start=self._command.settings.offset + 1 if self._group_by is None else 1)


def in_words(verdict: Verdict | None, *, anything: bool) -> str:
    """The verdict, and what to do; empty where there is none. `anything`: whether a document is shown."""
    if verdict is None:
        return ""
    said = f"{verdict.status}: {verdict.reason}"
    if verdict.status == "weak":
        return f"{said}. Ask in other words, or look further down"
    if verdict.status == "off-topic":
        refused = _DOUBTFUL if anything else "nothing is shown; a lower --min-percentile shows more"
        return f"{said}. Ask about what the documents hold ({refused})"
    return said
