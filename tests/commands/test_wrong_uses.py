"""Wrong uses of the commands: one line that names it, exit code 2, and nothing left behind."""

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from helpers.bench import Bench
from helpers.programs import exit_code

from surprise_rerank.eval.cli.rerank_eval.main import main as rerank_eval
from surprise_rerank.eval.cli.surprise_rerank.main import main as surprise_rerank

NEW = "--index new --model words.txt"  # an index that is not there yet
OWN = "--index index"

USES = [
    ("index", "which index? give --index"),
    (f"index {NEW}", "what is to be read"),
    (f"index no.jsonl {NEW}", "no.jsonl: no such file"),
    (f"index emptydir {NEW}", "emptydir holds no documents"),
    (f"index empty.jsonl {NEW}", "empty.jsonl holds no documents"),
    (f"index broken.jsonl {NEW}", "on_error=skip"),
    (f"index docs.jsonl noid.csv {NEW}", "noid.csv: no column for the id among name, body; looked for"),
    (f"index notext.csv {NEW}", "name it (--text-field NAME)"),
    (f"index docs.jsonl --text-field body {NEW}", "no column 'body' for the text among id, title, text"),
    (f"index twice.jsonl {NEW}", "'1' occurs twice (twice.jsonl:1 and twice.jsonl:2)"),
    (f"index later.jsonl {NEW}", "later.jsonl:2: not valid JSON"),
    ("index later.jsonl --index emptydir --model words.txt", "later.jsonl:2: not valid JSON"),
    ("index docs.jsonl twice.jsonl --index a/b/c --model words.txt", "'1' occurs twice"),
    (f"index picture.png {NEW}", "give the format, one of jsonl"),
    (f"index docs.jsonl --format parquet {NEW}", "docs.jsonl: damaged, cut short, or of another format"),
    (f"index beir/scifactt {NEW}", "did you mean beir/scifact or"),
    (f"index http://localhost:1/papers {NEW}", "cannot reach the Qdrant server"),
    ("index docs.jsonl --index new --model nothing.txt", "cannot load the model 'nothing.txt'"),
    ("index docs.jsonl --index new --model bad.txt", "bad.txt, line 2: 1 numbers after the word, expected 2"),
    ("index docs.jsonl --index words.txt --model words.txt", "cannot use words.txt"),
    (
        "index docs.jsonl --index http://localhost:1/papers --model words.txt",
        "cannot reach the Qdrant server",
    ),
    ("index docs.jsonl --index http://localhost:1", "names no collection; give a url such as"),
    (f"index docs.jsonl --id-field a --id-field b {OWN}", "--id-field is given 2 times; give it once"),
    (f"index docs.jsonl --delete d1 {OWN}", "--delete-where go without each other, SOURCE"),
    (f"index --delete d1 --delete-where {{}} {OWN}", "--delete-where go without each other, SOURCE"),
    ("index docs.jsonl --index docs.jsonl", "docs.jsonl is a file"),
    ("similar docs.jsonl --out pairs.doc", "choose .parquet, .csv, .jsonl"),
    ("serve --index nowhere", "there is no index at nowhere"),
    ("status --index emptydir", "there is no index at emptydir"),
    ("index --delete d1 --index nowhere", "there is no index at nowhere"),
    (f"index docs.jsonl --idnex {NEW}", "No such option '--idnex'"),
    (f"index docs.jsonl --set bm25.language=englsh {NEW}", "did you mean 'english'?"),
    (f"index docs.jsonl --set year {NEW}", "write KEY=VALUE"),
    (f"index docs.jsonl --set poling=2 {NEW}", "did you mean 'pooling'?"),
    (f"index docs.jsonl --set pooling=0 {NEW}", "pooling must be a number of at least 1"),
    (f"index docs.jsonl --set pooling=two {NEW}", "--set pooling=two: expected a valid number"),
    (f"index docs.jsonl --set passages.tokens=8 --set passages.overlap=9 {NEW}", "choose an overlap below 8"),
    (f"index docs.jsonl --set passages=no --set passages.best=2 {NEW}", "passages=no goes without"),
    (f"index docs.jsonl --set pooling=2 {OWN}", "made with pooling=3.5, asked for is pooling=2.0"),
    (f"index docs.jsonl --set tokens=no {OWN}", "made with tokens=True, asked for is tokens=False"),
    (f"index docs.jsonl --set payload_indexes.metadata.year=number {NEW}", "expected 'keyword', 'integer'"),
    (f"index docs.jsonl --set precision=int8 {NEW}", "has word vectors, which are computed in float32"),
    (f"index docs.jsonl --set shards=2 {NEW}", "a folder has no shards"),
    (f"search {OWN}", "what is the question?"),
    (f"search '' {OWN}", "the question is empty"),
    (f"search dogs {OWN} --top 0", "--top"),
    (f"search dogs {OWN} --pool 99999999999999999999", "depth must be a whole number from 1 to 9007199254"),
    (f"search dogs {OWN} --min-percentile .95", "make one ('surprise-rerank tune background'"),
    (f"search dogs {OWN} --system fuson", "did you mean 'fusion'?"),
    ("search dogs --index nowhere", "there is no index at nowhere"),
    (f"search dogs {OWN} --filter [", "--filter is not JSON"),
    (f"search dogs {OWN} --filter '{{\"mst\": []}}'", "'mst' is not known in the filter"),
    (f'search dogs {OWN} --filter \'{{"must": [], "must": []}}\'', "--filter: an object has a key twice"),
    (f"search dogs {OWN} --set group_by=metadata.", "group_by must be a key of the metadata, got ''"),
    (f"search dogs {OWN} --set offset=-1", "offset must be a whole number of at least 0, got -1"),
    (f"search dogs {OWN} --system cosine --set mode=vector", "leave it out, or choose one of surprise"),
    (f"search dogs {OWN} --model nothing.txt", "cannot load the model 'nothing.txt'"),
    (f"search dogs {OWN} --explain x.doc", "no format for the suffix '.doc'"),
    (f"search dogs {OWN} --explain none/x.html", "none; make it, or choose another place"),
    (f"search - {OWN} --explain x.html", "explains one question"),
    ("status --index http://localhost:1/papers", "cannot reach the Qdrant server"),
    (f"tune ensemble --questions no.txt {OWN}", "no.txt: there is no such file of questions"),
    (f"tune ensemble --questions empty.jsonl {OWN}", "empty.jsonl holds no questions"),
    (f"tune background --questions q.txt {OWN}", "1 background questions found candidates; give at least 10"),
    (f"tune background --reset --system cosine {OWN}", "has no background for the system 'cosine'"),
    (f"tune background --qrels q.txt {OWN}", "give both --questions FILE and --qrels FILE"),
    (f"tune ensemble --qrels q.txt {OWN}", "--qrels is for tune background and tune weights"),
    (f"tune weights --set shrink_mean=1 {OWN}", "--set shrink_mean is for tune ensemble"),
    (f"tune background --reset --questions q.txt {OWN}", "--reset goes without"),
    (f"tune weights {OWN}", "give both --questions FILE and --qrels FILE"),
    (f"tune weights --reset {OWN}", "has no fitted weights of the system 'auto'"),
    (
        f"tune weights --system cosine {OWN}",
        "--system cosine has no weights to learn",
    ),
    (f"enrich {OWN}", "is an index of surprise-rerank, which has all of it already"),
    ("serve --index nowhere --port 0", "there is no index at nowhere"),
    ("serve --host 0.0.0.0 --port 0", "set SURPRISE_RERANK_TOKEN"),
    (f"serve {OWN} --mcp stdio --port 9000", "--port is for HTTP"),
    (f"serve {OWN} --mcp stdio --page", "--page is for HTTP"),
    ("serve --mcp", "--index with a folder"),
    ("serve --page", "--index with a folder"),
    ("similar docs.jsonl --out docs.jsonl --model words.txt", "would be written where it is read"),
    ("similar docs.jsonl --out no/n.csv --model words.txt", "there is no folder no"),
    ("similar two.jsonl --out n.csv --model words.txt", "'1' is empty, or of two texts"),
    ("similar docs.jsonl --out n.csv --model words.txt --index http://localhost:1/papers", "cannot reach"),
    ("similar docs.jsonl --out n.csv --model words.txt --set device=toaster", "'toaster' cannot be used"),
    ("similar docs.jsonl --out n.csv --model words.txt --set workers=2", "belongs to --ray"),
    ("indx docs.jsonl", "No such command 'indx'. Did you mean 'index'?"),
    ("rerank-eval --dataset no/such", "'no/such' is no file, no folder, and no id of ir_datasets"),
    ("rerank-eval --dataset demo --model nothing.txt", "cannot load the model 'nothing.txt'"),
    ("rerank-eval --dataset demo --report no/x.html", "there is no folder no"),
    ("rerank-eval --dataset demo --systems dynmax-idf", "did you mean 'dynamax-idf'?"),
    ("rerank-eval --systems ,", "give at least one name"),
    ("rerank-eval --set depth=3", "no setting 'depth'"),
    ("rerank-eval --limit 3 words", "--limit is for retrieval; words's options follow words"),
    ("rerank-eval sts --similarities dynmax-jaccard", "did you mean 'dynamax-jaccard'?"),
    ("rerank-eval classify q.txt --set few_shot=x", "expected a valid integer"),
    ("rerank-eval classify q.txt --set weight=2", "give crossover, or a number from 0 to 1"),
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
        Bench(folder).fill("--set", "background=no")
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


@pytest.mark.parametrize(("use", "named"), USES)
def test_a_wrong_use_is_one_line_and_leaves_nothing(desk, use, named):
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
    assert sorted(desk.rglob("*")) == before


CHEAP = (
    "search dogs --index nowhere",
    "search dogs --index emptydir",
    "serve --index nowhere",
    "similar docs.jsonl --out pairs.doc",
    "serve --host 203.0.113.1 --port 8123",
)


def test_what_is_cheap_to_check_is_refused_before_a_library_is_loaded(tmp_path):
    (tmp_path / "emptydir").mkdir()
    code = (
        "import sys\nfrom surprise_rerank.eval.cli.surprise_rerank.main import main\n"
        f"for command in {CHEAP!r}:\n"
        "    sys.argv = ['surprise-rerank', *command.split()]\n"
        "    try: main()\n    except SystemExit as end: print(end.code, end=' ')\n"
        "    print({'torch', 'qdrant_client', 'transformers', 'scipy', 'fastapi'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.splitlines() == ["2 set()"] * len(CHEAP), done.stderr


@pytest.mark.parametrize(
    ("question", "streams", "code"),
    [("dogs", ">&- 2>&- <&-", 0), ("dogs", ">&-", 0), ("dogs", "", 0), ("-", "<&-", 2)],
)
def test_streams_that_are_closed_or_lack_letters_stop_nothing(desk, question, streams, code):
    program = "from surprise_rerank.eval.cli.entry import surprise_rerank; surprise_rerank()"
    command = shlex.join(
        [sys.executable, "-c", program, "search", question, "--index", "index", "--system", "bm25"]
    )
    environment = os.environ | {"PYTHONIOENCODING": "latin-1"}  # long texts end in a sign that it lacks
    done = subprocess.run(
        f"{command} {streams}", cwd=desk, env=environment, shell=True, capture_output=True, text=True
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    assert ("\\u2026" in done.stdout) == (not streams)


def test_a_full_disk_is_told_before_documents_are_read(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=1000))
    code, _, error = Bench(tmp_path).run("index", "nowhere.jsonl", "--index", tmp_path / "new")
    assert code == 2
    assert "the disk is full; free some space" in error
