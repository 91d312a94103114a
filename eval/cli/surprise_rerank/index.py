"""`surprise-rerank index`: fill an index, or bring it up to date."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError, ModelError, NoIndexError, StoreError, UnreadableIndexError
from surprise_rerank.eval.cli.arguments.cluster import ClusterArguments
from surprise_rerank.eval.cli.arguments.index_options import IndexArguments
from surprise_rerank.eval.cli.arguments.location import (
    load_model,
    open_index,
    refuse_with_server,
    server_client,
    takes_index,
)
from surprise_rerank.eval.cli.arguments.precision import precision_option
from surprise_rerank.eval.cli.arguments.sources import SourceArguments, Sources, skipped_lines
from surprise_rerank.eval.cli.exits import Interrupted
from surprise_rerank.eval.cli.options import takes
from surprise_rerank.eval.cli.output.console import Output
from surprise_rerank.eval.retrieval.settings import DEFAULTS, Precision

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SyncReport
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.qdrant.manifest import Manifest
    from surprise_rerank.encoders.base import Encoder
    from surprise_rerank.thresholds.background import QuestionBackground

_SOON = 0.05  # seconds that are not worth a line
_SENT, _SENT_CHARACTERS = 64, 500_000  # documents of a request to a server
_EXAMPLES = """\b
Examples:
  surprise-rerank index letters/ --index my-index
  surprise-rerank index letters/ --index my-index --prune
  surprise-rerank index a.jsonl b.csv --index my-index --on-error skip
  surprise-rerank index beir/scifact --index scifact --pooling 2
  surprise-rerank index news.csv --id-field key --text-field story --index news \\
      --payload-index metadata.year=integer
  surprise-rerank index letters/ --index my-index --rebuild --passage-tokens 128
  surprise-rerank index papers.parquet --qdrant-url http://localhost:6333 \\
      --collection papers --grpc --shards 6 --replicas 2
  surprise-rerank index mails.jsonl --qdrant-url http://localhost:6333 \\
      --collection mails --tenant customer
  surprise-rerank index news.jsonl --server http://localhost:8000
  surprise-rerank index --from-url http://localhost:6333 --from-collection old \\
      --index my-index
"""


@click.command(epilog=_EXAMPLES)
@takes(inputs=SourceArguments)
@click.option(
    "--model",
    metavar="NAME",
    help="A sentence-transformers model (a name on the hub, or a folder), glove-6b-50d, or a file of word "
    f"vectors.  [default: the index's own; {DEFAULTS.model} for a new one]",
)
@precision_option(
    "int8 is calibrated on the first documents.  [default: the index's own; "
    f"{DEFAULTS.precision} for a new one]"
)
@click.option(
    "--prune",
    is_flag=True,
    help="Remove documents that were read from these sources and are no longer there.",
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="Index everything anew, with the model and the options that are given; the old version answers "
    "until the new one is complete.",
)
@click.option(
    "--background/--no-background",
    default=True,
    show_default=True,
    help="Ask 300 questions that come with the package, which the surprise is measured against, and ask them "
    "again when there are twice as many documents.",
)
@takes(storing=IndexArguments, cluster=ClusterArguments)
@click.option(
    "--server",
    metavar="URL",
    help="Send the documents to a running `surprise-rerank serve`, which stores them; its token is in "
    "SURPRISE_RERANK_TOKEN.",
)
@takes_index
def index(
    *,
    location: Location,
    out: Output,
    inputs: SourceArguments,
    storing: IndexArguments,
    cluster: ClusterArguments,
    model: str | None,
    precision: Precision | None,
    prune: bool,
    rebuild: bool,
    background: bool,
    server: str | None,
) -> None:
    """Fill an index, or bring it up to date.

    A SOURCE is a file or folder (JSONL, CSV, TSV, Parquet, text, Markdown, HTML, PDF, office documents), a
    BEIR folder, an id of ir_datasets, or `demo`. Only what is new or changed is encoded: run the same command
    again after a change, or after an interruption. The options of what is stored belong to a new index; one
    that exists keeps its own until it is rebuilt.
    """
    if server is not None:
        params = click.get_current_context().command.params
        sent = {"server", "as_json", "quiet", *(own.name for own in fields(SourceArguments))}
        instead = "the server has the index; leave them out, or stop the server and use --index"
        refuse_with_server({own.name for own in params if own.name} - sent, instead)
        _send(server, inputs.open(None), out)
        return
    settings = cluster.settings(location)
    sources = inputs.open(",".join(location.urls) or None)
    sources.require_readable()
    with contextlib.ExitStack() as held:
        existing, lost = None, None
        try:
            existing = _locked(location, held)
        except UnreadableIndexError as error:
            if not rebuild:
                raise
            lost = error
            out.note(f"{error}: options that are not given are those of a new index")
        options = storing.options(None if existing is None else existing.options)
        encoder = _encoder(
            model or (existing.model if existing else lost.model if lost else "") or DEFAULTS.model,
            precision or (existing.precision if existing and not rebuild else DEFAULTS.precision),
            sources,
        )
    begun, shown = time.perf_counter(), out.shows_progress
    if lost is not None:
        from surprise_rerank.connectors.qdrant import DocumentIndex

        done = DocumentIndex.renew(
            location,
            sources,
            encoder,
            options=options,
            collection_settings=settings,
            show_progress=shown,
            background=False,
        )
        with open_index(location, encoder) as opened:
            times = _measured(opened, {}, begun, background=background, shown=shown)
            _report(out, location, opened, done, sources, times)
        return
    rebuild = rebuild and existing is not None  # else there is nothing to keep
    given = (None, None, None) if rebuild else (encoder, options, settings)
    with _opened(location, *given, is_new=existing is None) as opened:
        kept = opened.backgrounds() if background else {}
        if rebuild:
            done = opened.rebuild(
                sources,
                encoder=encoder,
                options=options,
                collection_settings=settings,
                show_progress=shown,
                background=False,
            )
            times = _measured(opened, kept, begun, background=background, shown=shown)
        else:
            done = opened.sync(sources, prune=prune, show_progress=shown, background=False)
            changed = done.added + done.updated + done.removed
            times = _measured(opened, kept, begun, background=background, shown=shown, changed=changed)
        _report(out, location, opened, done, sources, times)


def _measured(
    index: DocumentIndex,
    kept: Mapping[str, QuestionBackground],
    begun: float,
    *,
    background: bool,
    shown: bool,
    changed: int | None = None,
) -> tuple[float, float]:
    """Measure backgrounds: those that were kept, or after a change what it made stale.

    Returns the seconds of what was done before, and of this.
    """
    from surprise_rerank.connectors.systems.backgrounds import look_after_backgrounds, measure_again

    stored = time.perf_counter()
    if background and changed is None:
        measure_again(index, kept, show_progress=shown)
    elif background:
        look_after_backgrounds(index, changed or 0, show_progress=shown)
    return stored - begun, time.perf_counter() - stored


def _send(server: str, sources: Sources, out: Output) -> None:
    """Have a server store documents, some at a time."""
    from surprise_rerank.core.batches import in_batches

    sources.require_readable()
    done = dict.fromkeys(("added", "updated", "unchanged"), 0)
    documents = 0
    with server_client(server) as client:
        for part in in_batches(sources, lambda own: len(own.content), _SENT_CHARACTERS, _SENT):
            found = client.store(part)
            done = {name: count + found[name] for name, count in done.items()}
            documents = found["documents"]
    skipped = sources.skipped()
    first = (
        f"{client.url}: {done['added']} added, {done['updated']} updated, {done['unchanged']} unchanged; "
        f"{documents} documents"
    )
    values = {"server": client.url, **done, "documents": documents, "skipped": skipped}
    out.result(values, [first, *skipped_lines(skipped)])


@contextlib.contextmanager
def _opened(
    location: Location,
    encoder: Encoder | None,
    options: IndexOptions | None,
    settings: Mapping[str, Any] | None = None,
    *,
    is_new: bool,
) -> Iterator[DocumentIndex]:
    """The index; a new one is taken away again where the block fails before a document is stored."""
    folder = None if location.folder is None else Path(location.folder)
    missing = [own for own in (folder, *folder.parents) if not own.exists()] if folder else []
    holds = not is_new
    try:
        with open_index(location, encoder, options, settings) as opened:
            try:
                yield opened
            except BaseException:
                holds = holds or len(opened) > 0
                if not holds and folder is None:  # what was made on a server is known while it is open
                    opened.storage.discard()
                raise
    except BaseException as error:
        if not holds and folder is not None:
            _take_away(location, missing)
        if not isinstance(error, KeyboardInterrupt):
            raise
        stays = "What was stored stays; run the same command again to go on."
        raise Interrupted(stays if holds else "Nothing was stored.") from error


def _take_away(location: Location, missing: Sequence[Path]) -> None:
    """Remove a new index without documents, unless another run has it open, and folders made around it."""
    with contextlib.suppress(StoreError, DataError), open_index(location) as opened:
        opened.storage.discard()
    for own in missing:
        with contextlib.suppress(OSError):
            own.rmdir()


def _encoder(model: str, precision: str, sources: Sources) -> Encoder:
    """The model; its int8 weights of before, where there are some, or new ones of the first documents."""
    from surprise_rerank.encoders.openvino import CALIBRATION_TEXTS

    if precision != "int8":
        return load_model(model, precision)
    with contextlib.suppress(ModelError):
        return load_model(model, precision)
    sample = [document.content for document in itertools.islice(sources, CALIBRATION_TEXTS)]
    return load_model(model, precision, sample or None)


def _locked(location: Location, held: contextlib.ExitStack) -> Manifest | None:
    """How an index was made; None where there is none yet. Nobody else changes it while the stack is open."""
    try:
        opened = held.enter_context(open_index(location))
    except NoIndexError:
        return None
    opened.storage.engine.claim()
    return opened.manifest


def _report(
    out: Output,
    location: Location,
    opened: DocumentIndex,
    done: SyncReport,
    sources: Sources,
    times: tuple[float, float],
) -> None:
    skipped, (seconds, asking) = sources.skipped(), times
    indexed = done.added + done.updated
    elsewhere = max(0, len(opened) - indexed - done.unchanged)
    values = {
        "index": str(location),
        "engine": opened.engine,
        "model": opened.manifest.model,
        "documents": len(opened),
        "added": done.added,
        "updated": done.updated,
        "unchanged": done.unchanged,
        "removed": done.removed,
        "elsewhere": elsewhere,
        "split": done.split,
        "seconds": seconds,
        "background_seconds": asking,
        "documents_per_second": indexed / seconds,
        "skipped": skipped,
    }
    first = (
        f"{location}: {done.added} added, {done.updated} updated, {done.unchanged} unchanged, "
        f"{done.removed} removed, {done.split} split into passages; {len(opened)} documents"
    )
    speed = f"{indexed} indexed in {seconds:.1f} s, {indexed / seconds:.3g} documents a second"
    told = [speed] if indexed else []
    if asking >= _SOON:
        told.append(f"background questions asked in {asking:.1f} s")
    if elsewhere:
        told.append(f"{elsewhere} stored documents are in no source that was given")
    out.result(values, [first, *told, *skipped_lines(skipped)])
