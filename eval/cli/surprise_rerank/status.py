"""`surprise-rerank status`: what an index holds, without loading its model."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank._errors import DataError, StoreError
from surprise_rerank.eval.cli.console import Output, counted
from surprise_rerank.eval.cli.options import config_option, takes_index

if TYPE_CHECKING:
    from surprise_rerank.connectors.attached import Collection
    from surprise_rerank.connectors.qdrant import DocumentIndex
    from surprise_rerank.connectors.qdrant._location import Location
    from surprise_rerank.connectors.qdrant._search.corpus import Corpus
    from surprise_rerank.thresholds._background import QuestionBackground

    # What is kept for a system of an index, as JSON values and in words; None where nothing is.
    _Describe = Callable[[Corpus, str], tuple[dict[str, Any], str] | None]

LEVELS = (0.2, 0.1, 0.05, 0.01)  # of off-topic questions that thresholds let through
_BLOCK = 512  # bytes, the unit of st_blocks

_EXAMPLES = """\b
Examples:
  surprise-rerank status --index my-index
  surprise-rerank status --index my-index --plan 10000000
  surprise-rerank status --index http://localhost:6333/papers --config papers.toml
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--check", is_flag=True, help="Read all files of an index, and compare them with what was written."
)
@click.option(
    "--plan",
    "planned",
    type=click.IntRange(1),
    metavar="N",
    help="Compute what an index takes with N documents like its own: disk, memory, hours, settings.",
)
@config_option
@takes_index
def status(*, check: bool, planned: int | None, location: Location, config: str | None, out: Output) -> None:
    """Show what an index holds, or what is found in a collection that somebody else made.

    No model is loaded. Of another's collection: its vectors, and where text, title, id and metadata are.
    """
    from surprise_rerank.connectors.attached._opening import open_collection

    checked = _checked(location) if check else []
    with open_collection(location, config=config, encodes=False) as index:
        values, facts = _report(index, location)
        if planned is not None:
            values["plan"] = _planned(index, planned, facts)
    if out.as_json:
        out.json({**values, "where": str(location), **dict(checked)})
    else:
        out.facts(str(location), [*facts, *checked])


def _planned(
    index: DocumentIndex | Collection, documents: int, facts: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return what so many documents would take as JSON values; the same for people is added to the facts."""
    from surprise_rerank.connectors._document_index import DocumentIndex
    from surprise_rerank.connectors.qdrant._planning import plan

    if not isinstance(index, DocumentIndex):
        raise DataError("--plan computes what an index of ours takes; leave it out for others' collections")
    computed = plan(index, documents)
    facts += computed.facts()
    return computed.to_json()


def _checked(location: Location) -> list[tuple[str, str]]:
    """Return what is found by reading all files of an index; an UnreadableIndexError if one is damaged."""
    from surprise_rerank.connectors.qdrant._storage.folder import check_files

    if location.folder is None:
        raise DataError(
            f"--check reads the files of a folder, and {location} is on a server, which checks its own; "
            "leave --check out"
        )
    size = check_files(Path(location.folder))
    return [("files", "all as they were written" if size else "not closed yet")]


def _report(
    index: DocumentIndex | Collection, location: Location
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return what a collection holds, and what is kept for it: as JSON values, and for people."""
    from surprise_rerank.connectors.systems._backgrounds import measured_index

    state, placement, size = index.status(), None, None
    facts = state.facts()
    if location.folder is not None:
        size = _bytes_on_disk(location.folder)
        facts.append(("takes", f"{size / 2**20:.1f} MiB"))
    try:
        placement = index.placement()
    except StoreError as error:  # which asks for other rights than a search does
        facts.append(("shards", str(error)))
    if placement is not None and placement.shards:
        shards = ((f"shard {shard.number}", str(shard)) for shard in placement.shards)
        facts += [("shards", str(placement)), *shards]
    values = {
        "weights": _kept(index.corpus, "weights", _weights, facts),
        "backgrounds": _kept(index.corpus, "background", _background, facts),
        "passage_backgrounds": [],
    }
    if (passages := measured_index(index.corpus.by_unit("passage"))) is not index.corpus:
        values["passage_backgrounds"] = _kept(passages, "background of passages", _background, facts)
    spread = None if placement is None else asdict(placement)
    return {**state.to_json(), **values, "bytes": size, "placement": spread}, facts


def _kept(
    index: Corpus, what: str, describe: _Describe, facts: list[tuple[str, str]]
) -> list[dict[str, Any]]:
    """What is kept for systems as JSON values; the same for people is added to the facts."""
    from surprise_rerank.connectors.systems._register import all_systems

    values: list[dict[str, Any]] = []
    for name in all_systems():
        try:
            described = describe(index, name)
        except DataError as error:  # all else of the index is shown all the same
            described = {"system": name, "error": str(error)}, str(error)
        if described is not None:
            values.append(described[0])
            facts.append((f"{what} of {name}", described[1]))
    return values


def _weights(index: Corpus, system: str) -> tuple[dict[str, Any], str] | None:
    """A system's fitted weights as JSON values and in words."""
    from surprise_rerank.connectors.systems._fitted_weights import fitted_weights
    from surprise_rerank.connectors.systems._register import find_system

    weights = fitted_weights(index, system) if find_system(system).fits else None
    return None if weights is None else (asdict(weights), str(weights))


def _background(index: Corpus, system: str) -> tuple[dict[str, Any], str] | None:
    """A system's background as JSON values and in words."""
    from surprise_rerank.connectors.systems._backgrounds import load_background

    background = load_background(index, system)
    if background is None:
        return None
    stale = replace(background, changed=index.changed_since(background)).staleness
    parts = [background.origin, background.made, f"over {counted(background.documents, 'document')}"]
    if background.chance is not None:
        parts.append(f"calibrated on {background.chance.judged} judged questions")
    parts += [f"not compared with: {background.doubt}"] * bool(background.doubt)
    text = f"{background.size}; {', '.join(filter(None, parts))}"
    values = {**background_facts(system, background), "stale": stale}
    return values, f"{text}; {stale}" if stale else text


def promised_levels(background: QuestionBackground) -> list[float]:
    """Return the shares of unrelated questions that thresholds of a background can let through at most."""
    return [] if background.doubt else [level for level in LEVELS if 1 - level <= background.highest]


def background_facts(name: str, background: QuestionBackground) -> dict[str, Any]:
    """A system's background as JSON values."""
    from surprise_rerank.thresholds._promises import promise

    promises = {f"{1 - level:g}": promise(background, level) for level in promised_levels(background)}
    return {
        "system": name,
        "scorers": list(background.names),
        "questions": background.count,
        "effective": background.effective,
        "origin": background.origin,
        "doubt": background.doubt,
        "made": background.made,
        "calibrated_on": 0 if background.chance is None else background.chance.judged,
        "documents": background.documents,
        "made_by": background.scorer,
        "highest": background.highest,
        "promises": promises,
    }


def _bytes_on_disk(folder: str | os.PathLike[str]) -> int:
    """What the files of a folder take: Qdrant's have holes, which take nothing."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            entry = os.stat(os.path.join(place, name), follow_symlinks=False)
            blocks: int | None = getattr(entry, "st_blocks", None)
            total += entry.st_size if blocks is None else blocks * _BLOCK
    return total
