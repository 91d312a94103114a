"""Results in files: three formats with the same rows, whole or not at all; and near-duplicate groups."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surprise_rerank.connectors.similar import outputs
from surprise_rerank.connectors.similar.encoding import Vectors
from surprise_rerank.connectors.similar.groups import (
    DUPLICATE,
    Components,
    Groups,
    near_duplicates,
    write_groups,
)
from surprise_rerank.connectors.similar.job import SimilarityJob
from surprise_rerank.connectors.similar.outputs import COMPLETE, MARKER, ROW_COLUMNS, Target, part_batches
from surprise_rerank.connectors.similar.settings import SimilaritySettings
from surprise_rerank.errors import DataError, StoreError

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

# Everything that a delimiter, a quote or an encoding could break.
IDS = [
    "a,b",
    'say "x"',
    "line\nbreak",
    "tab\tand\r\nmore",
    "é",
    "日本",
    "007",
    "NA",
    " spaces ",
    "{}",
    "'",
    ";",
]
FORMS = [".parquet", ".csv", ".jsonl"]


def vectors(count: int, seed: int = 0, dimension: int = 8) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(count, dimension)).astype(np.float32)


def job_of(
    folder: Path,
    documents: tuple[Sequence[str], np.ndarray],
    against: tuple[Sequence[str], np.ndarray] | None = None,
    settings: SimilaritySettings | None = None,
) -> SimilarityJob:
    job = SimilarityJob(folder, settings or SimilaritySettings(k=3))
    job.prepare(Vectors("given", [documents]), None if against is None else Vectors("others", [against]))
    return job


@pytest.fixture
def job(tmp_path: Path) -> SimilarityJob:
    ids = [*IDS, *(f"d{i}" for i in range(30))]
    return job_of(tmp_path / "work", (ids, vectors(len(ids))))


def expected(job: SimilarityJob) -> list[dict[str, Any]]:
    return [row for batch in job.batches() for row in batch.to_pylist()]


@pytest.fixture(autouse=True)
def _short_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "_BATCH", 7)
    monkeypatch.setattr(outputs, "_ROW_GROUP", 20)


@pytest.mark.parametrize("suffix", FORMS)
def test_pandas_and_duckdb_read_equal_rows_from_all_formats(
    job: SimilarityJob, tmp_path: Path, suffix: str
) -> None:
    pandas, duckdb = pytest.importorskip("pandas"), pytest.importorskip("duckdb")
    path = tmp_path / f"out{suffix}"
    rows = expected(job)
    assert Target.of(str(path)).write_parts(job.parts()) == len(rows) == 3 * 42
    text = {"document": str, "neighbour": str}
    reads = {
        ".parquet": lambda: pandas.read_parquet(path),
        ".csv": lambda: pandas.read_csv(path, dtype=text, keep_default_na=False),
        ".jsonl": lambda: pandas.read_json(path, lines=True, dtype={**text, "rank": int}, precise_float=True),
    }
    # pandas' own decoders of numbers may miss the last bit.
    pandas.testing.assert_frame_equal(reads[suffix](), pandas.DataFrame(rows), check_dtype=False, rtol=1e-14)
    queries = {
        ".parquet": f"select * from read_parquet('{path}')",
        ".csv": f"select * from read_csv('{path}', types={{'document': 'VARCHAR', 'neighbour': 'VARCHAR'}})",
        ".jsonl": f"select * from read_json('{path}')",
    }
    with duckdb.connect() as connection:
        found = connection.sql(queries[suffix]).fetchall()
    assert found == [tuple(row.values()) for row in rows]


def test_csv_is_that_of_rfc_4180_and_json_lines_are_lines(job: SimilarityJob, tmp_path: Path) -> None:
    rows = expected(job)
    Target.of(str(tmp_path / "out.csv")).write_parts(job.parts())
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        text = file.read()
    assert text.startswith("document,neighbour,rank,surprise,probability,cosine\r\n")
    assert '"say ""x"""' in text
    read = list(csv.DictReader(text.splitlines(keepends=True)))
    assert [(row["document"], row["neighbour"], float(row["surprise"])) for row in read] == [
        (row["document"], row["neighbour"], row["surprise"]) for row in rows
    ]
    Target.of(str(tmp_path / "out.jsonl")).write_parts(job.parts())
    lines = (tmp_path / "out.jsonl").read_text("utf-8").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == rows


@pytest.mark.parametrize("suffix", FORMS)
def test_bytes_do_not_depend_on_the_parts(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from surprise_rerank.connectors.similar import settings

    written = []
    for rows in (4096, 5):
        monkeypatch.setitem(settings._PART_ROWS, "cosine", rows)
        job = job_of(tmp_path / str(rows), ([f"d{i}" for i in range(40)], vectors(40)))
        target = Target.of(str(tmp_path / f"{rows}{suffix}"))
        target.write_parts(job.parts())
        written.append(target.path.read_bytes())
        assert len(list(job.parts())) == -(-40 // rows)
    assert written[0] == written[1]


def test_row_groups_are_streamed_in_one_size(job: SimilarityJob, tmp_path: Path) -> None:
    target = Target.of(str(tmp_path / "out.parquet"))
    target.write_parts(job.parts())
    about = parquet.read_metadata(target.path)
    assert [about.row_group(i).num_rows for i in range(about.num_row_groups)] == [20] * 6 + [6]


def test_a_folder_takes_the_parts_and_is_written_again(job: SimilarityJob, tmp_path: Path) -> None:
    for path in (f"{tmp_path}/parts/", str(tmp_path / "parts")):  # the second time it exists
        target = Target.of(path)
        assert target.form == "parts"
        assert target.write_parts(job.parts()) == 126
        assert sorted(path.name for path in target.path.iterdir()) == [
            COMPLETE,
            MARKER,
            "part-0000000.parquet",
        ]
        assert parquet.read_table(target.path).to_pylist() == expected(job)


@pytest.mark.parametrize(
    "names",
    [("mine.txt",), (COMPLETE,), (COMPLETE, "mine.txt"), (COMPLETE, MARKER, "mine.txt"), ("part-0.parquet",)],
)
def test_a_folder_of_somebody_elses_is_not_replaced(
    job: SimilarityJob, tmp_path: Path, names: tuple[str, ...]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name in names:
        (other / name).write_text("dear")
    with pytest.raises(StoreError, match="something else is there"):
        Target.of(str(other)).require_writable()
    with pytest.raises(StoreError, match="something else is there"):
        Target.of(str(other)).write_parts(job.parts())
    assert {path.name for path in other.iterdir()} == set(names)


def test_what_came_into_the_folder_meanwhile_is_not_lost(job: SimilarityJob, tmp_path: Path) -> None:
    target = Target.of(f"{tmp_path}/parts/")
    target.write_parts(job.parts())

    def slowly() -> Iterator[Path]:
        yield from job.parts()
        (target.path / "mine.txt").write_text("dear")

    with pytest.raises(StoreError, match="something else is there"):
        target.write_parts(slowly())
    assert (target.path / "mine.txt").read_text() == "dear"


def test_a_link_to_a_folder_stays_one(job: SimilarityJob, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for _ in range(2):
        Target.of(str(tmp_path / "link")).write_parts(job.parts())
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / COMPLETE).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real", "work"]


def test_rows_are_in_parts_only(job: SimilarityJob) -> None:
    (path,) = job.parts()
    names = parquet.read_schema(path).names
    assert names == ["document", "neighbour", "rank", "surprise", "probability", "cosine", *ROW_COLUMNS]
    assert next(part_batches(path)).schema.names == names[:-2]
    assert next(iter(job.batches())).schema.names == names[:-2]


@pytest.mark.parametrize("suffix", FORMS)
def test_a_failure_leaves_the_file_as_it_was(job: SimilarityJob, tmp_path: Path, suffix: str) -> None:
    target = Target.of(str(tmp_path / f"out{suffix}"))
    target.path.write_text("before")

    def failing() -> Iterator[Path]:
        yield from job.parts()
        raise StoreError("gone")

    with pytest.raises(StoreError, match="gone"):
        target.write_parts(failing())
    assert target.path.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [target.path.name]


def test_what_a_killed_process_left_behind_is_removed(job: SimilarityJob, tmp_path: Path) -> None:
    left = tmp_path / f".a*[1].csv.{'0123456789abcdef' * 2}.part"
    others = [tmp_path / f".other.csv.{'0' * 32}.part", tmp_path / ".a*[1].csv.notes.part"]
    for path in (left, *others):
        path.write_text("x")
    Target.of(str(tmp_path / "a*[1].csv")).write_parts(job.parts())
    assert not left.exists()
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("name", ["out.xlsx", "out", "out.parquet.gz", ".csv"])
def test_other_suffixes_are_refused_with_those_that_are_known(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match=r"\.parquet, \.csv, \.jsonl"):
        Target.of(str(tmp_path / name))


def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        Target.of(str(tmp_path / "no" / "out.csv"))


def test_no_pairs_are_a_file_with_a_header(tmp_path: Path) -> None:
    job = job_of(tmp_path / "work", (["a", "b"], vectors(2)), settings=SimilaritySettings(k=None, above=1e6))
    for suffix in FORMS:
        assert Target.of(str(tmp_path / f"out{suffix}")).write_parts(job.parts()) == 0
    assert parquet.read_table(tmp_path / "out.parquet").column_names[0] == "document"
    assert (tmp_path / "out.csv").read_text() == "document,neighbour,rank,surprise,probability,cosine\n"
    assert (tmp_path / "out.jsonl").read_text() == ""


# Groups


@given(st.data())
def test_components_in_batches_are_those_of_the_whole_graph(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 30))
    node = st.integers(0, nodes - 1)
    batches = data.draw(st.lists(st.lists(st.tuples(node, node), max_size=12), max_size=6))
    components = Components(nodes)
    for batch in batches:
        edges = np.array(batch, np.int64).reshape(-1, 2)
        components.join(edges[:, 0], edges[:, 1])
    smallest = list(range(nodes))
    for _ in range(nodes):
        for one, other in (edge for batch in batches for edge in batch):
            smallest[one] = smallest[other] = min(smallest[one], smallest[other])
    assert components.smallest().tolist() == smallest
    groups = Groups.of(components)
    wanted = [[row for row in range(nodes) if smallest[row] == root] for root in range(nodes)]
    wanted = sorted((group for group in wanted if len(group) > 1), key=lambda group: (-len(group), group[0]))
    assert groups.rows.tolist() == [row for group in wanted for row in group]
    assert groups.sizes.tolist() == [len(group) for group in wanted]
    assert groups.numbers.tolist() == [n for n, group in enumerate(wanted, 1) for _ in group]


def near_copies(count: int, seed: int = 1) -> np.ndarray:
    """Vectors at a cosine of about .999 to one direction."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=64)
    return (direction + 0.03 * random.normal(size=(count, 64))).astype(np.float32)


@pytest.mark.parametrize("suffix", FORMS)
def test_groups_of_near_duplicates_are_written_largest_first(tmp_path: Path, suffix: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    own = np.concatenate([vectors(10, 5, 64), near_copies(2, 1), near_copies(3, 2), near_copies(2, 3)])
    ids = [f"d{i}" for i in range(17)]
    ids[12] = 'a,"b"'
    job = job_of(tmp_path / "work", (ids, own))
    found = near_duplicates(job.parts(), job.documents, None, job.settings, DUPLICATE["cosine"])
    path = tmp_path / f"groups{suffix}"
    write_groups(Target.of(str(path)), found, job.documents, None)
    with duckdb.connect() as connection:
        rows = connection.sql(f"select * from '{path}'").fetchall()
    assert rows == [
        *((1, name, 3) for name in ('a,"b"', "d13", "d14")),
        *((2, name, 2) for name in ("d10", "d11")),
        *((3, name, 2) for name in ("d15", "d16")),
    ]


def test_groups_over_two_corpora_name_the_corpus(tmp_path: Path) -> None:
    ids = [f"d{i}" for i in range(4)]
    own = np.concatenate([vectors(3, 5, 64), near_copies(1, 1)])
    others = np.concatenate([near_copies(2, 1), vectors(2, 6, 64)])
    job = job_of(tmp_path / "work", (ids, own), (ids, others))
    found = near_duplicates(job.parts(), job.documents, job.neighbours, job.settings, 0.9)
    write_groups(Target.of(str(tmp_path / "groups.jsonl")), found, job.documents, job.neighbours)
    rows = [json.loads(line) for line in (tmp_path / "groups.jsonl").read_text().splitlines()]
    assert rows == [
        {"group": 1, "document": "d3", "size": 3, "corpus": "documents"},
        {"group": 1, "document": "d0", "size": 3, "corpus": "against"},
        {"group": 1, "document": "d1", "size": 3, "corpus": "against"},
    ]


@pytest.mark.parametrize("threshold", [0.0, 1.5, float("nan")])
def test_a_threshold_must_be_a_similarity(job: SimilarityJob, threshold: float) -> None:
    with pytest.raises(DataError, match="above 0 and at most 1"):
        near_duplicates(job.parts(), job.documents, None, job.settings, threshold)
