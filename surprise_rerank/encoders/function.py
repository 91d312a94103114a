"""Any function from texts to vectors as an encoder: of an API, of another library, of the caller's own."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import inspect
import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import tenacity

from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.batches import in_batches
from surprise_rerank.core.files import UNREADABLE_ARCHIVE, disk_errors, whole_file
from surprise_rerank.core.retry_after import retry_after_seconds
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.base import Encoded, Kind, Progress
from surprise_rerank.errors import DataError, ModelError, SurpriseRerankError

T = TypeVar("T")

# n texts to n vectors of one dimension: an array (n, d), or anything that gives one row after the other.
Vectors: TypeAlias = Any
Embed: TypeAlias = Callable[[list[str]], Vectors | Awaitable[Vectors]]

_LONGEST_WAIT = 60.0  # seconds between two attempts, without what a server asks for
_LONGEST_ASKED = 300.0
_SHOWN = 200  # characters of a message from outside
_IN_MEMORY = 1000  # questions, where a folder keeps all of them
# A call with these would fail again: they are faults of the program, or an answer that was refused.
_LASTING = (SurpriseRerankError, TypeError, AttributeError, NameError, ImportError, NotImplementedError)
# Scripts without spaces have a word for each character. Long runs are parted: every text can be split.
_LONE = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_WORD = re.compile(rf"[{_LONE}]|[^\W{_LONE}]{{1,20}}|[^\w\s]")


class FunctionEncoder:
    """A function from texts to vectors as an encoder, without token vectors. Threads may share one.

    It calls the function in the threads that encode, and so at the same time where several do. Every answer
    is checked: as many vectors as texts, finite numbers, one dimension. A wrong answer is an error at once.
    An exception of the function is followed by another attempt. The pause before it has a random part, which
    grows to a minute, and what a `Retry-After` header asks for, up to five minutes.

    A text without any character but white space is not sent, as most APIs refuse it: its vector is zero.

    >>> import numpy as np
    >>> encoder = FunctionEncoder(lambda texts: [[len(text), 1.0] for text in texts], name="lengths")
    >>> encoder.encode(["abc"]).dense.round(3)
    array([[0.949, 0.316]], dtype=float32)

    Args:
        embed: gets a list of texts and returns their vectors; it may be asynchronous, and is then run in an
            event loop of a thread of its own, also inside a running loop.
        name: of the model; give each model another one, because vectors are told apart by it.
        query_embed: the same for questions, where the model treats them differently.
        dimension: d of the vectors; found with the first call where None.
        batch: most texts of a call.
        batch_characters: most characters of a call of several texts.
        window: most words of a passage, where long documents are to be split; a token of an API is about .75
            English words. None sends them whole.
        unit: scale the vectors to length 1, as an index needs them; False for a collection that compares raw
            vectors by their dot product or distance.
        attempts: how often a call is tried.
        per_minute: most calls a minute, all threads together; None for any number.
        first_wait: seconds of the first pause, about.
        cache: how many questions' vectors are kept, so that the function is not asked twice; or a folder,
            which keeps them for later processes. They are told apart by the name.

    Raises:
        DataError: if a number is not positive, or the name is empty.
    """

    def __init__(
        self,
        embed: Embed,
        *,
        name: str,
        query_embed: Embed | None = None,
        dimension: int | None = None,
        batch: int = 64,
        batch_characters: int = 100_000,
        window: int | None = None,
        unit: bool = True,
        attempts: int = 5,
        per_minute: float | None = None,
        first_wait: float = 1.0,
        cache: int | str | os.PathLike[str] | None = None,
    ) -> None:
        if not name.strip():
            raise DataError("an embedding function needs a name, which tells its vectors from others")
        positive = {
            "dimension": dimension,
            "batch": batch,
            "batch_characters": batch_characters,
            "window": window,
            "attempts": attempts,
            "per_minute": per_minute,
        }
        for option, value in positive.items():
            if value is not None and value <= 0:
                raise DataError(f"{option}={value} of {name!r}: give a positive number")
        for function in (embed, query_embed):
            if function is not None and not callable(function):
                raise DataError(
                    f"{name!r} is given {type(function).__name__}, expected a function from texts to vectors"
                )
        self.name = name
        self.window = window
        self.unit = unit
        self._functions: dict[Kind, Embed] = {"document": embed, "query": query_embed or embed}
        self._dimension = dimension
        self._batch, self._batch_characters = batch, batch_characters
        self._attempts, self._first_wait = attempts, first_wait
        self._pace = _Pace(per_minute)
        self._cache = None if cache is None else _QuestionCache(cache)
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r}, dimension={self._dimension})"

    @property
    def dimension(self) -> int:
        """Dimension of the vectors; calls the function with one word where it is not known yet."""
        if self._dimension is None:
            self._call(["word"], [0], "document")
        assert self._dimension is not None
        return self._dimension

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
        """Dense vectors from the function, one batch after the other.

        Args:
            texts: any strings; empty ones and lone surrogates included.
            kind: `query` calls `query_embed`, where it is given.
            on_progress: called with the number of texts of every finished batch.

        Raises:
            DataError: if the function returns too many or too few vectors, some that are not finite, or of
                another dimension; names it and the text. If texts is one string, or has something else.
            ModelError: if it keeps failing; its exception is the cause.
        """
        if isinstance(texts, str):
            raise DataError(f"{self.name!r} is given the string {texts[:30]!r}; give a list of texts")
        for place, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(
                    f"text {place} for {self.name!r} is of type {type(text).__name__}; give a list of strings"
                )
        plain = [encodable(text) for text in texts]
        found = self._cached(plain) if kind == "query" else {}
        batches = in_batches(
            range(len(plain)), lambda row: len(plain[row]), self._batch_characters, self._batch
        )
        for rows in batches:
            sent = [row for row in rows if plain[row].strip() and row not in found]
            if sent:
                vectors = self._call([plain[row] for row in sent], sent, kind)
                found |= dict(zip(sent, vectors, strict=True))
                if kind == "query" and self._cache is not None:
                    self._cache.put(self._kept_as, {plain[row]: found[row] for row in sent})
            if on_progress is not None:
                on_progress(len(rows))
        dense = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, vector in found.items():
            dense[row] = vector
        return Encoded(unit_rows(dense) if self.unit else dense)

    @property
    def _kept_as(self) -> str:
        return f"{self.name}\0{self.unit}"

    def _cached(self, texts: Sequence[str]) -> dict[int, Float32Array]:
        """Row -> the vector of a question that was asked before."""
        if self._cache is None:
            return {}
        found = {row: self._cache.get(self._kept_as, text) for row, text in enumerate(texts)}
        d = self._dimension
        return {row: own for row, own in found.items() if own is not None and d in (None, len(own))}

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the words of each text lie: (n, 2) first characters and ends.

        The function's tokens are not known. A word is a run of letters and digits of at most 20 characters,
        one character of a script without spaces, or a punctuation mark.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            kind: makes no difference.
        """
        found = ([word.span() for word in _WORD.finditer(encodable(text))] for text in texts)
        return [np.array(spans, dtype=np.int64).reshape(-1, 2) for spans in found]

    def _call(self, texts: list[str], positions: list[int], kind: Kind) -> Float32Array:
        """The checked vectors of one batch.

        Args:
            texts: of the batch.
            positions: of its texts, for errors.
            kind: of the texts.
        """
        function = self._functions[kind]

        def attempt() -> list[Any]:
            self._pace.wait()
            answer = function(list(texts))
            return self._rows(_result_of(answer) if inspect.isawaitable(answer) else answer)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_may_pass),
            wait=_Pause(self._first_wait),
            stop=tenacity.stop_after_attempt(self._attempts),
            reraise=True,
        )
        where = f"text {positions[0]}" if len(texts) == 1 else f"texts {positions[0]} to {positions[-1]}"
        try:
            rows = retrying(attempt)
        except SurpriseRerankError:
            raise
        except Exception as error:  # of a function that anybody may have written
            tried = int(retrying.statistics.get("attempt_number", 1))
            times = f", tried {tried} times" if tried > 1 else ""
            shown = (str(error).strip().split("\n")[0] or "no message")[:_SHOWN]
            raise ModelError(
                f"the embedding function {self.name!r} failed for {where}{times}: "
                f"{type(error).__name__}: {shown}"
            ) from error
        if len(rows) != len(texts):
            raise DataError(
                f"the embedding function {self.name!r} returned {len(rows)} vectors for {len(texts)} texts "
                f"({where}), expected one for each; check that it neither drops nor joins texts"
            )
        return self._checked(rows, texts, positions)

    def _rows(self, answer: Any) -> list[Any]:
        """The vectors of an answer, as a list."""
        if not isinstance(answer, str | bytes | dict) and isinstance(answer, Iterable):
            return list(answer)
        raise DataError(
            f"the embedding function {self.name!r} returned {type(answer).__name__}, expected vectors: an "
            "array of shape (n, d), or a list of n"
        )

    def _checked(self, rows: list[Any], texts: list[str], positions: list[int]) -> Float32Array:
        """(n, d) of what the function returned."""
        vectors: Float32Array | None = None
        for i, (row, text, place) in enumerate(zip(rows, texts, positions, strict=True)):
            which = f"the embedding function {self.name!r}, text {place} ({text[:30]!r})"
            try:
                with np.errstate(over="ignore"):
                    vector = np.asarray(row, dtype=np.float32)
            except (TypeError, ValueError, RuntimeError) as error:  # RuntimeError: of torch
                raise DataError(
                    f"{which}: a {type(row).__name__} that is no vector of numbers; return lists or arrays"
                ) from error
            if vector.ndim != 1 or not len(vector):
                raise DataError(f"{which}: an answer of shape {vector.shape}, expected one vector (d,)")
            with self._lock:
                self._dimension = self._dimension or len(vector)
            if len(vector) != self._dimension:
                raise DataError(
                    f"{which}: a vector of dimension {len(vector)}, expected {self._dimension}, that of the "
                    "model's other vectors; use one model, with one setting of its dimension"
                )
            if not np.isfinite(vector).all():
                raise DataError(f"{which}: a vector with NaN or infinite values; mend the function")
            if vectors is None:
                vectors = np.empty((len(rows), len(vector)), np.float32)
            vectors[i] = vector
        assert vectors is not None  # there is no call for no texts
        return vectors


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, Exception) and not isinstance(error, _LASTING)


class _Pause(tenacity.wait.wait_base):
    """Waits with full jitter, and what the server asks for."""

    def __init__(self, first: float) -> None:
        self._jitter = tenacity.wait_random_exponential(first, max=_LONGEST_WAIT)

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        # Clients of HTTP (httpx, requests, openai) keep the answer with their exception.
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        asked = retry_after_seconds(headers.get("retry-after", "")) or 0.0
        return self._jitter(retry_state) + min(asked, _LONGEST_ASKED)


class _Pace:
    """Lets so many calls pass a minute, at equal distances.

    Args:
        per_minute: most calls; None for any number.
    """

    def __init__(self, per_minute: float | None) -> None:
        self._distance = 60.0 / per_minute if per_minute else 0.0
        self._next = 0.0
        self._lock = threading.Lock()

    def wait(self) -> None:
        """Return when it is this call's turn."""
        if not self._distance:
            return
        with self._lock:
            now = time.monotonic()
            turn = max(now, self._next)
            self._next = turn + self._distance
        time.sleep(turn - now)


def _result_of(awaited: Awaitable[Any]) -> Any:
    """What an awaitable gives or raises, waited for by a thread that may have a running event loop.

    All run in the event loop of one thread, as a client's connections belong to a loop.
    """

    async def waiting() -> Any:
        return await awaited

    return asyncio.run_coroutine_threadsafe(waiting(), _loop(os.getpid())).result()


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:  # by process: a thread does not outlive a fork
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="surprise-rerank-loop", daemon=True).start()
    return loop


class _QuestionCache:
    """The latest vectors in memory, and all in a folder where one is given. Threads may share it.

    Args:
        kept: how many are in memory; or a folder, which has them for other processes as well.

    Raises:
        DataError: if it is a number below 1.
    """

    def __init__(self, kept: int | str | os.PathLike[str]) -> None:
        if isinstance(kept, bool) or (isinstance(kept, int) and kept < 1):
            raise DataError(f"cache={kept!r}: give how many questions to keep, 1 or more, or a folder")
        self._folder = None if isinstance(kept, int) else Path(kept)
        self._most = kept if isinstance(kept, int) else _IN_MEMORY
        self._found: OrderedDict[str, Float32Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, model: str, question: str) -> Float32Array | None:
        """(d,) what `put` was given; None where it was not, or the file is damaged."""
        key = _key(model, question)
        with self._lock:
            if key in self._found:
                self._found.move_to_end(key)
                return self._found[key]
        if self._folder is None:
            return None
        try:
            vector: Float32Array = np.load(self._folder / f"{key}.npy", allow_pickle=False)
        except UNREADABLE_ARCHIVE:
            return None
        self._keep(key, vector)
        return vector

    def put(self, model: str, vectors: Mapping[str, Float32Array]) -> None:
        """Keep (d,) the vector of each question."""
        for question, vector in vectors.items():
            key = _key(model, question)
            self._keep(key, vector)
            if self._folder is not None:
                with disk_errors(str(self._folder)):
                    self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                    with whole_file(self._folder / f"{key}.npy", private=True) as file:
                        np.save(file, vector, allow_pickle=False)

    def _keep(self, key: str, vector: Float32Array) -> None:
        with self._lock:
            self._found[key] = vector
            while len(self._found) > self._most:
                self._found.popitem(last=False)


def _key(model: str, question: str) -> str:
    return hashlib.sha256(f"{model}\0{question}".encode()).hexdigest()[:32]
