"""What `make dist` makes: a wheel that works, and a source distribution that makes the same wheel."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from surprise_rerank.core._extras import is_installed

ROOT = Path(__file__).parents[2]
MODULES = ("surprise_rerank", "connectors", "eval")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not is_installed("build"), reason="build is not installed: it comes with the extra 'dev'"
    ),
]


def run(*command: str | Path, cwd: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def build(source: Path, out: Path, *what: str) -> list[Path]:
    """Without isolation: the tests reach no network."""
    run(sys.executable, "-P", "-m", "build", "--no-isolation", *what, "--outdir", out, source, cwd=source)
    return sorted(out.iterdir())


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, as setuptools writes beside what it builds."""
    copy = tmp_path_factory.mktemp("checkout") / "project"
    away = [".git", ".venv", "build", "dist", "site", "runs", "__pycache__", "*.egg-info", ".*_cache"]
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*away, ".hypothesis"))
    return copy


@pytest.fixture(scope="module")
def distributions(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source distribution; the wheel is built from the other."""
    source, wheel = sorted(build(checkout, tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix)
    assert (source.suffixes[-2:], wheel.suffix) == ([".tar", ".gz"], ".whl")
    return wheel, source


@pytest.fixture(scope="module")
def environment(distributions: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel alone, which finds its dependencies where the tests find theirs."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder, cwd=folder)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", distributions[0], cwd=folder)
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # site-packages that stand in sys.path after the environment's own: the wheel's files win.
    ours = [path for path in sys.path if Path(path).name == "site-packages"]
    (Path(packages) / "dependencies.pth").write_text("\n".join(ours or [sysconfig.get_path("purelib")]))
    return folder


def test_both_hold_the_project_and_nothing_else(checkout, distributions):
    def files(*folders: str) -> set[str]:
        paths = (path for folder in folders for path in (checkout / folder).rglob("*") if path.is_file())
        return {path.relative_to(checkout).as_posix() for path in paths}

    with tarfile.open(distributions[1]) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    tracked = files(*MODULES, "tests", "docs", "examples", "benchmarks")
    assert tracked | {"LICENSE", "Makefile", "pyproject.toml"} <= held
    with zipfile.ZipFile(distributions[0]) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
    below = {
        name if name.startswith("surprise_rerank/") else f"surprise_rerank/{name}" for name in files(*MODULES)
    }
    assert held == below
    assert {"surprise_rerank/py.typed", "surprise_rerank/eval/reports/page.html.j2"} <= held
    pytest.importorskip("twine", reason="twine is not installed: it comes with the extra 'dev'")
    run(sys.executable, "-P", "-m", "twine", "check", "--strict", *distributions, cwd=distributions[0].parent)


@pytest.mark.parametrize("missing", [(), ("torch", "sentence_transformers", "transformers")])
def test_the_wheel_works_also_without_torch(environment, tmp_path, monkeypatch, missing):
    smoke = Path(__file__).with_name("wheel_smoke.py")
    # A cache of its own: with torch the model is exported here, without it the export is read.
    monkeypatch.setenv("SURPRISE_RERANK_CACHE", str(environment / "cache"))
    version, folder, *_ = run(environment / "bin" / "python", "-P", smoke, *missing, cwd=tmp_path).split()
    assert Path(folder).is_relative_to(environment)
    assert version == tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
