"""Transformers as encoders: texts to tokens, forward passes by torch, and their vectors to texts."""

from __future__ import annotations

import copy
import functools
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from surprise_rerank import _border as border
from surprise_rerank._documents import encodable
from surprise_rerank._errors import ModelError
from surprise_rerank.core._process import limit_torch
from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.encoders.base import Encoded, Kind, PortableEncoder, Precision, Progress

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer
    from tokenizers import Tokenizer

# A GPU has no caches that matter; larger batches than 4096 leave a CPU's, and are slower.
_GPU_BATCH_TOKENS = 65_536
# Tokenizers without a limit report a number far above this.
_NO_LIMIT = 10**9
# What models read, as transformers calls it, and as the tokenizers below do.
COLUMNS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}

# Name of what a model reads -> (b, t) int64, filled up on the right.
Features: TypeAlias = dict[str, IntArray]
# The rows of b texts among those that are encoded, and what the model reads of them.
Batch: TypeAlias = tuple[list[int], Features]
# Their rows again, (b, d) dense vectors, (b, t, d') of every token: valid until the next pass is asked for.
Passed: TypeAlias = tuple[list[int], Float32Array, Float32Array]


@dataclass(frozen=True, slots=True)
class Reading:
    """How a model reads texts."""

    inputs: tuple[str, ...]  # names of what it reads, of `COLUMNS`
    longest: int | None  # most tokens, special ones included; None for any number
    prompts: dict[str, str]  # kind of text -> what is put before it
    padding: int  # the `input_ids` that fill up shorter texts of a batch
    prompt_tokens: bool = False  # whether the prompt's tokens count as tokens of the text
    split_special_tokens: bool = False  # whether a special token's spelling in a text is text like any other


class TransformerEncoder(PortableEncoder, ABC):
    """A transformer as an encoder; a subclass makes the forward passes. Threads may share one.

    The tokenizer is one that cuts and pads nothing, and that nobody else changes.
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer,
        reading: Reading,
        *,
        dimension: int,
        fingerprint: str,
        precision: Precision,
    ) -> None:
        tokenizer.encode_special_tokens = reading.split_special_tokens
        self.name, self.tokenizer, self.reading = name, tokenizer, reading
        self.dimension, self.fingerprint = dimension, fingerprint
        self.precision: Precision = precision

    # Most tokens of a forward pass, padding included; a longer text has a pass of its own.
    batch_tokens = 4096

    @abstractmethod
    def passes(self, batches: Iterable[Batch], prompt: str) -> Iterator[Passed]:
        """A forward pass for each batch of texts that begin with this prompt, in any order."""

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors from one pass; texts longer than the model reads are cut."""
        inputs, counted = self.read(texts, kind)
        dense = np.zeros((len(texts), self.dimension), dtype=np.float32)
        lengths = np.array([len(places) for places in counted], dtype=np.int64)
        ends = np.cumsum(lengths)
        tokens = np.empty((int(lengths.sum()), self.token_dimension), dtype=np.float32)
        for rows, of_texts, of_tokens in self.passes(self._batches(inputs), self.prompt(kind)):
            # Matryoshka models are cut after the forward pass.
            dense[rows] = of_texts[:, : self.dimension]
            for vectors, i in zip(of_tokens, rows, strict=True):
                np.take(vectors, counted[i], axis=0, out=tokens[ends[i] - lengths[i] : ends[i]])
            if on_progress is not None:
                on_progress(len(rows))
        return Encoded(unit_rows(dense), TokenBatch.from_rows(tokens, lengths))

    @functools.cached_property
    def token_dimension(self) -> int:
        """Dimension of the token vectors, from one pass of the model."""
        ((_, _, tokens),) = self.passes(self.batches(["word"]), self.prompt("document"))
        return int(tokens.shape[-1])

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The tokenizer's pieces whose vectors `encode` returns, in its spelling."""
        inputs, counted = self.read(texts, kind)
        rows = zip(inputs["input_ids"], counted, strict=True)
        return [[self.tokenizer.id_to_token(int(i)) or "" for i in ids[places]] for ids, places in rows]

    @functools.cached_property
    def window(self) -> int | None:
        """Most tokens of a document, without the prompt and the special tokens; None for any number."""
        if self.reading.longest is None:
            return None
        return self.reading.longest - len(self.tokenizer.encode(self.prompt("document")))

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length; the prompt and special tokens have none."""
        return token_spans(self.tokenizer, texts, self.prompt(kind))

    def prompt(self, kind: Kind) -> str:
        """The text that goes before a text of this kind; empty for a model without prompts."""
        return self.reading.prompts.get(kind, "")

    def read(
        self, texts: Sequence[str], kind: Kind = "document"
    ) -> tuple[dict[str, list[IntArray]], list[IntArray]]:
        """What the model reads of n texts, cut to its length, and which of these tokens count as theirs."""
        prompt = self.prompt(kind)
        inputs: dict[str, list[IntArray]] = {name: [] for name in self.reading.inputs}
        counted: list[IntArray] = []
        for encoding in self.tokenizer.encode_batch([prompt + encodable(text) for text in texts]):
            special = np.array(encoding.special_tokens_mask, dtype=bool)
            counts = ~special
            if prompt and not self.reading.prompt_tokens:
                counts &= _offsets(encoding)[:, 1] > len(prompt)
            kept = self._kept(special)
            for name, values in inputs.items():
                values.append(np.array(getattr(encoding, COLUMNS[name]), dtype=np.int64)[kept])
            counted.append(np.flatnonzero(counts[kept]))
        return inputs, counted

    def _kept(self, special: IntArray) -> IntArray:
        """Which tokens the model reads: from the beginning, and the special ones at the end."""
        longest, n = self.reading.longest, len(special)
        if longest is None or n <= longest:
            return np.arange(n)
        last = n - 1 - int(np.argmin(special[::-1]))  # the last token that is not special
        ending = n - 1 - last
        return np.concatenate([np.arange(longest - ending), np.arange(n - ending, n)])

    def batches(self, texts: Sequence[str], kind: Kind = "document") -> Iterator[Batch]:
        """What `passes` takes for texts."""
        return self._batches(self.read(texts, kind)[0])

    def _batches(self, inputs: Mapping[str, list[IntArray]]) -> Iterator[Batch]:
        """Texts of similar length: little is padded. Longest first: memory has its peak at the start."""
        lengths = np.array([len(ids) for ids in inputs["input_ids"]], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable").tolist()
        while order:
            width = int(lengths[order[0]])
            size = max(1, self.batch_tokens // max(1, width))
            rows, order = order[:size], order[size:]
            features: Features = {}
            for name, values in inputs.items():
                filler = self.reading.padding if name == "input_ids" else 0
                features[name] = np.full((len(rows), width), filler, dtype=np.int64)
                for place, i in zip(features[name], rows, strict=True):
                    place[: len(values[i])] = values[i]
            yield rows, features


class SentenceTransformerEncoder(TransformerEncoder):
    """A sentence-transformers model, computed by torch. Threads may share one.

    Token vectors are those that the model pools, or projects before that: their dimension may be another than
    the dense vectors'. The loaded model may be of any precision; vectors are float32. `prompt_tokens` says
    whether the tokens of the model's prompt count as the text's, as in multilingual-e5-small's published
    figures. `bfloat16` rounds the factors of products, and keeps sums, means and norms.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        name: str,
        *,
        prompt_tokens: bool = False,
        precision: Precision = "float32",
    ) -> None:
        if precision == "int8":
            raise ModelError(
                f"precision='int8': {name!r} is computed by torch, in float32 or bfloat16; choose one of them"
            )
        self.model = border.able("model", model, "eval", "a SentenceTransformer").eval()
        tokenizer: Any = model.tokenizer
        reading = Reading(
            inputs=tuple(n for n in COLUMNS if n == "attention_mask" or n in tokenizer.model_input_names),
            longest=longest_of(model),
            prompts={kind: prompt_of(model.prompts, kind) for kind in ("query", "document")},
            # Without a number for padding any will do: the attention mask leaves it out.
            padding=tokenizer.pad_token_id or 0,
            prompt_tokens=prompt_tokens,
            split_special_tokens=bool(tokenizer.split_special_tokens),
        )
        super().__init__(
            name,
            own_tokenizer(model, name),
            reading,
            dimension=int(model.get_embedding_dimension() or 0),
            fingerprint=fingerprint_of(model),
            precision=precision,
        )
        if model.device.type != "cpu":
            self.batch_tokens = _GPU_BATCH_TOKENS

    def is_changed(self) -> bool:
        """Whether the model was trained since this was made."""
        return fingerprint_of(self.model) != self.fingerprint

    def passes(self, batches: Iterable[Batch], prompt: str) -> Iterator[Passed]:
        """One after the other, each with all of torch's threads, or with one in a forked process."""
        import torch

        limit_torch()
        device = self.model.device
        for rows, features in batches:
            inputs: dict[str, Any] = {n: torch.from_numpy(v).to(device) for n, v in features.items()}
            if prompt and tells_prompt(self.model):
                # As the library counts: without a special token at the end.
                special = self.tokenizer.encode(prompt).special_tokens_mask
                inputs["prompt_length"] = len(special) - special[-1]
            rounded = torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
            with torch.inference_mode(), rounded:
                output = self.model(inputs)
            dense, tokens = (output[key].float().cpu() for key in ("sentence_embedding", "token_embeddings"))
            yield rows, dense.numpy(), tokens.numpy()


def own_tokenizer(model: Any, name: str) -> Tokenizer:
    """A copy of a model's tokenizer that cuts and pads nothing, which are settings that the model changes."""
    if not hasattr(model.tokenizer, "backend_tokenizer"):
        raise ModelError(
            f"the model {name!r} has no text tokenizer that tells where tokens lie; choose another model, or "
            "take its dense vectors alone: FunctionEncoder(model.encode, name=...)"
        )
    tokenizer: Tokenizer = copy.deepcopy(model.tokenizer.backend_tokenizer)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def longest_of(model: Any) -> int | None:
    """Most tokens that a model reads, special ones included; None for any number."""
    longest = int(model.max_seq_length or model.tokenizer.model_max_length)
    return None if longest > _NO_LIMIT else longest


def token_spans(tokenizer: Tokenizer, texts: Sequence[str], prompt: str = "") -> list[IntArray]:
    """Where the tokens of each text lie: (n, 2) first characters and ends, of all its tokens.

    A token that the prompt and the text share counts as the text's.
    """
    whole = [prompt + encodable(text) for text in texts]
    spans_by_text = []
    for encoding in tokenizer.encode_batch(whole, add_special_tokens=False):
        spans = _offsets(encoding) - len(prompt)
        spans_by_text.append(np.maximum(spans[spans[:, 1] > 0], 0) if prompt else spans)
    return spans_by_text


def _offsets(encoding: Any) -> IntArray:
    return np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)


def prompt_of(prompts: Mapping[str, str | None], kind: Kind) -> str:
    """The text that a sentence-transformers model has before texts of a kind; empty where there is none."""
    names = ("query",) if kind == "query" else ("document", "passage", "corpus")
    return next((prompt for name in names if (prompt := prompts.get(name))), "")


def tells_prompt(model: Any) -> bool:
    """Whether a model leaves the prompt out of its dense vectors, as INSTRUCTOR's do."""
    return any(getattr(module, "include_prompt", True) is False for module in model)


def fingerprint_of(model: Any) -> str:
    """16 digits from the ends of every parameter: differs after training, takes milliseconds."""
    import torch

    digest = hashlib.sha256(str(model.max_seq_length).encode())
    for name, parameter in sorted(model.state_dict().items()):
        values = parameter.detach().flatten()
        ends = torch.cat([values[:64], values[-64:]]).float().cpu().numpy()
        digest.update(f"{name}{tuple(parameter.shape)}".encode() + ends.astype("<f4").tobytes())
    return digest.hexdigest()[:16]
