"""What can compute here: the processor and its instructions, and accelerators."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from surprise_rerank.core.process import limit_torch
from surprise_rerank.errors import DataError

if TYPE_CHECKING:
    import torch


def device_of(name: str) -> torch.device:
    """The device of a name, after a check that it can be used; a DataError if it cannot."""
    import torch  # here, because it takes seconds, and products in numpy do not need it

    limit_torch()
    try:
        place = torch.device(name)
        torch.zeros(1, device=place)
    except (RuntimeError, AssertionError) as error:  # torch asserts where it was built without CUDA
        names = ", ".join(map(repr, available_devices()))
        raise DataError(f"the device {name!r} cannot be used: here is {names}; choose of these") from error
    return place


def available_devices() -> list[str]:
    """The names of what can compute here: the processor, and accelerators that torch has a driver for."""
    import torch

    cuda = range(torch.cuda.device_count() if torch.cuda.is_available() else 0)
    others = {"mps": torch.backends.mps, "xpu": getattr(torch, "xpu", None)}
    available = [name for name, backend in others.items() if backend is not None and backend.is_available()]
    return ["cpu", *(f"cuda:{number}" for number in cuda), *available]


def processor_has(*instructions: str) -> bool:
    """Whether this processor has one of these sets of instructions, such as `avx512_vnni`."""
    linux = Path("/proc/cpuinfo")
    if linux.exists():  # torch takes seconds to import
        flags = re.search(r"^flags\s*:(.*)$", linux.read_text("utf-8"), re.MULTILINE)
        return flags is not None and not set(flags[1].split()).isdisjoint(instructions)
    import torch

    capabilities: Mapping[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    return any(capabilities.get(name) for name in instructions)
