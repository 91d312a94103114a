"""What an installed package must do, outside of the checkout: `python -P wheel_smoke.py`.

Modules that are named behind it are as if they were not installed.
"""

import contextlib
import hashlib
import subprocess
import sys
import tempfile
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

import numpy as np

import surprise_rerank

ROWS = [
    ("dogs", "Dogs bark to warn their owners of strangers."),
    ("cats", "Cats sleep most of the day."),
    ("wings", "A wing gives lift."),
]


def hide(modules: list[str]) -> None:
    """Let Python find none of these modules."""
    find = PathFinder.find_spec

    def find_others(name: str, path: Any = None, target: Any = None) -> Any:
        return None if name.partition(".")[0] in modules else find(name, path, target)

    # Static, as it was: dill asks an instance, the import system the class.
    PathFinder.find_spec = staticmethod(find_others)


def count_words(texts: list[str]) -> list[list[float]]:
    """Vectors of 64 numbers: how many of a text's words have this hash."""
    vectors = np.full((len(texts), 64), 0.01)
    for row, text in enumerate(texts):
        for word in text.lower().strip("?.").split():
            vectors[row, int(hashlib.sha256(word.encode()).hexdigest(), 16) % 64] += 1
    return vectors.tolist()


def main() -> None:
    """Import every public name, search with vectors of a function and of a model, and run both commands."""
    hide(sys.argv[1:])
    for name in surprise_rerank.__all__:
        with contextlib.suppress(surprise_rerank.MissingExtraError):
            getattr(surprise_rerank, name)
    encoders = [surprise_rerank.FunctionEncoder(count_words, name="words")]
    try:
        encoders.append(surprise_rerank.load_encoder())
    except surprise_rerank.MissingExtraError as error:
        if "pip install 'surprise-rerank[torch]'" not in str(error):
            raise
    with tempfile.TemporaryDirectory() as folder:
        for number, encoder in enumerate(encoders):
            with surprise_rerank.DocumentIndex.open(Path(folder, str(number)), encoder) as index:
                index.sync(surprise_rerank.Document(*row) for row in ROWS)
                assert index.pipeline("auto").search("why do dogs bark?").ids[0] == "dogs"
    for command in ("surprise-rerank", "rerank-eval"):
        subprocess.run(
            [Path(sys.executable).parent / command, "--help"], check=True, stdout=subprocess.DEVNULL
        )
    print(surprise_rerank.__version__, Path(surprise_rerank.__file__).parent, len(encoders), "encoders")


if __name__ == "__main__":
    main()
