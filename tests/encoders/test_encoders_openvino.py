"""Models computed by OpenVINO, in three precisions, and what becomes of their files."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.programs import exit_code
from helpers.tiny_models import tiny_bert
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize

from surprise_rerank import DataError, MissingExtraError, ModelError, StoreError, load_encoder
from surprise_rerank.core._computing import processor_has
from surprise_rerank.core._extras import is_installed
from surprise_rerank.encoders import _loading as loading
from surprise_rerank.encoders import _openvino as openvino
from surprise_rerank.encoders._openvino import OpenVinoEncoder
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.transformer import SentenceTransformerEncoder
from surprise_rerank.eval.cli.surprise_rerank.main import main as surprise_rerank

pytestmark = [
    pytest.mark.skipif(not is_installed("nncf"), reason="the extra 'openvino' is not installed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
VNNI = pytest.mark.skipif(not processor_has("avx512_vnni", "avx_vnni", "amx_int8"), reason="no VNNI")
BFLOAT16 = pytest.mark.skipif(not processor_has("avx512_bf16", "amx_bf16"), reason="no bfloat16")

WORDS = ["oil", "the", "chain", "tyres", "take", "bar", "brakes", "query", "passage", ":"]
TEXTS = [
    "oil the chain",
    "tyres take bar",
    "",
    "brakes",
    "oil " * 40,
    "\ud800 lone",
    "\0",
    "😀 take \n\t",
    "xyz",
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of tiny models: a plain one, and one with prompts, a projection and unit vectors."""
    found = {}
    for name in ("plain", "prompted"):
        base = tmp_path_factory.mktemp(name)
        model = tiny_bert(base, WORDS)
        if name == "prompted":
            model = SentenceTransformer(modules=[*model, Dense(16, 8), Normalize()], device="cpu")
            model.prompts = {"query": "query : ", "document": "passage : "}
            model.max_seq_length = 12
        found[name] = base / "saved"
        model.save(str(found[name]))
    return found


@pytest.fixture(scope="module", autouse=True)
def _openvino() -> Iterator[None]:
    """The real one, which `conftest.py` hides."""
    sys.modules.pop("openvino", None)
    yield
    sys.modules["openvino"] = None


@pytest.fixture
def load(
    models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Encoder]:
    """Load a tiny model, with a cache that all tests of this file share unless they name one."""

    def loaded(name: str = "plain", cache: Path | None = None, **options) -> Encoder:
        monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(cache or tmp_path_factory.getbasetemp() / "exported"))
        return load_encoder(str(models[name]), **{"device": "cpu", **options})

    return loaded


# The vectors


@pytest.mark.parametrize(
    ("name", "kind", "budget"),
    [
        ("plain", "query", 24),
        ("plain", "document", 1),
        ("prompted", "query", 10**6),
        ("prompted", "document", 24),
    ],
)
def test_openvino_gives_torchs_vectors_in_batches_of_any_size(load, name, kind, budget, monkeypatch):
    monkeypatch.setattr(OpenVinoEncoder, "batch_tokens", budget)
    ours, theirs = load(name), load(name, trainable=True)
    assert isinstance(ours, OpenVinoEncoder)
    same = ("name", "dimension", "token_dimension", "fingerprint", "window", "precision")
    assert [getattr(ours, n) for n in same] == [getattr(theirs, n) for n in same]
    steps: list[int] = []
    got, expected = ours.encode(TEXTS, kind, steps.append), theirs.encode(TEXTS, kind)
    assert sum(steps) == len(TEXTS)
    np.testing.assert_allclose(got.dense, expected.dense, atol=1e-5)
    np.testing.assert_array_equal(got.tokens.offsets, expected.tokens.offsets)
    np.testing.assert_allclose(got.tokens.directions, expected.tokens.directions, atol=1e-5)
    np.testing.assert_allclose(got.tokens.norms, expected.tokens.norms, rtol=1e-4)
    assert ours.words(TEXTS, kind) == theirs.words(TEXTS, kind)
    for one, other in zip(ours.token_spans(TEXTS, kind), theirs.token_spans(TEXTS, kind), strict=True):
        np.testing.assert_array_equal(one, other)


@VNNI
def test_int8_is_calibrated_on_texts(load, tmp_path):
    for none in (None, []):
        with pytest.raises(ModelError, match="on texts: give some of those that will be encoded"):
            load(precision="int8", cache=tmp_path, calibration=none)
    made = load(precision="int8", calibration=["oil the chain", "tyres take bar", "brakes take oil"])
    assert made.precision == "int8"
    expected, got = load().encode(TEXTS), made.encode(TEXTS)
    cosines = np.einsum("nd,nd->n", got.dense, expected.dense)
    assert cosines.mean() > 0.95
    assert not np.array_equal(got.dense, expected.dense), "something was rounded"
    assert load(precision="int8").folder == made.folder, "without texts, the weights that were made before"


@BFLOAT16
@pytest.mark.parametrize("trainable", [True, False])
def test_bfloat16_rounds(load, trainable):
    made = load(precision="bfloat16", trainable=trainable)
    assert made.precision == "bfloat16"
    cosines = np.einsum("nd,nd->n", made.encode(TEXTS).dense, load().encode(TEXTS).dense)
    assert cosines.min() > 0.999


# What cannot be had


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int4"}, "precision='int4' is not known; did you mean 'int8'"),
        pytest.param(
            {"precision": "int8", "trainable": True}, "computed by torch, in float32 or bfloat16", marks=VNNI
        ),
        ({"precision": "int8", "device": "cuda"}, "computed by torch, in float32 or bfloat16|cannot load"),
    ],
)
def test_what_cannot_be_computed_is_refused(load, options, message):
    with pytest.raises((ModelError, DataError), match=message):
        load(**options)


def test_without_the_extra_torch_computes_float32_and_int8_names_it(load, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "is_installed", lambda name: name != "openvino")
    monkeypatch.setattr(loading, "processor_has", lambda *names: True)
    monkeypatch.setattr("surprise_rerank.core._extras.is_installed", lambda name: name != "openvino")
    assert isinstance(load(), SentenceTransformerEncoder)
    with pytest.raises(MissingExtraError, match=r"surprise-rerank\[openvino\]"):
        load(precision="int8", calibration=["oil"], cache=tmp_path)


def test_a_model_that_cannot_be_exported_stays_with_torch_and_says_so(load, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(openvino, "_LEAST_COSINE", 1.5)
    assert isinstance(load(cache=tmp_path), SentenceTransformerEncoder)
    assert "torch computes" in caplog.text
    assert "OpenVINO computes other vectors" in caplog.text
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    model = tiny_bert(tmp_path, WORDS)
    model[1].include_prompt = False
    with pytest.raises(ModelError, match="leaves its prompt out of its vectors"):
        openvino._export(SentenceTransformerEncoder(model, "instructor"), tmp_path / "out")


# The files


@pytest.fixture
def exported(load: Callable[..., Encoder], tmp_path: Path) -> Path:
    """The folder of the plain model's graph in a cache of the test's own."""
    shared = load().folder
    folder = tmp_path / "encoders" / shared.parent.name / shared.name
    shutil.copytree(shared, folder)
    return folder


def test_of_an_exported_model_torch_is_not_imported(models, exported, tmp_path):
    program = (
        "import sys; from surprise_rerank.encoders._loading import load_encoder\n"
        f"load_encoder({str(models['plain'])!r}).encode(['oil the chain']); print('torch' in sys.modules)"
    )
    environment, before = os.environ | {"SURPRISE_RERANK_CACHE": str(tmp_path)}, contents(exported)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout == "False\n"
    assert contents(exported) == before


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_damaged_file_is_noticed_and_the_model_exported_again(load, exported, tmp_path, caplog):
    files = contents(exported)
    for name in ("graph.xml", "graph.bin", "encoder.json"):
        for damaged in (files[name][: len(files[name]) // 2], None):
            (exported / name).unlink() if damaged is None else (exported / name).write_bytes(damaged)
            with pytest.raises(StoreError, match=r"the exported model .* is damaged"):
                OpenVinoEncoder(exported, "tiny", "float32")
        (exported / name).write_bytes(files[name])
    (exported / "encoder.json").unlink()
    assert np.isfinite(load(cache=tmp_path).encode(TEXTS).dense).all()
    assert "it is exported again" in caplog.text


def test_an_interrupted_export_leaves_nothing(load, tmp_path, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(openvino, "_complete", interrupt)
    with pytest.raises(KeyboardInterrupt):
        load(cache=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


# The index


@VNNI
def test_commands_calibrate_on_the_documents_and_go_on_with_the_weights_of_before(
    models, exported, tmp_path, monkeypatch, capfd
):
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path))
    where = ("--index", tmp_path / "index", "--json")
    (tmp_path / "a.txt").write_text("oil the chain")
    (tmp_path / "b.txt").write_text("tyres take bar")

    def command(*arguments: object) -> dict:
        assert exit_code(surprise_rerank, "surprise-rerank", *map(str, (*arguments, *where))) == 0
        return json.loads(capfd.readouterr().out)

    make = ("--model", models["plain"], "--set", "passages=no", "--set", "precision=int8")
    assert command("index", tmp_path / "a.txt", tmp_path / "b.txt", *make)["added"] == 2
    assert command("status")["manifest"]["precision"] == "int8"
    (tmp_path / "c.txt").write_text("brakes")
    assert command("index", tmp_path / "c.txt")["added"] == 1
    assert len(list(exported.parent.glob("int8-*"))) == 1
    assert command("search", "oil the chain", "--system", "cosine")["hits"]
    wrong = ("index", tmp_path / "a.txt", "--set", "precision=float32", *where)
    (tmp_path / "a.txt").write_text("oil the chain and the brakes")
    assert exit_code(surprise_rerank, "surprise-rerank", *map(str, wrong)) == 2
    assert "encoded in int8, the encoder computes in float32" in capfd.readouterr().err


@BFLOAT16
def test_who_searches_rounds_questions_and_no_documents(load, models):
    exact, asking = load("plain"), loading.load_question_encoder(str(models["plain"]))
    assert asking.precision == exact.precision == "float32"
    for kind, same in (("document", True), ("query", False)):
        own, theirs = (encoder.encode(TEXTS, kind) for encoder in (exact, asking))
        assert np.array_equal(own.dense, theirs.dense) == same
        assert np.einsum("nd,nd->n", own.dense, theirs.dense).min() > 0.999
