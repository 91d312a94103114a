"""Models of sentence-transformers: dense vectors and token vectors from one pass."""

from __future__ import annotations

import contextlib
import copy
import functools
import hashlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from surprise_rerank.core.arrays import Float32Array, IntArray, unit_rows
from surprise_rerank.core.tokens import TokenBatch
from surprise_rerank.documents import encodable
from surprise_rerank.encoders.base import Encoded, Kind, Progress, even_spans

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Tokens in one forward pass, padding included. Larger batches leave a CPU's caches and become slower.
_CPU_BATCH_TOKENS = 4096
_GPU_BATCH_TOKENS = 65_536
# Tokenizers without a limit report a number far above this.
NO_LIMIT = 10**9


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


class SentenceTransformerEncoder:
    """A sentence-transformers model. Threads may share one.

    Token vectors are those that the model pools, or projects before that: their dimension may be another than
    the dense vectors'. Where the model cuts its dense vectors (`truncate_dim`), the tokens stay as they are.

    Args:
        model: the loaded model, of any precision; vectors are float32.
        name: by which the user asked for it.
        prompt_tokens: whether the tokens of the model's prompt count as tokens of the text, too. They are
            the same in all texts, so that they say nothing about any. multilingual-e5-small, whose published
            figures and indexes have them, keeps them.

    Attributes:
        model: the same, in evaluation mode.
    """

    def __init__(self, model: SentenceTransformer, name: str, *, prompt_tokens: bool = False) -> None:
        self.model = model.eval()
        self.name = name
        self.prompt_tokens = prompt_tokens
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.fingerprint = fingerprint_of(model)
        # Of a model that leaves the prompt out of its dense vectors, as INSTRUCTOR's do.
        self._tells_prompt = any(getattr(module, "include_prompt", True) is False for module in model)
        # The first call sets the tokenizer's truncation, which must not happen while another thread uses it.
        self.tokenized([""])

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
        tokens: list[Float32Array] = [np.zeros((0, self.token_dimension), np.float32)] * len(texts)
        lengths = np.array([len(ids) for ids in inputs["input_ids"]], dtype=np.int64)
        for rows in self._batches(lengths):
            output = self._forward({key: [values[i] for i in rows] for key, values in inputs.items()}, prompt)
            sentences = output["sentence_embedding"].float().cpu().numpy()
            dense[rows] = sentences[:, : self.dimension]  # Matryoshka models are cut after the forward pass
            vectors = output["token_embeddings"].float().cpu().numpy()
            read = output["attention_mask"].bool().cpu().numpy()
            for row, i in enumerate(rows):
                tokens[i] = vectors[row][read[row]][own[i]]
            if on_progress is not None:
                on_progress(len(rows))
        return Encoded(unit_rows(dense), TokenBatch.from_arrays(tokens, self.token_dimension))

    @functools.cached_property
    def token_dimension(self) -> int:
        """Dimension of the token vectors, from one pass of the model."""
        inputs = self._inputs(["word"], "")
        del inputs["own"]
        return int(self._forward(inputs, "")["token_embeddings"].shape[-1])

    def _forward(self, inputs: dict[str, list[list[int]]], prompt: str) -> dict[str, Any]:
        """The model's output for one batch, and the mask of what it has read."""
        import torch

        features = self.model.tokenizer.pad(inputs, return_tensors="pt").to(self.model.device)
        given = dict(features)
        if self._tells_prompt and prompt:
            # As the library counts: without a special token at the end.
            ids = self.model.tokenizer(prompt, return_special_tokens_mask=True)
            given["prompt_length"] = len(ids["input_ids"]) - int(ids["special_tokens_mask"][-1])
        with torch.inference_mode():
            output = self.model(given)
        return {**output, "attention_mask": features["attention_mask"]}

    def _inputs(self, texts: Sequence[str], prompt: str) -> dict[str, Any]:
        """The tokenizer's lists for n texts, and `own`: which of their tokens count as the text's."""
        offsets = bool(prompt) and not self.prompt_tokens and self.model.tokenizer.is_fast
        inputs: dict[str, Any] = self.tokenized([prompt + encodable(text) for text in texts], offsets=offsets)
        own = [~np.array(mask, dtype=bool) for mask in inputs.pop("special_tokens_mask")]
        if offsets:
            for mask, pairs in zip(own, inputs.pop("offset_mapping"), strict=True):
                mask &= np.array(pairs, dtype=np.int64).reshape(-1, 2)[:, 1] > len(prompt)
        elif prompt and not self.prompt_tokens:
            before = len(self.model.tokenizer(prompt, add_special_tokens=False)["input_ids"])
            for mask in own:
                mask[np.flatnonzero(mask)[:before]] = False
        return {**inputs, "own": own}

    def words(self, texts: Sequence[str], kind: Kind = "document") -> list[list[str]]:
        """The tokenizer's pieces whose vectors `encode` returns, in its spelling.

        Args:
            texts: n strings.
            kind: picks the model's prompt, where it has one.
        """
        inputs = self._inputs(texts, self.prompt(kind))
        pieces = self.model.tokenizer.convert_ids_to_tokens
        rows = zip(inputs["input_ids"], inputs["own"], strict=True)
        return [pieces([i for i, counts in zip(ids, own, strict=True) if counts]) for ids, own in rows]

    @property
    def window(self) -> int | None:
        """Most tokens of a document, without the prompt and the special tokens; None for any number."""
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        if longest > NO_LIMIT:
            return None
        return int(longest) - self._whole.length(self.prompt("document"))

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length; see `WholeTexts.spans`. The prompt has none.

        Args:
            texts: any strings; the characters are those of `encodable(text)`.
            kind: picks the model's prompt, where it has one.
        """
        return self._whole.spans(texts, self.prompt(kind))

    @functools.cached_property
    def _whole(self) -> WholeTexts:
        return WholeTexts(self.model.tokenizer)

    def prompt(self, kind: Kind) -> str:
        """The text that goes before a text of this kind; empty for a model without prompts."""
        return prompt_of(self.model, kind)

    def tokenized(self, texts: list[str], *, offsets: bool = False) -> dict[str, list[Any]]:
        """The tokenizer's lists for n texts with their prompts, truncated to the model's length."""
        if not texts:
            return {"input_ids": [], "special_tokens_mask": [], **({"offset_mapping": []} if offsets else {})}
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        inputs = self.model.tokenizer(
            texts,
            truncation=longest <= NO_LIMIT,
            max_length=longest if longest <= NO_LIMIT else None,
            return_special_tokens_mask=True,
            return_attention_mask=True,
            return_offsets_mapping=offsets,
        )
        return dict(inputs)

    def _batches(self, lengths: IntArray) -> Iterator[list[int]]:
        """Rows of similar length: little is padded. Longest first: memory has its peak at the start."""
        budget = _CPU_BATCH_TOKENS if self.model.device.type == "cpu" else _GPU_BATCH_TOKENS
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            size = max(1, budget // max(1, int(lengths[order[start]])))
            yield order[start : start + size].tolist()
            start += size


def prompt_of(model: Any, kind: Kind) -> str:
    """The text that a sentence-transformers model has before texts of a kind; empty where there is none."""
    names = ("query",) if kind == "query" else ("document", "passage", "corpus")
    prompts = (model.prompts.get(name) for name in names)
    return next((prompt for prompt in prompts if prompt), "")


def fingerprint_of(model: Any) -> str:
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
