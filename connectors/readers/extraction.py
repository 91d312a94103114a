"""The text of pages and office documents, read in a process that may fail or be late."""

from __future__ import annotations

import faulthandler
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from surprise_rerank.connectors.readers.lines import EXTRA
from surprise_rerank.connectors.readers.pages import Extracted, html_text, markdown_text
from surprise_rerank.connectors.readers.places import pdf_places, slide_places, structure_places
from surprise_rerank.connectors.readers.source import RefusedError
from surprise_rerank.core.extras import import_extra
from surprise_rerank.errors import MissingExtraError
from surprise_rerank.places import Places, places_from, places_json

SECONDS = 30  # for one file
_MEMORY = 4 * 2**30  # bytes of the process
_CHARACTERS = 32 * 2**20  # of a text; small files can unfold to more


def office_text(path: Path) -> Extracted:
    """The text of a PDF, DOCX, PPTX, XLSX, EML or EPUB file."""
    kreuzberg = import_extra("kreuzberg", EXTRA)
    kind = path.suffix.lower()
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        output_format="plain",
        pages=kreuzberg.PageConfig(extract_pages=kind in (".pdf", ".pptx")),
        include_document_structure=kind in (".docx", ".epub", ".xlsx"),
    )
    try:
        found = kreuzberg.extract_file_sync(str(path), config=config)
    except kreuzberg.KreuzbergError as error:
        if "password" in str(error):
            raise RefusedError("encrypted", "is encrypted; save it without a password") from error
        raise RefusedError("damaged", f"is damaged: {' '.join(str(error).split())[:160]}") from error
    title = str(found.metadata.get("subject" if kind == ".eml" else "title") or "")
    pages = found.metadata.get("page_count")
    text = found.content.replace("\r\n", "\n")
    places: Places = ()
    if kind == ".pdf":
        places = pdf_places(path, text, found.pages or ())
    elif kind == ".pptx":
        places = slide_places(found.content, (found.metadata.get("pages") or {}).get("boundaries") or ())
    elif found.document:
        places = structure_places(text, found.document["nodes"], title, is_workbook=kind == ".xlsx")
    return Extracted(text, title, {"pages": pages} if pages else {}, places)


_READERS: dict[str, Callable[[Path], Extracted]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), lambda path: html_text(path.read_bytes())),
    **dict.fromkeys((".md", ".markdown"), lambda path: markdown_text(path.read_bytes())),
    **dict.fromkeys((".pdf", ".docx", ".pptx", ".xlsx", ".eml", ".epub"), office_text),
}
KINDS = frozenset(_READERS)  # of files, by the ends of their names


class Extractor:
    """Reads files in a process of its own, which ends when a file takes too long, and is then made again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, path: Path) -> Extracted:
        """The text of a file whose name says what it is."""
        process = self._process = self._process or _started()
        assert process.stdin is not None
        assert process.stdout is not None
        begun = time.monotonic()
        try:
            process.stdin.write(json.dumps(os.path.abspath(path)).encode() + b"\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer:
            self._process = None
            # As faulthandler ends it; or the stack that it was writing down has changed under it.
            if process.wait() == 1 or time.monotonic() - begun >= SECONDS:
                raise RefusedError(
                    f"not read in {SECONDS} s", f"was not read in {SECONDS} s", unreadable=True
                )
            raise RefusedError("too complex", "is damaged or too complex: its reader failed")
        kind, *values = json.loads(answer)
        if kind == "text":
            text, title, metadata, places = values
            return Extracted(text, title, metadata, places_from(places))
        raise MissingExtraError(*values) if kind == "missing" else RefusedError(*values)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _started() -> subprocess.Popen[bytes]:
    # Not multiprocessing, which runs the user's script again. -P: no module of the current folder.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "surprise_rerank.connectors.readers.extraction", str(SECONDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _serve(seconds: float) -> None:
    """Answer every path of the standard input with a line of JSON."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin.buffer:
        path = Path(json.loads(line))
        # A thread of C: it ends this process also while a library holds Python's lock.
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.stderr)
        answers.write(json.dumps(_answer(path, _READERS[path.suffix.lower()])).encode() + b"\n")
        answers.flush()
        faulthandler.cancel_dump_traceback_later()


def _answer(path: Path, reader: Callable[[Path], Extracted]) -> list[Any]:
    try:
        found = reader(path)
        if len(found.text) > _CHARACTERS:
            return ["refused", "too complex", f"unfolds to more than {_CHARACTERS} characters"]
    except MissingExtraError as error:
        return ["missing", str(error)]
    except RefusedError as refused:
        return ["refused", refused.reason, refused.detail]
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        return ["refused", reason, f"cannot be read: {reason}"]
    except (MemoryError, RecursionError):
        return ["refused", "too complex", "is too complex for the memory that a file may take"]
    return ["text", found.text, found.title, found.metadata, places_json(found.places)]


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
