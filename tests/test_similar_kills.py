"""Killed at any moment, out of disk, with little memory: what is done stays, and the result is the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_commands import SENTENCES, write_model, write_rows

pytest.importorskip("pyarrow")

KILLS = 10
DOCUMENTS = 130
HERE = Path(__file__).parent

# Imports once, then forks a process for every line that it reads, which runs a command and can kill itself at
# one of its file operations. Chunks and parts are small, so that a kill falls between many of them. Arrow is
# imported after the fork: it starts a thread, and what a thread holds at a fork, nobody gives back.
NURSERY = textwrap.dedent(
    """
    import faulthandler, json, os, signal, sys, time
    import qdrant_client, rich.progress, torch
    from surprise_rerank.encoders import static
    from surprise_rerank.eval.cli.surprise_rerank.main import main

    PATIENCE = 240  # seconds
    OPERATIONS = {"open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}
    operations = 0

    def count(event, arguments):
        global operations
        if event in OPERATIONS:
            operations += 1
            if operations == moment:
                os.kill(os.getpid(), signal.SIGKILL)

    def run(arguments):
        import pyarrow.csv
        from surprise_rerank.connectors.readers import jsonl
        from surprise_rerank.connectors.similar import encoding, groups, neighbour_batches, settings

        encoding.CHUNK = 16
        settings._PART_ROWS["cosine"] = 16
        faulthandler.dump_traceback_later(PATIENCE / 2, exit=True)
        sys.argv = ["surprise-rerank", *arguments]
        sys.addaudithook(count)
        code = 0
        try:
            main()
        except SystemExit as leaving:
            code = leaving.code or 0
        print(json.dumps({"code": code, "operations": operations}), flush=True)

    threads = "/proc/self/task"
    assert not os.path.exists(threads) or len(os.listdir(threads)) == 1
    for line in sys.stdin:
        arguments, moment = json.loads(line)
        child = os.fork()
        if child == 0:
            run(arguments)
            os._exit(0)
        end = time.monotonic() + PATIENCE
        while not (done := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < end:
            time.sleep(0.001)
        if not done[0]:
            sys.exit(f"a command has not ended after {PATIENCE} s")
        print(json.dumps({"signal": os.WTERMSIG(done[1])}), flush=True)
    """
)


class Nursery:
    """Processes that run commands, and may be killed."""

    def __init__(self, cache: Path) -> None:
        command = [sys.executable, "-P", "-c", NURSERY]
        environment = {**os.environ, "SURPRISE_RERANK_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
        self._parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def close(self) -> None:
        assert self._parent.stdin is not None
        self._parent.stdin.close()
        assert self._parent.wait(30) == 0

    def run(self, *arguments: str | Path, moment: int = 0) -> dict[str, Any]:
        """Run a command, killed at its n-th file operation; returns all that it said."""
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps([list(map(str, arguments)), moment]), file=self._parent.stdin, flush=True)
        said: dict[str, Any] = {}
        while "signal" not in said:
            line = self._parent.stdout.readline()
            assert line, "the nursery has ended"
            said.update(json.loads(line))
        assert said["signal"] in (0, 9)
        return said


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("cache"))
    yield nursery
    nursery.close()


def write_documents(folder: Path, count: int = DOCUMENTS) -> list[str | Path]:
    """A model and documents, one of each forty malformed; returns the beginning of a command."""
    rows = [
        {"id": f"d{i}", "text": f"{SENTENCES[i % 6]} {SENTENCES[i * 7 // 3 % 6]} {SENTENCES[i * i % 5]}"}
        for i in range(count)
    ]
    path = write_rows(folder / "docs.jsonl", rows)
    lines = path.read_text().splitlines()
    lines[7::40] = [f"{line[:-1]}" for line in lines[7::40]]
    path.write_text("\n".join(lines))
    model = write_model(folder / "words.txt")
    return ["similar", path, "--model", model, "--on-error", "skip", "--json", "-k", "7"]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".jsonl"])
def test_ten_kills_change_not_a_byte(nursery: Nursery, tmp_path: Path, suffix: str) -> None:
    command = write_documents(tmp_path)
    for name in ("unbroken", "killed"):
        (tmp_path / name).mkdir()

    def given(name: str) -> list[str | Path]:
        own = tmp_path / name
        return [*command, "--out", own / f"out{suffix}", "--groups", own / f"groups{suffix}"]

    nursery.run(*given("unbroken"))
    expected = nursery.run(*given("unbroken"))  # with the model's converted file in the cache
    assert expected["documents"] == DOCUMENTS - 4
    assert expected["skipped"][0]["count"] == 4
    moments = random.Random(suffix)
    reached, finished = set(), []
    kills = 0
    while kills < KILLS or not {"encoding", "comparing"} <= reached:
        said = nursery.run(*given("killed"), moment=moments.randrange(1, expected["operations"]))
        kills += said["signal"] == 9
        reached.add(stage(tmp_path / "killed" / f"out{suffix}"))
        if said["signal"] == 0:  # a run that goes on has less to do: begin again
            finished.append(said)
            require_equal(tmp_path, suffix)
            (tmp_path / "killed" / f"out{suffix}").unlink()
    finished.append(nursery.run(*given("killed")))
    require_equal(tmp_path, suffix)
    for said in finished:
        for name in ("code", "documents", "pairs", "skipped"):
            assert said[name] == expected[name]
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        f"groups{suffix}",
        f"out{suffix}",
    ]


def require_equal(folder: Path, suffix: str) -> None:
    for name in (f"out{suffix}", f"groups{suffix}"):
        assert (folder / "killed" / name).read_bytes() == (folder / "unbroken" / name).read_bytes()


def stage(out: Path) -> str:
    """How far a killed run came."""
    work = out.with_name(f"{out.name}.work")
    if any(work.glob("parts-*/part-*.parquet")):
        return "comparing"
    return "encoding" if any(work.glob("documents/chunk-*")) else "beginning or end"


# Runs a command on a disk that is too small, looks at what is left, and runs it again with more room.
SMALL_DISK = textwrap.dedent(
    """
    import contextlib, hashlib, io, json, subprocess, sys
    from pathlib import Path
    import pyarrow.parquet as parquet
    from surprise_rerank.connectors.similar import encoding, settings
    from surprise_rerank.eval.cli.surprise_rerank.main import main

    encoding.CHUNK = 16
    settings._PART_ROWS["cosine"] = 16
    disk, out, sizes, command = json.loads(sys.argv[1])

    def run():
        sys.argv = ["surprise-rerank", *command]
        told, failed = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(told), contextlib.redirect_stderr(failed):
            try:
                main()
            except SystemExit as leaving:
                return leaving.code or 0, failed.getvalue()
        return 0, failed.getvalue()

    for size in sizes:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", disk], check=True)
        ballast = Path(disk, "ballast")
        ballast.write_bytes(bytes((65536 - size) * 1024))
        code, error = run()
        parts = sorted(Path(disk).glob("*.work/parts-*/part-*.parquet"))
        rows = [parquet.read_table(part).num_rows for part in parts]
        left = sorted(path.name for path in Path(disk).iterdir())
        ballast.unlink()
        again, _ = run()
        digest = hashlib.sha256(Path(out).read_bytes()).hexdigest() if again == 0 else None
        print(json.dumps([code, error, rows, left, again, digest]))
        subprocess.run(["umount", disk], check=True)
    """
)


def test_a_full_disk_leaves_what_can_be_read_and_tells_where(nursery: Nursery, tmp_path: Path) -> None:
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    try:
        trial = subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no unshare, which gives a process a small disk")
    if trial.returncode:
        pytest.skip(f"no small disk can be mounted: {trial.stderr.decode().strip()}")
    command = write_documents(tmp_path)
    disk = tmp_path / "disk"
    disk.mkdir()
    out = disk / "out.csv"
    work = ["--work", tmp_path / "kept"]
    unbroken = tmp_path / "out.csv"
    nursery.run(*command, "--out", unbroken, *work)
    blocks = sum(-(-path.stat().st_size // 4096) * 4 for path in (tmp_path / "kept").rglob("*"))
    sizes = [blocks * share // 100 for share in (15, 30, 60, 75, 90, 105)]
    given = json.dumps([str(disk), str(out), sizes, [*map(str, command), "--out", str(out)]])
    environment = {**os.environ, "SURPRISE_RERANK_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*unshare, sys.executable, "-P", "-c", SMALL_DISK, given],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(sizes)
    found = {"encoded": 0, "done": 0}
    for code, error, rows, left, again, digest in answers:
        assert code == 2
        assert error.count("\n") == 1
        assert error.startswith("Error: the disk is full: ")
        assert f"in {out}.work" in error
        assert "run the same again, it goes on from there" in error
        assert left == ["ballast", "out.csv.work"]
        assert again == 0
        assert digest == sha256(unbroken)
        found["done" if "documents are done" in error else "encoded"] += 1
        if rows:
            assert f"{sum(rows) // 7} of {DOCUMENTS - 4} documents are done" in error
    assert all(found.values()), found


def sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


LIMITED = (
    "import resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)),) * 2)\n"
    "from surprise_rerank.connectors.similar import encoding, job, settings\n"
    "from surprise_rerank.eval.cli.surprise_rerank.main import main\n"
    "settings._PART_ROWS['cosine'] = 16\n"
    "encoding.CHUNK = 16\n"
    "sys.argv[0] = 'surprise-rerank'\n"
    "main()"
)


def test_a_result_that_the_disk_does_not_take_is_not_begun(nursery: Nursery, tmp_path: Path) -> None:
    command = write_documents(tmp_path)
    nursery.run(*command, "--out", tmp_path / "out.jsonl", "--work", tmp_path / "kept")
    largest = max(path.stat().st_size for path in (tmp_path / "kept").rglob("*") if path.is_file())
    whole = (tmp_path / "out.jsonl").read_bytes()
    assert len(whole) > 2 * largest
    (tmp_path / "out.jsonl").write_text("before")
    environment = {**os.environ, "SURPRISE_RERANK_CACHE": str(tmp_path / "cache")}
    arguments = [*command, "--out", tmp_path / "out.jsonl", "--work", tmp_path / "kept"]
    limited = [sys.executable, "-P", "-c", LIMITED, str(len(whole) // 2), *map(str, arguments)]
    done = subprocess.run(limited, capture_output=True, text=True, env=environment)
    assert done.returncode == 2, done.stderr
    total = DOCUMENTS - 4
    assert f"{total} of {total} documents are done" in done.stderr
    assert done.stderr.count("\n") == 1
    assert (tmp_path / "out.jsonl").read_text() == "before"
    nursery.run(*arguments)
    assert (tmp_path / "out.jsonl").read_bytes() == whole


# Prints the most memory that a job took, in KiB; vectors come a chunk at a time.
MEMORY = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    import numpy as np
    from surprise_rerank.connectors.similar.encoding import Vectors
    from surprise_rerank.connectors.similar.groups import near_duplicates, write_groups
    from surprise_rerank.connectors.similar.job import SimilarityJob
    from surprise_rerank.connectors.similar.outputs import Target
    from surprise_rerank.connectors.similar.settings import SimilaritySettings
    from surprise_rerank.connectors.similar.threads import Threads

    count, folder = int(sys.argv[1]), Path(sys.argv[2])

    def batches():
        for start in range(0, count, 5000):
            own = np.random.default_rng(start).normal(size=(5000, 32)).astype(np.float32)
            yield [f"document {i}" for i in range(start, start + 5000)], own

    job = SimilarityJob(folder, SimilaritySettings(k=10), workers=Threads(1))
    job.prepare(Vectors("random", batches()))
    Target.of(str(folder / "out.csv")).write_parts(job.parts())
    groups = near_duplicates(job.parts(), job.documents, None, job.settings, 0.7)
    write_groups(Target.of(str(folder / "groups.csv")), groups, job.documents, None)
    lines = Path("/proc/self/status").read_text().splitlines()
    print(next(line.split()[1] for line in lines if line.startswith("VmHWM")))
    """
)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell memory")
def test_memory_does_not_grow_with_the_documents(tmp_path: Path) -> None:
    peaks = {}
    for count in (10_000, 40_000):
        folder = tmp_path / str(count)
        folder.mkdir()
        done = subprocess.run(
            [sys.executable, "-P", "-c", MEMORY, str(count), str(folder)],
            capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        peaks[count] = int(done.stdout)
        shutil.rmtree(folder)
    # 30,000 more vectors take 4 MB as mapped pages, their ids about 1 MB; a product takes 168 MB in both.
    assert peaks[40_000] - peaks[10_000] < 48 * 1024, peaks
