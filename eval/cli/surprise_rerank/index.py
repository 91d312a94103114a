"""`surprise-rerank index`: fill an index, or bring it up to date."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click
from click.core import ParameterSource

from surprise_rerank._errors import DataError, ModelError, NoIndexError, StoreError, UnreadableIndexError
from surprise_rerank.eval.cli.console import Output, counted
from surprise_rerank.eval.cli.exits import Interrupted
from surprise_rerank.eval.cli.options import (
    NOTHING_PASSES,
    Sources,
    filled_with,
    format_option,
    id_option,
    index_option,
    json_option,
    load_model,
    location_of,
    quiet_option,
    ray_option,
    read_filter,
    require_place,
    skipped_lines,
    text_option,
)
from surprise_rerank.eval.cli.settings import SetValues, set_option
from surprise_rerank.eval.retrieval.settings import DEFAULTS, Precision

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import DocumentIndex, IndexOptions, SyncReport
    from surprise_rerank.connectors.qdrant._location import Location
    from surprise_rerank.connectors.qdrant._manifest import Manifest
    from surprise_rerank.connectors.readers._opening import Format
    from surprise_rerank.encoders.base import Encoder

_EXAMPLES = """\b
Examples:
  surprise-rerank index letters/ --index my-index
  surprise-rerank index letters/ --index my-index --prune
  surprise-rerank index news.csv --id-field key --text-field story --index news \\
      --set payload_indexes.metadata.year=integer
  surprise-rerank index papers.parquet --index http://localhost:6333/papers --set shards=6
  surprise-rerank index --delete 17 --index my-index
  surprise-rerank index --copy-of my-index --index http://localhost:6333/papers
  surprise-rerank index --copy-of my-index --index my-index.vectors
  surprise-rerank index letters/ --server http://localhost:8000
"""
_AUTO = "auto"
_JUDGED = 8192  # documents that `auto` looks at; an index finds its language from as many
# What is said of documents on their way to a server; the rest is the server's.
_READING = {"sources", "form", "id_field", "text_field", "settings", "server", "strict", "as_json", "quiet"}
_READING_KEYS = {"title_field", "id_prefix", "on_error", "include", "exclude", "max_bytes"}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """What `index --set` has besides what an index stores.

    Attributes:
        precision: numbers that the model computes with; the index's own, or float32 for a new one.
        background: ask the package's 300 questions, which percentiles are measured against.
        title_field: column of titles.
        id_prefix: stands before every id, where another source has the same ids.
        replace: put documents into the place of those of the same id that were read from another source.
        on_error: what becomes of malformed rows; those that are skipped are reported.
        include: only these files of a folder, such as *.txt,*.md.
        exclude: not these files and folders.
        max_bytes: skip larger files; 32 MiB by default.
        grpc: talk to the server by gRPC instead of REST.
        shards: parts of the collection on a server; one for each node by default.
        replicas: copies of each shard, on as many nodes; 1 by default.
        write_consistency: number of copies that a write waits for; 1 by default.
        workers: number of Ray's workers; 2 by default.
        gpus: graphics processors of a worker of Ray, or a part of one.
    """

    precision: Precision | None = None
    background: bool = True
    title_field: str | None = None
    id_prefix: str = ""
    replace: bool = False
    on_error: Literal["raise", "skip"] = "raise"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    max_bytes: int | None = None
    grpc: bool = False
    shards: int | None = None
    replicas: int | None = None
    write_consistency: int | None = None
    workers: int | None = None
    gpus: float | None = None

    def of_collection(self, location: Location) -> dict[str, int]:
        """As `collection_settings` of `DocumentIndex.open`; a usage error where the index is in a folder."""
        names = {"shards": "shard_number", "replicas": "replication_factor"}
        names["write_consistency"] = "write_consistency_factor"
        values = {key: value for key in names if (value := getattr(self, key)) is not None}
        keys = f"--set {' and '.join(values)}"
        if values and location.url is None:
            raise click.UsageError(f"{keys}: a folder has no shards; give a collection on a server")
        if min(values.values(), default=1) < 1:
            raise click.UsageError(f"{keys}: give numbers from 1")
        return {names[key]: value for key, value in values.items()}

    def require_ray(self, address: str | None) -> None:
        """A usage error if something is said of Ray's workers, and there are none."""
        if address is None and (self.workers, self.gpus) != (None, None):
            raise click.UsageError("--set workers and --set gpus belong to --ray ADDRESS")


def _kinds() -> tuple[type, ...]:
    from surprise_rerank.connectors.qdrant import IndexOptions

    return IndexSettings, IndexOptions


@click.command(epilog=_EXAMPLES)
@filled_with
@format_option
@id_option
@text_option
@click.option(
    "--model",
    metavar="NAME",
    help="A sentence-transformers model (a name on the hub, or a folder), `multilingual`, glove-6b-50d, a "
    f"file of word vectors, or `{_AUTO}`: {DEFAULTS.model} for documents in English, `multilingual` for "
    "others.  "
    f"[default: the index's own; {DEFAULTS.model} for a new one]",
)
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False),
    help="TOML with a table [embedding]: the model's endpoint of OpenAI's API, in place of --model.",
)
@click.option(
    "--prune",
    is_flag=True,
    help="Remove documents that were read from these sources and are no longer there.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Leave with exit code 1 if a file or row could not be used; all others are stored.",
)
@click.option("--delete", metavar="ID", multiple=True, help="Remove this document. Several times.")
@click.option(
    "--delete-where",
    "condition",
    metavar="JSON",
    help="Remove the documents that Qdrant's filter lets through; '{}' with --tenant NAME all of a tenant.",
)
@click.option(
    "--copy-of",
    "original",
    metavar="INDEX",
    help="Copy this index with its vectors, in place of reading a SOURCE: nothing is encoded. One of the two "
    "may be a file FILE.vectors, which every version reads; with --rebuild the copy replaces what is there.",
)
@click.option(
    "--rebuild",
    is_flag=True,
    help="Index everything anew, with the model and the settings that are given; the old version answers "
    "until the new one is complete.",
)
@click.option(
    "--tenant",
    metavar="KEY",
    help="The key of the metadata that says whose a document is, where many customers share an index. With "
    "--delete and --delete-where the name of the tenant whose documents are removed.",
)
@click.option(
    "--server",
    metavar="URL",
    help="Send the documents to a running `serve`, in place of --index. Token: $SURPRISE_RERANK_TOKEN.",
)
@ray_option
@set_option(_kinds, but=("tenant",))
@index_option
@json_option
@quiet_option
def index(
    *,
    target: str | None,
    server: str | None,
    sources: tuple[str, ...],
    form: Format | None,
    id_field: str | None,
    text_field: str | None,
    model: str | None,
    config: str | None,
    prune: bool,
    strict: bool,
    delete: tuple[str, ...],
    condition: str | None,
    original: str | None,
    rebuild: bool,
    tenant: str | None,
    ray: str | None,
    settings: SetValues,
    as_json: bool,
    quiet: bool,
) -> None:
    """Fill an index, or bring it up to date.

    A SOURCE is a file or folder (JSON, JSONL, CSV, TSV, Parquet, text, Markdown, HTML, PDF, office
    documents, mails, programs, manual pages), a BEIR folder, an id of ir_datasets, `demo`, or a collection
    on a Qdrant server. Columns that are not id, title or text are metadata, for `search --filter`. Only
    what is new or changed is encoded: run the same command again after a change, or after an interruption.
    What an index stores is settled when it is made; one that exists keeps that until it is rebuilt.
    """
    filling = settings.of(IndexSettings)
    filling.require_ray(ray)
    out = Output(as_json=as_json, quiet=quiet)
    if server is not None:
        from surprise_rerank.eval.cli.surprise_rerank.sending import send

        _require_reading(settings, "leave it out with --server")
        documents = _sources(sources, form, id_field, text_field, filling)
        documents.require_readable()
        send(server, documents, out)
        documents.end(strict=strict)
        return
    from surprise_rerank.connectors.attached._opening import finding_model

    location = replace(location_of(target), prefer_grpc=filling.grpc)
    of_collection = filling.of_collection(location)
    reads = bool(sources or prune)
    if _deleted(location, out, delete, condition, tenant, reads=reads or rebuild):
        return
    if _copied(original, location, out, of_collection, reads=reads, rebuild=rebuild):
        return
    require_place(location)
    documents = _sources(sources, form, id_field, text_field, filling)
    documents.require_readable()
    with contextlib.ExitStack() as held:
        existing: Manifest | None = None  # how the index was made; nobody else changes it meanwhile
        lost = None
        try:
            with contextlib.suppress(NoIndexError):
                opened = held.enter_context(_open(location))
                opened.corpus.points.claim()
                existing = opened.manifest
        except UnreadableIndexError as error:
            if not rebuild:
                raise
            lost = error
            out.note(f"{error}: settings that are not given are those of a new index")
        except StoreError as error:
            held.close()  # the server could not change what is read here
            _send_to_who_serves(location, error, settings, documents, out)
            documents.end(strict=strict)
            return
        options = _options(settings, tenant, None if existing is None else existing.options)
        kept_model = existing.model if existing else lost.model if lost else ""
        if model == _AUTO:
            model = kept_model if kept_model and not rebuild else suited_model(documents)
        with finding_model(is_named=model is not None or not kept_model):
            encoder = _endpoint(location, config, model, filling) or _encoder(
                model or kept_model or DEFAULTS.model,
                filling.precision or (existing.precision if existing and not rebuild else DEFAULTS.precision),
                documents,
            )
    encoder = _on_ray(encoder, ray, filling)
    begun = time.perf_counter()
    progress: dict[str, Any] = {"show_progress": not out.quiet, "background": filling.background}
    anew = {"options": options, "collection_settings": of_collection, **progress}
    if lost is not None:
        from surprise_rerank.connectors.qdrant import DocumentIndex

        done = DocumentIndex.renew(location, documents, encoder, **anew)
        with _open(location, encoder) as opened:
            _report(out, location, opened, done, documents, begun, prune=prune)
        documents.end(strict=strict)
        return
    rebuild = rebuild and existing is not None  # else there is nothing to keep
    how_opened = (None, None, None) if rebuild else (encoder, options, of_collection)
    with _opened(location, *how_opened, is_new=existing is None) as opened:
        if rebuild:
            done = opened.rebuild(documents, encoder=encoder, **anew)
        else:
            done = opened.sync(documents, prune=prune, replace=filling.replace, **progress)
        _report(out, location, opened, done, documents, begun, prune=prune)
    documents.end(strict=strict)


def _send_to_who_serves(
    location: Location, error: StoreError, settings: SetValues, documents: Sources, out: Output
) -> None:
    """Send documents to the server that has the folder of an index open; raise the error if none has."""
    from surprise_rerank.connectors.server._process import served_at
    from surprise_rerank.eval.cli.surprise_rerank.sending import send

    url = None if location.folder is None else served_at(Path(location.folder))
    if url is None:
        raise error
    _require_reading(settings, f"leave it out while it serves at {url}, or end it", {"target"})
    out.note(f"{location} is being served: the documents go to {url}")
    send(url, documents, out, is_here=True)


def _require_reading(settings: SetValues, advice: str, also: Set[str] = frozenset()) -> None:
    """Raise a usage error for options that only the index of a server decides, but for those in `also`."""
    context = click.get_current_context()
    options = [f"--set {key}" for key in settings.values if key not in _READING_KEYS]
    for option in context.command.params:
        source = context.get_parameter_source(str(option.name))
        if option.name not in _READING | also and source is ParameterSource.COMMANDLINE:
            options.append(option.opts[0])
    if options:
        raise click.UsageError(f"{' and '.join(options)}: the server has the index; {advice}")


def _copied(
    original: str | None,
    location: Location,
    out: Output,
    of_collection: Mapping[str, Any],
    *,
    reads: bool,
    rebuild: bool,
) -> bool:
    """Copy an index if one is named; return whether one was copied."""
    from surprise_rerank.connectors.qdrant import copy_index

    if original is None:
        return False
    if reads:
        raise click.UsageError("--copy-of goes without SOURCE and --prune")
    how: dict[str, Any] = {"collection_settings": of_collection, "show_progress": not out.quiet}
    points = copy_index(location_of(original), location, replace=rebuild, **how)
    values = {"index": str(location), "copy_of": original, "points": points}
    out.result(values, [f"{location}: a copy of {original}, {counted(points, 'point')}"])
    return True


def _deleted(
    location: Location,
    out: Output,
    ids: Sequence[str],
    condition: str | None,
    tenant: str | None,
    *,
    reads: bool,
) -> bool:
    """Delete documents where ids or a filter say so; returns whether they do."""
    if not ids and condition is None:
        return False
    if reads or (ids and condition is not None):
        raise click.UsageError(
            "--delete and --delete-where go without each other, SOURCE, --prune and --rebuild"
        )
    chosen = None if condition is None else read_filter("--delete-where", condition)
    if not ids and chosen is None and tenant in (None, "*"):
        raise click.UsageError(
            "--delete-where '{}' removes all of the tenant that --tenant NAME names; give one, or a filter"
        )
    with _open(location) as opened:
        removed = opened.delete(list(dict.fromkeys(ids)) or None, filter=chosen, tenant=tenant)
        left = len(opened)
    values = {"index": str(location), "removed": removed, "documents": left}
    out.result(values, [f"{location}: {removed} removed; {counted(left, 'document')}"])
    if ids and (missing := len(set(ids)) - removed):
        out.note(f"not in the index: {missing} of {len(set(ids))} ids")
    if chosen is not None and not ids and not removed:
        out.note(NOTHING_PASSES)
    return True


def _sources(
    names: Sequence[str],
    form: Format | None,
    id_field: str | None,
    text_field: str | None,
    filling: IndexSettings,
) -> Sources:
    from surprise_rerank.connectors.readers import Fields, FileRules

    limit = {} if filling.max_bytes is None else {"max_bytes": filling.max_bytes}
    rules = FileRules(include=filling.include, exclude=filling.exclude, **limit)
    fields = Fields(id=id_field, title=filling.title_field, text=text_field)
    return Sources.opened(names, form, fields, filling.on_error, rules, filling.id_prefix)


def _options(settings: SetValues, tenant: str | None, existing: IndexOptions | None) -> IndexOptions:
    """What the index has or a new one stores, with what was given in its place."""
    from surprise_rerank.connectors.qdrant import IndexOptions

    base = existing or IndexOptions()
    if settings.values.get("tokens") is False and "pooling" not in settings.values:
        base = replace(base, pooling=IndexOptions().pooling)  # it is of token vectors
    changed = settings.changed(base)
    return changed if tenant is None else replace(changed, tenant=tenant)


def _open(
    location: Location,
    encoder: Encoder | None = None,
    options: IndexOptions | None = None,
    of_collection: Mapping[str, Any] | None = None,
) -> DocumentIndex:
    from surprise_rerank.connectors.qdrant import DocumentIndex  # takes a second, which --help has not

    return DocumentIndex.open(location, encoder, options=options, collection_settings=of_collection)


@contextlib.contextmanager
def _opened(
    location: Location,
    encoder: Encoder | None,
    options: IndexOptions | None,
    of_collection: Mapping[str, Any] | None = None,
    *,
    is_new: bool,
) -> Iterator[DocumentIndex]:
    """The index; a new one is taken away again where the block fails before a document is stored."""
    folder = None if location.folder is None else Path(location.folder)
    missing = [place for place in (folder, *folder.parents) if not place.exists()] if folder else []
    holds = not is_new
    try:
        with _open(location, encoder, options, of_collection) as opened:
            try:
                yield opened
            except BaseException:
                holds = holds or len(opened) > 0
                if not holds and folder is None:  # what was made on a server is known while it is open
                    opened.corpus.storage.discard()
                raise
    except BaseException as error:
        if not holds and folder is not None:
            if folder.exists():
                # Half made, too; not where another run has it open.
                with contextlib.suppress(StoreError, DataError), _open(location, encoder, options) as half:
                    half.corpus.storage.discard()
            for place in missing:
                with contextlib.suppress(OSError):
                    place.rmdir()
        if not isinstance(error, KeyboardInterrupt):
            raise
        stays = "What was stored stays; run the same command again to go on."
        raise Interrupted(stays if holds else "Nothing was stored.") from error


def suited_model(sources: Sources) -> str:
    """Return the default model where it reads the documents, or else the one of many languages."""
    from surprise_rerank.connectors.qdrant._languages import READ, language_of, unread
    from surprise_rerank.encoders._loading import MULTILINGUAL

    texts = [document.content[:READ] for document in itertools.islice(sources, _JUDGED)]
    return MULTILINGUAL if unread(DEFAULTS.model, language_of(texts)) else DEFAULTS.model


def _endpoint(
    location: Location, config: str | None, model: str | None, filling: IndexSettings
) -> Encoder | None:
    from surprise_rerank.connectors.attached._opening import CollectionConfig

    if config is not None and (model or filling.precision):
        raise click.UsageError("--config names the model: leave --model and --set precision out")
    said = CollectionConfig.read(config)
    said.require_of_index(location)
    return said.encoder_of_index()


def _encoder(model: str, precision: str, sources: Sources) -> Encoder:
    """The model; its int8 weights of before, where there are some, or new ones of the first documents."""
    from surprise_rerank.encoders._openvino import CALIBRATION_TEXTS

    if precision != "int8":
        return load_model(model, precision)
    with contextlib.suppress(ModelError):
        return load_model(model, precision)
    sample = [document.content for document in itertools.islice(sources, CALIBRATION_TEXTS)]
    return load_model(model, precision, sample or None)


def _on_ray(encoder: Encoder, address: str | None, filling: IndexSettings) -> Encoder:
    """The encoder; with Ray's workers for documents where an address is given."""
    if address is None:
        return encoder
    from surprise_rerank.connectors.similar import RayEncoder

    return RayEncoder(encoder, address, workers=filling.workers or 2, num_gpus=filling.gpus or 0)


def _report(
    out: Output,
    location: Location,
    opened: DocumentIndex,
    done: SyncReport,
    sources: Sources,
    begun: float,
    *,
    prune: bool,
) -> None:
    from surprise_rerank.connectors.qdrant._languages import unread

    skipped, seconds = sources.skipped(), time.perf_counter() - begun
    indexed = done.added + done.updated
    elsewhere = max(0, len(opened) - indexed - done.unchanged)
    values = {
        "index": str(location),
        "engine": opened.corpus.engine,
        "model": opened.manifest.model,
        "language": opened.manifest.language,
        "documents": len(opened),
        **asdict(done),
        "elsewhere": elsewhere,
        "seconds": seconds,
        "skipped": skipped,
    }
    first = f"{location}: {done}, {done.split} split into passages; {counted(len(opened), 'document')}"
    notes = [f"{indexed} indexed in {seconds - done.background_seconds:.1f} s"] if indexed else []
    if done.background_seconds >= 0.05:
        notes.append(f"the background took {done.background_seconds:.1f} s")
    if done.kept:
        notes.append(
            f"{counted(done.kept, 'stored document')} of files that are there and could not be read now: kept"
        )
    if elsewhere:
        more = "" if prune else "; --prune removes those that were read from these sources before"
        notes.append(
            f"stored, and in no source that was given: {counted(elsewhere, 'document')}; they stay{more}"
        )
    out.result(values, [first], [*notes, *skipped_lines(skipped)])
    if problem := unread(opened.manifest.model, opened.manifest.language):
        out.note(problem)
