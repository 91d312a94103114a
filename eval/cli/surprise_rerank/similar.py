"""`surprise-rerank similar`: every document's nearest neighbours, and near-duplicate groups."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from surprise_rerank.eval.cli.console import Output, counted, shortened
from surprise_rerank.eval.cli.exits import Interrupted
from surprise_rerank.eval.cli.options import (
    NEW_FILE,
    Sources,
    filled_with,
    format_option,
    id_option,
    json_option,
    quiet_option,
    ray_option,
    text_option,
)
from surprise_rerank.eval.cli.settings import SetValues, set_option

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar import SimilarDocuments, SimilaritySettings

_CLOSEST = 5  # pairs that are shown with their texts
_EXAMPLES = """\b
Examples:
  surprise-rerank similar papers.jsonl --out neighbours.parquet
  surprise-rerank similar papers.jsonl --out pairs.csv --groups duplicates.csv
  surprise-rerank similar new.csv --against archive.jsonl --out matches.jsonl -k 3
  surprise-rerank similar papers.parquet --out pairs.parquet --ray head:6379 --set workers=32
"""


@dataclass(frozen=True, slots=True)
class SimilarOptions:
    """What `similar --set` has.

    Attributes:
        duplicate: from this similarity on, documents are near-duplicates; .95 by default, of DynaMax .9.
        search: compare with every document, or ask the graph of the index.
        candidates: documents that dynamax compares token by token.
        tenant: whose documents of the index are compared; those of all by default.
        title_field: column of titles.
        workers: number of Ray's workers.
        device: cpu, cuda, ...; a GPU by default where there is one.
    """

    duplicate: float | None = None
    search: Literal["exact", "graph"] = "exact"
    candidates: int = 100
    tenant: str | None = None
    title_field: str | None = None
    workers: int | None = None
    device: str | None = None


@click.command(epilog=_EXAMPLES)
@filled_with
@click.option("--out", required=True, type=NEW_FILE, help="The pairs: .parquet, .csv or .jsonl.")
@click.option("-k", type=int, metavar="K", help="Neighbours of a document.  [default: 10]")
@click.option(
    "--above", type=float, metavar="S", help="Only pairs of at least this; all of them, unless -k is given."
)
@click.option(
    "--similarity",
    type=click.Choice(["surprise", "cosine", "dynamax"]),
    default="surprise",
    help="What ranks; dynamax compares the 100 most surprising neighbours token by token.",
)
@click.option(
    "--groups",
    type=NEW_FILE,
    help="Write groups of near-duplicates, too: of a cosine of .95 or more (--set duplicate=).",
)
@click.option(
    "--against",
    metavar="SOURCE",
    multiple=True,
    type=click.Path(),
    help="The documents that may be neighbours, instead of the same ones. Several times.",
)
@click.option("--index", metavar="T", help="Those of an index may be: a folder, or http://host:6333/NAME.")
@click.option("--model", metavar="NAME", help="Encodes the documents, as for `index`.")
@format_option
@id_option
@text_option
@ray_option
@set_option(lambda: (SimilarOptions,))
@json_option
@quiet_option
def similar(
    *,
    sources: tuple[str, ...],
    out: Path,
    groups: Path | None,
    as_json: bool,
    quiet: bool,
    settings: SetValues,
    **options: Any,
) -> None:
    """Find every document's nearest neighbours.

    A SOURCE is what `surprise-rerank index` reads; without one, the documents of --index are compared. The
    surprise of a pair is the number of deviations that the similarity lies above what is usual for the
    neighbour. After an interruption, the same command continues where it stopped.
    """
    from surprise_rerank.connectors.similar._settings import SimilaritySettings, require_suffix

    output, how = Output(as_json, quiet), settings.of(SimilarOptions)
    read = [*sources, *options["against"]]
    for path in filter(None, (out, groups)):
        require_suffix(path)
        if path.resolve() in [Path(name).resolve() for name in read]:
            raise click.UsageError(f"{path} would be written where it is read; choose another place")
    if groups is not None and groups.resolve() == out.resolve():
        raise click.UsageError(f"--out and --groups are both {out}; choose two places")
    if how.duplicate is not None and groups is None:
        raise click.UsageError("--set duplicate belongs to --groups FILE")
    if how.workers is not None and options["ray"] is None:
        raise click.UsageError("--set workers belongs to --ray ADDRESS")
    if not sources and not options["index"]:
        raise click.UsageError("what is to be compared? give files, folders, data sets, or --index")
    comparing = SimilaritySettings(
        k=10 if options["k"] is None and options["above"] is None else options["k"],
        above=options["above"],
        similarity=options["similarity"],
        pool=how.candidates,
        search=how.search,
        tenant=how.tenant,
    )
    from surprise_rerank.connectors.similar._results import write  # which takes seconds

    begun, work = time.perf_counter(), out.with_name(f"{out.name}.work")
    try:
        pairs = _similar(sources, comparing, work, how, options, not output.quiet)
        summary: dict[str, Any] = {"out": str(out), "pairs": pairs.write(out)}
        if groups is not None:
            table = pairs.groups(how.duplicate)
            write(groups, [table])
            many = table["group"].to_numpy().max() if table.num_rows else 0
            firsts = {row["group"]: row["size"] for row in table.select(["group", "size"]).to_pylist()}
            summary["groups"] = {
                "file": str(groups),
                "groups": int(many),
                "documents": table.num_rows,
                "largest": [*firsts.values()][:_CLOSEST],
            }
    except KeyboardInterrupt as error:
        raise Interrupted(f"What is done stays in {work}; run the same command again to go on.") from error
    summary["documents"] = len(pairs.documents)
    summary["copies"] = len(pairs.documents.copies)
    summary["closest"] = _closest(pairs)
    pairs.forget()
    summary["seconds"] = time.perf_counter() - begun
    output.result(summary, _lines(summary))


def _similar(
    sources: tuple[str, ...],
    settings: SimilaritySettings,
    work: Path,
    how: SimilarOptions,
    options: dict[str, Any],
    show_progress: bool,
) -> SimilarDocuments:
    from surprise_rerank.connectors.readers import Fields
    from surprise_rerank.connectors.similar import RayCluster, similar_documents
    from surprise_rerank.connectors.similar._folder import run_here

    fields = Fields(id=options["id_field"], title=how.title_field, text=options["text_field"])
    gpus = 1 if str(how.device).startswith("cuda") else 0
    run, address = run_here, options["ray"]
    if address is not None:
        run = RayCluster(address, workers=how.workers or 2, num_gpus=gpus).run
    opened = [
        Sources.opened(names, options["form"], fields) if names else None
        for names in (sources, options["against"])
    ]
    # A source that is alone knows how many documents it has.
    documents, others = (
        None if s is None else s.named[0][1] if len(s.named) == 1 else iter(s) for s in opened
    )
    return similar_documents(
        documents,
        settings,
        against=others,
        index=options["index"],
        encoder=options["model"],
        folder=work,
        run=run,
        device=how.device,
        show_progress=show_progress,
    )


def _closest(pairs: SimilarDocuments) -> list[dict[str, Any]]:
    """The pairs of the largest cosine, each once, with their texts."""
    best: dict[frozenset[str], dict[str, Any]] = {}
    for table in pairs.tables():
        top = table.sort_by([("cosine", "descending")]).slice(0, 2 * _CLOSEST).to_pylist()
        best |= {frozenset((row["document"], row["neighbour"])): row for row in top}
    rows = sorted(best.values(), key=lambda row: -row["cosine"])[:_CLOSEST]
    corpora = {"document": pairs.documents, "neighbour": pairs.against or pairs.documents}
    for side, corpus in corpora.items():
        places = [corpus.ids.index(row[side]).as_py() for row in rows]
        texts = corpus.texts(places)
        for row, place in zip(rows, places, strict=True):  # a copy has its neighbour's text, and no place
            row[f"{side}_text"] = shortened(texts[place].content) if place in texts else ""
    return rows


def _lines(summary: dict[str, Any]) -> list[str]:
    copies = (
        f", {summary['copies']} cop{'y' if summary['copies'] == 1 else 'ies'}" if summary["copies"] else ""
    )
    lines = [
        f"{summary['out']}: {counted(summary['pairs'], 'pair')} of "
        f"{counted(summary['documents'], 'document')}{copies}"
    ]
    if "groups" in summary:
        groups = summary["groups"]
        sizes = f"; the largest have {', '.join(map(str, groups['largest']))}" if groups["largest"] else ""
        lines.append(
            f"{groups['file']}: {counted(groups['groups'], 'group')} of near-duplicates, "
            f"{counted(groups['documents'], 'document')}{sizes}"
        )
    for row in summary["closest"]:
        lines.append(shortened(f"  {row['cosine']:.3f}  {row['document']}  {row['neighbour']}"))
        lines += [f"         {row[side]}" for side in ("document_text", "neighbour_text") if row[side]]
    return [*lines, f"{summary['seconds']:.1f} s"]
