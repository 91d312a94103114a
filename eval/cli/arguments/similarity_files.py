"""Where `surprise-rerank similar` reads, writes and works: places that do not overlap."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from surprise_rerank.eval.cli.exits import Interrupted

if TYPE_CHECKING:
    from surprise_rerank.connectors.similar.outputs import Target


def targets(
    out: str, groups: str | None, work: Path | None, inputs: Iterable[str], reports: Sequence[Path] = ()
) -> tuple[Target, Target | None]:
    """Where the result goes, and groups; nothing that is there and somebody else's is lost by it.

    Args:
        out: of the result.
        groups: of groups, where they are wanted.
        work: the user's folder of the job.
        inputs: what is read; names that are no paths are passed over.
        reports: files to write besides.

    Raises:
        UsageError: if one lies in another's place.
        DataError: if a suffix is not known.
        StoreError: if something cannot be written where it is to go.
    """
    from surprise_rerank.connectors.similar.outputs import Target

    found = {"--out": Target.of(out)}
    if groups is not None:
        found["--groups"] = Target.of(groups)
        if found["--groups"].form == "parts":
            raise click.UsageError(f"--groups {groups} is a folder; give a .parquet, .csv or .jsonl file")
    _require_apart(found, work, inputs, reports)
    for target in found.values():
        target.require_writable()
    return found["--out"], found.get("--groups")


def _require_apart(
    found: Mapping[str, Target], work: Path | None, inputs: Iterable[str], reports: Sequence[Path]
) -> None:
    out, groups = found["--out"], found.get("--groups")
    if groups is not None and _overlap(out.place, groups.place):
        raise click.UsageError(f"--out {out.path} and --groups {groups.path} are one place; choose two")
    read = {
        name: Path(name).expanduser().resolve() for name in inputs if os.path.exists(os.path.expanduser(name))
    }
    folder = work or _beside(out.path)
    written = [(option, target.path) for option, target in found.items()]
    written += [("--report", path) for path in reports]
    for option, path in written:
        for name, place in read.items():
            if _overlap(path.resolve(), place):
                raise click.UsageError(
                    f"{option} {path} would be written where {name} is read; choose another place"
                )
        if _overlap(path.resolve(), folder.resolve()):
            raise click.UsageError(f"{option} {path} and the work folder {folder} overlap; choose two places")
    for name, place in read.items():
        if work is None and _overlap(place, folder):
            raise click.UsageError(f"{name} lies in {folder}, which is deleted at the end; give --work")


def _overlap(one: Path, other: Path) -> bool:
    """Whether two resolved paths are the same, or one lies in the other."""
    if one == other or one in other.parents or other in one.parents:
        return True
    return one.exists() and other.exists() and one.samefile(other)  # names of a disk that ignores case


def _beside(out: Path) -> Path:
    place = Path(os.path.abspath(out))  # `.` has no name
    return place.parent / f"{place.name}.work"


@contextmanager
def work_folder(given: Path | None, out: Path, made_of: Mapping[str, Any]) -> Iterator[Path]:
    """The folder of a job: the user's, which stays, or one beside the result that goes with success.

    Args:
        given: by the user.
        out: of the result.
        made_of: JSON: sources and model.

    Raises:
        StoreError: if something else is there, or another run, or it cannot be made.
        Interrupted: in place of a KeyboardInterrupt of the block; its message names what is kept.
    """
    from surprise_rerank.connectors.similar.folder import holds_documents, kept_folder, temporary_folder

    with temporary_folder(_beside(out), made_of) if given is None else kept_folder(given) as folder:
        try:
            yield folder
        except KeyboardInterrupt as error:
            if not holds_documents(folder):
                raise Interrupted("Nothing was encoded yet.") from error
            stays = f"What is done stays in {folder}; run the same command again to go on."
            raise Interrupted(stays) from error
