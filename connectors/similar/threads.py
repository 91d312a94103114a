"""Threads of this process that do the work of a job: one encodes, one for each core scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import cache, partial, reduce
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from surprise_rerank.connectors.progress import Advance
from surprise_rerank.connectors.similar.corpus import EncodedCorpus
from surprise_rerank.connectors.similar.encoding import (
    Model,
    chunk_name,
    chunks_of,
    once,
    skipped_by,
    store_documents,
)
from surprise_rerank.connectors.similar.scoring import PartScorer, moments_of
from surprise_rerank.connectors.similar.workers import ScoringTask, Sources
from surprise_rerank.core.tokens import TokenForm
from surprise_rerank.surprise.ensemble import Ensemble


class Threads:
    """Threads of this process.

    Args:
        count: how many score; as many as there are cores by default. Each has a block of products in memory.
    """

    def __init__(self, count: int | None = None) -> None:
        self._count = count or os.cpu_count() or 1

    def count(self, documents: Sources, advance: Advance) -> tuple[int | None, Sources]:
        """See `Workers`; reading takes a small share of what encoding does."""
        if any(iter(source) is source for source in documents.sources):
            return None, documents  # they can be read once
        count, sources = once(documents.sources, advance)
        return count, Sources(documents.names, sources)

    def encode(
        self, folder: Path, documents: Sources, model: Model, tokens: TokenForm | None, advance: Advance
    ) -> tuple[list[str], list[dict[str, Any]]]:
        """See `Workers`."""
        load, names = cache(model.load), []
        for number, source in enumerate(documents.sources):
            for place, chunk in enumerate(chunks_of(source)):
                names.append(chunk_name(number, place))
                store_documents(folder, names[-1], chunk, load, model=model.name, tokens=tokens)
                advance(len(chunk))
        return names, skipped_by(documents.names, documents.sources)

    def ensemble(self, corpus: EncodedCorpus, device: str) -> Ensemble:
        """See `Workers`."""
        # Limited here: BLAS does not follow a limit that another thread than this one sets.
        with threadpool_limits(1), ThreadPoolExecutor(self._count) as threads:
            firsts = list(corpus.ensemble_parts())
            # Some at a time, so that only these are in memory.
            windows = (firsts[i : i + self._count] for i in range(0, len(firsts), self._count))
            parts = (
                part
                for window in windows
                for part in threads.map(partial(corpus.partial_ensemble, device=device), window)
            )
            return reduce(Ensemble.merge, parts)

    def measure(self, task: ScoringTask, advance: Advance) -> None:
        """See `Workers`."""
        moments = moments_of(task)
        for _, documents in self._results(moments.compute, moments.blocks()):
            advance(documents)

    def score(self, task: ScoringTask, parts: Sequence[int], advance: Advance) -> Iterator[int]:
        """See `Workers`."""
        with closing(PartScorer(task)) as scorer, closing(self._results(scorer, parts)) as results:
            for number, documents in results:
                advance(documents)
                yield number

    def _results(
        self, function: Callable[[int], int], numbers: Iterable[int]
    ) -> Generator[tuple[int, int], None, None]:
        """Each number and what the function returns for it, in any order."""
        # One product in every thread is faster than all threads in one product.
        with threadpool_limits(1), ThreadPoolExecutor(self._count) as threads:
            running = {threads.submit(function, number): number for number in numbers}
            try:
                for done in as_completed(running):
                    yield running.pop(done), done.result()
            except BaseException:
                threads.shutdown(cancel_futures=True)
                raise
