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
_NO_LIMIT = 10**9


class SentenceTransformerEncoder:
    """A sentence-transformers model. Threads may share one.

    Args:
        model: the loaded model.
        name: by which the user asked for it.

    Attributes:
        model: the same, in evaluation mode.
    """

    def __init__(self, model: SentenceTransformer, name: str) -> None:
        self.model = model.eval()
        self.name = name
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.token_dimension = self.dimension
        self.fingerprint = _fingerprint(model)
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
        import torch  # here, because it takes seconds, and the status of an index does not need it

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
        """The tokenizer's pieces whose vectors `encode` returns, the prompt's included, in its spelling.

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
        """Most tokens of a document, without the prompt and the special tokens; None for any number."""
        longest = self.model.max_seq_length or self.model.tokenizer.model_max_length
        if longest > _NO_LIMIT:
            return None
        (taken,) = self._untruncated([self.prompt("document")], add_special_tokens=True)["input_ids"]
        return int(longest) - len(taken)

    def token_spans(self, texts: Sequence[str], kind: Kind = "document") -> list[IntArray]:
        """Where the tokens of each text lie, of any length: (n, 2) first characters and ends.

        A token that the prompt and the text share counts as the text's. Tokenizers that are written in Python
        do not report positions. For them the text is divided evenly by the number of tokens, which is exact.

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
        # A copy: truncation is a setting of the tokenizer, and other threads may be encoding with it.
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
            verbose=False,  # otherwise it warns that the model does not read that many
        )
        return dict(inputs)

    def prompt(self, kind: Kind) -> str:
        """The text that goes before a text of this kind; empty for a model without prompts."""
        names = ("query",) if kind == "query" else ("document", "passage", "corpus")
        prompts = (self.model.prompts.get(name) for name in names)
        return next((prompt for prompt in prompts if prompt), "")

    def tokenized(self, texts: list[str]) -> dict[str, list[list[int]]]:
        """The tokenizer's lists for n texts with their prompts, truncated to the model's length."""
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
        """Rows of similar length: little is padded. Longest first: memory has its peak at the start."""
        budget = _CPU_BATCH_TOKENS if self.model.device.type == "cpu" else _GPU_BATCH_TOKENS
        order = np.argsort(-lengths, kind="stable")
        start = 0
        while start < len(order):
            size = max(1, budget // max(1, int(lengths[order[start]])))
            yield order[start : start + size].tolist()
            start += size


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
