"""`surprise-rerank similar`: every document's nearest neighbours, and near-duplicate groups."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli import completion
from surprise_rerank.eval.cli.arguments.sources import FORMATS
from surprise_rerank.eval.cli.exits import Interrupted
from surprise_rerank.eval.cli.options import quiet_option
from surprise_rerank.eval.cli.output.console import Output, shortened

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar import SimilarDocuments, SimilaritySettings

_CLOSEST = 5  # pairs that are shown with their texts
_FILE = click.Path(dir_okay=False, path_type=Path)
_EXAMPLES = """\b
Examples:
  surprise-rerank similar papers.jsonl --out neighbours.parquet
  surprise-rerank similar papers.jsonl --out pairs.csv --above 4
  surprise-rerank similar papers.jsonl --out pairs.csv --groups duplicates.csv
  surprise-rerank similar new.csv --against archive.jsonl --out matches.jsonl -k 3
  surprise-rerank similar --index http://localhost:6333/papers --search graph --out pairs.parquet
  surprise-rerank similar papers.parquet --out pairs.parquet --ray head:6379 --workers 32
"""


@click.command(epilog=_EXAMPLES)
@click.argument("sources", metavar="SOURCE...", nargs=-1, type=completion.source)
@click.option("--out", required=True, metavar="FILE", type=_FILE, help="The pairs: .parquet, .csv or .jsonl.")
@click.option("-k", type=int, metavar="K", help="Neighbours of a document.  [default: 10]")
@click.option(
    "--above", type=float, metavar="S", help="Only pairs of at least this; all of them, unless -k is given."
)
@click.option(
    "--similarity",
    type=click.Choice(["surprise", "cosine", "dynamax"]),
    default="surprise",
    show_default=True,
    help="What ranks; dynamax compares the 100 most surprising neighbours token by token.",
)
@click.option("--groups", metavar="FILE", type=_FILE, help="Write groups of near-duplicates, too.")
@click.option(
    "--duplicate", type=float, metavar="S", help="From this similarity on.  [default: .95; DynaMax .9]"
)
@click.option(
    "--against",
    metavar="SOURCE",
    multiple=True,
    type=completion.source,
    help="The documents that may be neighbours, instead of the same ones. Several times.",
)
@click.option("--index", metavar="T", help="Those of an index may be: a folder, or http://host:6333/NAME.")
@click.option(
    "--search",
    type=click.Choice(["exact", "graph"]),
    default="exact",
    show_default=True,
    help="Compare with every document, or ask the index.",
)
@click.option("--model", metavar="NAME", help="Encodes the documents, as for `index`.")
@click.option("--format", "form", type=click.Choice(FORMATS), help="What sources are, if it does not show.")
@click.option("--id-field", metavar="NAME", help="Column of ids; `content` or `row` makes ids.")
@click.option("--title-field", metavar="NAME", help="Column of titles.")
@click.option("--text-field", metavar="NAME", help="Column of texts.")
@click.option("--ray", metavar="ADDRESS", help="Let Ray's workers do it: `local`, `auto`, or head:6379.")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Of Ray.  [default: 2]")
@click.option("--device", metavar="NAME", help="cpu, cuda, ...  [default: a GPU where there is one]")
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@quiet_option
@click.version_option(package_name="surprise-rerank")
def similar(
    *, sources: tuple[str, ...], out: Path, groups: Path | None, as_json: bool, quiet: bool, **options: Any
) -> None:
    """Find every document's nearest neighbours.

    A SOURCE is what `surprise-rerank index` reads; without one, the documents of --index are compared. The
    surprise of a pair is the number of deviations that the similarity lies above what is usual for the
    neighbour. After an interruption, the same command continues where it stopped.
    """
    from surprise_rerank.connectors.similar.results import require_suffix, write

    output, settings = Output(as_json, quiet), _settings(options)
    read = [*sources, *options["against"]]
    for path in filter(None, (out, groups)):
        require_suffix(path)
        if path.resolve() in [Path(name).resolve() for name in read]:
            raise click.UsageError(f"{path} would be written where it is read; choose another place")
    if groups is not None and groups.resolve() == out.resolve():
        raise click.UsageError(f"--out and --groups are both {out}; choose two places")
    if options["duplicate"] is not None and groups is None:
        raise click.UsageError("--duplicate belongs to --groups FILE")
    if not sources and not options["index"]:
        raise click.UsageError("what is to be compared? give files, folders, data sets, or --index")
    begun, work = time.perf_counter(), out.with_name(f"{out.name}.work")
    try:
        found = _found(sources, settings, work, options, output.shows_progress)
        summary: dict[str, Any] = {"out": str(out), "pairs": found.write(out)}
        if groups is not None:
            table = found.groups(options["duplicate"])
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
    summary["documents"] = len(found.documents)
    summary["copies"] = len(found.documents.copies)
    summary["closest"] = _closest(found)
    found.forget()
    summary["seconds"] = time.perf_counter() - begun
    output.result(summary, _lines(summary))


def _settings(options: dict[str, Any]) -> SimilaritySettings:
    from surprise_rerank.connectors.similar import SimilaritySettings

    k = 10 if options["k"] is None and options["above"] is None else options["k"]
    return SimilaritySettings(
        k=k, above=options["above"], similarity=options["similarity"], search=options["search"]
    )


def _found(
    sources: tuple[str, ...],
    settings: SimilaritySettings,
    work: Path,
    options: dict[str, Any],
    show_progress: bool,
) -> SimilarDocuments:
    from surprise_rerank.connectors.similar import RayCluster, similar_documents
    from surprise_rerank.connectors.similar.folder import run_here

    workers, ray = options["workers"], options["ray"]
    if workers is not None and ray is None:
        raise click.UsageError("--workers belongs to --ray ADDRESS")
    gpus = 1 if str(options["device"]).startswith("cuda") else 0
    run = run_here if ray is None else RayCluster(ray, workers=workers or 2, num_gpus=gpus).run
    return similar_documents(
        _opened(sources, options) if sources else None,
        settings,
        against=_opened(options["against"], options) if options["against"] else None,
        index=options["index"],
        encoder=options["model"],
        folder=work,
        run=run,
        device=options["device"],
        show_progress=show_progress,
    )


def _opened(names: tuple[str, ...], options: dict[str, Any]) -> Any:
    from surprise_rerank.connectors.readers import Fields, open_documents

    fields = Fields(id=options["id_field"], title=options["title_field"], text=options["text_field"])
    given = None if fields == Fields() else fields
    opened = [open_documents(name, format=options["form"], fields=given) for name in names]
    return itertools.chain.from_iterable(opened) if len(opened) > 1 else opened[0]


def _closest(found: SimilarDocuments) -> list[dict[str, Any]]:
    """The pairs of the largest cosine, each once, with their texts."""
    best: dict[frozenset[str], dict[str, Any]] = {}
    for table in found.tables():
        top = table.sort_by([("cosine", "descending")]).slice(0, 2 * _CLOSEST).to_pylist()
        best |= {frozenset((row["document"], row["neighbour"])): row for row in top}
        kept = sorted(best.items(), key=lambda pair: -pair[1]["cosine"])[:_CLOSEST]
        best = dict(kept)
    rows = [*best.values()]
    corpora = {"document": found.documents, "neighbour": found.against or found.documents}
    for side, corpus in corpora.items():
        places = [corpus.ids.index(row[side]).as_py() for row in rows]
        texts = corpus.texts(places)
        for row, place in zip(rows, places, strict=True):  # a copy has its neighbour's text, and no place
            row[f"{side}_text"] = shortened(texts[place].content) if place in texts else ""
    return rows


def _lines(summary: dict[str, Any]) -> list[str]:
    copies = f", {summary['copies']} copies" if summary["copies"] else ""
    lines = [f"{summary['out']}: {summary['pairs']} pairs of {summary['documents']} documents{copies}"]
    if "groups" in summary:
        own = summary["groups"]
        sizes = f"; the largest have {', '.join(map(str, own['largest']))}" if own["largest"] else ""
        lines.append(
            f"{own['file']}: {own['groups']} groups of near-duplicates, {own['documents']} documents{sizes}"
        )
    for row in summary["closest"]:
        lines.append(shortened(f"  {row['cosine']:.3f}  {row['document']}  {row['neighbour']}"))
        lines += [f"         {row[side]}" for side in ("document_text", "neighbour_text") if row[side]]
    return [*lines, f"{summary['seconds']:.1f} s"]
