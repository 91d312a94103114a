"""Of how many bits the numbers are that a forward pass multiplies, and what this processor can multiply."""

from __future__ import annotations

from typing import Literal, TypeAlias

from surprise_rerank.core.device import processor_has
from surprise_rerank.errors import ModelError

Precision: TypeAlias = Literal["float32", "bfloat16", "int8"]


def precision_of(encoder: object) -> str:
    """The precision that an encoder computes in; `float32` for encoders that do not say."""
    found: str = getattr(encoder, "precision", "float32")
    return found


def multiplies_bfloat16() -> bool:
    """Whether this processor has instructions for bfloat16; others take many times as long as for float32."""
    return processor_has("avx512_bf16", "amx_bf16")


def multiplies_int8() -> bool:
    """Whether this processor has instructions for int8 (VNNI); others gain little, and some overflow."""
    return processor_has("avx512_vnni", "avx_vnni", "amx_int8")


def require_processor(precision: Precision) -> None:
    """Refuse what this processor would compute slower than float32.

    Raises:
        ModelError: if it has no instructions for the precision.
    """
    if precision == "float32":
        return
    able, needed = {
        "bfloat16": (multiplies_bfloat16, "AVX512-BF16 or AMX"),
        "int8": (multiplies_int8, "VNNI or AMX"),
    }[precision]
    if able():
        return
    raise ModelError(
        f"precision={precision!r} needs a processor with {needed}, and this one has neither; choose "
        "precision='float32', or 'auto' for the best that there is"
    )
