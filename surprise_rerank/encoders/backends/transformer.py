"""Everything about a transformer as an encoder but its forward pass: tokens in, vectors out."""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.backends.precision import Precision
from surprise_rerank.encoders.base import Encoded, Kind, Progress, even_spans

# Tokenizers without a limit report a number far above this.
NO_LIMIT = 10**9


@dataclass(frozen=True, slots=True)
class Batch:
    """Texts of one forward pass.

    Attributes:
        rows: (b,) their positions among the texts that are encoded.
        features: name -> (b, t) int64, the tokenizer's numbers and `attention_mask`, padded.
        prompt: what stands before each text, as text.
    """

    rows: list[int]
    features: dict[str, IntArray]
    prompt: str


@dataclass(frozen=True, slots=True)
class Passed:
    """What a forward pass gives.

    Attributes:
        batch: the texts.
        dense: (b, d) or wider; what is beyond the encoder's dimension is cut.
        tokens: (b, t, d') of every token, padding included; valid until the next pass is asked for.
    """

    batch: Batch
    dense: Float32Array
    tokens: Float32Array


class TransformerEncoder(ABC):
    """A transformer as an encoder. A subclass has the weights and makes the forward passes.

    Attributes:
        name: by which the user asked for it.
        dimension: of the dense vectors.
        fingerprint: 16 digits of the weights.
        precision: of the numbers that the forward pass multiplies.
        prompt_tokens: whether the tokens of the model's prompt count as tokens of the text, too.
    """

    name: str
    dimension: int
    fingerprint: str
    precision: Precision
    prompt_tokens: bool

    @property
    @abstractmethod
    def tokenizer(self) -> Any:
        """The tokenizer of transformers."""

    @property
    @abstractmethod
    def prompts(self) -> Mapping[str, str | None]:
        """Name -> text that goes before texts."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Most tokens that the model reads, special ones included; above `NO_LIMIT` for any number."""

    @property
    @abstractmethod
    def batch_tokens(self) -> int:
        """Most tokens of a forward pass, padding included; a longer text has a pass of its own."""

    @abstractmethod
    def passes(self, batches: Iterable[Batch]) -> Iterator[Passed]:
        """A forward pass for each batch, in any order."""

    def encode(
        self, texts: Sequence[str], kind: Kind = "document", on_progress: Progress | None = None
    ) -> Encoded:
        """Dense and token vectors from one pass; texts longer than the model reads are cut.

        Args:
            texts: any strings; empty ones and lone surrogates included.
            kind: chooses the model's prompt, where it has one.
            on_progress: called with the number of texts of every finished batch.
        """
        prompt = self.prompt(kind)
        inputs = self._inputs(texts, prompt)
        own = inputs.pop("own")
        dense = np.zeros((len(texts), self.dimension), dtype=np.float32)
        lengths = np.array([mask.sum() for mask in own], dtype=np.int64)
        ends = np.cumsum(lengths)
        tokens = np.empty((int(lengths.sum()), self.token_dimension), dtype=np.float32)
        for passed in self.passes(self._batches(inputs, prompt)):
            rows, read = passed.batch.rows, passed.batch.features["attention_mask"].astype(bool)
            # Matryoshka models are cut after the forward pass.
            dense[rows] = passed.dense[:, : self.dimension]
            for row, i in enumerate(rows):
                kept = np.flatnonzero(read[row])[own[i]]
                np.take(passed.tokens[row], kept, axis=0, out=tokens[ends[i] - lengths[i] : ends[i]])
            if on_progress is not None:
                on_progress(len(rows))
        return Encoded(unit_rows(dense), TokenBatch.from_rows(tokens, lengths))

    @functools.cached_property
    def token_dimension(self) -> int:
        """Dimension of the token vectors, from one pass of the model."""
        (passed,) = self.passes(self.batches(["word"]))
        return int(passed.tokens.shape[-1])

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The tokenizer's pieces whose vectors `encode` returns, in its spelling.

        Args:
            texts: n strings.
            kind: picks the model's prompt, where it has one.
        """
        inputs = self._inputs(texts, self.prompt(kind))
        pieces = self.tokenizer.convert_ids_to_tokens
        rows = zip(inputs["input_ids"], inputs["own"], strict=True)
        return [pieces([i for i, counts in zip(ids, own, strict=True) if counts]) for ids, own in rows]

    @property
    def window(self) -> int | None:
        """Most tokens of a document, without the prompt and the special tokens; None for any number."""
        if self.longest > NO_LIMIT:
            return None
        return self.longest - self._whole.length(self.prompt("document"))

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length; see `WholeTexts.spans`. The prompt has none.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            kind: picks the model's prompt, where it has one.
        """
        return self._whole.spans(texts, self.prompt(kind))

    @functools.cached_property
    def _whole(self) -> WholeTexts:
        return WholeTexts(self.tokenizer)

    def prompt(self, kind: Kind) -> str:
        """The text that goes before a text of this kind; empty for a model without prompts."""
        return prompt_of(self.prompts, kind)

    def tokenized(self, texts: list[str], *, offsets: bool = False) -> dict[str, list[Any]]:
        """The tokenizer's lists for n texts with their prompts, truncated to the model's length."""
        if not texts:
            return {"input_ids": [], "special_tokens_mask": [], **({"offset_mapping": []} if offsets else {})}
        limited = self.longest <= NO_LIMIT
        inputs = self.tokenizer(
            texts,
            truncation=limited,
            max_length=self.longest if limited else None,
            return_special_tokens_mask=True,
            return_attention_mask=True,
            return_offsets_mapping=offsets,
        )
        return dict(inputs)

    def _inputs(self, texts: Sequence[str], prompt: str) -> dict[str, Any]:
        """The tokenizer's lists for n texts, and `own`: which of their tokens count as the text's."""
        offsets = bool(prompt) and not self.prompt_tokens and self.tokenizer.is_fast
        inputs: dict[str, Any] = self.tokenized([prompt + encodable(text) for text in texts], offsets=offsets)
        own = [~np.array(mask, dtype=bool) for mask in inputs.pop("special_tokens_mask")]
        if offsets:
            for mask, pairs in zip(own, inputs.pop("offset_mapping"), strict=True):
                mask &= np.array(pairs, dtype=np.int64).reshape(-1, 2)[:, 1] > len(prompt)
        elif prompt and not self.prompt_tokens:
            before = len(self.tokenizer(prompt, add_special_tokens=False)["input_ids"])
            for mask in own:
                mask[np.flatnonzero(mask)[:before]] = False
        return {**inputs, "own": own}

    def batches(self, texts: Sequence[str], kind: Kind = "document") -> Iterator[Batch]:
        """What `passes` takes for texts.

        Args:
            texts: any strings.
            kind: picks the model's prompt, where it has one.
        """
        prompt = self.prompt(kind)
        inputs = self._inputs(texts, prompt)
        del inputs["own"]
        return self._batches(inputs, prompt)

    def _batches(self, inputs: Mapping[str, list[Any]], prompt: str) -> Iterator[Batch]:
        """Texts of similar length: little is padded. Longest first: memory has its peak at the start."""
        lengths = np.array([len(ids) for ids in inputs["input_ids"]], dtype=np.int64)
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            size = max(1, self.batch_tokens // max(1, int(lengths[order[start]])))
            rows = order[start : start + size].tolist()
            yield Batch(
                rows, {key: self._padded(key, values, rows) for key, values in inputs.items()}, prompt
            )
            start += size

    def _padded(self, key: str, values: list[list[int]], rows: list[int]) -> IntArray:
        """(b, t) of these rows, at the side and with the number that the tokenizer pads by.

        Its own `pad` does the same, and takes a tenth of the time of a fast forward pass.
        """
        fill = {"input_ids": self.tokenizer.pad_token_id, "token_type_ids": self.tokenizer.pad_token_type_id}
        width = max(len(values[i]) for i in rows)
        # A tokenizer without a number for padding fills with any: the attention mask leaves it out.
        found = np.full((len(rows), width), fill.get(key) or 0, dtype=np.int64)
        for place, i in zip(found, rows, strict=True):
            own = values[i]
            if self.tokenizer.padding_side == "right":
                place[: len(own)] = own
            else:
                place[len(place) - len(own) :] = own
        return found


class WholeTexts:
    """A tokenizer that cuts nothing: what it makes of texts of any length.

    Args:
        tokenizer: of a model; a copy is used, because truncation is a setting of the tokenizer, and other
            threads may be encoding with it.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = copy.deepcopy(tokenizer)

    def length(self, text: str) -> int:
        """How many tokens a text has, the special ones included."""
        (ids,) = self._read([text], add_special_tokens=True)["input_ids"]
        return len(ids)

    def spans(self, texts: Sequence[str], prompt: str = "") -> list[IntArray]:
        """Where the tokens of each text lie: (n, 2) first characters and ends.

        A token that the prompt and the text share counts as the text's. Tokenizers that are written in Python
        do not report positions. For them the text is divided evenly by the number of tokens, which is exact.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            prompt: before each of them.
        """
        if not texts:
            return []
        plain = [encodable(text) for text in texts]
        whole = [prompt + text for text in plain]
        if not self._tokenizer.is_fast:
            (before, *counts) = map(len, self._read([prompt, *whole])["input_ids"])
            return [even_spans(len(text), n - before) for text, n in zip(plain, counts, strict=True)]
        offsets = self._read(whole, return_offsets_mapping=True)["offset_mapping"]
        spans = (np.array(pairs, dtype=np.int64).reshape(-1, 2) - len(prompt) for pairs in offsets)
        return [np.maximum(own[own[:, 1] > 0], 0) if prompt else own for own in spans]

    def _read(
        self, texts: list[str], add_special_tokens: bool = False, return_offsets_mapping: bool = False
    ) -> dict[str, Any]:
        inputs = self._tokenizer(
            texts,
            add_special_tokens=add_special_tokens,
            return_offsets_mapping=return_offsets_mapping,
            return_attention_mask=False,
            return_token_type_ids=False,
            verbose=False,  # otherwise it warns that the model does not read that many
        )
        return dict(inputs)


def prompt_of(prompts: Mapping[str, str | None], kind: Kind) -> str:
    """The text that a sentence-transformers model has before texts of a kind; empty where there is none."""
    names = ("query",) if kind == "query" else ("document", "passage", "corpus")
    return next((found for name in names if (found := prompts.get(name))), "")
