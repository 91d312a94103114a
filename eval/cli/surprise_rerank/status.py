"""`surprise-rerank status`: what an index holds, without loading its model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.errors import DataError, ForeignCollectionError, StoreError
from surprise_rerank.eval.cli.opening import open_index
from surprise_rerank.eval.cli.options import config_option, takes_index
from surprise_rerank.eval.cli.output.console import Output

if TYPE_CHECKING:
    from surprise_rerank.connectors.qdrant import IndexStatus
    from surprise_rerank.connectors.qdrant.location import Location
    from surprise_rerank.connectors.qdrant.search.searched import Searched
    from surprise_rerank.thresholds.background import QuestionBackground

    # What is kept for a system of an index, as JSON values and in words; None where nothing is.
    _Told = Callable[[Searched, str], tuple[dict[str, Any], str] | None]

DOCUMENTS = "documents"  # the source of an ensemble of all of them
LEVELS = (0.2, 0.1, 0.05, 0.01)  # of off-topic questions that thresholds let through
_BLOCK = 512  # bytes, the unit of st_blocks

_EXAMPLES = """\b
Examples:
  surprise-rerank status --index my-index
  surprise-rerank status --index my-index --json
  surprise-rerank status --index http://localhost:6333/papers --config papers.toml
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--check", is_flag=True, help="Read all files of an index, and compare them with what was written."
)
@config_option
@takes_index
def status(*, check: bool, location: Location, config: str | None, out: Output) -> None:
    """Show what an index holds, or what is found in a collection that somebody else made.

    Documents, model, options, ensemble, size, fitted weights; no model is loaded. Of another's collection:
    which vectors are compared, and where its payload has text, title, id and metadata.
    """
    from surprise_rerank.connectors.attached.settings import ForeignParts

    parts = ForeignParts.read(config)
    checked = _checked(location) if check else []
    try:
        values, facts = _of_index(location)
    except ForeignCollectionError:
        with parts.look(location) as collection:
            facts = collection.facts()
            values = {name.replace(" ", "_"): value for name, value in facts if name != "note"}
            values["notes"] = [value for name, value in facts if name == "note"]
            values["backgrounds"] = _kept(collection, "background", _background, facts)
    else:
        parts.require_of_index(location)
    if out.as_json:
        out.json({**values, "where": str(location), **dict(checked)})
    else:
        out.facts(str(location), [*facts, *checked])


def _checked(location: Location) -> list[tuple[str, str]]:
    """Return what is found by reading all files of an index; an UnreadableIndexError if one is damaged."""
    from surprise_rerank.connectors.qdrant.storage.folder import check_files

    if location.folder is None:
        raise DataError(
            f"--check reads the files of a folder, and {location} is on a server, which checks its own; "
            "leave --check out"
        )
    size = check_files(Path(location.folder))
    return [("files", f"{size / 2**20:.1f} MiB, all as they were written" if size else "not closed yet")]


def _of_index(location: Location) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """What there is of an index, as JSON values and as names and values for people."""
    from surprise_rerank.connectors.systems.backgrounds import measured_index

    with open_index(location) as index:
        state, spread, size = index.status(), None, None
        facts = _facts(state)
        if location.folder is not None:
            size = _bytes_on_disk(location.folder)
            facts.append(("takes", f"{size / 2**20:.1f} MiB"))
        try:
            spread = index.placement()
        except StoreError as error:  # which asks for other rights than a search does
            facts.append(("shards", str(error)))
        if spread is not None and spread.shards:
            facts += [("shards", str(spread)), *((f"shard {own.number}", str(own)) for own in spread.shards)]
        kept = {"weights": _kept(index, "weights", _weights, facts)}
        kept["backgrounds"] = _kept(index, "background", _background, facts)
        kept["passage_backgrounds"] = []
        if (passages := measured_index(index.by_unit("passage"))) is not index:
            what = "background of passages"
            kept["passage_backgrounds"] = _kept(passages, what, _background, facts)
    placement = None if spread is None else asdict(spread)
    return {**state.to_json(), **kept, "bytes": size, "placement": placement}, facts


def _kept(index: Searched, what: str, told: _Told, facts: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """What is kept for systems as JSON values; the same for people is added to the facts."""
    from surprise_rerank.connectors.systems.register import all_systems

    values: list[dict[str, Any]] = []
    for name in all_systems():
        try:
            own = told(index, name)
        except DataError as error:  # the rest of the index is shown all the same
            own = {"system": name, "error": str(error)}, str(error)
        if own is not None:
            values.append(own[0])
            facts.append((f"{what} of {name}", own[1]))
    return values


def _weights(index: Searched, system: str) -> tuple[dict[str, Any], str] | None:
    """A system's fitted weights as JSON values and in words."""
    from surprise_rerank.connectors.systems.fitted_weights import fitted_weights
    from surprise_rerank.connectors.systems.register import find_system

    own = fitted_weights(index, system) if find_system(system).fits else None
    return None if own is None else (asdict(own), str(own))


def _background(index: Searched, system: str) -> tuple[dict[str, Any], str] | None:
    """A system's background as JSON values and in words."""
    from surprise_rerank.connectors.systems.backgrounds import load_background

    own = load_background(index, system)
    if own is None:
        return None
    stale = replace(own, changed=index.changed_since(own)).staleness
    parts = [own.origin, own.made, f"over {own.documents} documents"]
    if own.chance is not None:
        parts.append(f"calibrated on {own.chance.judged} judged questions")
    parts += [f"not compared with: {own.doubt}"] * bool(own.doubt)
    text = f"{own.size}; {', '.join(filter(None, parts))}"
    values = {**background_facts(system, own), "stale": stale}
    return values, f"{text}; {stale}" if stale else text


def promised_levels(own: QuestionBackground) -> list[float]:
    """Return the shares of unrelated questions that thresholds of a background can let through at most."""
    return [] if own.doubt else [level for level in LEVELS if 1 - level <= own.highest]


def background_facts(name: str, own: QuestionBackground) -> dict[str, Any]:
    """A system's background as JSON values."""
    from surprise_rerank.thresholds.promises import promise

    promises = {f"{1 - level:g}": promise(own, level) for level in promised_levels(own)}
    return {
        "system": name,
        "scorers": list(own.names),
        "questions": own.count,
        "effective": own.effective,
        "origin": own.origin,
        "doubt": own.doubt,
        "made": own.made,
        "calibrated_on": 0 if own.chance is None else own.chance.judged,
        "documents": own.documents,
        "made_by": own.scorer,
        "highest": own.highest,
        "promises": promises,
    }


def members(state: IndexStatus, count: int, source: str) -> str:
    """How many members an ensemble of an index has: documents, and the passages that these are split into."""
    if source != DOCUMENTS:
        return f"{count} members, {source or 'no source given'}"
    if state.manifest.options.passages is None or count == state.points == state.documents:
        return f"{count} documents"
    if count == state.points:
        return f"{state.documents} documents in {count} passages"
    return f"{count} passages of documents"  # those of another time


def _bytes_on_disk(folder: str | os.PathLike[str]) -> int:
    """What the files of a folder take: Qdrant's have holes, which take nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            found = os.stat(os.path.join(place, name), follow_symlinks=False)
            blocks: int | None = getattr(found, "st_blocks", None)
            total += found.st_size if blocks is None else blocks * _BLOCK
    return total


def _facts(state: IndexStatus) -> list[tuple[str, str]]:
    from surprise_rerank.connectors.qdrant.languages import unread

    manifest, used, latest = state.manifest, state.manifest.statistics, state.manifest.latest
    options = manifest.options
    facts = [
        ("documents", str(state.documents)),
        ("points", str(state.points)),
        ("engine", state.engine),
        ("model", f"{manifest.model} ({manifest.dimension} dimensions, weights {manifest.fingerprint})"),
        ("precision", manifest.precision),
        ("schema", str(manifest.schema)),
        ("language", unread(manifest.model, manifest.language) or manifest.language or "none yet"),
        *((name.replace("_", " "), _shown(getattr(options, name))) for name in options.__dataclass_fields__),
    ]
    if latest is None:
        return [*facts, ("ensemble", "none")]
    facts.append(("ensemble", f"{latest.ensemble}: {members(state, latest.count, latest.source)}"))
    if latest.shrink_mean or latest.shrink_deviation:
        shrunk = f"means by {latest.shrink_mean:g}, deviations by {latest.shrink_deviation:g}"
        facts.append(("shrunk", shrunk))
    if used != latest:
        in_use = "none" if used is None else f"{used.ensemble}: {members(state, used.count, used.source)}"
        facts.append(("in use", in_use))
    remedy = "; run surprise-rerank tune ensemble" if state.behind else ""
    return [*facts, ("behind", f"{state.behind} documents{remedy}")]


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {'as the model reads' if own is None else own}" for name, own in value.items()
        )
    return str(value)
