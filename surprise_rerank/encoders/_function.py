"""Any function from texts to vectors as an encoder: of an API, of another library, of the caller's own."""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeAlias, get_args

import numpy as np
import tenacity

from surprise_rerank import _border as border
from surprise_rerank._documents import encodable
from surprise_rerank._errors import ModelError, SurpriseRerankError
from surprise_rerank.core._batches import in_batches
from surprise_rerank.core._process import PerProcess, limit_torch
from surprise_rerank.core._retry_after import retry_after_seconds
from surprise_rerank.core.arrays import Float32Array, IntArray, matrix, unit_rows
from surprise_rerank.encoders.base import Encoded, Kind, PortableEncoder, Progress

# n texts to n vectors of one dimension: an array (n, d), or anything that gives one row after the other.
Embed: TypeAlias = Callable[[list[str]], Any]

_FIRST_WAIT, _LONGEST_WAIT = 1.0, 60.0  # seconds between two attempts, without what a server asks for
_LONGEST_ASKED = 300.0
_SHOWN, _SHOWN_TEXT = 200, 40  # characters of a message from outside, and of a text
# A call with these would fail again: they are faults of the program, or an answer that was refused.
_LASTING = (SurpriseRerankError, TypeError, AttributeError, NameError, ImportError, NotImplementedError)
# Scripts without spaces have a word for each character. Long runs are parted: every text can be split.
_LONE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_LONE}]|[^\W{_LONE}]{{1,20}}|[^\w\s]")


class FunctionEncoder(PortableEncoder):
    """A function from texts to vectors as an encoder, without token vectors. Threads may share one.

    Every answer is checked: as many vectors as texts, finite numbers that are not all 0, one dimension; a
    wrong one is an error at once. An exception of the function is followed by another attempt, after a random
    pause and what a `Retry-After` header asks for. A text of white space is not sent: its vector is zero.

    >>> encoder = FunctionEncoder(lambda texts: [[len(text), 1.0] for text in texts], name="lengths")
    >>> encoder.encode(["abc"]).dense.round(3)
    array([[0.949, 0.316]], dtype=float32)
    """

    def __init__(
        self,
        embed: Embed,
        *,
        name: str,  # of the model; another one for each, because vectors are told apart by it
        query_embed: Embed | None = None,  # the same for questions, where the model treats them differently
        dimension: int | None = None,  # of the vectors; found with the first call where None
        batch: int = 64,  # most texts of a call
        window: int | None = None,  # most words of a passage; a token of an API is about .75 English words
        unit: bool = True,  # length 1, as an index needs it; not where raw vectors are compared by distance
        characters: int = 100_000,  # most of a call of several texts; a token is about four English ones
        parallel: int = 1,  # calls at a time, from threads
        per_minute: int | None = None,  # most calls that begin in a minute, further attempts among them
        attempts: int = 5,  # how often a call is tried
        cache: int | None = None,  # so many of the latest questions are not asked for twice
    ) -> None:
        self.name = border.text("name", name, blank=False, advice="it tells its vectors from others")
        self.window = border.optional(border.count, "window", window)
        self.unit = border.flag("unit", unit)
        for_questions: Embed | None = border.optional(border.function, "query_embed", query_embed)
        for_documents: Embed = border.function("embed", embed)
        self._functions: dict[Kind, Embed] = {
            "document": for_documents,
            "query": for_questions or for_documents,
        }
        self._dimension = border.optional(border.count, "dimension", dimension)
        self._batch = border.count("batch", batch)
        self._characters = border.count("characters", characters)
        self._parallel = border.count("parallel", parallel)
        rate = border.optional(border.count, "per_minute", per_minute)
        self._pace = PerProcess(partial(_Pace, 60.0 / rate if rate else 0.0))
        self._attempts = border.count("attempts", attempts)
        self._most_kept = border.optional(border.count, "cache", cache) or 0
        self._kept: OrderedDict[str, Float32Array] = OrderedDict()  # the latest questions
        self._lock = PerProcess(threading.Lock)

    @property
    def dimension(self) -> int:
        """Dimension of the vectors; calls the function with one word where it is not known yet."""
        return self._dimension or self._call(["word"], [0], "document").shape[1]

    @property
    def fingerprint(self) -> str:
        """16 digits of the name, the dimension and whether vectors have length 1.

        A function's weights cannot be looked at: a model that changes behind the same name is not noticed.
        """
        parts = f"{self.name}\0{self.dimension}\0{self.unit}"
        return hashlib.sha256(parts.encode(errors="surrogatepass")).hexdigest()[:16]

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense vectors from the function, batch by batch; questions from `query_embed`.

        A DataError if it returns too many or too few vectors, some that are not finite, or of another
        dimension; a ModelError if it keeps failing, with its exception as the cause.
        """
        plain = [encodable(text) for text in border.texts("texts", texts)]
        border.choice("kind", kind, get_args(Kind))
        border.optional(border.function, "on_progress", on_progress)
        keeps = kind == "query" and self._most_kept > 0
        vectors: dict[int, Float32Array] = {}
        if keeps:
            with self._lock.get():
                vectors = {row: self._kept[text] for row, text in enumerate(plain) if text in self._kept}
        missing = [row for row, text in enumerate(plain) if text.strip() and row not in vectors]
        if on_progress is not None and len(missing) < len(plain):
            on_progress(len(plain) - len(missing))
        for rows, computed in self._calls(plain, missing, kind):
            vectors.update(zip(rows, computed, strict=True))
            if keeps:
                self._keep({plain[row]: vectors[row] for row in rows})
            if on_progress is not None:
                on_progress(len(rows))
        dense = np.zeros((len(plain), self.dimension), dtype=np.float32)
        for row, vector in vectors.items():
            dense[row] = vector
        return Encoded(unit_rows(dense) if self.unit else dense)

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the words of each text lie: (n, 2) first characters and ends.

        The function's tokens are not known. A word is a run of letters and digits of at most 20 characters,
        one character of a script without spaces, or a punctuation mark.
        """
        border.choice("kind", kind, get_args(Kind))
        plain = [encodable(text) for text in border.texts("texts", texts)]
        spans_of_texts = ([word.span() for word in _WORD.finditer(text)] for text in plain)
        return [np.array(spans, dtype=np.int64).reshape(-1, 2) for spans in spans_of_texts]

    def _keep(self, vectors: dict[str, Float32Array]) -> None:
        """Keep these, and forget the oldest beyond the number."""
        with self._lock.get():
            self._kept.update(vectors)
            while len(self._kept) > self._most_kept:
                self._kept.popitem(last=False)

    def _calls(
        self, texts: list[str], rows: list[int], kind: Kind
    ) -> Iterator[tuple[list[int], Float32Array]]:
        """Yield the vectors of these rows by batches, in their order; after an error no call begins."""
        batches = list(in_batches(rows, lambda row: len(texts[row]), self._characters, self._batch))
        with ThreadPoolExecutor(self._parallel) as threads:
            apply: Callable[..., Iterator[Float32Array]] = map if self._parallel == 1 else threads.map
            yield from zip(
                batches,
                apply(lambda batch: self._call([texts[row] for row in batch], batch, kind), batches),
                strict=True,
            )

    def _call(self, texts: list[str], positions: list[int], kind: Kind) -> Float32Array:
        """The checked vectors of one batch, whose texts have these positions in an error."""
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(
                lambda e: isinstance(e, Exception) and not isinstance(e, _LASTING)
            ),
            wait=self._pause,
            stop=tenacity.stop_after_attempt(self._attempts),
            reraise=True,
        )
        where = f"text {positions[0]}" if len(texts) == 1 else f"texts {positions[0]} to {positions[-1]}"
        called = f"the embedding function {self.name!r}"
        limit_torch()  # which it may call
        try:
            rows = retrying(lambda: self._rows(list(texts), kind, called))
        except SurpriseRerankError:
            raise
        except Exception as error:  # of a function that anybody may have written
            tried = int(retrying.statistics.get("attempt_number", 1))
            times = f", tried {tried} times" if tried > 1 else ""
            shown = (str(error).strip().split("\n")[0] or "no message")[:_SHOWN]
            raise ModelError(
                f"{called} failed for {where}{times}: {type(error).__name__}: {shown}"
            ) from error
        with self._lock.get():  # of several first calls one decides the dimension
            return self._checked(rows, texts, positions, f"what {called} returned for {where}")

    def _checked(
        self, rows: list[Any], texts: list[str], positions: list[int], returned: str
    ) -> Float32Array:
        border.equal(f"the length of {returned}", len(rows), len(texts), "it may not drop or join texts")
        with np.errstate(over="ignore"):
            vectors = matrix(rows, returned, self._dimension)
        if len(vectors) != len(texts) or vectors.shape[1] < 1 + self.unit:  # (1,) of length 1 says nothing
            border.refuse(
                returned, vectors.shape, f"of shape ({len(texts)}, d)", "return a vector for each text"
            )
        # Some servers answer so what they cannot compute, and no question finds it.
        for row in np.flatnonzero(~vectors.any(axis=1)):
            raise ModelError(
                f"{returned} is zeros for text {positions[row]} ({texts[row][:_SHOWN_TEXT]!r}), which no "
                "question would find; look into the model's log, send shorter texts (window=), or leave it "
                "out"
            )
        self._dimension = vectors.shape[1]
        return vectors

    def _rows(self, texts: list[str], kind: Kind, called: str) -> list[Any]:
        """The vectors of an answer, as a list, when it is this call's turn."""
        self._pace.get().wait()
        answer = self._functions[kind](texts)
        if isinstance(answer, str | bytes | dict) or not isinstance(answer, Iterable):
            border.refuse(
                f"what {called} returned", answer, "an array of shape (n, d)", "or return a list of n"
            )
        return list(answer)

    def _pause(self, state: tenacity.RetryCallState) -> float:
        """Full jitter; what the server asks for is waited for by all threads."""
        error = state.outcome.exception() if state.outcome else None
        # Clients of HTTP (httpx, requests, openai) keep the answer with their exception.
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        seconds = retry_after_seconds(headers.get("retry-after", "")) or 0.0
        self._pace.get().hold(min(seconds, _LONGEST_ASKED))
        return tenacity.wait_random_exponential(_FIRST_WAIT, max=_LONGEST_WAIT)(state)


class _Pace:
    """When the calls of all threads begin: so many seconds apart at least."""

    def __init__(self, apart: float) -> None:
        self._apart, self._next, self._lock = apart, 0.0, threading.Lock()

    def wait(self) -> None:
        """Return when the next call may begin."""
        while (seconds := self._taken()) > 0:
            time.sleep(seconds)

    def _taken(self) -> float:
        """Take a turn that has come, or say in how many seconds one may."""
        with self._lock:
            now = time.monotonic()
            if self._next <= now:
                self._next = now + self._apart
                return 0.0
            return self._next - now

    def hold(self, seconds: float) -> None:
        """Begin no call within so many seconds."""
        with self._lock:
            self._next = max(self._next, time.monotonic() + seconds)
