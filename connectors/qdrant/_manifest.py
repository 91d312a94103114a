"""What a collection remembers of how it was made: schema, model, options, and its ensemble."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Literal, TypeAlias, get_args

from pydantic import TypeAdapter
from qdrant_client import models

from surprise_rerank import _border as border
from surprise_rerank._documents import Document, encodable
from surprise_rerank._errors import (
    MADE_ANEW,
    TAKEN_ALONG,
    DataError,
    IndexMismatchError,
    UnreadableIndexError,
)
from surprise_rerank.connectors.qdrant._languages import stems_of
from surprise_rerank.connectors.qdrant._lexical import AUTO, Bm25
from surprise_rerank.connectors.qdrant._payloads import PayloadLayout, layout_of_index
from surprise_rerank.connectors.qdrant._schema import (
    ALL,
    DENSE,
    ID,
    KEY,
    METADATA,
    MU,
    NUMBER,
    SCHEMA_VERSION,
    SIGMA,
    STATISTICS,
    SURPRISE,
    TOKEN_VECTORS,
    document_key,
)
from surprise_rerank.core.tokens import POOLING
from surprise_rerank.encoders._passages import Passages
from surprise_rerank.encoders.base import Encoder, precision_of, token_dimension

Quantization: TypeAlias = Literal["int8", "binary"]
PayloadType: TypeAlias = Literal["keyword", "integer", "float", "bool", "datetime", "text", "uuid", "geo"]


@dataclass(frozen=True, slots=True)
class VectorForm:
    """How the vectors of one name are stored, by their dot product.

    Those of tokens only re-score what another stage found: a graph of them would be built in vain. They are
    on disk, in the smallest numbers that the engine has and that are as good.
    """

    size: int
    on_disk: bool = False
    quantization: Quantization | None = None
    is_tokens: bool = False


def _payload_type(name: str, value: object) -> str:
    return str(border.choice(name, value, get_args(PayloadType)))


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """What an index stores of its documents; fixed when it is made. docs/indexing.md has a table of it.

    Attributes:
        passages: long documents are split into passages; None cuts them.
        tokens: token vectors, which `auto`, `fusion` and `dynamax` compare.
        pooling: tokens that are merged into one vector, on average; 1 merges none.
        surprise_vector: a vector for first-stage search by surprise.
        bm25: words for BM25; None stores none.
        quantization: smaller numbers of dense vectors for the search; the originals rescore it.
        on_disk: dense vectors, on a server also words, are read from disk.
        payload_indexes: the type of a key such as metadata.year, for fast filters.
        tenant: the key of the metadata that names a document's customer.
    """

    passages: Passages | None = field(default_factory=Passages)
    tokens: bool = True
    pooling: float = POOLING
    surprise_vector: bool = False
    bm25: Bm25 | None = field(default_factory=Bm25)
    quantization: Quantization | None = None
    on_disk: bool = False
    payload_indexes: Mapping[str, PayloadType] = field(default_factory=dict)
    tenant: str | None = None

    def __post_init__(self) -> None:
        border.fields(
            self,
            passages=border.or_none(border.instance, Passages),
            tokens=border.flag,
            pooling=functools.partial(border.number, low=1),
            surprise_vector=border.flag,
            bm25=border.or_none(border.instance, Bm25),
            quantization=border.or_none(border.choice, get_args(Quantization)),
            on_disk=border.flag,
            payload_indexes=lambda name, value: border.mapping(name, value, _payload_type),
            tenant=border.or_none(border.key, "customer"),
        )
        if not self.tokens and self.pooling != POOLING:
            raise DataError(
                f"pooling={self.pooling!r} is of token vectors, and tokens=False stores none; leave one of "
                "the two away"
            )

    @property
    def all_payload_indexes(self) -> dict[str, str]:
        """Path -> type of every payload index: those that the index's own requests need, and the user's."""
        indexes = {ID: "keyword", MU: "float", SIGMA: "float", STATISTICS: "keyword"}
        if self.passages is not None:
            indexes[NUMBER] = "integer"
        if self.tenant is not None:
            indexes |= {self.tenant_path: "keyword", KEY: "keyword"}
        return {**self.payload_indexes, **indexes}

    @property
    def tenant_path(self) -> str:
        """Where a payload has the tenant; empty where there are none."""
        return "" if self.tenant is None else f"{METADATA}.{self.tenant}"

    def tenant_filter(self, tenant: str) -> models.Filter | None:
        """Return the condition of a tenant's documents; of those without one for the empty string.

        None for `ALL`, whose documents are those of all tenants.

        Raises:
            DataError: if the index has no tenants.
        """
        if self.tenant is None:
            raise DataError(
                f"tenant={tenant!r}: the index has no tenants; index with --tenant KEY (in Python "
                "IndexOptions(tenant=KEY)), the key of the metadata that says whose a document is, or filter"
            )
        border.text("tenant", tenant, advice="search one tenant after the other")
        if tenant == ALL:
            return None
        named = models.FieldCondition(key=self.tenant_path, match=models.MatchValue(value=tenant))
        if tenant:
            return models.Filter(must=[named])
        unnamed = models.IsEmptyCondition(is_empty=models.PayloadField(key=self.tenant_path))
        return models.Filter(should=[named, unnamed])

    def firsts(self, tenant: str | None = None) -> models.Filter | None:
        """A filter for the first points of a tenant's documents, or of all; None for all points."""
        number = models.FieldCondition(key=NUMBER, match=models.MatchValue(value=0))
        conditions: list[models.Condition] = [] if self.passages is None else [number]
        if tenant is not None and (whose := self.tenant_filter(tenant)) is not None:
            conditions.append(whose)
        return models.Filter(must=conditions) if conditions else None

    def owned(self, document: Document, tenant: str) -> Document:
        """Return the document with the tenant in its metadata, unless they name one already."""
        self.tenant_filter(tenant)  # refuses an index without tenants
        *outer, last = (self.tenant or "").split(".")
        metadata: dict[str, Any] = dict(document.metadata)
        inner = metadata
        for part in outer:
            value = inner.get(part, {})
            if not isinstance(value, Mapping):
                return document  # which `key_of` refuses
            inner[part] = inner = dict(value)
        return replace(document, metadata=metadata) if inner.setdefault(last, tenant) == tenant else document

    @property
    def payloads(self) -> PayloadLayout:
        """Which keys of a point's payload hold what of its document."""
        return layout_of_index(self.passages is not None, self.key_field)

    @property
    def key_field(self) -> str:
        """The key of a payload that identifies its document: the id, or id and tenant in one."""
        return ID if self.tenant is None else KEY

    def key_of(self, document: Document) -> str:
        """Return the key that identifies a document in the index; see `document_key`.

        Raises:
            DataError: if its tenant is something else than a string.
        """
        if self.tenant is None:
            return document.id
        tenant: Any = document.metadata
        for part in self.tenant.split("."):
            tenant = tenant.get(part) if isinstance(tenant, Mapping) else None
        if tenant is None:
            return document_key(document.id, "")
        name = f"the tenant of document {document.id!r} (metadata {self.tenant!r})"
        border.text(name, tenant, advice="name one tenant")
        if tenant == ALL:
            raise DataError(f"{name} is {ALL!r}, which stands for all of them; give it another name")
        return document_key(document.id, encodable(tenant))


@dataclass(frozen=True, slots=True)
class StatisticsRecord:
    """Which ensemble a collection's statistics come from; the ensemble itself is stored beside it.

    It is known by its `identity`. `shrink_mean` and `shrink_deviation` say how far each document's moments
    are moved to the pooled ones.
    """

    ensemble: str
    count: int
    source: str
    shrink_mean: float
    shrink_deviation: float
    pooled_mean: float
    pooled_deviation: float

    @property
    def version(self) -> str:
        """The name that documents with statistics of this record carry."""
        shared = (self.shrink_mean, self.shrink_deviation, self.pooled_mean, self.pooled_deviation)
        return f"{self.ensemble}-{hashlib.sha256(repr(shared).encode()).hexdigest()[:8]}"


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a collection was made; opening it with another model is an error that names both."""

    model: str  # the encoder's name
    fingerprint: str  # digits that differ where the weights differ
    dimension: int  # of the dense vectors
    options: IndexOptions = field(default_factory=IndexOptions)  # what is stored
    statistics: StatisticsRecord | None = None  # what the documents' moments come from
    latest: StatisticsRecord | None = None  # the ensemble with what was added since
    schema: int = SCHEMA_VERSION
    token_dimension: int = 0  # `dimension` where it is not given
    precision: str = "float32"  # that the documents were encoded in
    files: tuple[str, ...] = ()  # names of the files beside the points, in a folder
    language: str = ""  # of the first documents, as `language_of` names it; empty before there are any

    def __post_init__(self) -> None:
        if not self.token_dimension:
            object.__setattr__(self, "token_dimension", self.dimension)

    @classmethod
    def of(cls, encoder: Encoder, options: IndexOptions | None = None) -> Manifest:
        """Of a new collection for an encoder's vectors, by default with everything that the encoder has.

        Raises:
            DataError: if token vectors are to be stored, and the encoder has none.
        """
        tokens = token_dimension(encoder)
        chosen = options or IndexOptions(tokens=tokens is not None)
        if tokens is None and chosen.tokens:
            raise DataError(
                f"the index stores token vectors, and the encoder {encoder.name!r} has none; take those of "
                "another model (token_encoder=load_encoder(), token_model in --config), or make it without: "
                "--set tokens=no (in Python IndexOptions(tokens=False))"
            )
        return cls(
            encoder.name,
            encoder.fingerprint,
            encoder.dimension,
            chosen,
            token_dimension=tokens or 0,
            precision=precision_of(encoder),
        )

    @property
    def vectors(self) -> dict[str, VectorForm]:
        """How the vectors are stored, by name."""
        options, size = self.options, self.dimension
        vectors = {DENSE: VectorForm(size, options.on_disk, options.quantization)}
        if options.surprise_vector:
            vectors[SURPRISE] = VectorForm(size + 1, options.on_disk)
        if options.tokens:
            vectors[TOKEN_VECTORS] = VectorForm(self.token_dimension, is_tokens=True)
        return vectors

    @property
    def words(self) -> Bm25 | None:
        """The settings of words, with the language that was named or found; None where none are stored."""
        settings = self.options.bm25
        if settings is None or settings.language != AUTO:
            return settings
        return replace(settings, language=stems_of(self.language))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any], where: str) -> Manifest:
        """What `to_json` gave.

        Raises:
            IndexMismatchError: if the values are not a manifest.
            UnreadableIndexError: if it is one of another schema.
        """
        try:
            if int(values["schema"]) != SCHEMA_VERSION:
                text = f"{where} has schema version {values['schema']}, this version reads {SCHEMA_VERSION}"
                raise UnreadableIndexError(f"{text}; {TAKEN_ALONG}, or {MADE_ANEW}", str(values["model"]))
            # A server leaves away what is null.
            return _adapter().validate_python({"statistics": None, "latest": None, **values})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise IndexMismatchError(
                f"{where} was not made by surprise-rerank (it does not say of which model it is); "
                "choose another folder or collection"
            ) from error

    def differs(self, other: Manifest) -> bool:
        """Whether another version holds vectors of another model, or stores other things."""
        compared = attrgetter("fingerprint", "precision", "dimension", "token_dimension", "options")
        return bool(compared(self) != compared(other))

    def check(self, expected: Manifest | None, where: str, options: IndexOptions | None = None) -> None:
        """Compare with the model and the options that the caller brings, where they are given.

        Raises:
            IndexMismatchError: if weights, dimension or an option differ; the message names both sides.
        """
        # The weights decide, not the name: a model can be called by its name on the hub or by a folder.
        model = (self.fingerprint, self.dimension)
        if expected is not None and model != (expected.fingerprint, expected.dimension):
            raise IndexMismatchError(
                f"{where} was made by model {self._label()}, asked for is {expected._label()}; "
                "use that model, another folder or collection, or index everything anew (--rebuild)"
            )
        for option in () if options is None else fields(IndexOptions):
            ours, theirs = getattr(self.options, option.name), getattr(options, option.name)
            if ours != theirs:
                raise IndexMismatchError(
                    f"{where} was made with {option.name}={ours!r}, asked for is {option.name}={theirs!r}; "
                    "leave the options out to take it as it is, or rebuild it with the new ones (--rebuild)"
                )

    def check_precision(self, encoder: Encoder, where: str) -> None:
        """Refuse to add documents in another precision; questions may be of any (docs/results.md)."""
        if precision_of(encoder) != self.precision:
            raise IndexMismatchError(
                f"the documents of {where} are encoded in {self.precision}, the encoder computes in "
                f"{precision_of(encoder)}; add documents with precision={self.precision!r} (load_encoder, or "
                "--set precision=), or rebuild the index with this one"
            )

    def _label(self) -> str:
        return f"{self.model!r} ({self.dimension} dimensions, weights {self.fingerprint})"


def is_index(metadata: Mapping[str, Any]) -> bool:
    """Whether the metadata of a collection is a manifest, of any schema."""
    return metadata.keys() >= {"fingerprint", "schema"}


@functools.cache
def _adapter() -> TypeAdapter[Manifest]:
    return TypeAdapter(Manifest)
