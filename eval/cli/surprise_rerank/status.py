"""`surprise-rerank status`: what an index holds, without loading its model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError, ForeignCollectionError, StoreError
from surprise_rerank.eval.cli.opening import open_index
from surprise_rerank.eval.cli.options import config_option, takes_index
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import IndexOptions, IndexStatus
    from surprise_rerank.connectors.qdrant.engines.placement import Placement
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.qdrant.search.searched import Searched
    from surprise_rerank.thresholds.background import QuestionBackground

DOCUMENTS = "documents"  # the source of an ensemble of all of them
_MANY_SHARDS = 30
# Levels whose thresholds JSON has.
_LEVELS = (0.2, 0.1, 0.05, 0.01)
_BLOCK = 512  # bytes, the unit of st_blocks

_EXAMPLES = """\b
Examples:
  surprise-rerank status --index my-index
  surprise-rerank status --index my-index --json
  surprise-rerank status --index http://localhost:6333/papers
  surprise-rerank status --index http://localhost:6333/papers --config papers.toml
"""


@click.command(epilog=_EXAMPLES)
@config_option
@takes_index
def status(*, location: Location, config: str | None, out: Output) -> None:
    """Show what an index holds, or what is found in a collection that somebody else made.

    Documents, model, options, ensemble, size, fitted weights; no model is loaded. Of another's collection:
    which vectors are compared, and where its payload has text, title, id and metadata.
    """
    from surprise_rerank.connectors.attached.settings import refused_config

    try:
        _show_index(location, out)
    except ForeignCollectionError:
        _show_foreign(location, config, out)
    else:
        if config is not None:
            raise refused_config(location)


def _show_foreign(location: Location, config: str | None, out: Output) -> None:
    """What `Collection.attach` finds, and what is kept for it."""
    from surprise_rerank.connectors.attached.settings import ForeignParts

    with ForeignParts.read(config).look(location) as collection:
        facts, backgrounds = collection.facts(), _backgrounds(collection)
    if out.as_json:
        values = {name.replace(" ", "_"): value for name, value in facts if name != "note"}
        notes = [value for name, value in facts if name == "note"]
        kept = [own for own, _ in backgrounds.values()]
        out.json({**values, "notes": notes, "backgrounds": kept, "where": str(location)})
    else:
        shown = [(f"background of {name}", text) for name, (_, text) in backgrounds.items()]
        out.facts(str(location), [*facts, *shown])


def _show_index(location: Location, out: Output) -> None:
    from surprise_rerank.connectors.systems.fitted_weights import fitted_weights
    from surprise_rerank.connectors.systems.register import SYSTEMS

    with open_index(location) as index:
        state = index.status()
        spread, hidden = None, ""
        try:
            spread = index.placement()
        except StoreError as error:  # which asks for other rights than a search does
            hidden = str(error)
        kept, damaged, backgrounds = [], {}, _backgrounds(index)
        for name in (system.name for system in SYSTEMS.values() if system.fits):
            try:
                own = fitted_weights(index, name)
            except DataError as error:  # the rest of the index is shown all the same
                damaged[name] = str(error)
            else:
                kept += [] if own is None else [own]
    size = None if location.folder is None else bytes_on_disk(location.folder)
    if out.as_json:
        weights = [asdict(own) for own in kept]
        weights += [{"system": name, "error": error} for name, error in damaged.items()]
        beside = {"weights": weights, "backgrounds": [own for own, _ in backgrounds.values()]}
        nodes = None if spread is None else asdict(spread)
        out.json({**state.to_json(), **beside, "where": str(location), "bytes": size, "placement": nodes})
    else:
        facts = [*_facts(state, size), *([("shards", hidden)] if hidden else _shard_facts(spread))]
        named = {**{own.system: str(own) for own in kept}, **damaged}
        shown = [(f"weights of {name}", text) for name, text in named.items()]
        shown += [(f"background of {name}", text) for name, (_, text) in backgrounds.items()]
        out.facts(str(location), [*facts, *shown])


def _shard_facts(spread: Placement | None) -> list[tuple[str, str]]:
    """Each shard's nodes; of very many only those of which a copy is not active."""
    if spread is None:
        return []
    own = spread.shards
    shown = own if len(own) <= _MANY_SHARDS else [shard for shard in own if not shard.is_active]
    names = (f"shard {shard.number}" for shard in shown)
    facts = [("shards", str(spread)), *zip(names, map(str, shown), strict=True)]
    return facts if len(shown) == len(own) else [*facts, ("", f"{len(own) - len(shown)} others are active")]


def _backgrounds(index: Searched) -> dict[str, tuple[dict[str, Any], str]]:
    """System -> its background as JSON values, and in words."""
    from surprise_rerank.connectors.systems.backgrounds import load_background, staleness
    from surprise_rerank.connectors.systems.register import all_systems

    found: dict[str, tuple[dict[str, Any], str]] = {}
    for name in all_systems():
        try:
            own = load_background(index, name)
        except DataError as error:  # the rest of the index is shown all the same
            found[name] = {"system": name, "error": str(error)}, str(error)
            continue
        if own is None:
            continue
        stale = staleness(own, len(index))
        values = {**background_facts(name, own), "stale": stale}
        made = ", ".join(part for part in (own.origin, own.made, f"over {own.documents} documents") if part)
        if own.chance is not None:
            made += f", calibrated on {own.chance.judged} judged questions"
        found[name] = values, f"{own.size}; {made}{f'; stale: {stale}' if stale else ''}"
    return found


def background_facts(name: str, own: QuestionBackground) -> dict[str, Any]:
    """A system's background as JSON values."""
    promises = {f"{1 - level:g}": own.promise(level) for level in _LEVELS if 1 - level <= own.highest}
    return {
        "system": name,
        "scorers": list(own.names),
        "questions": own.count,
        "effective": own.effective,
        "origin": own.origin,
        "made": own.made,
        "calibrated_on": 0 if own.chance is None else own.chance.judged,
        "documents": own.documents,
        "made_by": own.scorer,
        "highest": own.highest,
        "promises": promises,
    }


def ensemble_facts(state: IndexStatus) -> list[tuple[str, str]]:
    """Names and values that describe an index's ensemble."""
    used, latest, behind = state.manifest.statistics, state.manifest.latest, state.behind
    if latest is None:
        return [("ensemble", "none")]
    facts = [("ensemble", f"{latest.ensemble}: {members(state, latest.count, latest.source)}")]
    if latest.shrink_mean or latest.shrink_deviation:
        facts.append(
            ("shrunk", f"means by {latest.shrink_mean:g}, deviations by {latest.shrink_deviation:g}")
        )
    if used != latest:
        in_use = "none" if used is None else f"{used.ensemble}: {members(state, used.count, used.source)}"
        facts.append(("in use", in_use))
    facts.append(("behind", f"{behind} documents{'; run surprise-rerank tune ensemble' if behind else ''}"))
    return facts


def members(state: IndexStatus, count: int, source: str) -> str:
    """How many members an ensemble of an index has: documents, and the passages that these are split into."""
    if source != DOCUMENTS:
        return f"{count} members, {source or 'no source given'}"
    if state.manifest.options.passages is None or count == state.points == state.documents:
        return f"{count} documents"
    if count == state.points:
        return f"{state.documents} documents in {count} passages"
    return f"{count} passages of documents"  # those of another time


def bytes_on_disk(folder: str | os.PathLike[str]) -> int:
    """What the files of a folder take: Qdrant's have holes, which take nothing."""
    return sum(_taken(entry) for entry in _files(folder))


def _files(folder: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from _files(entry.path)
            else:
                yield entry


def _taken(entry: os.DirEntry[str]) -> int:
    found = entry.stat(follow_symlinks=False)
    blocks: int | None = getattr(found, "st_blocks", None)
    return found.st_size if blocks is None else blocks * _BLOCK


def _facts(state: IndexStatus, size: int | None) -> list[tuple[str, str]]:
    manifest = state.manifest
    facts = [
        ("documents", str(state.documents)),
        ("points", str(state.points)),
        ("engine", state.engine),
        ("model", f"{manifest.model} ({manifest.dimension} dimensions, weights {manifest.fingerprint})"),
        ("precision", manifest.precision),
        ("schema", str(manifest.schema)),
        *_option_facts(manifest.options),
        *ensemble_facts(state),
    ]
    return facts if size is None else [*facts, ("takes", f"{size / 2**20:.1f} MiB")]


def _option_facts(options: IndexOptions) -> list[tuple[str, str]]:
    values: dict[str, Any] = {name: getattr(options, name) for name in options.__dataclass_fields__}
    return [(name.replace("_", " "), _shown(value)) for name, value in values.items()]


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if hasattr(value, "__dataclass_fields__"):
        value = asdict(value)
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {'as the model reads' if own is None else own}" for name, own in value.items()
        )
    return str(value)
