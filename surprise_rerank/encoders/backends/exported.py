"""A model whose graph was exported: OpenVINO computes it, without torch."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, cast

from surprise_rerank.core.arrays import Float32Array
from surprise_rerank.core.extras import import_extra
from surprise_rerank.core.files import disk_errors, staged_folder
from surprise_rerank.encoders.backends.precision import Precision
from surprise_rerank.encoders.backends.tokenizing import PlainTokenizer
from surprise_rerank.encoders.backends.transformer import Batch, Passed, TransformerEncoder
from surprise_rerank.errors import ModelError, StoreError

FORMAT = 2
MARKER = "encoder.json"
GRAPH = "graph.xml"
# Tokens of a pass. One pass of these is in a core's caches, and every core has a pass of its own.
_BATCH_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class ExportedSettings:
    """What is beside a graph: how texts are read, and whose weights these are.

    Attributes:
        precision: of the weights in the graph; one of float32 is computed in bfloat16, too.
        fingerprint: of the model that was exported.
        dimension: of the dense vectors.
        token_dimension: of the token vectors.
        longest: most tokens that the model reads.
        prompts: name -> text before texts.
        prompt_tokens: whether the prompt's tokens count as the text's.
        inputs: names of what the graph takes.
        padding: how shorter texts of a batch are filled.
        split_special_tokens: whether a special token's spelling in a text is text.
        agreement: mean cosine of its dense vectors and torch's float32 ones, over a sample of texts.
    """

    precision: Precision
    fingerprint: str
    dimension: int
    token_dimension: int
    longest: int
    prompts: dict[str, str]
    prompt_tokens: bool
    inputs: list[str]
    padding: dict[str, Any]
    split_special_tokens: bool
    agreement: float


class ExportedEncoder(TransformerEncoder):
    """A model's exported graph as an encoder. Threads may share one. torch is not imported.

    Args:
        folder: what `write_exported` made.
        name: by which the user asked for it.
        precision: to compute in, where it is another than that of the weights.

    Attributes:
        folder: the same.
        settings: what is stored beside the graph.

    Raises:
        StoreError: if a file of the folder is missing or damaged.
        MissingExtraError: if openvino is not installed.
    """

    def __init__(self, folder: Path, name: str, precision: Precision | None = None) -> None:
        self.folder = folder
        self.settings = read_settings(folder)
        self.name = name
        self.precision = precision or self.settings.precision
        self.fingerprint = self.settings.fingerprint
        self.dimension = self.settings.dimension
        self.prompt_tokens = self.settings.prompt_tokens
        self.graph = OpenVinoGraph(folder / GRAPH, self.settings.inputs, self.precision)
        self._tokenizer = PlainTokenizer(
            folder,
            self.settings.inputs,
            self.settings.padding,
            split_special_tokens=self.settings.split_special_tokens,
        )

    @functools.cached_property
    def token_dimension(self) -> int:
        """Dimension of the token vectors."""
        return self.settings.token_dimension

    @property
    def tokenizer(self) -> Any:
        """The model's."""
        return self._tokenizer

    @property
    def prompts(self) -> Mapping[str, str | None]:
        """The model's."""
        return self.settings.prompts

    @property
    def longest(self) -> int:
        """The model's."""
        return self.settings.longest

    @property
    def batch_tokens(self) -> int:
        """The same for each backend."""
        return _BATCH_TOKENS

    def passes(self, batches: Iterable[Batch]) -> Iterator[Passed]:
        """As the graph runs them."""
        return self.graph.run(batches)


class OpenVinoGraph:
    """A graph in OpenVINO: a single batch by all cores, several batches by a core each.

    Args:
        path: of the .xml file; the weights are beside it.
        inputs: names of what it takes.
        precision: to multiply in; int8 weights are multiplied in int8 whatever this is.

    Raises:
        MissingExtraError: if openvino is not installed.
        StoreError: if OpenVINO cannot read the graph.
        ModelError: if it cannot compute it on this processor.
    """

    def __init__(self, path: Path, inputs: list[str], precision: Precision) -> None:
        self._openvino: Any = import_extra("openvino", "openvino")
        self._inputs = inputs
        self._hint = "bf16" if precision == "bfloat16" else "f32"
        try:
            self._model = self._openvino.Core().read_model(path)
        except RuntimeError as error:
            raise StoreError(_unreadable(path, error)) from error
        self._compiling = threading.Lock()
        self._compiled: dict[str, Any] = {}
        try:
            self._for("LATENCY")
        except RuntimeError as error:
            raise ModelError(
                f"OpenVINO cannot compute {path} in {precision} on this processor: {_reason(error)}; "
                "choose another precision or backend"
            ) from error

    def run(self, batches: Iterable[Batch]) -> Iterator[Passed]:
        """In their order. As many are computed at a time as OpenVINO finds best for this processor."""
        rest = iter(batches)
        first = list(islice(rest, 2))
        compiled = self._for("THROUGHPUT" if len(first) > 1 else "LATENCY")
        idle = [
            compiled.create_infer_request()
            for _ in range(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS") if first[1:] else 1)
        ]
        running: deque[tuple[Any, Batch]] = deque()
        for batch in chain(first, rest):
            if not idle:
                request, done = running.popleft()
                yield _passed(request, done)
                idle.append(request)
            request = idle.pop()
            request.start_async({name: batch.features[name] for name in self._inputs}, share_inputs=True)
            running.append((request, batch))
        for request, done in running:
            yield _passed(request, done)

    def _for(self, aim: str) -> Any:
        with self._compiling:
            if aim not in self._compiled:
                settings = {"PERFORMANCE_HINT": aim, "INFERENCE_PRECISION_HINT": self._hint}
                self._compiled[aim] = self._openvino.Core().compile_model(self._model, "CPU", settings)
            return self._compiled[aim]


def _passed(request: Any, batch: Batch) -> Passed:
    request.wait()
    dense, tokens = (cast(Float32Array, request.get_output_tensor(i).data) for i in range(2))
    return Passed(batch, dense, tokens)


def _unreadable(path: Path, error: Exception) -> str:
    return (
        f"cannot read the exported model {path}: {_reason(error)}; delete its folder, and it is exported "
        "again"
    )


def _reason(error: Exception) -> str:
    """The last line: those before are places in the library's source."""
    return str(error).strip().splitlines()[-1][:200]


def read_settings(folder: Path) -> ExportedSettings:
    """The settings of an exported model, after all its files were compared with what was written.

    Raises:
        StoreError: if a file is missing, is damaged, or is of another version of this package.
    """
    where = f"the exported model {folder}"
    with disk_errors(where):
        raw = (folder / MARKER).read_bytes()
        try:
            stored = json.loads(raw)
            if stored["format"] != FORMAT:
                raise StoreError(f"{where} is of another version of this package; delete the folder")
            settings = ExportedSettings(**stored["settings"])
            files: dict[str, str] = dict(stored["files"])
            whole = stored["seal"] == _seal(stored["settings"], files)
        except (ValueError, KeyError, TypeError) as error:
            raise StoreError(f"{where} is damaged: {MARKER} cannot be read; delete the folder") from error
        damaged = [name for name, digest in files.items() if _sha256(folder / name) != digest]
    if damaged or not whole:
        raise StoreError(f"{where} is damaged: {', '.join(damaged) or MARKER} changed; delete the folder")
    return settings


def write_settings(folder: Path, settings: ExportedSettings) -> None:
    """Complete a folder in which the graph and the tokenizer are.

    Raises:
        OSError: if it cannot be written.
    """
    values = asdict(settings)
    files = {path.name: _sha256(path) for path in sorted(folder.iterdir()) if path.name != MARKER}
    stored = {"format": FORMAT, "settings": values, "files": files, "seal": _seal(values, files)}
    (folder / MARKER).write_text(json.dumps(stored, indent=1))


def _seal(settings: Mapping[str, Any], files: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([settings, files], sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ""


def draft_of(folder: Path) -> Any:
    """A new folder that becomes this one when it is complete; see `staged_folder`."""
    return staged_folder(Path(os.path.abspath(folder)), MARKER, f"the exported model {folder}")
