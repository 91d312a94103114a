"""Whether a model made the vectors of a collection: some of its texts are encoded again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surprise_rerank.connectors.attached.payloads import PayloadLayout
from surprise_rerank.connectors.attached.statistics import dense_of, tokens_of
from surprise_rerank.connectors.attached.vectors import VectorLayout
from surprise_rerank.connectors.qdrant.schema import Record
from surprise_rerank.core.arrays import Float32Array, unit_rows
from surprise_rerank.encoders.base import Encoder, encode_documents
from surprise_rerank.errors import DataError
from surprise_rerank.similarities.dynamax import DynaMax

_PROBES = 5
_SHORT = 40  # characters
# The cosine of a text's stored vector with its vector now. Another model's is around 0; a prompt, a title or
# metadata that were embedded with the text leave it above .5, rounding in the store above .9.
_OTHER, _SAME = 0.5, 0.9
# A model of two kinds, such as of pictures and captions, has small cosines, but the own ones are the largest:
# among this share of the points looked at, as five random places are in one of 100 cases.
_NEAREST = 0.1


def require_same_model(
    records: Sequence[Record], layout: VectorLayout, payloads: PayloadLayout, model: Encoder, where: str
) -> tuple[str, ...]:
    """What to say of a model whose vectors differ from the stored ones.

    Args:
        records: points with the vectors that they are found by.
        layout: which vectors these are; of token vectors, inclusion stands for the cosine.
        payloads: where the texts are.
        model: of questions.
        where: the collection, for messages.

    Raises:
        DataError: if the vectors are of another model.
    """
    own_vectors = [record for record in records if record.vectors.get(layout.dense) is not None]
    documents = [payloads.document(record.id, record.payload) for record in own_vectors]
    told = [i for i, own in enumerate(documents) if own.text.strip()]
    # Short ones are encoded quickly; the shortest may be such that many are alike.
    probes = sorted(told, key=lambda i: (len(documents[i].text) < _SHORT, len(documents[i].text)))[:_PROBES]
    if not probes:
        return ()

    def near(texts: list[str]) -> Float32Array:
        encoded = encode_documents(model, texts)
        if layout.has_dense:
            return unit_rows(encoded.dense) @ unit_rows(dense_of(own_vectors, layout)[0]).T
        tokens, stored = encoded.require_tokens(), tokens_of(own_vectors, layout, where)
        return np.stack([DynaMax().pool(tokens[i], stored) for i in range(len(texts))])

    of_itself = np.arange(len(probes)), probes
    cosines = near([documents[i].text for i in probes])
    if np.median(cosines[of_itself]) < _SAME and any(documents[i].title for i in probes):
        cosines = np.maximum(cosines, near([documents[i].content for i in probes]))
    own = cosines[of_itself]
    cosine = float(np.median(own))
    if cosine >= _SAME:
        return ()
    found = f"stored vectors of {len(probes)} texts have a cosine of {cosine:.2f} with those that it gives"
    place = float(np.median((cosines > own[:, None]).mean(axis=1)))
    if cosine < _OTHER and place > _NEAREST:
        raise DataError(
            f"{where} has vectors of another model than {model.name!r}: {found}; give the model that they "
            "were made with as embed=, or name another vector with vector="
        )
    return (f"the model: {found}; see that its prompts and settings are those of the vectors",)
