"""Labels of a classifier: their names in a template, their vectors, and who belongs to them."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surprise_rerank.arrays import Float32Array, FloatArray, matrix, unit_rows
from surprise_rerank.errors import DataError

DEFAULT_TEMPLATE = "this matter is {}"
BoolArray = npt.NDArray[np.bool_]
# What makes (n, d) vectors of n label texts.
Encode = Callable[[list[str]], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The L labels of a classifier.

    Attributes:
        classes: (L,) what is predicted.
        descriptions: what each label is compared by: texts, or a vector.
    """

    classes: npt.NDArray[Any]
    descriptions: tuple[tuple[str, ...] | Float32Array, ...]

    @classmethod
    def of(cls, given: Any) -> Labels:
        """Labels as a user gives them.

        Args:
            given: names; or a mapping from a class to its name, to several descriptions, or to a vector.

        Raises:
            DataError: if there are none, two are equal, or one is described by something else.
        """
        if isinstance(given, str) or not isinstance(given, Mapping | Sequence | np.ndarray):
            raise DataError(f"labels must be a list of names or a mapping, got {type(given).__name__}")
        if isinstance(given, Mapping):
            names, described = list(given), [_description(name, value) for name, value in given.items()]
        else:
            names = list(given)
            described = [_description(name, name) for name in names]
        if not names:
            raise DataError("labels is empty; give at least one")
        _refuse_equal(names, described)
        return cls(class_array(names), tuple(described))

    def __len__(self) -> int:
        return len(self.classes)

    def texts(self, template: str | None) -> list[list[str]]:
        """Descriptions in the template; nothing for a label that is a vector."""
        filled = (lambda text: text) if template is None else template.format
        return [
            [filled(text) for text in description] if isinstance(description, tuple) else []
            for description in self.descriptions
        ]

    def vectors(self, template: str | None, encode: Encode) -> Float32Array:
        """(L, d) unit vectors: of the text, the mean over several descriptions, or the vector given.

        Args:
            template: with `{}` for the description; None for the description alone.
            encode: makes vectors of texts.

        Raises:
            DataError: if vectors differ in dimension.
        """
        texts = self.texts(template)
        encoded = encode([text for group in texts for text in group]) if any(texts) else np.zeros((0, 0))
        rows, start = [], 0
        for group, description in zip(texts, self.descriptions, strict=True):
            if isinstance(description, tuple):
                rows.append(unit_rows(encoded[start : start + len(group)]).mean(axis=0))
                start += len(group)
            else:
                rows.append(description)
        sizes = sorted({len(row) for row in rows})
        if len(sizes) > 1:
            raise DataError(f"label vectors have dimensions {', '.join(map(str, sizes))}, expected one")
        return unit_rows(np.stack(rows))


def check_template(template: object) -> None:
    """Refuse a template that does not hold `{}` exactly once.

    Raises:
        DataError: if it is one.
    """
    if template is None:
        return
    try:
        parsed = string.Formatter().parse(template if isinstance(template, str) else "")
        fields = [field for _, field, _, _ in parsed if field is not None]
    except ValueError as error:
        raise DataError(f"template {template!r} cannot be filled: {error}") from None
    if fields != [""]:
        raise DataError(f"template must hold {{}} exactly once, for the label's name, got {template!r}")


def centroids(vectors: FloatArray, members: BoolArray) -> Float32Array:
    """(L, d) unit vectors: the means of each label's members, every member scaled to length 1.

    Args:
        vectors: (n, d).
        members: (n, L) which vector belongs to which label; a label without members gets zeros.
    """
    counts = np.maximum(members.sum(axis=0), 1)
    return unit_rows((members.T.astype(np.float32) @ unit_rows(vectors)) / counts[:, None])


def members_of(y: Any, classes: npt.NDArray[Any], none_label: object = None) -> BoolArray:
    """Which text belongs to which class: (n, L).

    Args:
        y: n classes; or n collections of classes; or an (n, L) indicator of 0 and 1.
        classes: (L,).
        none_label: what texts of no class are labelled with.

    Raises:
        DataError: if a class is not among them, or the shape is another one.
    """
    places = {name: i for i, name in enumerate(classes.tolist())}
    indicator = np.asarray(y) if not _is_ragged(y) else None
    if indicator is not None and indicator.ndim == 2:
        if indicator.shape[1] != len(classes) or not np.isin(indicator, (0, 1)).all():
            raise DataError(
                f"y must be an indicator of 0 and 1 with {len(classes)} columns, got {indicator.shape}"
            )
        return indicator.astype(bool)
    rows: list[Any] = list(y) if indicator is None else indicator.tolist()
    members = np.zeros((len(rows), len(classes)), dtype=bool)
    for row, value in zip(members, rows, strict=True):
        for name in value if isinstance(value, list | tuple | set | frozenset) else (value,):
            if none_label is not None and name == none_label:
                continue
            if name not in places:
                known = ", ".join(map(str, list(places)[:20]))
                raise DataError(f"y holds {name!r}, which is none of the labels: {known}")
            row[places[name]] = True
    return members


def class_array(names: Sequence[Any]) -> npt.NDArray[Any]:
    """(L,) classes as an array, of numbers or strings where all are; of objects otherwise."""
    kinds = {str if isinstance(name, str) else type(name) for name in names}
    if len(kinds) == 1:
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def _is_ragged(y: Any) -> bool:
    return not isinstance(y, np.ndarray) and any(isinstance(row, list | tuple | set | frozenset) for row in y)


def _description(name: object, value: Any) -> tuple[str, ...] | Float32Array:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(text, str) for text in value):
        return tuple(value)
    numbers = np.asarray(value) if not isinstance(value, Mapping) else np.zeros(())
    if numbers.ndim == 1 and numbers.size and np.issubdtype(numbers.dtype, np.number):
        vector: Float32Array = matrix(numbers, f"the vector of label {name!r}")[0]
        return vector
    raise DataError(
        f"label {name!r} is described by {value!r:.60}, expected a text, a list of texts, or a vector"
    )


def _refuse_equal(names: list[Any], described: list[tuple[str, ...] | Float32Array]) -> None:
    seen: dict[object, object] = {}
    for name, description in zip(names, described, strict=True):
        key = description if isinstance(description, tuple) else description.tobytes()
        if key in seen:
            raise DataError(
                f"labels {seen[key]!r} and {name!r} have the same description; no score can tell them apart"
            )
        seen[key] = name
