"""`surprise-rerank similar`: every document's most surprising neighbours, and near-duplicate groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli.arguments.location import model_of as model_of_index
from surprise_rerank.eval.cli.arguments.similarity import SimilarityArguments, WorkerArguments, open_stored
from surprise_rerank.eval.cli.arguments.similarity_files import targets, work_folder
from surprise_rerank.eval.cli.arguments.sources import SourceArguments, skipped_lines
from surprise_rerank.eval.cli.options import report_option, takes
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.eval.retrieval.settings import DEFAULTS

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.similar.corpus import EncodedCorpus
    from surprise_rerank.connectors.similar.encoding import Model, Vectors
    from surprise_rerank.connectors.similar.groups import Groups
    from surprise_rerank.connectors.similar.job import SimilarityJob
    from surprise_rerank.connectors.similar.outputs import Target
    from surprise_rerank.connectors.similar.workers import Sources
    from surprise_rerank.documents import Document
    from surprise_rerank.eval.cli.output.similar_report import Texts

_EXAMPLES = """\b
Examples:
  surprise-rerank similar papers.jsonl --out neighbours.parquet
  surprise-rerank similar papers.jsonl --out pairs.csv --above 4
  surprise-rerank similar new.csv --against archive.jsonl --out matches.jsonl -k 3
  surprise-rerank similar papers.jsonl --out neighbours.parquet --similarity both --pool 200
  surprise-rerank similar papers.jsonl --out neighbours.parquet --groups duplicates.csv
  surprise-rerank similar papers.jsonl --out neighbours.parquet --report neighbours.html
  surprise-rerank similar papers.jsonl --out neighbours.parquet --work kept/ -k 20
  surprise-rerank similar --from-index my-index --out neighbours.parquet
  surprise-rerank similar papers.parquet --out neighbours/ --mode index --sample-check 1000
  surprise-rerank similar papers.parquet --out neighbours/ --ray --workers 4
"""


@click.command(epilog=_EXAMPLES)
@takes(inputs=SourceArguments)
@click.option(
    "--out",
    "to",
    metavar="FILE",
    required=True,
    help="Where the result goes: .parquet, .csv, .jsonl, or a folder (with a / at the end) of Parquet files.",
)
@click.option(
    "--against",
    metavar="SOURCE",
    multiple=True,
    help="The documents that may be neighbours, instead of the same ones. Several times.",
)
@click.option(
    "--from-index",
    metavar="INDEX",
    help="Take the vectors of an index, a folder or URL/collections/NAME, instead of encoding.",
)
@click.option(
    "--model",
    metavar="NAME",
    help="A sentence-transformers model (a name on the hub, or a folder), glove-6b-50d, or a file of word "
    f"vectors.  [default: {DEFAULTS.model}, or the index's]",
)
@click.option(
    "--work",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep what is encoded here, for another result of the same documents.  "
    "[default: beside the result, until that is complete]",
)
@takes(similarity=SimilarityArguments, workers=WorkerArguments)
@report_option
@click.option("--json", "as_json", is_flag=True, help="The summary as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="The summary only, no progress.")
@click.version_option(package_name="surprise-rerank")
def similar(
    *,
    inputs: SourceArguments,
    similarity: SimilarityArguments,
    workers: WorkerArguments,
    to: str,
    against: tuple[str, ...],
    from_index: str | None,
    model: str | None,
    work: Path | None,
    reports: tuple[Path, ...],
    as_json: bool,
    quiet: bool,
) -> None:
    """Find every document's most surprising neighbours.

    A SOURCE is what `surprise-rerank index` reads. The surprise of a pair is the number of deviations that
    the document's similarity lies above what is usual for the neighbour. After an interruption, the same
    command continues where it stopped.
    """
    from surprise_rerank.connectors.similar.job import SimilarityJob
    from surprise_rerank.eval.reports.writing import check_files

    settings = similarity.settings()
    paths = [*inputs.sources, *against, from_index or ""]
    target, groups = targets(to, similarity.groups, work, paths, reports)
    check_files(reports)
    out, device, index = Output(as_json, quiet), workers.best_device(), workers.index(similarity.mode)
    with ExitStack() as stack:
        if from_index is None:
            given = _given(inputs, against, model, workers)
        else:
            _require_no_sources(inputs)
            if not against:
                _require_nothing_to_read(inputs, model)
            opened = stack.enter_context(open_stored(from_index))
            given = _given_stored(opened, inputs, against, model, out)
        folder = stack.enter_context(work_folder(work, target.path, given.made_of))
        job = SimilarityJob(
            folder,
            settings,
            model=given.model,
            workers=stack.enter_context(workers.start()),
            device=device,
            show_progress=out.shows_progress,
            index=index,
        )
        summary = _Summary(job, out=to, model=given.model_name, groups=None, sample_check=None)
        with job.full_disk_errors():
            with summary.timed("encoding"):
                job.prepare(given.documents(settings.needs_tokens), given.against)
            # Closed, so that nothing is computed any more where the result cannot be written.
            with summary.timed("comparing"), closing(job.parts()) as parts:
                summary.values["pairs"] = target.write_parts(parts)
            if groups is not None:
                summary.group(groups, similarity.duplicate)
            if similarity.sample_check is not None:
                summary.check(similarity.sample_check)
            if reports:
                summary.write(reports, given, out)
        summary.print(out)


@dataclass(frozen=True, slots=True)
class _Given:
    """What is compared.

    Attributes:
        names: of the documents, for people.
        documents: by whether token vectors are needed.
        against: what may be neighbours; the same where None.
        model: encodes them; None where nothing is to be encoded.
        model_name: of the vectors.
        texts: of some of the documents, by their ids.
    """

    names: Sequence[str]
    documents: Callable[[bool], Sources | Vectors]
    against: Sources | None
    model: Model | None
    model_name: str
    texts: Texts

    @property
    def made_of(self) -> dict[str, Any]:
        """What a work folder is known by, as JSON."""
        return {
            "sources": list(self.names),
            "against": [] if self.against is None else list(self.against.names),
            "model": self.model_name if self.model is None else self.model.name,
        }


def _given(
    inputs: SourceArguments, against: tuple[str, ...], model: str | None, workers: WorkerArguments
) -> _Given:
    """Documents that are encoded."""
    from surprise_rerank.connectors.similar.neighbour_batches import model_of

    if not inputs.sources and not inputs.from_collection:
        raise click.UsageError(
            "what is to be compared? give files, folders, data sets, --from-index, or --from-url with "
            "--from-collection"
        )
    documents, others = _sources(inputs), _others(inputs, against)
    name = model or DEFAULTS.model
    made = model_of(name, workers.best_device(), remote=workers.ray is not None)
    return _Given(documents.names, lambda _: documents, others, made, name, _texts(documents))


def _given_stored(
    index: DocumentIndex, inputs: SourceArguments, against: tuple[str, ...], model: str | None, out: Output
) -> _Given:
    """Documents of an index."""
    from surprise_rerank.connectors.similar.neighbour_batches import model_of
    from surprise_rerank.connectors.similar.stored_vectors import stored_vectors

    others = _others(inputs, against)
    made = None if others is None else model_of(model_of_index(index, model), "")

    def documents(tokens: bool) -> Vectors:
        return stored_vectors(index, tokens=tokens, show_progress=out.shows_progress)

    def texts(ids: Set[str]) -> dict[str, Document]:
        found = index.fetch(sorted(ids), frozenset({"documents"}), skip_missing=True).documents or ()
        return {document.id: document for document in found}

    return _Given([index.where], documents, others, made, index.manifest.model, texts)


def _texts(sources: Sources) -> Texts:
    """Documents by their ids, read once more; of several of one id the first."""

    def texts(ids: Set[str]) -> dict[str, Document]:
        found: dict[str, Document] = {}
        for document in (document for source in sources.sources for document in source):
            if document.id in ids and document.id not in found:
                found[document.id] = document
                if len(found) == len(ids):
                    break
        return found

    return texts


def _require_no_sources(inputs: SourceArguments) -> None:
    if inputs.sources or inputs.from_collection or inputs.from_url:
        raise click.UsageError(
            "--from-index takes the place of SOURCE and --from-collection; give one of them"
        )


def _require_nothing_to_read(inputs: SourceArguments, model: str | None) -> None:
    """Refuse options of what is read and encoded, where nothing is."""
    given = {
        "--model": model,
        "--format": inputs.form,
        "--id-field": inputs.id_field,
        "--title-field": inputs.title_field,
        "--text-field": inputs.text_field,
        "--on-error skip": inputs.on_error == "skip",
        "--include": inputs.include,
        "--exclude": inputs.exclude,
        "--max-bytes": inputs.max_bytes,
    }
    for option, value in given.items():
        if value:
            raise click.UsageError(
                f"{option} is for documents that are read; with --from-index, those of --against"
            )


def _sources(inputs: SourceArguments) -> Sources:
    from surprise_rerank.connectors.similar.workers import Sources

    names, sources = zip(*inputs.open(None).named, strict=True)
    return Sources(names, sources)


def _others(inputs: SourceArguments, against: tuple[str, ...]) -> Sources | None:
    if not against:
        return None
    return _sources(replace(inputs, sources=against, from_url=None, from_collection=None))


class _Summary:
    """What was done, for people and programs.

    Args:
        job: that does it.
        values: of the summary.
    """

    def __init__(self, job: SimilarityJob, **values: Any) -> None:
        self._job = job
        self._groups: Groups | None = None
        self.values: dict[str, Any] = values
        self._lines: list[str] = []

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        """Measure a stage."""
        begun = time.perf_counter()
        yield
        self.values[f"seconds_{what}"] = time.perf_counter() - begun

    def group(self, target: Target, threshold: float | None) -> None:
        """Write near-duplicate groups."""
        from surprise_rerank.connectors.similar.groups import DUPLICATE, near_duplicates, write_groups

        job, settings = self._job, self._job.settings
        least = DUPLICATE[settings.similarity] if threshold is None else threshold
        against = self._against
        self._groups = found = near_duplicates(job.parts(), job.documents, against, settings, least)
        write_groups(target, found, job.documents, against)
        self.values["groups"] = {
            "file": str(target.path),
            "threshold": least,
            "groups": len(found),
            "documents": len(found.rows),
        }
        self._lines.append(
            f"{target.path}: near-duplicate groups: {len(found)}, documents in them: {len(found.rows)} "
            f"(similarity from {least:g})"
        )

    def check(self, size: int) -> None:
        """Compare a sample exactly."""
        from surprise_rerank.connectors.similar.recall import sample_check

        done = sample_check(self._job, size)
        self.values["sample_check"] = asdict(done)
        self._lines.append(str(done))

    def write(self, reports: Sequence[Path], given: _Given, out: Output) -> None:
        """Write it with titles and texts."""
        from surprise_rerank.eval.cli.output.similar_report import similar_report
        from surprise_rerank.eval.reports.writing import write_report

        others = given.texts if given.against is None else _texts(given.against)
        report = similar_report(self._job, given.names, given.texts, others, self._groups, self.all())
        for file in reports:
            write_report(report, file)
            out.note(f"{file} shows this with texts")

    def all(self) -> dict[str, Any]:
        """Everything that is printed as JSON."""
        job, against = self._job, self._against
        return {
            **self.values,
            "documents": len(job.documents),
            "against": None if against is None else len(against),
            "skipped": [*job.documents.skipped, *([] if against is None else against.skipped)],
        }

    def print(self, out: Output) -> None:
        """Print it."""
        values = self.all()
        compared = "" if values["against"] is None else f" against {values['against']}"
        first = f"{values['out']}: {values['pairs']} pairs of {values['documents']} documents{compared}"
        times = (
            f"encoded in {values['seconds_encoding']:.1f} s, compared in {values['seconds_comparing']:.1f} s"
        )
        out.result(values, [first, *self._lines, times, *skipped_lines(values["skipped"])])

    @property
    def _against(self) -> EncodedCorpus | None:
        job = self._job
        return None if job.neighbours.folder == job.documents.folder else job.neighbours
