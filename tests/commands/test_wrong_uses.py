"""Wrong uses of the commands: one line that names it, exit code 2, and nothing left behind."""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import exit_code
from test_commands import Bench

from surprise_rerank.eval.cli.rerank_eval.main import main as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import main as surprise_rerank

NEW = "--index new --model words.txt"  # an index that is not there yet
OWN = "--index index"
# A name of Python's with its underscore, its equals sign, its dots or its bracket.
PYTHON = re.compile(r"\b[a-z]+_[a-z_]+\b|\b[a-z]+=\S|\b[A-Z][A-Za-z]+\.[a-z]\w*|\w\(\w*=|\.\.\.\)")
# Names that are a user's own: columns, ids of formats, libraries and of variables of the environment.
NOT_PYTHON = re.compile(
    r"doc_id|document_id|passage_id|page_content|ir_datasets|save_to_disk|sentence-transformers|"
    r"ir_measures|metadata\.year=integer|must_not|min_should|is_empty|is_null|has_id|has_vector"
)

# What was tried in the last trial, or is like it: the use, and what its message must name.
BEFORE = [
    ("index", "which index? give --index"),
    ("index docs.jsonl", "which index? give --index"),
    (f"index {NEW}", "what is to be indexed"),
    (f"index no.jsonl {NEW}", "no.jsonl: no such file"),
    (f"index letterz/ {NEW}", "letterz: no such file or folder"),
    (f"index emptydir {NEW}", "emptydir holds no documents"),
    (f"index empty.jsonl {NEW}", "empty.jsonl holds no documents"),
    (f"index broken.jsonl {NEW}", "broken.jsonl:1: not valid JSON"),
    (
        f"index noid.csv {NEW}",
        "name it with --id-field, or take a hash of title and text with --id-field content",
    ),
    (f"index notext.csv {NEW}", "name it with --text-field"),
    (f"index docs.jsonl --text-field body {NEW}", "no column 'body' for the text among id, title, text"),
    (f"index twice.jsonl {NEW}", "'1' occurs twice"),
    (f"index later.jsonl {NEW}", "later.jsonl:2: not valid JSON"),
    (f"index picture.png {NEW}", "name it with --format, one of jsonl"),
    (f"index docs.jsonl --format parquet {NEW}", "docs.jsonl: damaged, or of another format"),
    ("index docs.jsonl --index new --model nothing.txt", "cannot load the model 'nothing.txt'"),
    ("index docs.jsonl --index new --model bad.txt", "bad.txt, line 2: 1 numbers after the word, expected 2"),
    (f"index docs.jsonl --bm25-language englsh {NEW}", "did you mean 'english'?"),
    (f"index docs.jsonl --bm25-language klingon {NEW}", "there are 30, such as arabic"),
    (f"index docs.jsonl --payload-index year {NEW}", "write PATH=TYPE"),
    (f"index docs.jsonl --passage-tokens 8 --overlap 9 {NEW}", "choose an overlap below 8"),
    (f"index docs.jsonl --pooling 2 {OWN}", "was made with --pooling 3.5, asked for is --pooling 2.0"),
    (f"index docs.jsonl --no-tokens {OWN}", "was made with --tokens, asked for is --no-tokens"),
    ("index docs.jsonl --index words.txt --model words.txt", "cannot use words.txt"),
    (f"index http://x.org/a.jsonl {NEW}", "--from-url URL with --from-collection NAME"),
    (f"index beir/scifactt {NEW}", "did you mean beir/scifact or"),
    (
        f"search dogs {OWN} --min-surprise .95",
        "which --min-surprise needs; make one with 'surprise-rerank background",
    ),
    (f"search dogs {OWN} --system fuson", "did you mean 'fusion'?"),
    (f"search dogs {OWN} --system surprise", "give it one with 'surprise-rerank ensemble set'"),
    ("search dogs --index nowhere", "there is no index at nowhere"),
    (f"ensemble set --npz bad.npz {OWN}", "make one with 'surprise-rerank ensemble save'"),
    (f"ensemble add --questions q.txt {OWN}", "has no ensemble yet; set one with 'ensemble set'"),
    (f"ensemble save e.txt --documents {OWN}", "a name that ends in .npz"),
    ("serve --index nowhere --port 0", "there is no index at nowhere"),
    (
        "similar docs.jsonl --out n.csv --model words.txt --device cuda:77",
        "'cuda:77' cannot be used: here is 'cpu'",
    ),
    ("similar docs.jsonl --out no/n.csv --model words.txt", "there is no folder no"),
    ("rerank-eval --dataset demo --report no/x.html", "there is no folder no"),
    ("rerank-eval --dataset demo --systems dynmax-idf", "did you mean 'dynamax-idf'?"),
]
AFTER = [
    ("indx docs.jsonl", "No such command 'indx'. Did you mean 'index'?"),
    ("index docs.jsonl --idnex new", "No such option '--idnex'"),
    (f"index docs.jsonl emptydir {NEW}", "emptydir holds no documents"),
    (f"index docs.jsonl noid.csv {NEW}", "noid.csv: no column for the id among name, body"),
    ("index later.jsonl --index emptydir --model words.txt", "later.jsonl:2: not valid JSON"),
    ("index docs.jsonl twice.jsonl --index a/b/c --model words.txt", "'1' occurs twice"),
    (f"index docs.jsonl --precision int8 {NEW}", "has word vectors, which are computed in float32"),
    (f"index docs.jsonl --pooling 0 {NEW}", "Invalid value for '--pooling': 0.0 is not in the range x>=1"),
    (f"index docs.jsonl --payload-index metadata.year=number {NEW}", "choose one of keyword, integer, float"),
    (f"index docs.jsonl --no-tokens --pooling 2 {NEW}", "--no-tokens goes without --pooling"),
    (f"index --from-collection a {NEW}", "--from-collection needs --from-url"),
    (f"index --from-url http://localhost:1 --from-collection a {NEW}", "cannot reach the Qdrant server"),
    ("index docs.jsonl --qdrant-url http://localhost:1 --model words.txt", "cannot reach the Qdrant server"),
    (f"index docs.jsonl --collection c {NEW}", "--collection belongs to --qdrant-url"),
    (f"search '' {OWN}", "the question is empty"),
    (f"search dogs {OWN} --filter [", "--filter is not JSON"),
    (f"search dogs {OWN} --group-by metadata.", "give a path into the metadata, such as metadata.author"),
    (f"index docs.jsonl --tokens float16 {NEW}", "'float16' is not 'demo', no folder"),
    (f"search dogs {OWN} --system cosine --mode client", "leave it out, or choose one of surprise"),
    (f"search dogs {OWN} --mode vector", "'auto' has one place only; leave it out"),
    (f"search dogs {OWN} --model nothing.txt", "cannot load the model 'nothing.txt'"),
    (f"search --questions no.txt {OWN}", "no.txt: there is no such file of questions"),
    (f"search --questions empty.jsonl {OWN}", "empty.jsonl holds no questions"),
    ("search dogs --server http://localhost:1", "cannot be reached"),
    (f"explain dogs {OWN} --report x.doc", "no format for the suffix '.doc'"),
    ("status --qdrant-url http://localhost:1", "cannot reach the Qdrant server"),
    (f"ensemble set {OWN}", "give one of --documents, --questions FILE and --npz FILE"),
    (f"ensemble save no/e.npz --documents {OWN}", "there is no folder no"),
    (
        f"background set --questions q.txt {OWN}",
        "1 background questions found candidates; give at least 10",
    ),
    (f"background delete --system cosine {OWN}", "has no background for the system 'cosine'"),
    (f"fit {OWN}", "give both --questions FILE and --qrels FILE"),
    (f"enrich {OWN}", "is an index of surprise-rerank, which has all of it already"),
    ("serve --host 0.0.0.0 --port 0", "set SURPRISE_RERANK_TOKEN"),
    ("similar docs.jsonl --out docs.jsonl --model words.txt", "would be written where it is read"),
    (
        "similar two.jsonl --out n.csv --model words.txt",
        "'1' is empty, or of two texts",
    ),
    (
        "similar docs.jsonl --out n.csv --model words.txt --index http://localhost:1/papers",
        "cannot reach",
    ),
    (
        "similar docs.jsonl --out n.csv --model words.txt --device toaster",
        "'toaster' cannot be used: here is 'cpu'",
    ),
    ("rerank-eval --dataset no/such", "'no/such' is not 'demo', no folder, and no id of ir_datasets"),
    ("rerank-eval --dataset demo --model nothing.txt", "cannot load the model 'nothing.txt'"),
    ("rerank-eval sts --similarities dynmax-jaccard", "did you mean 'dynamax-jaccard'?"),
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with an index, and with what goes wrong; the current one."""
    folder = tmp_path_factory.mktemp("desk")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("QDRANT_URL", "QDRANT_API_KEY", "SURPRISE_RERANK_INDEX", "SURPRISE_RERANK_TOKEN"):
            patch.delenv(name, raising=False)
        patch.setenv("SURPRISE_RERANK_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.chdir(folder)
        Bench(folder).fill("--no-background")
        (folder / "emptydir").mkdir()
        for name, text in {
            "empty.jsonl": "",
            "q.txt": "why do dogs bark\n",
            "broken.jsonl": "{oops\n",
            "later.jsonl": '{"id": 1, "text": "dogs"}\n{oops\n',
            "noid.csv": "name,body\na,b\n",
            "notext.csv": "id,x\n1,2\n",
            "twice.jsonl": '{"id": "1", "text": "a"}\n{"id": "1", "text": "a"}\n',
            "two.jsonl": '{"id": "1", "text": "a"}\n{"id": "1", "text": "b"}\n',
            "bad.txt": "dogs 1 2\ncats 1\n",
            "bad.npz": "no",
            "picture.png": "\x89PNG",
        }.items():
            (folder / name).write_text(text)
        yield folder


@pytest.mark.parametrize(("use", "named"), [*BEFORE, *AFTER])
def test_a_wrong_use_is_one_line_and_leaves_nothing(desk: Path, use: str, named: str) -> None:
    arguments = shlex.split(use)
    program = arguments.pop(0) if arguments[0] == "rerank-eval" else "surprise-rerank"
    before = sorted(desk.rglob("*"))
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        code = exit_code(rerank_eval if program == "rerank-eval" else surprise_rerank, program, *arguments)
    said = err.getvalue()
    assert (code, out.getvalue(), said.count("\n")) == (2, "", 1), said
    assert said.startswith("Error: ")
    assert named in said
    assert len(said) < 700
    assert PYTHON.findall(NOT_PYTHON.sub("", said.replace(str(desk), ""))) == []
    assert sorted(desk.rglob("*")) == before
