"""Models computed by OpenVINO, in three precisions, and what becomes of their files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from calling import exit_code
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize
from tiny_bert import tiny_bert

from surprise_rerank import DocumentIndex, load_encoder
from surprise_rerank.connectors.qdrant.manifest import IndexOptions
from surprise_rerank.core.extras import is_installed
from surprise_rerank.documents import Document
from surprise_rerank.encoders.backends import choosing, exporting, onednn, precision
from surprise_rerank.encoders.backends.exported import MARKER, ExportedEncoder
from surprise_rerank.encoders.base import Encoder
from surprise_rerank.encoders.sentence_transformer import SentenceTransformerEncoder
from surprise_rerank.errors import IndexMismatchError, MissingExtraError, ModelError, StoreError
from surprise_rerank.eval.cli.rerank_eval.main import main as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import main as surprise_rerank

OPENVINO = pytest.mark.skipif(not is_installed("openvino"), reason="the extra 'openvino' is not installed")

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

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


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


@pytest.fixture
def load(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Encoder]:
    """Load a tiny model, with a cache that all tests of this file share unless they name one."""
    shared = tmp_path_factory.getbasetemp() / "exported"

    def loaded(name: str = "plain", **options) -> Encoder:
        return load_encoder(str(models[name]), **{"cache": shared, "device": "cpu", **options})

    return loaded


# The vectors


@OPENVINO
@pytest.mark.parametrize("name", ["plain", "prompted"])
@pytest.mark.parametrize("kind", ["query", "document"])
def test_openvino_gives_torchs_vectors(load: Callable[..., Encoder], name: str, kind: str):
    ours, theirs = load(name, backend="openvino"), load(name)
    assert isinstance(ours, ExportedEncoder)
    same = ("name", "dimension", "token_dimension", "fingerprint", "window", "precision")
    assert [getattr(ours, n) for n in same] == [getattr(theirs, n) for n in same]
    got, expected = ours.encode(TEXTS, kind), theirs.encode(TEXTS, kind)
    np.testing.assert_allclose(got.dense, expected.dense, atol=1e-5)
    np.testing.assert_array_equal(got.tokens.offsets, expected.tokens.offsets)
    np.testing.assert_allclose(got.tokens.directions, expected.tokens.directions, atol=1e-5)
    np.testing.assert_allclose(got.tokens.norms, expected.tokens.norms, rtol=1e-4)
    assert ours.words(TEXTS, kind) == theirs.words(TEXTS, kind)
    for one, other in zip(ours.token_spans(TEXTS, kind), theirs.token_spans(TEXTS, kind), strict=True):
        np.testing.assert_array_equal(one, other)


@OPENVINO
@pytest.mark.parametrize("budget", [1, 24, 10**6])
def test_results_do_not_depend_on_batches(
    load: Callable[..., Encoder], budget: int, monkeypatch: pytest.MonkeyPatch
):
    encoder = load(backend="openvino")
    alone = [encoder.encode([text]) for text in TEXTS]
    monkeypatch.setattr(type(encoder), "batch_tokens", budget)
    steps: list[int] = []
    together = encoder.encode(TEXTS, on_progress=steps.append)
    assert sum(steps) == len(TEXTS)
    np.testing.assert_allclose(together.dense, np.concatenate([own.dense for own in alone]), atol=1e-5)
    for own, tokens in zip(alone, together.tokens, strict=True):
        np.testing.assert_allclose(tokens, own.tokens[0], atol=1e-4)
    assert encoder.encode([]).dense.shape == (0, encoder.dimension)


@OPENVINO
def test_threads_may_share_an_encoder(load: Callable[..., Encoder]):
    encoder = load(backend="openvino")
    expected = encoder.encode(TEXTS).dense
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: encoder.encode(TEXTS * 20).dense, range(12)):
            np.testing.assert_allclose(found.reshape(20, *expected.shape)[7], expected, atol=1e-5)


@OPENVINO
def test_int8_is_calibrated_on_texts_and_says_how_far_it_is_from_float32(load: Callable[..., Encoder]):
    if not precision.multiplies_int8():
        pytest.skip("no VNNI")
    sample = ["oil the chain", "tyres take bar", "brakes take oil"]
    made = load(backend="openvino", precision="int8", calibration=sample)
    assert made.precision == made.settings.precision == "int8"
    expected = load().encode(TEXTS)
    got = made.encode(TEXTS)
    assert np.isfinite(got.dense).all()
    assert np.isfinite(got.tokens.directions).all()
    mean = float(np.einsum("nd,nd->n", load().encode(sample).dense, made.encode(sample).dense).mean())
    assert made.settings.agreement <= mean + 1e-3
    assert made.settings.agreement > 0.9
    assert not np.array_equal(got.dense, expected.dense), "something was rounded"
    again = load(backend="openvino", precision="int8")
    assert again.folder == made.folder, "without texts, the weights that were made before"


@pytest.mark.parametrize("backend", ["torch", pytest.param("openvino", marks=OPENVINO)])
def test_bfloat16_rounds_and_is_refused_where_the_processor_lacks_it(
    load: Callable[..., Encoder], backend: str, monkeypatch: pytest.MonkeyPatch
):
    if precision.multiplies_bfloat16():
        made = load(backend=backend, precision="bfloat16")
        assert made.precision == "bfloat16"
        cosines = np.einsum("nd,nd->n", made.encode(TEXTS).dense, load().encode(TEXTS).dense)
        assert cosines.min() > 0.999
    monkeypatch.setattr(precision, "processor_has", lambda *names: False)
    with pytest.raises(ModelError, match="bfloat16' needs a processor with AVX512-BF16 or AMX"):
        load(backend=backend, precision="bfloat16")


# The choice


@pytest.mark.parametrize(
    ("has", "sample", "expected"),
    [
        ({"avx512_vnni", "avx512_bf16"}, ["oil"], ("openvino", "int8")),
        ({"avx512_vnni", "avx512_bf16"}, None, ("openvino", "bfloat16")),
        ({"avx512_vnni"}, None, ("openvino", "float32")),
        ({"avx512_bf16"}, ["oil"], ("openvino", "bfloat16")),
        (set(), ["oil"], ("openvino", "float32")),
    ],
)
def test_auto_takes_the_fastest_that_the_processor_has_instructions_for(
    has: set[str],
    sample: list[str] | None,
    expected: tuple[str, str],
    load: Callable[..., Encoder],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    monkeypatch.setattr(choosing, "is_installed", lambda name: name == "openvino")
    monkeypatch.setattr(precision, "processor_has", lambda *names: bool(has.intersection(names)))
    made: list[tuple[str, str]] = []

    def note(weights, backend, of, *others):
        made.append((backend, of))
        return weights.load("float32")

    monkeypatch.setattr(choosing, "_made", note)
    load(backend="auto", precision="auto", calibration=sample)
    assert made == [expected]


def test_auto_without_any_extra_is_torch(load: Callable[..., Encoder], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    monkeypatch.setattr(choosing, "is_installed", lambda name: False)
    assert isinstance(load(backend="auto"), SentenceTransformerEncoder)


@OPENVINO
def test_auto_takes_the_next_where_one_cannot_be_had_and_says_so(
    load: Callable[..., Encoder], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    monkeypatch.setattr(choosing, "is_installed", lambda name: name == "openvino")
    monkeypatch.setattr(choosing, "LEAST_AGREEMENT", 1.1)
    monkeypatch.setattr(precision, "processor_has", lambda *names: "avx512_vnni" in names)
    found = load(backend="auto", precision="auto", calibration=["oil the chain", "brakes"])
    assert not isinstance(found, ExportedEncoder)
    assert "openvino in int8 is not taken: its vectors of the sample have a mean cosine" in caplog.text


def test_the_environment_says_what_auto_is(load: Callable[..., Encoder], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SURPRISE_RERANK_BACKEND", "torch")
    assert isinstance(load(backend="auto"), SentenceTransformerEncoder)
    monkeypatch.setenv("SURPRISE_RERANK_BACKEND", "tensorrt")
    with pytest.raises(ModelError, match="backend='tensorrt': choose one of torch, openvino, auto"):
        load(backend="auto")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": "jax"}, "backend='jax': choose one of torch, openvino, auto"),
        ({"precision": "int4"}, "precision='int4': choose one of float32, bfloat16, int8, auto"),
        ({"precision": "int8"}, "backend='torch' does not compute in int8 here; choose backend='openvino'"),
        ({"backend": "openvino", "device": "cuda"}, "computes on the processor; give device='cpu'"),
    ],
)
def test_what_cannot_be_computed_is_refused(load: Callable[..., Encoder], options: dict, message: str):
    with pytest.raises(ModelError, match=message):
        load(**options)


@OPENVINO
def test_int8_without_texts_asks_for_some(load: Callable[..., Encoder], tmp_path: Path):
    if not precision.multiplies_int8():
        pytest.skip("no VNNI")
    with pytest.raises(ModelError, match="are calibrated on texts: give some of those that will be encoded"):
        load(backend="openvino", precision="int8", cache=tmp_path)


def test_a_missing_package_is_named_with_its_extra(
    load: Callable[..., Encoder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr("surprise_rerank.core.extras.is_installed", lambda name: False)
    with pytest.raises(MissingExtraError, match=r"surprise-rerank\[openvino\]"):
        load(backend="openvino", cache=tmp_path)


def test_word_vectors_have_no_backend(tmp_path: Path):
    (tmp_path / "vectors.txt").write_text("oil 1 0\nchain 0 1\n")
    with pytest.raises(ModelError, match="has word vectors, which torch computes in float32; leave both out"):
        load_encoder(str(tmp_path / "vectors.txt"), backend="openvino", cache=tmp_path)


# The files


@OPENVINO
def test_a_model_is_exported_once_and_then_torch_is_not_imported(models: dict[str, Path], tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; from surprise_rerank.encoders.loading import load_encoder\n"
        f"e = load_encoder({str(models['plain'])!r}, 'cpu', Path({str(tmp_path)!r}), backend='openvino')\n"
        "print(e.encode(['oil the chain']).dense.sum(), 'torch' in sys.modules)"
    )

    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        return done.stdout.split()

    first = run()
    (folder,) = tmp_path.glob("encoders/*/openvino-float32")
    made = os.stat(folder / MARKER).st_mtime_ns
    second = run()
    assert (first, second) == ([first[0], "True"], [first[0], "False"])
    assert os.stat(folder / MARKER).st_mtime_ns == made


@pytest.fixture
def own(load: Callable[..., Encoder], tmp_path: Path) -> tuple[Callable[[], Encoder], Path]:
    """Loads a model by OpenVINO from a cache of its own, and the folder that holds its files."""
    if not is_installed("openvino"):
        pytest.skip("the extra 'openvino' is not installed")
    shared = load(backend="openvino").folder
    folder = tmp_path / "encoders" / shared.parent.name / shared.name
    shutil.copytree(shared, folder)
    return lambda: load(backend="openvino", cache=tmp_path), folder


@pytest.mark.parametrize("name", ["graph.xml", "graph.bin", "tokenizer.json", MARKER])
@pytest.mark.parametrize("damage", ["cut", "changed", "missing"])
def test_a_damaged_file_is_noticed(own: tuple[Callable[[], Encoder], Path], name: str, damage: str):
    _, folder = own
    path = folder / name
    raw = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        half = len(raw) // 2
        path.write_bytes(raw[:half] if damage == "cut" else raw[:half] + b"~~" + raw[half + 2 :])
    with pytest.raises(StoreError, match="the exported model"):
        ExportedEncoder(folder, "tiny")


def test_a_damaged_model_is_exported_again(
    own: tuple[Callable[[], Encoder], Path], caplog: pytest.LogCaptureFixture
):
    again, folder = own
    (folder / "graph.bin").write_bytes(b"")
    assert np.isfinite(again().encode(TEXTS).dense).all()
    assert "it is exported again" in caplog.text
    caplog.clear()
    again()
    assert caplog.text == ""


def test_files_that_changed_have_another_key(tmp_path: Path):
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "1_Pooling" / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"1234")
    files = [tmp_path / "1_Pooling" / "config.json", tmp_path / "model.safetensors"]
    before = choosing.key_of(tmp_path, files)
    assert choosing.key_of(tmp_path, reversed(files)) == before
    os.utime(files[0], ns=(1, 1))
    assert choosing.key_of(tmp_path, files) != before
    assert choosing.key_of(tmp_path, []) != choosing.key_of(tmp_path.parent, [])
    with pytest.raises(ModelError, match="cannot read the model"):
        choosing.key_of(tmp_path, [tmp_path / "missing"])


@OPENVINO
def test_an_interrupted_export_leaves_nothing_and_the_next_one_is_whole(
    load: Callable[..., Encoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(exporting, "write_settings", interrupt)
        with pytest.raises(KeyboardInterrupt):
            load(backend="openvino", cache=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert isinstance(load(backend="openvino", cache=tmp_path), ExportedEncoder)


@OPENVINO
def test_a_full_disk_is_one_line_and_auto_goes_on_with_torch(
    load: Callable[..., Encoder],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(exporting.shutil, "disk_usage", lambda folder: usage)
    with pytest.raises(StoreError, match="the disk is full; free some space"):
        load(backend="openvino", cache=tmp_path)
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    monkeypatch.setattr(choosing, "is_installed", lambda name: name == "openvino")
    assert isinstance(load(backend="auto", cache=tmp_path), SentenceTransformerEncoder)
    assert "openvino in float32 is not taken" in caplog.text


@OPENVINO
def test_a_graph_that_computes_something_else_is_refused(
    load: Callable[..., Encoder], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(exporting, "_LEAST_AGREEMENT", 1.5)
    with pytest.raises(ModelError, match="computes other vectors"):
        load(backend="openvino", cache=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@OPENVINO
def test_a_model_that_leaves_its_prompt_out_of_its_vectors_stays_with_torch(tmp_path: Path):
    model = tiny_bert(tmp_path, WORDS)
    model[1].include_prompt = False
    with pytest.raises(ModelError, match="leaves its prompt out of its vectors; choose backend='torch'"):
        exporting.export(SentenceTransformerEncoder(model, "instructor"), tmp_path / "out")


# The index


@OPENVINO
def test_an_index_remembers_the_precision_and_refuses_documents_of_another(
    load: Callable[..., Encoder], tmp_path: Path
):
    if not precision.multiplies_bfloat16():
        pytest.skip("no bfloat16")
    rounded, exact = load(backend="openvino", precision="bfloat16"), load()
    documents = [Document("a", "oil the chain"), Document("b", "tyres take bar")]
    options = IndexOptions(passages=None)
    with DocumentIndex.open(tmp_path / "index", rounded, options=options) as index:
        index.sync(documents)
    with DocumentIndex.open(tmp_path / "index", exact) as index:
        assert index.manifest.precision == "bfloat16"
        assert index.pipeline("cosine").search("oil the chain").ids[0] == "a", "questions may be of another"
        with pytest.raises(IndexMismatchError, match="encoded in bfloat16, the encoder computes in float32"):
            index.sync([*documents, Document("c", "brakes")])
        assert len(index) == 2
        index.rebuild(documents, encoder=exact)
        assert index.manifest.precision == "float32"


@OPENVINO
def test_commands_calibrate_on_the_documents_and_go_on_with_the_weights_of_before(
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    if not precision.multiplies_int8():
        pytest.skip("no VNNI")
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    where = ("--index", tmp_path / "index", "--json")
    (tmp_path / "a.txt").write_text("oil the chain")
    (tmp_path / "b.txt").write_text("tyres take bar")

    def command(*arguments: object) -> dict:
        assert exit_code(surprise_rerank, "surprise-rerank", *map(str, (*arguments, *where))) == 0
        return json.loads(capfd.readouterr().out)

    make = ("--model", models["plain"], "--no-passages", "--precision", "int8")
    assert command("index", tmp_path / "a.txt", tmp_path / "b.txt", *make)["added"] == 2
    assert command("status")["manifest"]["precision"] == "int8"
    (tmp_path / "c.txt").write_text("brakes")
    assert command("index", tmp_path / "c.txt")["added"] == 1
    assert len(list(tmp_path.glob("cache/encoders/*/openvino-int8-*"))) == 1
    assert command("search", "oil the chain", "--system", "cosine")["hits"]
    wrong = ("index", tmp_path / "a.txt", "--precision", "float32", *where)
    (tmp_path / "a.txt").write_text("oil the chain and the brakes")
    assert exit_code(surprise_rerank, "surprise-rerank", *map(str, wrong)) == 2
    assert "encoded in int8, the encoder computes in float32" in capfd.readouterr().err


@OPENVINO
def test_an_evaluation_in_another_precision_has_an_index_of_its_own(
    models: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
):
    if not precision.multiplies_int8():
        pytest.skip("no VNNI")
    monkeypatch.delenv("SURPRISE_RERANK_BACKEND", raising=False)
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path))
    asked = ("--model", models["plain"], "--systems", "cosine", "--quiet")
    for of in ("float32", "int8"):
        arguments = (*asked, "--precision", of, "--report", tmp_path / f"{of}.json")
        assert exit_code(rerank_eval, "rerank-eval", *map(str, arguments)) == 0
        assert f'"precision": "{of}"' in (tmp_path / f"{of}.json").read_text()
    assert len(list(tmp_path.glob("*/qdrant"))) == 2


# torch's products


def test_packed_products_are_torchs_own_and_follow_weights_that_change():
    layers = torch.nn.Sequential(torch.nn.Linear(16, 8), torch.nn.GELU(), torch.nn.Linear(8, 4, bias=False))
    rows = torch.randn(3, 5, 16)
    products = onednn.PackedProducts(layers)
    with torch.inference_mode(), products():
        packed = layers(rows)
    np.testing.assert_allclose(packed.numpy(), layers(rows).detach().numpy(), atol=1e-5)
    with torch.no_grad():
        layers[0].weight.mul_(2)
    with torch.inference_mode(), products():
        np.testing.assert_allclose(layers(rows).numpy(), layers(rows).detach().numpy(), atol=1e-5)
        changed = layers(rows)
    np.testing.assert_allclose(changed.numpy(), layers(rows).detach().numpy(), atol=1e-5)
    assert not np.allclose(changed.numpy(), packed.numpy())


@pytest.mark.parametrize("maker", ["AMD EPYC", "Intel(R) Xeon(R)", None])
def test_packed_products_are_for_processors_on_which_mkl_is_slow(
    maker: str | None, monkeypatch: pytest.MonkeyPatch
):
    told = {"architecture": "x86_64", "cpu_name": maker} if maker else {}
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: told, raising=False)
    possible = torch.backends.mkldnn.is_available()
    assert onednn.is_worth_it() == (maker == "AMD EPYC" and possible)
