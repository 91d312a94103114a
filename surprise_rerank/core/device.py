"""What can compute here, and the two float64 products that moments are made of, on any of it.

    scatter  X' X          of (n, d) centred members
    spread   diag(Q C Q')  of (n, d) anchors

Both are n d^2 multiplications, all that an ensemble of a million members costs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surprise_rerank.core.arrays import Float64Array
from surprise_rerank.core.threads import row_products
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    import torch


def device_of(name: str) -> torch.device:
    """The device of a name, after a check that it can be used; a DataError if it cannot."""
    import torch  # here, because it takes seconds, and products in numpy do not need it

    try:
        place = torch.device(name)
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        there = ", ".join(map(repr, available_devices()))
        raise DataError(f"the device {name!r} cannot be used: here is {there}; choose of these") from error
    return place


def available_devices() -> list[str]:
    """The names of what can compute here: the processor, and accelerators that torch has a driver for."""
    import torch

    cuda = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    others = {"mps": torch.backends.mps, "xpu": getattr(torch, "xpu", None)}
    there = [name for name, backend in others.items() if backend is not None and backend.is_available()]
    return ["cpu", *(f"cuda:{number}" for number in cuda), *there]


def scatter(centred: Float64Array, device: str = "cpu") -> Float64Array:
    """(d, d) sum of x x' over the (n, d) rows; a DataError if there is no such device."""
    place = _accelerator(device)
    if place is None:
        return np.asarray(centred.T @ centred)
    rows = _moved(centred, place)
    return np.asarray((rows.T @ rows).cpu().numpy())


def spread(
    anchors: Float64Array, covariance: Float64Array, device: str = "cpu", out: Float64Array | None = None
) -> Float64Array:
    """(n,) q' C q of the (n, d) rows; `out` is (n, d) memory to multiply in, on the processor.

    Raises:
        DataError: if there is no such device.
    """
    place = _accelerator(device)
    if place is None and len(anchors) == 1:  # of a question
        return row_products(row_products(covariance, anchors[0])[None], anchors[0])
    if place is None:
        return np.asarray(np.einsum("nd,nd->n", np.matmul(anchors, covariance, out=out), anchors))
    rows = _moved(anchors, place)
    return np.asarray(((rows @ _moved(covariance, place)) * rows).sum(dim=1).cpu().numpy())


def processor_has(*instructions: str) -> bool:
    """Whether this processor has one of these sets of instructions, such as `avx512_vnni`."""
    linux = Path("/proc/cpuinfo")
    if linux.exists():  # torch takes seconds to import
        flags = re.search(r"^flags\s*:(.*)$", linux.read_text("utf-8"), re.MULTILINE)
        return flags is not None and not set(flags[1].split()).isdisjoint(instructions)
    import torch

    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in instructions)


@cache
def _accelerator(device: str) -> Any:
    """Torch's device; None where numpy multiplies: on the processor, and for devices without float64."""
    if device == "cpu":
        return None
    place = device_of(device)
    return None if place.type == "mps" else place


def _moved(values: Float64Array, place: Any) -> Any:
    import torch

    return torch.from_numpy(np.ascontiguousarray(values)).to(place)
