"""torch's products of float32 by oneDNN, where that is faster than MKL.

torch gives a linear layer's float32 product to MKL, which on AMD's processors reaches less than half of what
they can (measured on Zen 5: 107 of 245 GFlop/s on a core). oneDNN is part of torch, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class PackedProducts:
    """The linear layers of a model with their weights packed for oneDNN. The model stays as it is.

    A layer whose weights change later is computed as before. Threads may share one.

    Args:
        model: its layers of float32 are packed, which takes their memory once more.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._packed: dict[int, tuple[torch.Tensor, int, Any]] = {}
        for layer in model.modules():
            if type(layer) is torch.nn.Linear and layer.weight.dtype == torch.float32:
                weight = layer.weight.detach()
                packed = torch.ops.mkldnn._reorder_linear_weight(weight, None)
                self._packed[id(layer.weight)] = (layer.weight, layer.weight._version, packed)

    def __call__(self) -> TorchFunctionMode:
        """A context in which this thread computes with the packed weights, without gradients."""
        return _Packed(self._packed)


class _Packed(TorchFunctionMode):
    def __init__(self, packed: dict[int, tuple[torch.Tensor, int, Any]]) -> None:
        super().__init__()
        self._packed = packed

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        if function is torch.nn.functional.linear and len(args) == 3 and not kwargs:
            rows, weight, bias = args
            _, version, packed = self._packed.get(id(weight), (None, -1, None))
            if version == weight._version and rows.dtype == torch.float32:
                return torch.ops.mkldnn._linear_pointwise(rows, packed, bias, "none", [], "")
        return function(*args, **(kwargs or {}))


def is_worth_it() -> bool:
    """Whether oneDNN multiplies faster here than what torch takes by itself, and as exactly.

    The maker of the processor decides, not a stopwatch: the same program then gives the same bits, however
    busy the machine is. It is False where torch does not report the processor.
    """
    known: Mapping[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()
    if known.get("architecture") != "x86_64" or "amd" not in str(known.get("cpu_name", "")).lower():
        return False
    available: Any = torch.backends.mkldnn.is_available
    if not available() or not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    # Made on no device, it draws no random numbers: torch's are the caller's.
    layer = torch.nn.Linear(64, 32, device="meta").to_empty(device="cpu").requires_grad_(requires_grad=False)
    for values in layer.parameters():
        values.copy_(torch.linspace(-1, 1, values.numel()).reshape(values.shape))
    rows = torch.linspace(-1, 1, 8 * 64).reshape(8, 64)
    try:
        with PackedProducts(layer)():
            packed = layer(rows)
    except (RuntimeError, NotImplementedError):  # torch was built without it
        return False
    return bool(torch.allclose(packed, layer(rows), atol=1e-5))
