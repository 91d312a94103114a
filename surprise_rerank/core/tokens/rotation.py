"""A fixed rotation that spreads every vector evenly over its components.

It is the inverse DCT of x with the signs of the Rudin-Shapiro sequence. A few components of a model's token
vectors are much larger than the others. After the rotation all are of about one size, close to normally
distributed with deviation |x| / sqrt(d), and a few bits for each lose little. It takes O(d log d) operations.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from surprise_rerank.core.arrays import Float32Array, FloatArray


@cache
def spreading_signs(d: int) -> Float32Array:
    """(d,) the Rudin-Shapiro sequence, of 1 and -1, whose transform is flat.

    Without signs, a vector whose components are all alike would end up in one component.
    """
    place = np.arange(d)
    signs: Float32Array = np.where(np.bitwise_count(place & place >> 1) % 2, -1, 1).astype(np.float32)
    signs.flags.writeable = False  # all callers get the same ones
    return signs


def rotated(vectors: FloatArray) -> Float32Array:
    """(n, d) -> (n, d), the same products among them."""
    from scipy import fft

    signed = np.asarray(vectors, np.float32) * spreading_signs(vectors.shape[1])
    if not signed.size:
        return signed
    turned: Float32Array = fft.idct(signed, axis=1, norm="ortho").astype(np.float32, copy=False)
    return turned


def rotated_back(vectors: FloatArray) -> Float32Array:
    """(n, d) what `rotated` made these of."""
    from scipy import fft

    turned = np.asarray(vectors, np.float32)
    if not turned.size:
        return turned
    signed = fft.dct(turned, axis=1, norm="ortho").astype(np.float32, copy=False)
    found: Float32Array = signed * spreading_signs(turned.shape[1])
    return found
