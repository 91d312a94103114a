"""Options that tell what a foreign collection's payload and vectors are."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from surprise_rerank.core.settings import option


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedArguments:
    """What is not recognised of a collection that somebody else made."""

    text: str | None = option(None, metavar="KEY", help="Payload key of the text, if it is not recognised.")
    title: str | None = option(None, metavar="KEY", help="Payload key of the title.")
    id: str | None = option(None, metavar="KEY", help="Payload key of the document's id.")
    metadata: str | None = option(None, metavar="KEY", help="Payload key of the metadata.")
    vector: str | None = option(None, metavar="NAME", help="The dense vector, where there are several.")
    multivector: str | None = option(None, metavar="NAME", help="The multivector, where there are several.")
    sparse_vector: str | None = option(
        None, metavar="NAME", help="The sparse vector, where there are several."
    )

    def given(self) -> dict[str, Any]:
        """Those that were given."""
        return {name: value for name, value in asdict(self).items() if value is not None}
