"""Labels of a classifier: their names in a template, their vectors, and the texts that belong to them."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from surprise_rerank.core.arrays import BoolArray, Float32Array, FloatArray, matrix, unit_rows
from surprise_rerank.errors import DataError

DEFAULT_TEMPLATE = "this matter is {}"
# What makes (n, d) vectors of n label texts.
Encode = Callable[[list[str]], FloatArray]
# Unit vectors in float32 that differ by less, as a length, differ by the order of their sums alone.
_COINCIDING = 1e-5


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
        if isinstance(given, Mapping):
            names = rows_of(list(given))
            described = [_description(name, value) for name, value in given.items()]
        elif hasattr(given, "tolist") or (isinstance(given, Sequence) and not isinstance(given, str)):
            names = rows_of(given)
            described = [_description(name, name) for name in names]
        else:
            raise DataError(f"labels must be a list of names or a mapping, got {type(given).__name__}")
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
            DataError: if vectors differ in dimension, or two coincide, as those of the same words in another
                order do for word vectors, and those of unknown words.
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
        found = unit_rows(np.stack(rows))
        self._refuse_coinciding(found)
        return found

    def _refuse_coinciding(self, vectors: Float32Array) -> None:
        """Between two labels of one vector the rounding of a product would choose."""
        for place, vector in enumerate(vectors):
            distance = np.linalg.norm(vectors[place + 1 :] - vector, axis=1)
            if distance.min(initial=np.inf) < _COINCIDING:
                one, other = (self._shown(i) for i in (place, place + 1 + int(distance.argmin())))
                raise DataError(
                    f"the labels {one} and {other} have the same vector, so nothing chooses between them; "
                    "describe them in other words, or choose another encoder"
                )

    def _shown(self, place: int) -> str:
        """A label as its user described it; one that is a vector by its class."""
        description = self.descriptions[place]
        return repr(description[0] if isinstance(description, tuple) else self.classes.tolist()[place])


def check_template(template: object) -> None:
    """Refuse a template that does not hold `{}` exactly once.

    Raises:
        DataError: if it is one.
    """
    if template is None:
        return
    try:
        parsed = string.Formatter().parse(template if isinstance(template, str) else "")
        fields = [(field, specification) for _, field, specification, _ in parsed if field is not None]
    except ValueError as error:
        raise DataError(f"template {template!r} cannot be filled: {error}") from None
    if fields != [("", "")]:
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
        y: n classes; or n collections of classes; or an (n, L) indicator array of 0 and 1.
        classes: (L,).
        none_label: what texts of no class are labelled with.

    Raises:
        DataError: if a class is not among them, or the shape is another one.
    """
    if is_indicator(y):
        indicator = np.asarray(y.toarray() if hasattr(y, "toarray") else y)
        if indicator.shape[1:] != (len(classes),) or not np.isin(indicator, (0, 1)).all():
            raise DataError(
                f"y must be an indicator of 0 and 1 with {len(classes)} columns, got {indicator.shape}"
            )
        return indicator.astype(bool)
    column_of = {name: i for i, name in enumerate(classes.tolist())}
    rows = rows_of(y)
    members = np.zeros((len(rows), len(classes)), dtype=bool)
    for member, row in zip(members, rows, strict=True):
        for name in _own(row, none_label):
            if not _is_class(name) or name not in column_of:
                known = ", ".join(map(str, list(column_of)[:20]))
                raise DataError(f"y holds {name!r}, which is none of the labels: {known}")
            member[column_of[name]] = True
    return members


def classes_in(y: Any, none_label: object = None) -> npt.NDArray[Any]:
    """(L,) the classes that occur, in order, without `none_label`.

    Raises:
        DataError: if there is none, one is no class, or they cannot be put in order.
    """
    if is_indicator(y):
        raise DataError("y is an indicator; give labels=, the classes of its columns")
    found = [name for row in rows_of(y) for name in _own(row, none_label)]
    wrong = [name for name in found if not _is_class(name)]
    if wrong:
        raise DataError(f"y holds {wrong[0]!r:.60}, expected strings or numbers for classes")
    if not found:
        raise DataError("y holds no class")
    try:
        return class_array(sorted(set(found)))
    except TypeError:
        raise DataError("y holds strings and numbers; give labels=, the classes in their order") from None


def class_array(names: Sequence[Any]) -> npt.NDArray[Any]:
    """(L,) classes as an array, of numbers or strings where all are; of objects otherwise."""
    kinds = {str if isinstance(name, str) else type(name) for name in names}
    if len(kinds) == 1:
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def is_indicator(y: Any) -> bool:
    """Whether y is an array or a table of two dimensions."""
    return int(getattr(y, "ndim", 1)) > 1


def has_strings_and_numbers(y: Any) -> bool:
    """Whether a list or an array of objects holds both, which become strings in an array of one type."""
    if not isinstance(y, list | tuple) and getattr(y, "dtype", None) != np.dtype(object):
        return False
    return len({isinstance(row, str) for row in rows_of(y)}) > 1


def rows_of(y: Any) -> list[Any]:
    """The rows of a list, an array or a series, as Python objects: a number among strings stays one."""
    rows = y.tolist() if hasattr(y, "tolist") else list(y)
    return [row.item() if isinstance(row, np.generic) else row for row in rows]


def _own(row: Any, none_label: object) -> list[Any]:
    """The classes of a row, which may be one or a collection of them."""
    own = list(row) if isinstance(row, list | tuple | set | frozenset) else [row]
    return [name for name in own if none_label is None or name != none_label]


def _is_class(name: object) -> bool:
    return isinstance(name, str | bool) or (isinstance(name, int | float) and name == name)


def _description(name: object, value: Any) -> tuple[str, ...] | Float32Array:
    if not _is_class(name.item() if isinstance(name, np.generic) else name):
        raise DataError(f"label {name!r:.60} is a {type(name).__name__}, expected a string or a number")
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
                f"labels {seen[key]!r} and {name!r} have the same description, so their scores are the same; "
                "describe them differently"
            )
        seen[key] = name
