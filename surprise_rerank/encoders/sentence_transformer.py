"""Models of sentence-transformers, computed by torch: dense vectors and token vectors from one pass."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from surprise_rerank.encoders.backends.precision import Precision, require_processor
from surprise_rerank.encoders.backends.transformer import Batch, Passed, TransformerEncoder
from surprise_rerank.errors import ModelError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

# Tokens in one forward pass, padding included. Larger batches leave a CPU's caches and become slower.
_CPU_BATCH_TOKENS = 4096
_GPU_BATCH_TOKENS = 65_536


class SentenceTransformerEncoder(TransformerEncoder):
    """A sentence-transformers model. Threads may share one.

    Token vectors are those that the model pools, or projects before that: their dimension may be another than
    the dense vectors'. Where the model cuts its dense vectors (`truncate_dim`), the tokens stay as they are.

    Args:
        model: the loaded model, of any precision; vectors are float32.
        name: by which the user asked for it.
        prompt_tokens: whether the tokens of the model's prompt count as tokens of the text, too. They are
            the same in all texts, so that they say nothing about any. multilingual-e5-small, whose published
            figures and indexes have them, keeps them.
        precision: `float32` takes the weights as they are; `bfloat16` rounds the factors of products, and
            keeps sums, means and norms.

    Attributes:
        model: the same, in evaluation mode.

    Raises:
        ModelError: if the processor has no instructions for bfloat16, or the precision is another.
    """

    def __init__(
        self,
        model: SentenceTransformer,
        name: str,
        *,
        prompt_tokens: bool = False,
        precision: Precision = "float32",
    ) -> None:
        if precision not in ("float32", "bfloat16"):
            raise ModelError(
                f"torch computes in float32 or bfloat16, not in {precision!r}; choose backend='openvino'"
            )
        if model.device.type == "cpu":
            require_processor(precision)
        self.model = model.eval()
        self.name = name
        self.prompt_tokens = prompt_tokens
        self.precision = precision
        self.dimension = int(model.get_embedding_dimension() or 0)
        self.fingerprint = fingerprint_of(model)
        self._products = self._fastest()
        # The first call sets the tokenizer's truncation, which must not happen while another thread uses it.
        self.tokenized([""])

    @property
    def tokenizer(self) -> Any:
        """The model's."""
        return self.model.tokenizer

    @property
    def prompts(self) -> Mapping[str, str | None]:
        """The model's."""
        prompts: Mapping[str, str | None] = self.model.prompts
        return prompts

    @property
    def longest(self) -> int:
        """The model's, or where it says nothing its tokenizer's."""
        return int(self.model.max_seq_length or self.tokenizer.model_max_length)

    @property
    def batch_tokens(self) -> int:
        """More on a GPU, which has no caches that matter."""
        return _CPU_BATCH_TOKENS if self.model.device.type == "cpu" else _GPU_BATCH_TOKENS

    def passes(self, batches: Iterable[Batch]) -> Iterator[Passed]:
        """One after the other, each with all of torch's threads."""
        for batch in batches:
            output = self._forward(batch)
            dense, tokens = (output[key].float().cpu() for key in ("sentence_embedding", "token_embeddings"))
            yield Passed(batch, dense.numpy(), tokens.numpy())

    def _fastest(self) -> Callable[[], contextlib.AbstractContextManager[object]]:
        """A context in which the forward pass multiplies by the fastest products that there are."""
        if self.model.device.type == "cpu" and self.precision == "float32":
            from surprise_rerank.encoders.backends.onednn import (  # they need torch
                PackedProducts,
                is_worth_it,
            )

            if is_worth_it():
                return PackedProducts(self.model)
        return contextlib.nullcontext

    def _forward(self, batch: Batch) -> dict[str, Any]:
        import torch

        device = self.model.device
        given: dict[str, Any] = {
            key: torch.from_numpy(values).to(device) for key, values in batch.features.items()
        }
        if tells_prompt(self.model) and batch.prompt:
            # As the library counts: without a special token at the end.
            ids = self.tokenizer(batch.prompt, return_special_tokens_mask=True)
            given["prompt_length"] = len(ids["input_ids"]) - int(ids["special_tokens_mask"][-1])
        rounded = torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")
        with torch.inference_mode(), rounded, self._products():
            return dict(self.model(given))


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
