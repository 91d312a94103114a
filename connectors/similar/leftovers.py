"""What earlier runs left in a job's folder: results of documents that changed, and drafts of the killed."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path

from surprise_rerank.connectors.folders import disk_errors
from surprise_rerank.connectors.similar import corpus as corpora

# Where what is made of a corpus lies, and how it is called; groups are the digits of the corpora.
_DIGITS = "([0-9a-f]{12})"
_MADE = (
    (".", re.compile(rf"ensemble-{_DIGITS}\.npz")),
    (".", re.compile(rf"parts-[0-9a-f]{{12}}-{_DIGITS}(?:-{_DIGITS})?")),
    ("index", re.compile(rf"similar-{_DIGITS}")),
    *((f"{name}/moments", re.compile(rf"(?:dynamax-\d+-)?{_DIGITS}-\w+\.npy")) for name in corpora.NAMES),
)
_DRAFT = re.compile(r"\..+\.[0-9a-f]{32}\.part")  # see `files.py`
_OLD = 3600.0  # seconds; a younger draft may be another worker's


def clear(folder: Path) -> None:
    """Delete what belongs to no corpus that is there now.

    Args:
        folder: of the job; its corpora are complete.

    Raises:
        StoreError: if the folder cannot be read.
    """
    with disk_errors(str(folder)):
        found = [corpora.read_about(folder / name) for name in corpora.NAMES]
        current = {about["content"] for about in found if about is not None and "content" in about}
        for place, pattern in _MADE:
            for path in (folder / place).glob("*"):
                match = pattern.fullmatch(path.name)
                if (match and not set(filter(None, match.groups())) <= current) or _is_old_draft(path):
                    _remove(path)
        for name in corpora.NAMES:
            for path in filter(_is_old_draft, (folder / name).glob(".*.part")):
                _remove(path)


def _is_old_draft(path: Path) -> bool:
    return bool(_DRAFT.fullmatch(path.name)) and time.time() - path.stat().st_mtime > _OLD


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
