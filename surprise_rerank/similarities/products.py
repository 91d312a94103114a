"""Products of stored tokens with query tokens, in the fastest way for each storage.

A multiplier computes in memory of its own, which it uses again for every chunk. New memory for each product
can take as long as the product itself, because the system maps it page by page.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import numpy as np
import torch

from surprise_rerank.core.device import processor_has
from surprise_rerank.core.tokens.codes import TokenCode

# (t, d) stored tokens, t at most the rows that it was made for -> (t, m) float32, valid until the next call.
Multiplier: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

_LEVELS = 127
# One level of the query's second int8 part: the rounding of the first lies within half a level of it.
_FINER = 2 * _LEVELS
# oneDNN prepares a product for every new number of rows, which takes longer than the product.
_ROW_STEP = 128


def multiplier(query: torch.Tensor, stored: torch.dtype | TokenCode, rows: int) -> Multiplier:
    """The fastest multiplier of stored tokens with these query tokens, on the query's device.

    Args:
        query: (m, d) float32; rotated as the stored tokens are, where these are codes.
        stored: dtype of the stored tokens: float32, float16, bfloat16 or int8; or their code.
        rows: the most stored tokens of a call.
    """
    on_cpu = query.device.type == "cpu"
    # torch's int8 product of one component is wrong.
    in_int8 = on_cpu and query.shape[1] > 1 and multiplies_int8()
    if isinstance(stored, TokenCode):
        return _Coded(query, stored, rows, in_int8=in_int8)
    if stored == torch.int8 and in_int8:
        return _Int8(query, rows)
    if not on_cpu and stored in (torch.float16, torch.bfloat16):
        return _Native(query, stored, rows)
    if stored == torch.bfloat16 and _multiplies_bfloat16():
        return _Native(query, stored, rows)
    return _Float32(query, rows)


@cache
def multiplies_int8() -> bool:
    """Whether this processor multiplies int8 faster than float32, and exactly.

    With AVX2 alone torch takes thirty times as long as for float32 (measured on Zen 3). Some processors add
    the products up in 16 bits, which overflow. It is False where torch does not report the capabilities.
    """
    return processor_has("avx512_vnni", "avx_vnni", "amx_int8") and int8_is_exact()


@cache
def int8_is_exact() -> bool:
    """Whether torch's products of int8 are exact here, however fast."""
    if not hasattr(torch, "_int_mm"):
        return False
    largest = torch.full((_ROW_STEP, 512), _LEVELS, dtype=torch.int8)
    return bool((torch._int_mm(largest, largest[:64].T) == 512 * _LEVELS**2).all())


@cache
def _multiplies_bfloat16() -> bool:
    """Whether this processor multiplies bfloat16; others take twenty times as long as for float32."""
    return processor_has("avx512_bf16", "amx_bf16")


class _Float32:
    """float32 as it is, other storages through a float32 copy of the chunk.

    Processors multiply float16 slowly, and older ones also bfloat16 and int8. The copy costs a tenth of the
    product.
    """

    def __init__(self, query: torch.Tensor, rows: int) -> None:
        m, d = query.shape
        self._query = query.T
        self._wide = torch.empty((rows, d), device=query.device)
        self._out = torch.empty((rows, m), device=query.device)

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        t = len(tokens)
        wide = tokens if tokens.dtype == torch.float32 else self._wide[:t].copy_(tokens)
        return torch.mm(wide, self._query, out=self._out[:t])


class _Native:
    """Products in the storage's own type, rounded to it."""

    def __init__(self, query: torch.Tensor, stored: torch.dtype, rows: int) -> None:
        m, d = query.shape
        rows += -rows % _ROW_STEP
        self._query = query.to(stored).T
        self._tokens = torch.zeros((rows, d), dtype=stored, device=query.device)
        self._raw = torch.empty((rows, m), dtype=stored, device=query.device)
        self._out = torch.empty((rows, m), device=query.device)

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        t = len(tokens)
        self._tokens[:t] = tokens
        steps = t + -t % _ROW_STEP
        raw = torch.mm(self._tokens[:steps], self._query, out=self._raw[:steps])
        return self._out[:t].copy_(raw[:t])


class _Int8:
    """int8 without a float copy.

    The query is split into two int8 parts, coarse + fine / 254, and both are multiplied at once: the
    hardware's int8 product of twice the columns is several times faster than the float one.

    The error of a product. A level of query token q is max|q_i| / 127. Rounding to coarse leaves at most half
    a level, which fine divides into 127 steps: what remains of a component is at most half a step of 1/254
    level, or max|q_i| / (127 * 508) = 1.55e-5 max|q_i|. The sums of whole numbers are exact, so that the
    product with a stored token t, of whatever length, is exact to

        1.55e-5 max|q_i| sum|t_i|,   for tokens of length 1 at most 1.55e-5 max|q_i| sqrt(d),

    apart from the rounding of float32.
    """

    def __init__(self, query: torch.Tensor, rows: int) -> None:
        self._m = len(query)
        smallest = torch.finfo(torch.float32).tiny
        level = query.abs().amax(dim=1, keepdim=True).clamp_min(smallest) / _LEVELS
        scaled = query / level
        coarse = scaled.round()
        fine = ((scaled - coarse) * _FINER).round()
        self._level = level.T
        self._parts = torch.cat([coarse, fine]).to(torch.int8).T
        self._raw = torch.empty((rows, 2 * self._m), dtype=torch.int32)
        self._out = torch.empty((rows, self._m))

    def __call__(self, tokens: torch.Tensor) -> torch.Tensor:
        t, m = len(tokens), self._m
        raw = torch._int_mm(tokens, self._parts, out=self._raw[:t])
        whole = self._out[:t].copy_(raw[:, :m])
        return whole.add_(raw[:, m:], alpha=1 / _FINER).mul_(self._level)


class _Coded:
    """Codes of some bits, unpacked into a block that stays in the processor's cache.

    A component is a whole number c from 0 to L = 2^b - 1 that stands for the level l = 2 c - L, so that
    <q, l> = 2 <q, c> - L sum(q): the codes are multiplied as they are. Where the processor multiplies int8,
    the query is rounded to it, once: that adds at most half of max|q_i| / 127 for each component, which
    is a fiftieth of the code's own error at 2 bits and a tenth at 4.
    """

    def __init__(self, query: torch.Tensor, code: TokenCode, rows: int, *, in_int8: bool) -> None:
        self._code, self._in_int8, place = code, in_int8, query.device
        width, m = code.width * code.parts, len(query)
        asked = torch.zeros((m, width), device=place)
        asked[:, : query.shape[1]] = query
        self._by_numpy = code.bits == 1 and place.type == "cpu"
        if self._by_numpy:  # whose order is that of the bytes
            asked = asked.view(m, code.parts, code.width).transpose(1, 2).reshape(m, width)
        level = torch.ones(m, device=place)
        if in_int8:
            smallest = torch.finfo(torch.float32).tiny
            level = asked.abs().amax(dim=1).clamp_min(smallest) / _LEVELS
            asked = (asked / level[:, None]).round()
        self._factor, self._offset = 2 * level, asked.sum(dim=1) * code.largest * level
        self._query = (asked.to(torch.int8) if in_int8 else asked).T
        self._block = torch.empty((0 if self._by_numpy else rows, width), dtype=torch.uint8, device=place)
        self._wide = torch.empty((0 if in_int8 else rows, width), device=place)
        self._raw = torch.empty((rows if in_int8 else 0, m), dtype=torch.int32, device=place)
        self._out = torch.empty((rows, m), device=place)

    def __call__(self, codes: torch.Tensor) -> torch.Tensor:
        t = len(codes)
        block, out = self._unpacked(codes), self._out[:t]
        if self._in_int8:
            out.copy_(torch._int_mm(block.view(torch.int8), self._query, out=self._raw[:t]))
        else:
            torch.mm(self._wide[:t].copy_(block), self._query, out=out)
        return out.mul_(self._factor).sub_(self._offset)

    def _unpacked(self, codes: torch.Tensor) -> torch.Tensor:
        """(t, width) components from 0 to L."""
        if self._by_numpy:  # three times as fast as torch's shifts
            return torch.from_numpy(np.unpackbits(codes.numpy(), axis=1, bitorder="little"))
        block, width, mask = self._block[: len(codes)], self._code.width, self._code.largest
        if width % 8 == 0:  # eight bytes at a time, which is three times as fast, too
            codes, block = codes.view(torch.int64), self._block[: len(codes)].view(torch.int64)
            width, mask = width // 8, mask * 0x0101010101010101
        for part in range(self._code.parts):
            own = block[:, part * width : (part + 1) * width]
            torch.bitwise_right_shift(codes, part * self._code.bits, out=own)
            own.bitwise_and_(mask)
        return self._block[: len(codes)]
