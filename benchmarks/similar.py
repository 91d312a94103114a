"""Neighbours of a whole corpus: seconds beside the bare matrix product, memory, and what each stage costs.

For every size a job runs in a process of its own: exact top k of N vectors, from their storing to the parts
of the result. The bare product is measured in the same process with as many threads, in blocks as large as
the job's, for some seconds: once with all threads in one product and once with a product per thread, of which
the faster counts. With `--index`, the same by augmented vectors in Qdrant Edge, and its recall against exact
neighbours of a sample. With `--dynamax`, the rate of DynaMax over synthetic texts; with `--texts`, that of
encoding.

    python benchmarks/similar.py
    python benchmarks/similar.py --size 0 --dynamax --texts FOLDER
    python benchmarks/similar.py --size 1000000 --no-exact --index --vectors FILE.npy
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, product
from pathlib import Path

import click
import numpy as np
from clustered import clustered
from machine import describe, interleaved
from threadpoolctl import threadpool_limits

from surprise_rerank.connectors.readers import open_documents
from surprise_rerank.connectors.similar.encoding import Vectors, store_documents
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.settings import USUAL, SimilaritySettings
from surprise_rerank.connectors.similar.threads import Threads
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.loading import load_encoder
from surprise_rerank.similarities.int8_jaccard import joint_jaccard, multiplies_int8
from surprise_rerank.surprise.neighbours import KEY_BLOCK, QUERY_BLOCK

BATCH = 8192
# Tokens of a block of the bare product, which stays in the cache.
INT8_ROWS = 2048


@dataclass(frozen=True)
class Given:
    """Where vectors come from, in batches, so that they take no memory."""

    size: int
    dimension: int
    file: str | None

    def __str__(self) -> str:
        return f"{self.size:,} x {self.dimension}"

    def __iter__(self) -> Iterator[tuple[list[str], np.ndarray]]:
        stored = np.load(self.file, mmap_mode="r") if self.file else None
        for first in range(0, self.size, BATCH):
            last = min(first + BATCH, self.size)
            ids = [str(row) for row in range(first, last)]
            yield ids, clustered(first, last, self.dimension) if stored is None else stored[first:last]


@dataclass
class Measured:
    """What a process found: seconds by the clock and of processors, bytes, and the rate of a product."""

    seconds: dict[str, float] = field(default_factory=dict)
    processors: dict[str, float] = field(default_factory=dict)
    peak: int = 0
    output: int = 0
    corpus: int = 0
    product: float = 0.0

    def stage(self, name: str) -> str:
        """Seconds of a stage; those of processors tell how busy others kept the machine."""
        return f"{self.seconds[name]:.1f} s ({self.processors[name]:.1f} s of processors)"


def timed(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def peak_memory() -> int:
    """Bytes of VmHWM: what the process had in memory at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def bytes_under(folder: Path) -> int:
    """Bytes of all files."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bare_product(dimension: int, threads: int, seconds: float) -> float:
    """Multiplications and additions a second of float32 blocks, the better of two ways to use the threads."""
    random = np.random.default_rng(0)
    queries = random.standard_normal((QUERY_BLOCK, dimension), dtype=np.float32)
    keys = random.standard_normal((KEY_BLOCK, dimension), dtype=np.float32).T
    outs = [np.empty((QUERY_BLOCK, KEY_BLOCK), np.float32) for _ in range(threads)]
    work = 2 * QUERY_BLOCK * KEY_BLOCK * dimension

    def rounds(out: np.ndarray) -> int:
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            np.matmul(queries, keys, out=out)
            done += 1
        return done

    rates = []
    for limit, used in ((threads, outs[:1]), (1, outs)):
        with threadpool_limits(limit), ThreadPoolExecutor(len(used)) as pool:
            list(pool.map(lambda out: np.matmul(queries, keys, out=out), used))
            begun = time.perf_counter()
            done = sum(pool.map(rounds, used))
            rates.append(done * work / (time.perf_counter() - begun))
    return max(rates)


def job_measured(folder: Path, given: Given, settings: SimilaritySettings, threads: int) -> Measured:
    """Run a job from the vectors to its parts, then the bare product."""
    found = Measured()
    job = SimilarityJob(folder, settings, workers=Threads(threads))
    with threadpool_limits(threads):
        works = {
            "prepare": lambda: job.prepare(Vectors("vectors", given)),
            "compare": lambda: list(job.parts()),
        }
        for stage, work in works.items():
            before = time.process_time()
            found.seconds[stage] = timed(work)
            found.processors[stage] = time.process_time() - before
    found.peak = peak_memory()
    found.output = bytes_under(job.task.parts)
    found.corpus = bytes_under(folder / "documents")
    found.product = bare_product(given.dimension, threads, 4.0)
    return found


def in_process(*arguments: object) -> Measured:
    """The same in a new process, whose peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found: Measured = pool.apply(job_measured, arguments)
    return found


def exact(folder: Path, given: Given, k: int, threads: int) -> None:
    """Print the exact job beside the product of as many pairs."""
    before = bare_product(given.dimension, threads, 4.0)
    found = in_process(folder, given, SimilaritySettings(k=k), threads)
    rate = max(before, found.product)
    pairs, compare = given.size**2, found.seconds["compare"]
    limit = 2 * pairs * given.dimension / rate
    print(f"\n{given}, exact top {k}: stored and measured in {found.stage('prepare')}")
    print(f"  compared in {found.stage('compare')}, {compare / pairs * 1e9:.2f} ns a pair")
    print(
        f"  the bare product of as many pairs {limit:.1f} s ({rate / 1e9:.0f} GFLOP/s; before the job "
        f"{before / 1e9:.0f}, after it {found.product / 1e9:.0f}): {compare / limit:.2f} times the product"
    )
    print(f"  peak memory {found.peak / 2**20:,.0f} MiB")
    print(
        f"  on disk {found.corpus / given.size:,.0f} bytes a document, {found.output / given.size / k:.0f} a "
        "pair of the result"
    )


def indexed(folder: Path, given: Given, k: int, threads: int, sample: int) -> None:
    """Print the index mode, and its recall against exact neighbours of a sample."""
    from surprise_rerank.connectors.similar import sample_check

    settings = SimilaritySettings(k=k, mode="index")
    found = in_process(folder, given, settings, threads)
    job = SimilarityJob(folder, settings, workers=Threads(threads))
    job.prepare(Vectors("vectors", given))
    checked = sample_check(job, sample)
    print(f"\n{given}, index, top {k}: stored, filled and built in {found.stage('prepare')}")
    print(
        f"  searched in {found.stage('compare')}, {found.seconds['compare'] / given.size * 1e3:.2f} ms each"
    )
    print(f"  {checked}")
    kept = bytes_under(folder) / given.size
    print(f"  peak memory {found.peak / 2**20:,.0f} MiB, {kept:,.0f} bytes a document on disk")


def dynamax(texts: int, tokens: int, dimension: int) -> None:
    """Print the rate of DynaMax over texts of a length, beside the bare product of int8, or else float32."""
    import torch

    random = np.random.default_rng(0)

    def batch(count: int) -> TokenBatch:
        made = [random.standard_normal((tokens, dimension), dtype=np.float32) for _ in range(count)]
        return TokenBatch.from_arrays(made).stored("int8")

    queries, keys = batch(8), batch(texts)
    x, y = (torch.from_numpy(side.directions) for side in (queries, keys))
    multiply = torch._int_mm
    if not multiplies_int8():
        multiply, x, y = torch.mm, x.float(), y.float()

    def bare() -> None:
        for first, start in product(range(0, len(x), tokens), range(0, len(y), INT8_ROWS)):
            multiply(y[start : start + INT8_ROWS], x[first : first + tokens].T)

    (ours, _), (limit, _) = interleaved([lambda: joint_jaccard(queries, keys), bare], 5)
    pair = ours / (len(queries) * len(keys))
    print(
        f"\nDynaMax of texts of {tokens} tokens x {dimension}: {pair * 1e6:.0f} microseconds a pair, "
        f"{2 * tokens**2 * dimension / pair / 1e9:.0f} GFLOP/s; {ours / limit:.2f} times the bare product"
    )


def encoded(source: str, count: int) -> None:
    """Print the rate of encoding, and what token vectors take on disk."""
    texts = list(islice(open_documents(source), count))
    with tempfile.TemporaryDirectory() as folder:
        encoder = load_encoder()
        encoder.encode([texts[0].content])
        for tokens in (None, USUAL):
            place = Path(folder) / str(tokens)
            place.mkdir()
            store = partial(store_documents, place, "chunk", texts, lambda: encoder, "", tokens)
            seconds = timed(store)
            kept = bytes_under(place) / len(texts)
            words = "with token vectors" if tokens is not None else "without token vectors"
            print(
                f"\n{len(texts)} documents of {source}, {words}: {len(texts) / seconds:.1f} a second, "
                f"{kept:,.0f} bytes each on disk"
            )


@click.command()
@click.option(
    "--size",
    "sizes",
    multiple=True,
    type=int,
    default=(10_000, 100_000),
    show_default=True,
    help="Vectors; 0 for none.",
)
@click.option("--dimension", default=384, show_default=True)
@click.option("--vectors", type=click.Path(exists=True), help="An .npy file of at least as many vectors.")
@click.option("-k", default=10, show_default=True)
@click.option("--threads", default=os.cpu_count() or 1, show_default=True)
@click.option("--exact/--no-exact", "with_exact", default=True, show_default=True)
@click.option("--index", "with_index", is_flag=True, help="The index mode, too.")
@click.option("--sample", default=1000, show_default=True, help="Documents that the recall is measured with.")
@click.option("--dynamax", "with_dynamax", is_flag=True, help="The rate of DynaMax, too.")
@click.option("--tokens", default=240, show_default=True, help="Of a text, for --dynamax.")
@click.option("--texts", type=click.Path(exists=True), help="Documents; the rate of encoding them, too.")
@click.option("--documents", default=256, show_default=True, help="How many, for --texts.")
@click.option(
    "--work", type=click.Path(), help="Where jobs keep their files; the temporary folder by default."
)
def main(
    sizes: tuple[int, ...],
    dimension: int,
    vectors: str | None,
    k: int,
    threads: int,
    with_exact: bool,
    with_index: bool,
    sample: int,
    with_dynamax: bool,
    tokens: int,
    texts: str | None,
    documents: int,
    work: str | None,
) -> None:
    """Print seconds, ratios and bytes."""
    print(describe("numpy", "torch", "pyarrow"))
    dimension = np.load(vectors, mmap_mode="r").shape[1] if vectors else dimension
    for size in sizes:
        if not size:
            continue
        given = Given(size, dimension, vectors)
        with tempfile.TemporaryDirectory(dir=work) as folder:
            if with_exact:
                exact(Path(folder) / "exact", given, k, threads)
            if with_index:
                indexed(Path(folder) / "index", given, k, threads, sample)
    if with_dynamax:
        dynamax(256, tokens, dimension)
    if texts:
        encoded(texts, documents)


if __name__ == "__main__":
    main()
