"""The text of pages and office documents, read in a process that may fail or be late."""

from __future__ import annotations

import email.utils
import faulthandler
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from surprise_rerank._errors import MissingExtraError
from surprise_rerank._places import Place, Places, places_from, places_json
from surprise_rerank.connectors.readers._lines import EXTRA
from surprise_rerank.connectors.readers._pages import (
    ExtractedText,
    headed_text,
    html_text,
    manual_text,
    markdown_text,
    open_document_text,
    plain_text,
    program_text,
    subtitle_text,
    xml_text,
)
from surprise_rerank.connectors.readers._places import (
    SLIDE_MARK,
    paged_text,
    pdf_places,
    slides_of,
    structure_places,
)
from surprise_rerank.connectors.readers._source import RefusedError
from surprise_rerank.core._extras import import_extra

SECONDS = 30  # for one file
_MEMORY = 4 * 2**30  # bytes of the process
_CHARACTERS = 32 * 2**20  # of a text; small files can unfold to more
_SHOWN = 160  # characters of a library's message


def office_text(suffix: str, raw: bytes) -> ExtractedText:
    """The text of a file that kreuzberg reads, or of what else has its ending."""
    kind = _kind_within(raw, suffix)
    if kind != suffix:
        return _READERS.get(kind, plain_text)(raw)
    kreuzberg = import_extra("kreuzberg", EXTRA)
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        output_format="plain",
        pages=kreuzberg.PageConfig(
            extract_pages=suffix == ".pdf", insert_page_markers=suffix == ".pptx", marker_format=SLIDE_MARK
        ),
        include_document_structure=suffix in (".docx", ".epub", ".xlsx"),
    )
    try:
        result = kreuzberg.extract_bytes_sync(raw, _OFFICE[suffix], config=config)
    except kreuzberg.KreuzbergError as error:
        reasons = ("damaged", f"is damaged: {' '.join(str(error).split())[:_SHOWN]}")
        if "password" in str(error):
            reasons = ("encrypted", "is encrypted; save it without a password")
        raise RefusedError(*reasons) from error
    text, starts = result.content.replace("\r\n", "\n"), dict[int, int]()
    if suffix in (".pdf", ".pptx"):
        text, starts = paged_text(result.pages if suffix == ".pdf" else slides_of(text))
    about = result.metadata
    if suffix in (".eml", ".msg"):
        # What a header says is in the metadata: in the text it would be half of a short mail's vector.
        return ExtractedText(_HEADER.sub("", text), str(about.get("subject") or ""), _mail_metadata(about))
    pages, title = about.get("page_count"), str(about.get("title") or "")
    places: Places = ()
    if suffix == ".pdf":
        places = pdf_places(raw, text, starts)
    elif suffix == ".pptx":
        places = tuple((start, Place(slide=number)) for number, start in starts.items())
    elif result.document:
        places = structure_places(text, result.document["nodes"], title, is_workbook=suffix == ".xlsx")
    return ExtractedText(text, title, {"pages": pages} if pages else {}, places)


def _kind_within(raw: bytes, suffix: str) -> str:
    """The kind that a file of an old office format is by its first bytes; empty for text.

    A `.doc` may be of any program, an `.xls` a page for Excel, and a `.msg` the messages of one in Tcl.
    """
    if suffix not in (".doc", ".ppt", ".xls", ".msg") or raw.startswith(b"\xd0\xcf\x11\xe0"):
        return suffix
    if raw.startswith(b"PK"):
        return f"{suffix}x"
    if raw.startswith(rb"{\rtf"):
        return ".rtf"
    return ".html" if raw.lstrip().startswith(b"<") else ""


def _mail_metadata(mail: Mapping[str, Any]) -> dict[str, Any]:
    """Who wrote a mail to whom, and when; the names of what is attached."""
    names = {"from_email": "from", "to_emails": "to"} | {name: name for name in ("message_id", "attachments")}
    metadata = {name: mail[key] for key, name in names.items() if mail.get(key)}
    try:
        date = email.utils.parsedate_to_datetime(str(mail.get("created_at"))).isoformat()
    except ValueError:
        return metadata
    return {**metadata, "date": date}


MANUAL = ".man"  # stands for the sections of manual pages: .1, .3p
_OPEN_XML = "application/vnd.openxmlformats-officedocument"
_OFFICE = {  # what kreuzberg calls them
    ".pdf": "application/pdf",
    ".docx": f"{_OPEN_XML}.wordprocessingml.document",
    ".pptx": f"{_OPEN_XML}.presentationml.presentation",
    ".xlsx": f"{_OPEN_XML}.spreadsheetml.sheet",
    ".eml": "message/rfc822",
    ".msg": "application/vnd.ms-outlook",
    ".epub": "application/epub+zip",
    ".doc": "application/msword",
    ".ppt": "application/vnd.ms-powerpoint",
    ".xls": "application/vnd.ms-excel",
    ".rtf": "application/rtf",
    ".ipynb": "application/x-ipynb+json",
    ".json": "application/json",
    ".org": "text/x-org",
    ".tex": "application/x-latex",
    ".fb2": "application/x-fictionbook+xml",
}
# Programs whose functions are told; of others they would be taken for their calls.
_PROGRAMS = """
c cc cpp cs cxx ex go h hpp java jl js jsx kt mjs php proto ps1 py pyi rb rs swift ts tsx vue zig
"""
_HEADER = re.compile(r"\A(?:(?:Subject|From|To|Cc|CC|Bcc|BCC|Date|Reply-To|Message-ID):[^\n]*\n)+\n?")
_READERS: dict[str, Callable[[bytes], ExtractedText]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), html_text),
    **dict.fromkeys((".md", ".markdown"), markdown_text),
    **dict.fromkeys((".rst", ".adoc", ".asciidoc"), headed_text),
    ".xml": xml_text,
    **dict.fromkeys((".srt", ".vtt"), subtitle_text),
    **dict.fromkeys((".odt", ".ods", ".odp"), open_document_text),
    MANUAL: manual_text,
    **{suffix: partial(office_text, suffix) for suffix in _OFFICE},
    **{f".{suffix}": partial(program_text, f".{suffix}") for suffix in _PROGRAMS.split()},
}
KINDS = frozenset(_READERS)  # of files, by the ends of their names


class Extractor:
    """Reads files in a process of its own, which ends when a file takes too long, and is then made again."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def read(self, raw: bytes, suffix: str) -> ExtractedText:
        """The text of a file of one of the `KINDS`."""
        process = self._process = self._process or _start_reader()
        assert process.stdin is not None
        assert process.stdout is not None
        begun = time.monotonic()
        try:
            process.stdin.write(json.dumps([suffix, len(raw)]).encode() + b"\n")
            process.stdin.write(raw)
            process.stdin.flush()
            answer = process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):  # nothing, or a part: the process has ended
            self._process = None
            process.communicate()
            # faulthandler ends a process with 1, and so does what a library throws.
            is_late = time.monotonic() - begun >= SECONDS
            reason = f"not read in {SECONDS} s" if is_late else "its reader crashed"
            raise RefusedError(reason, f"is damaged or too complex: {reason}")
        kind, *values = json.loads(answer)
        if kind == "text":
            text, title, metadata, places = values
            return ExtractedText(text, title, metadata, places_from(places))
        if kind == "missing":
            raise MissingExtraError(*values)
        reason, detail, *is_gone = values
        raise RefusedError(reason, detail, is_gone=any(is_gone))

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start_reader() -> subprocess.Popen[bytes]:
    # Not multiprocessing, which runs the user's script again. -P: no module of the current folder.
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "surprise_rerank.connectors.readers._extraction", str(SECONDS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _serve(seconds: float) -> None:
    """Answer every file of the standard input, its kind and size before it, with a line of JSON."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    for line in sys.stdin.buffer:
        suffix, size = json.loads(line)
        raw = sys.stdin.buffer.read(size)
        # A thread of C: it ends this process also while a library holds Python's lock.
        faulthandler.dump_traceback_later(seconds, exit=True, file=sys.stderr)
        answer = _answer(raw, _READERS[suffix])
        faulthandler.cancel_dump_traceback_later()  # what is read may be sent, however long that takes
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def _answer(raw: bytes, reader: Callable[[bytes], ExtractedText]) -> list[Any]:
    try:
        extracted = reader(raw)
        if len(extracted.text) > _CHARACTERS:
            return ["refused", "too complex", f"unfolds to more than {_CHARACTERS} characters"]
    except MissingExtraError as error:
        return ["missing", str(error)]
    except RefusedError as refused:
        return ["refused", refused.reason, refused.detail, refused.is_gone]
    except (MemoryError, RecursionError):
        return ["refused", "too complex", "is too complex for the memory that a file may take"]
    except Exception as error:  # noqa: BLE001 - whatever a library raises, the next file may be read
        reason = " ".join(str(error).split())[:_SHOWN]
        return ["refused", "damaged", f"is damaged: {type(error).__name__}: {reason}"]
    return ["text", extracted.text, extracted.title, extracted.metadata, places_json(extracted.places)]


if __name__ == "__main__":
    _serve(float(sys.argv[1]))
