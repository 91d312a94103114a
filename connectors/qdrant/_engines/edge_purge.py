"""Deleted means gone: what Edge keeps of deleted points is taken out of its files.

Edge marks a deleted point and leaves its payload in the segment's pages, and in the log, of which it removes
whole segments of 32 MiB only. A mark beside the shard says that something was deleted. Who closes the shard
then has its segments rewritten without deleted points, by Edge's own vacuum, and its log emptied.

Edge numbers changes by their place in the log, and passes over those whose number a segment has seen. An
empty log therefore begins with an empty closed segment, whose name is a number above all others. A probe
shows that the next change is taken.
"""

from __future__ import annotations

import json
import uuid
from contextlib import closing
from pathlib import Path

import qdrant_edge

from surprise_rerank._errors import StoreError
from surprise_rerank.core._files import whole_file

_CONFIG, _LOG, _LOG_END = "edge_config.json", "wal", "first-index"
_EMPTIES = b"empties the log from "  # the mark, from when the segments are whole until the log is empty
# A segment is rewritten if a single point of it is deleted; by default from a fifth of a thousand on.
_EVERY_DELETED = {"deleted_threshold": 1e-9, "vacuum_min_vector_number": 1}
_GAP = 2**20  # numbers that are passed over: more than changes after the last flush
_EMPTY_SEGMENT = b"wal\0" + bytes(4092)


def mark_of(folder: Path) -> Path:
    """Return the file that is beside a shard while it may hold deleted points."""
    return folder.with_name(f"{folder.name}.deleted")


def note_deleted(folder: Path) -> None:
    """Remember that points of a shard are about to be deleted."""
    mark_of(folder).touch()


def purge(folder: Path) -> None:
    """Take deleted points out of the files of a shard, which is closed, and which nobody else may open.

    Raises:
        StoreError: if Edge does not take changes afterwards.
    """
    _vacuum(folder)
    number = int(json.loads((folder / _LOG / _LOG_END).read_bytes())["ack_index"])
    with whole_file(mark_of(folder)) as file:
        file.write(_EMPTIES + str(number + _GAP).encode())
    finish_purge(folder)
    _probe(folder)


def finish_purge(folder: Path) -> None:
    """Empty the log of a shard, where `purge` has rewritten its segments, and was killed perhaps."""
    mark = mark_of(folder)
    content = mark.read_bytes() if mark.exists() else b""
    if not content.startswith(_EMPTIES):
        return
    number, log = int(content.removeprefix(_EMPTIES)), folder / _LOG
    for path in log.iterdir():  # the folder itself stays: readers lock it
        path.unlink()
    (log / f"closed-{number}").write_bytes(_EMPTY_SEGMENT)
    (log / _LOG_END).write_text(json.dumps({"ack_index": number}))
    mark.unlink()


def _vacuum(folder: Path) -> None:
    """Rewrite the segments that hold deleted points; Edge reads how eager it is from its configuration."""
    path = folder / _CONFIG
    config = json.loads(path.read_bytes())
    optimizers = config.get("optimizers") or {}
    others = {name: value for name, value in optimizers.items() if name not in _EVERY_DELETED}
    path.write_text(json.dumps({**config, "optimizers": {**others, **_EVERY_DELETED}}))
    try:
        with closing(qdrant_edge.EdgeShard.load(str(folder))) as shard:
            # What was replaced in the segment that grows is freed, and not deleted: this point is.
            _is_changed_by_a_point(shard)
            shard.optimize()
            shard.flush()
    finally:
        path.write_text(json.dumps({**config, "optimizers": others}))


def _probe(folder: Path) -> None:
    """Refuse a shard that passes over changes, which would be lost without a word."""
    with closing(qdrant_edge.EdgeShard.load(str(folder))) as shard:
        is_changed = _is_changed_by_a_point(shard)
    if not is_changed:
        raise StoreError(
            f"{folder}: Qdrant Edge takes no changes after its log was emptied; index again (--rebuild)"
        )


def _is_changed_by_a_point(shard: qdrant_edge.EdgeShard) -> bool:
    """Store a point without anything and delete it; return whether it was there in between."""
    name = str(uuid.uuid4())
    shard.update(qdrant_edge.UpdateOperation.upsert_points([qdrant_edge.Point(name, {}, None)]))
    is_stored = bool(shard.retrieve([name], False, False))
    shard.update(qdrant_edge.UpdateOperation.delete_points([name]))
    return is_stored
