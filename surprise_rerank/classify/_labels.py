"""Labels of a classifier: their names in a template, their vectors, and which text belongs to which."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surprise_rerank import _border as border
from surprise_rerank._errors import DataError
from surprise_rerank.core.arrays import BoolArray, Float32Array, FloatArray, matrix, unit_rows

DEFAULT_TEMPLATE = "this matter is {}"
# What makes (n, d) vectors of n label texts.
Encode = Callable[[list[str]], FloatArray]
# Unit vectors in float32 that differ by less, as a length, differ by the order of their sums alone.
_COINCIDING = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class Labels:
    """The L labels of a classifier: strings or numbers, and the texts or the vector each is compared by."""

    classes: npt.NDArray[Any]
    descriptions: tuple[tuple[str, ...] | Float32Array, ...]

    @classmethod
    def of(cls, labels: Any) -> Labels:
        """Labels as a user gives them.

        Args:
            labels: names; or a mapping from a class to its name, to several descriptions, or to a vector.
        """
        if isinstance(labels, str) or not (
            isinstance(labels, Mapping | Sequence) or hasattr(labels, "tolist")
        ):
            border.refuse("labels", labels, "a list of names or a mapping", "put one name into a list")
        described = dict(labels) if isinstance(labels, Mapping) else None
        names = _listed(labels if described is None else list(labels))
        border.some("labels", names, "name the classes")
        descriptions: list[tuple[str, ...] | Float32Array] = []
        seen: dict[object, object] = {}
        for name, value in zip(names, names if described is None else described.values(), strict=True):
            descriptions.append(description := _description(name, value))
            other = seen.setdefault(
                description if isinstance(description, tuple) else description.tobytes(), name
            )
            if len(seen) < len(descriptions):
                raise DataError(
                    f"labels {other!r} and {name!r} have the same description, so their scores are the same; "
                    "describe them differently"
                )
        return cls(_of_one_kind(names, "labels"), tuple(descriptions))

    def texts(self, template: str | None) -> list[list[str]]:
        """Descriptions in the template; nothing for a label that is a vector."""
        filled = (lambda text: text) if template is None else template.format
        return [
            list(map(filled, description)) if isinstance(description, tuple) else []
            for description in self.descriptions
        ]

    def vectors(self, template: str | None, encode: Encode) -> Float32Array:
        """(L, d) unit vectors: of the text, the mean over several descriptions, or the vector given."""
        texts = self.texts(template)
        encoded = encode([text for group in texts for text in group]) if any(texts) else np.zeros((0, 0))
        rows, start = [], 0
        for group, description in zip(texts, self.descriptions, strict=True):
            if isinstance(description, tuple):
                rows.append(unit_rows(encoded[start : start + len(group)]).mean(axis=0))
                start += len(group)
            else:
                rows.append(description)
        for i, row in enumerate(rows):
            border.equal(f"the dimension of label {i}", len(row), len(rows[0]), "use one model for all")
        vectors = unit_rows(np.stack(rows))
        for place, vector in enumerate(vectors):
            # Between two labels of one vector the rounding of a product would choose.
            distance = np.linalg.norm(vectors[place + 1 :] - vector, axis=1)
            if distance.min(initial=np.inf) < _COINCIDING:
                one, other = (self._shown(i) for i in (place, place + 1 + int(distance.argmin())))
                raise DataError(
                    f"the labels {one} and {other} have the same vector, so nothing chooses between them; "
                    "describe them in other words, or choose another encoder"
                )
        return vectors

    def _shown(self, place: int) -> str:
        """A label as its user described it; one that is a vector by its class."""
        description = self.descriptions[place]
        return repr(description[0] if isinstance(description, tuple) else self.classes.tolist()[place])


def check_template(template: object) -> None:
    """Refuse a template that does not hold `{}` exactly once; None is none."""
    fields = []
    with suppress(ValueError):
        parsed = string.Formatter().parse(template if isinstance(template, str) else "")
        fields = [(field, specification) for _, field, specification, _ in parsed if field is not None]
    if template is not None and fields != [("", "")]:
        border.refuse("template", template, "a string that holds {} exactly once", "for the label's name")


def centroids(vectors: FloatArray, members: BoolArray) -> Float32Array:
    """(L, d) means of each label's (n, L) members, of length 1 before and after; zeros without members."""
    counts = np.maximum(members.sum(axis=0), 1)
    return unit_rows((members.T.astype(np.float32) @ unit_rows(vectors)) / counts[:, None])


def members_of(y: Any, classes: npt.NDArray[Any], none_label: object = None) -> BoolArray:
    """(n, L) which text belongs to which class.

    `y` are n classes, n collections of classes, or an (n, L) indicator array of 0 and 1.
    """
    if _is_indicator(y):
        indicator = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if indicator.shape[1:] != (len(classes),) or not np.isin(indicator, (0, 1)).all():
            expected = f"an indicator of 0 and 1 with {len(classes)} columns"
            border.refuse("y", indicator.shape, expected, "give a column for each label")
        return indicator.astype(bool)
    column_of = {name: i for i, name in enumerate(classes.tolist())}
    rows = _own_classes(y, none_label)
    members = np.zeros((len(rows), len(classes)), dtype=bool)
    for member, row in zip(members, rows, strict=True):
        for name in row:
            if name not in column_of:
                choices = ", ".join(map(str, list(column_of)[:20]))
                border.refuse(
                    "a class in y", name, f"one of the labels: {choices}", "correct it, or add a label"
                )
            member[column_of[name]] = True
    return members


def classes_in(y: Any, none_label: object = None) -> npt.NDArray[Any]:
    """(L,) the classes that occur, in order, without `none_label`."""
    if _is_indicator(y):
        border.present("labels for the columns of y", None, "give labels=")
    names = {name for row in _own_classes(y, none_label) for name in row}
    border.some("classes in y", names, "give a class for each text")
    return np.sort(_of_one_kind(list(names), "y"))


def _is_indicator(y: Any) -> bool:
    return int(getattr(y, "ndim", 1)) > 1


def _own_classes(y: Any, none_label: object) -> list[list[Any]]:
    """The classes of each text, which may have one or a collection of them."""
    rows = [list(row) if isinstance(row, list | tuple | set | frozenset) else [row] for row in _listed(y)]
    wrong = [name for row in rows for name in row if not _is_class(name)]
    for name in wrong:
        border.refuse("a class in y", name, "a string or a number", "name the class")
    return [[name for name in row if none_label is None or name != none_label] for row in rows]


def _of_one_kind(names: list[Any], what: str) -> npt.NDArray[Any]:
    """Classes as an array, in which a number beside strings would become a string."""
    if len({isinstance(name, str) for name in names}) > 1:
        border.refuse(what, names, "strings or numbers", "use either for all classes")
    return np.array(names)


def _listed(values: Any) -> list[Any]:
    """A list, an array or a series as a list of Python objects."""
    rows = values.tolist() if hasattr(values, "tolist") else list(values)
    return [row.item() if isinstance(row, np.generic) else row for row in rows]


def _is_class(name: object) -> bool:
    return isinstance(name, str) or (isinstance(name, int | float) and name == name)


def _description(name: object, value: Any) -> tuple[str, ...] | Float32Array:
    if not _is_class(name):
        border.refuse("a label", name, "a string or a number", "describe it with {name: text}")
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
