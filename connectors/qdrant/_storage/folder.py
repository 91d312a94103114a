"""An index in a folder: `index.json` names the version in use, and each version is a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from surprise_rerank._errors import (
    MADE_ANEW,
    IndexMismatchError,
    StoreError,
    UnreadableIndexError,
)
from surprise_rerank.connectors.qdrant._engines.edge import EdgeEngine
from surprise_rerank.connectors.qdrant._engines.edge_files import require_unchanged
from surprise_rerank.connectors.qdrant._engines.edge_shard import optimize_elsewhere
from surprise_rerank.connectors.qdrant._location import Location, no_index, require_no_copy
from surprise_rerank.connectors.qdrant._manifest import IndexOptions, Manifest
from surprise_rerank.connectors.qdrant._storage.files import FolderFiles
from surprise_rerank.core._files import disk_errors, whole_file
from surprise_rerank.core._process import NeverCopied, PerProcess

MANIFEST_FILE = "manifest.json"
VERSION_FILE = "index.json"  # which version is in use
_POINTS = "edge"  # the folder of a version that Edge has
_remembering = PerProcess(threading.Lock)


class FolderStorage(NeverCopied, FolderFiles):
    """One version of an index in a folder; the manifest is written where it is new.

    Raises:
        StoreError: if it cannot be opened or made, or is damaged.
    """

    def __init__(self, folder: Path, version: int, manifest: Manifest) -> None:
        self.where = str(folder)
        self._folder, self._version = folder, version
        self._version_folder = folder / str(version)
        super().__init__(self._version_folder, self.where)
        with disk_errors(self.where):
            self._version_folder.mkdir(mode=0o700, exist_ok=True)  # also what Edge writes in it has texts
            if not (self._version_folder / _POINTS).exists():
                _write_json(self._version_folder / MANIFEST_FILE, manifest.to_json())
        self.manifest = manifest
        self.engine = EdgeEngine(self._version_folder / _POINTS, manifest)

    @classmethod
    def open(cls, folder: Path, expected: Manifest | None, options: IndexOptions | None) -> FolderStorage:
        """The version in use, or an empty first one.

        Raises:
            IndexMismatchError: if the folder is something else, or another model's.
            StoreError: if it cannot be used, or there is no index and no manifest to make one with.
        """
        with disk_errors(str(folder)):
            while (version := _current(folder)) is not None:
                manifest = _read_manifest(folder / str(version))
                manifest.check(expected, str(folder), options)
                try:
                    # One that is not named yet may be half made, of a killed process: nothing is lost.
                    if (folder / VERSION_FILE).exists():
                        _require_whole(folder / str(version), manifest)
                    opened = cls(folder, version, manifest)
                except UnreadableIndexError as error:
                    if _current(folder) == version and _read_manifest(folder / str(version)) == manifest:
                        error.model = manifest.model
                        raise
                    continue  # somebody has changed it while it was looked at
                # Only now nobody else can change them; somebody may have in between.
                if (_current(folder), _read_manifest(opened.folder)) == (version, manifest):
                    return opened
                opened.close()
            if expected is None:
                raise no_index(folder)
            _require_free(folder)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            storage = cls(folder, 1, expected)
            try:
                storage.promote()  # last: where a version is named, all of it has been there
            except BaseException:
                storage.close()  # or it could not be taken away
                raise
            return storage

    @classmethod
    def anew(cls, folder: Path, manifest: Manifest) -> FolderStorage:
        """An empty version beside one that cannot be opened; it continues what an interrupted call began.

        Raises:
            NoIndexError: if there is none.
        """
        with disk_errors(str(folder)):
            begun = _versions(folder)
            try:
                before = _current(folder)
            except UnreadableIndexError:
                before = begun[-1] if begun else None
            if before is None:
                raise no_index(folder)
            return cls._after(folder, before, manifest)

    @classmethod
    def _after(cls, folder: Path, before: int, manifest: Manifest) -> FolderStorage:
        version = folder / str(before + 1)
        with disk_errors(str(folder)):
            if version.exists() and not _is_begun(version, manifest):
                shutil.rmtree(version)
            elif version.exists():  # whose words have a language already
                manifest = replace(manifest, language=_read_manifest(version).language)
        return cls(folder, before + 1, manifest)

    @property
    def location(self) -> Location:
        """Where the index is, also for a process with another current folder."""
        return Location(os.path.abspath(self._folder))

    def reload(self) -> Manifest:
        """The manifest; no other process changes it while this one is open."""
        return self.manifest

    def save(self, manifest: Manifest) -> None:
        """Remember a changed manifest."""
        self.engine.claim()
        with disk_errors(self.where):
            _write_json(self._version_folder / MANIFEST_FILE, manifest.to_json())
        self.manifest = manifest

    def successor(
        self, manifest: Manifest, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> FolderStorage:
        """The version after this one; it continues what an interrupted call began, where that fits."""
        self.engine.claim()  # others would read on what is deleted in the end
        return self._after(self._folder, self._version, manifest)

    def write_file(self, name: str, content: bytes) -> None:
        """Keep a file, and remember that there is one; others may read the index meanwhile."""
        super().write_file(name, content)
        with _remembering.get():
            if name not in self.manifest.files:
                self._remember_files({*_read_manifest(self._version_folder).files, name})

    def delete_file(self, name: str) -> None:
        """Delete a file; nothing happens if there is none."""
        with _remembering.get():
            if name in self.manifest.files:
                self._remember_files({*_read_manifest(self._version_folder).files} - {name})
        super().delete_file(name)

    def file_names(self) -> list[str]:
        """Return the names of all files."""
        return list(self.manifest.files)

    def _remember_files(self, names: set[str]) -> None:
        self.manifest = replace(self.manifest, files=tuple(sorted(names)))
        with disk_errors(self.where):
            _write_json(self._version_folder / MANIFEST_FILE, self.manifest.to_json())

    def promote(self) -> None:
        """Name this version in `index.json`."""
        with disk_errors(self.where):
            _write_json(self._folder / VERSION_FILE, {"version": self._version})

    def release(self) -> None:
        """Close the engine."""
        self.close()

    def drop_others(self) -> None:
        """Delete the folders of the other versions."""
        with disk_errors(self.where):
            for path in self._folder.iterdir():
                if path.is_dir() and path.name.isdecimal() and path != self._version_folder:
                    shutil.rmtree(path, ignore_errors=True)

    def discard(self, *, with_points: bool = False) -> None:
        """Delete the index, if it holds no points, or may; whatever else is in the folder stays."""
        self.engine.claim()
        if self.engine.count() and not with_points:
            return
        with disk_errors(self.where):
            # In this order, and before the lock is released: who comes meanwhile finds the whole of it, is
            # kept out by the lock, or begins an index of its own.
            (self._folder / VERSION_FILE).unlink(missing_ok=True)  # it was not named yet
            gone = self._version_folder.rename(self._folder / f".{VERSION_FILE}.{os.getpid()}")
        try:
            with contextlib.suppress(StoreError):  # which cannot write what it closes any more
                self.engine.close()
        finally:
            shutil.rmtree(gone, ignore_errors=True)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()


def optimize_grown(folder: Path) -> None:
    """Build, in another process, the approximate index of what came while the index was served."""
    if (version := _current(folder)) is not None:
        optimize_elsewhere(folder / str(version) / _POINTS)


def check_files(folder: Path) -> int:
    """Read all files of the points of an index, and return how many bytes are as they were written.

    0 while a program changes them, or after one was killed: nothing says what they must be.

    Raises:
        UnreadableIndexError: names a file that is damaged or missing.
    """
    require_index(folder)
    with disk_errors(str(folder)):
        return require_unchanged(folder / str(_current(folder)) / _POINTS)


def require_index(folder: Path) -> None:
    """Refuse a folder without an index, or with a damaged one, without opening it."""
    if _current(folder) is None:
        raise no_index(folder)


def _current(folder: Path) -> int | None:
    """The version of the index in a folder that is in use; None where there is none yet."""
    require_no_copy(folder)
    path = folder / VERSION_FILE
    if not path.exists():
        complete = _versions(folder)  # one, where a process was killed while it made it
        if len(complete) > 1:
            raise UnreadableIndexError(f"{path} is missing; {MADE_ANEW}")
        return complete[0] if complete else None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return int(values["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnreadableIndexError(f"{path} is damaged; {MADE_ANEW}") from error


def _versions(folder: Path) -> list[int]:
    """The versions in a folder, in or out of use."""
    return sorted(
        int(path.name)
        for path in (folder.iterdir() if folder.is_dir() else ())
        if path.name.isdecimal() and (path / MANIFEST_FILE).exists() and (path / _POINTS).exists()
    )


def _require_whole(version: Path, manifest: Manifest) -> None:
    """Refuse a version in use that has lost its points, before empty ones are made, or a file beside them."""
    for path in (version / _POINTS, *(version / name for name in manifest.files)):
        if not path.exists() or not path.stat().st_size:
            raise UnreadableIndexError(f"{path} is missing, or empty; {MADE_ANEW}")


def _read_manifest(folder: Path) -> Manifest:
    path = folder / MANIFEST_FILE
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UnreadableIndexError(f"{path} is missing; {MADE_ANEW}") from error
    except ValueError as error:
        raise UnreadableIndexError(f"{path} is damaged; {MADE_ANEW}") from error
    return Manifest.from_json(values, str(folder.parent))


def _is_begun(folder: Path, manifest: Manifest) -> bool:
    """Whether a version that is not in use was begun for the same model and options."""
    try:
        return not _read_manifest(folder).differs(manifest)
    except IndexMismatchError:
        return False


def _require_free(folder: Path) -> None:
    """Refuse a folder with files, unless an interrupted run of this package left them."""
    names = [entry.name for entry in os.scandir(folder)] if folder.exists() else []
    if any(name not in (VERSION_FILE, "1") and not name.startswith(f".{VERSION_FILE}.") for name in names):
        raise IndexMismatchError(
            f"{folder} is not empty and was not made by surprise-rerank; choose another folder"
        )


def _write_json(path: Path, values: Mapping[str, Any]) -> None:
    with whole_file(path, private=True) as file:
        file.write(json.dumps(values, indent=1).encode())
