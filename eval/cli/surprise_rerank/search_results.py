"""The results of a search, and how they are shown: blocks on a terminal, rows in a pipe, or JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from surprise_rerank._answers import Answer, SearchSettings
from surprise_rerank._candidates import Hit, Ranking, Verdict, verdict_json
from surprise_rerank.connectors._searchable import pipeline_of
from surprise_rerank.connectors.attached._opening import open_collection
from surprise_rerank.connectors.qdrant._highlights import Excerpt, excerpts
from surprise_rerank.connectors.qdrant._location import Location
from surprise_rerank.connectors.qdrant._search.queries import NO_OPTIONS
from surprise_rerank.connectors.systems._building import build_system
from surprise_rerank.connectors.systems._inputs import BuiltSystem
from surprise_rerank.connectors.systems._register import find_system
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.eval.cli.console import Output, body, counted, share, shortened, shown_percentile
from surprise_rerank.eval.cli.options import NOTHING_PASSES, read_filter
from surprise_rerank.eval.reports.one_line import one_line, visible
from surprise_rerank.rerank._grouping import group_path


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What a system gave for a question, and what explains it."""

    system: BuiltSystem
    answer: Answer
    encoder: Encoder | None
    language: str = "english"


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSettings:
    """How is searched, as `search --set` has it.

    Attributes:
        mode: where surprise is computed; here, by Qdrant's formula (its default), or by augmented vectors.
        exact: search without the approximate index.
        offset: number of first results to leave out.
        keep_refused: show what --min-percentile refuses, too.
        group_by: the best documents of each value at a path such as metadata.author, or the best passages
            of each `document` with --passages; --top counts groups.
        group_size: most documents of a group.
        max_per_document: most passages of one document, with --passages.
        context: neighbours on each side that belong to a passage's text.
        grpc: talk to the server by gRPC instead of REST.
    """

    mode: Literal["formula", "vector"] | None = None
    exact: bool = False
    offset: int = 0
    keep_refused: bool = False
    group_by: str | None = None
    group_size: int = 3
    max_per_document: int | None = None
    context: int = 0
    grpc: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCommand:
    """Questions, and which documents are shown for them; see the options of `search`."""

    questions: Iterable[str]
    is_single: bool
    system: str | None
    top: int
    pool: int
    condition: str | None
    tenant: str | None
    min_percentile: float | None
    diversity: float | None
    collapse: float | None
    passages: bool
    model: str | None
    config: str | None
    settings: SetSettings


def search_results(location: Location, command: SearchCommand, out: Output) -> Iterator[SearchResult]:
    """The result of each question, in their order."""
    settings: SearchSettings = {
        "filter": None if command.condition is None else read_filter("--filter", command.condition),
        "tenant": command.tenant,
        "min_percentile": command.min_percentile,
        "depth": command.pool,
        "diversity": command.diversity,
        "collapse": command.collapse,
        "offset": command.settings.offset,
        "keep_refused": command.settings.keep_refused,
        "unit": "passage" if command.passages else "document",
        "max_per_document": command.settings.max_per_document,
        "context": command.settings.context,
    }
    shown = None if command.settings.group_by is not None else command.top  # groups are of the whole pool
    encodes = command.system is None or find_system(command.system).encodes
    with open_collection(location, model=command.model, config=command.config, encodes=encodes) as index:
        name = command.system or index.corpus.default_system
        encoder = index.encoder if encodes else None
        options = NO_OPTIONS.exactly() if command.settings.exact else NO_OPTIONS
        system = build_system(name, index.corpus, options, command.settings.mode)
        pipeline = pipeline_of(index.corpus, system, **settings)
        system = replace(system, retriever=pipeline.retriever)  # with the filter, for the steps
        if command.system is None:
            out.note(f"ranked by {system.summary} (--system chooses another)")
        for question in command.questions:
            answer = pipeline.answer(question, shown)
            for note in answer.shown.notes:
                out.note(note)
            if command.condition is not None and not len(answer.ranking):
                out.note(NOTHING_PASSES)
            yield SearchResult(system, answer, encoder, index.corpus.language)


_WIDEST = 110  # longer lines are hard to read
_LINES = 3  # of an excerpt, about
_HEADING = 60  # characters of a text that stand for a title
# A rank, what has it, and its best sentence.
Block: TypeAlias = tuple[int, Hit, Excerpt]


def print_blocks(blocks: Sequence[Block], console: Console) -> None:
    """Print results below each other, an empty line between."""
    indent = max((len(str(rank)) for rank, _, _ in blocks), default=0) + 3
    for number, block in enumerate(blocks):
        if number:
            console.print()
        for part in _parts(block, indent):
            console.print(part, width=_width(console), highlight=False)


def print_text(text: Text, console: Console, *, apart: bool) -> None:
    """Print a line that belongs to the results, an empty line before it where it stands apart."""
    if apart:
        console.print()
    if text:
        console.print(text, width=_width(console), highlight=False)


def _width(console: Console) -> int:
    return min(console.width, _WIDEST)


def _parts(block: Block, indent: int) -> Iterable[RenderableType]:
    rank, hit, excerpt = block
    head = Table.grid(expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    head.add_column(width=indent - 2, justify="right")
    head.add_column(ratio=1, overflow="fold")
    head.add_column(justify="right", no_wrap=True)
    percentile = hit.percentile
    measure = Text(f"{hit.score:.4f}") if percentile is None else Text(share(percentile), "green")
    head.add_row(Text(str(rank)), _heading(hit, excerpt), measure)
    yield head
    more = Text(f"nearly the same: {one_line(', '.join(hit.duplicates))}" if hit.duplicates else "", "dim")
    for text in (_marked(excerpt.text, excerpt.marks), more):
        if text:
            yield Padding(text, (0, 0, 0, indent), expand=False)


def _heading(hit: Hit, excerpt: Excerpt) -> Text:
    """The title, or the first words of the text, the id, and where it stands."""
    title, text = shortened(hit.title), body(hit)
    if not title and not excerpt.text.startswith(text[:_HEADING]):
        title = shortened(text, _HEADING)
    heading = Text(title, style="bold")
    heading.append("  " if title else "").append(one_line(hit.id), style="not bold cyan")
    return heading.append(f"  {one_line(str(hit.place))}" if hit.place else "", style="not bold dim")


def _marked(sentence: str, marks: Sequence[tuple[int, int]]) -> Text:
    """The sentence with its words marked; in one line, without what moves a cursor."""
    text = Text()
    end = 0
    for start, stop in (*marks, (len(sentence), len(sentence))):
        text.append(_cleaned(sentence[end:start]))
        text.append(_cleaned(sentence[start:stop]), style="bold underline")
        end = stop
    return text


def _cleaned(part: str) -> str:
    return visible(re.sub(r"\s+", " ", part))


Group: TypeAlias = tuple[str | int | None, Ranking]

_DOUBTFUL = "what is shown hardly answers this; --min-percentile leaves it out"


class Shown:
    """Shows what was found, one question after another."""

    def __init__(self, out: Output, command: SearchCommand) -> None:
        self._out = out
        self._command = command
        self._group_by = command.settings.group_by
        if self._group_by is not None:
            group_path(self._group_by)  # refuses one before anything is searched
        self._columns: list[str] = []  # of rows; the first question that has any decides

    def show(self, result: SearchResult) -> None:
        """Show the hits of a question, or groups of them."""
        answer, command = result.answer, self._command
        groups: list[Group] = [(None, answer.shown)]
        if self._group_by is not None:
            groups = [*answer.groups(self._group_by, command.top, command.settings.group_size).items()]
            if len(groups) < command.top:
                many = f"{counted(len(groups), 'group')} among {counted(len(answer.ranking), 'candidate')}"
                self._out.note(f"{many}; a larger --pool looks for more")
        if self._out.as_json:
            verdict = verdict_json(answer.verdict)
            head = {
                "query": answer.query.text,
                "system": result.system.name,
                "seconds": sum(answer.seconds.values()),
            }
            hits_of_groups = [
                [{"rank": rank, **hit.to_json()} for rank, hit in self._ranked(hits)] for _, hits in groups
            ]
            named = [{"value": groups[i][0], "hits": hits} for i, hits in enumerate(hits_of_groups)]
            shown = {"hits": hits_of_groups[0]} if self._group_by is None else {"groups": named}
            self._out.json({**head, "verdict": verdict, **shown})
        elif self._out.is_terminal:
            self._print_blocks(result, groups)
        else:
            self._print_rows(result, groups)

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
        console = Console()
        if not self._command.is_single:
            print_text(Text(one_line(result.answer.query.text), style="bold"), console, apart=True)
        console.print()  # below a note, too, where the error stream is the same terminal
        hits = [hit for _, of_group in groups for hit in of_group]
        length = min(_LINES * (_width(console) - 8), 300)
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
