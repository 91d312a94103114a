"""The systems that an index can be searched with: the register, and what is stored for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from surprise_rerank.core._lazy import lazy_names

if TYPE_CHECKING:
    from surprise_rerank.connectors.systems._building import build_system as build_system
    from surprise_rerank.connectors.systems._inputs import BuiltSystem as BuiltSystem
    from surprise_rerank.connectors.systems._inputs import SystemInputs as SystemInputs
    from surprise_rerank.connectors.systems._register import SYSTEMS as SYSTEMS
    from surprise_rerank.connectors.systems._register import System as System
    from surprise_rerank.connectors.systems._register import register_system as register_system

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "_building": "build_system",
        "_inputs": "BuiltSystem SystemInputs",
        "_register": "SYSTEMS System register_system",
    },
)
