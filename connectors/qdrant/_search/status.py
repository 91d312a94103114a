"""What a collection holds, of ours or of somebody else's: one report for people and for programs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, is_dataclass
from typing import Any

from surprise_rerank.connectors.qdrant._languages import unread
from surprise_rerank.connectors.qdrant._manifest import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectionStatus:
    """What a collection holds.

    Attributes:
        documents, points: how many; points are passages where documents are split.
        ranks_by: the default system, and what it has to do without.
        manifest: how an index was made; None of a collection that somebody else made.
        behind: documents of an index whose moments are not those of its latest ensemble.
        layout: what was found in somebody else's collection, as names and values.
        notes: what a reader must know of it.
    """

    where: str
    engine: str
    documents: int
    points: int
    ranks_by: str
    manifest: Manifest | None = None
    behind: int = 0
    layout: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()

    def facts(self) -> list[tuple[str, str]]:
        """Return the lines that `surprise-rerank status` prints: names and values."""
        return [
            ("documents", str(self.documents)),
            ("points", str(self.points)),
            ("engine", self.engine),
            *self.layout,
            *(() if self.manifest is None else self._of_manifest(self.manifest)),
            ("ranks by", self.ranks_by),
            *(("note", note) for note in self.notes),
        ]

    def to_json(self) -> dict[str, Any]:
        """As JSON values; what was found in somebody else's collection has its names with underscores."""
        values = asdict(self)
        layout = {name.replace(" ", "_"): value for name, value in values.pop("layout")}
        return {**values, **layout, "notes": list(self.notes)}

    def ensemble_members(self, count: int, source: str) -> str:
        """Say how many members an ensemble has: documents, and the passages that these are split into."""
        if source != "documents":  # those of the index
            return f"{count} members, {source or 'no source given'}"
        is_split = self.manifest is not None and self.manifest.options.passages is not None
        if not is_split or count == self.points == self.documents:
            return f"{count} documents"
        if count == self.points:
            return f"{self.documents} documents in {count} passages"
        return f"{count} passages of documents"  # those of another time

    def _of_manifest(self, manifest: Manifest) -> Iterator[tuple[str, str]]:
        """Yield how an index was made, and what its documents carry."""
        options, used, latest = manifest.options, manifest.statistics, manifest.latest
        weights = f"{manifest.dimension} dimensions, weights {manifest.fingerprint}"
        yield "model", f"{manifest.model} ({weights})"
        yield "precision", manifest.precision
        yield "schema", str(manifest.schema)
        yield "language", unread(manifest.model, manifest.language) or manifest.language or "none yet"
        for name in options.__dataclass_fields__:
            yield name.replace("_", " "), _shown(getattr(options, name))
        if latest is None:
            yield "ensemble", "none"
            return
        yield "ensemble", f"{latest.ensemble}: {self.ensemble_members(latest.count, latest.source)}"
        if latest.shrink_mean or latest.shrink_deviation:
            yield "shrunk", f"means by {latest.shrink_mean:g}, deviations by {latest.shrink_deviation:g}"
        if used is None:
            yield "in use", "none"
        elif used != latest:
            yield "in use", f"{used.ensemble}: {self.ensemble_members(used.count, used.source)}"
        yield "behind", f"{self.behind} documents" + "; run surprise-rerank tune ensemble" * bool(self.behind)


def _shown(value: Any) -> str:
    if value is None or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return ", ".join(
            f"{name} {'as the model reads' if number is None else number}" for name, number in value.items()
        )
    return str(value)
