"""Questions of several requests, encoded in one batch.

Requests wait for a worker. The worker that comes to a question encodes others of the requests behind it, too:
its share of what has gathered while all workers were busy. Nobody waits for a batch to fill, and a question
that finds a free worker is encoded alone, at once.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field

from surprise_rerank.encoders.base import Encoded, Encoder


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """The question of a request.

    Attributes:
        encoder: that encodes it.
        text: in words.
        result: its vectors, once it was encoded with others; None where it is to be encoded alone.
    """

    encoder: Encoder
    text: str
    result: Future[Encoded | None] = field(default_factory=Future, repr=False)

    def alone(self) -> Encoded:
        """Its vectors, from a batch of its own."""
        return self.encoder.encode([self.text], "query")


class Questions:
    """Those of the requests that wait for a worker, in the order that they came in.

    Args:
        most: of one batch; 1 encodes each alone.
        workers: that come to questions.
        on_batch: called with the number of questions of every batch, from the thread that encodes it.
    """

    def __init__(self, most: int, workers: int, on_batch: Callable[[int], object]) -> None:
        self._most = most
        self._workers = workers
        self._on_batch = on_batch
        self._waiting: dict[Question, None] = {}
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def waiting(self, encoder: Encoder, text: str) -> Iterator[Question]:
        """A question that others may encode along with theirs, until the end of the context."""
        question = Question(encoder, text)
        with self._lock:
            self._waiting[question] = None
        try:
            yield question
        finally:
            with self._lock:
                left = self._waiting.pop(question, question) is None
            if left:  # and a worker that has come to it in this moment need not wait for it
                question.result.set_result(None)

    def encoded(self, question: Question) -> Encoded:
        """The vectors of a question: of a batch that it was in, or of one that is made of it and others.

        Where a batch fails, each of its questions is encoded alone, so that an error reaches only the request
        that it belongs to.
        """
        with self._lock:
            batch = self._taken(question) if question in self._waiting else []
        if batch:  # else somebody encodes it, or has done so
            self._encode(batch)
        return question.result.result() or question.alone()

    def _encode(self, batch: list[Question]) -> None:
        self._on_batch(len(batch))
        together: Encoded | None = None
        try:
            # An error comes again, from the question that has caused it.
            with contextlib.suppress(Exception):
                if len(batch) > 1:
                    together = batch[0].encoder.encode([own.text for own in batch], "query")
        finally:
            for row, own in enumerate(batch):
                own.result.set_result(None if together is None else together.take([row]))

    def _taken(self, question: Question) -> list[Question]:
        """A question and those that are encoded with it, of the same encoder; none of them waits any more.

        The next of the line are left to the other workers, who would only wait for this batch to end, and so
        is their share of the rest.
        """
        share = min(self._most, -(-len(self._waiting) // self._workers)) - 1
        del self._waiting[question]
        same = [own for own in self._waiting if own.encoder is question.encoder]
        taken = same[self._workers - 1 :][:share]
        for own in taken:
            del self._waiting[own]
        return [question, *taken]
