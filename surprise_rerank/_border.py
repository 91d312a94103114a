"""The border: what a caller gives, checked once and returned in the types that the code behind it trusts.

Every public function takes its arguments through these. Each takes the name of an argument and its value, and
returns the value, or raises a DataError that says what was given, what was expected and what to do.
"""

from __future__ import annotations

import math
import numbers
import os
import reprlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from surprise_rerank._errors import DataError, near_or_all

T = TypeVar("T")

# Nothing here imports NumPy: `--help` checks no arrays.
_LARGEST = 2**63  # Qdrant holds integers of 64 bits
_MOST = 2**53  # a sum of such numbers fits there, and JSON and floats have each of them
_PLAIN = (str, bytes, int, float, list, tuple, dict, type(None))  # an object's own words may hold a secret


def refuse(name: str, value: object, expected: str, advice: str = "") -> NoReturn:
    """Raise the DataError of an argument that is not what was expected."""
    raise DataError(f"{name} must be {expected}, got {_shown(value)}" + (f"; {advice}" if advice else ""))


def text(name: str, value: object, *, blank: bool = True, advice: str = "write it in quotes") -> str:
    """A string; one that has more than white space where `blank` is False."""
    if not isinstance(value, str):
        refuse(name, value, "a string", advice)
    if not blank and not value.strip():
        refuse(name, value, "a string that is not empty", advice)
    return str(value)


def texts(name: str, values: object, *, least: int = 0) -> list[str]:
    """Strings from a list, a generator, an array or a column; one string alone is none."""
    if isinstance(values, str):
        refuse(
            name, values, "a list of strings", f"put the string into a list, {name.rpartition('.')[2]}=[...]"
        )
    strings = list(_iterated(name, values, "a list of strings"))
    for position, value in enumerate(strings):
        if not isinstance(value, str):
            refuse(f"{name}[{position}]", value, "a string", "leave it out, or make it one with str()")
    if len(strings) < least:
        refuse(name, strings, f"a list of at least {least} strings", "give more")
    return strings


def instances(name: str, values: object, kind: type[T], advice: str = "") -> Iterator[T]:
    """Objects of a class, one after the other as they are read: a generator may have no end."""
    source = _iterated(name, values, f"a list of {kind.__name__}s", advice or "put it into a list")
    return (instance(f"{name}[{i}]", value, kind, advice) for i, value in enumerate(source))


def instance(name: str, value: object, kind: type[T], advice: str = "") -> T:
    """An object of a class."""
    if not isinstance(value, kind):
        refuse(name, value, f"a {kind.__name__}", advice or f"make one with {kind.__name__}(...)")
    return value


def count(name: str, value: object, least: int = 1, most: int = _MOST) -> int:
    """A whole number of at least 1, or what is said; also NumPy's."""
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole or not least <= value <= most:  # type: ignore[operator]
        is_small = most == _MOST and (not is_whole or value < most)  # type: ignore[operator]
        limits = f"of at least {least}" if is_small else f"from {least} to {most}"
        refuse(name, value, f"a whole number {limits}", f"give one such as {max(least, 1)}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def number(name: str, value: object, low: float = -math.inf, high: float = math.inf) -> float:
    """A finite number in a range, both ends included; also NumPy's."""
    limits = "" if (low, high) == (-math.inf, math.inf) else f" from {low:g} to {high:g}"
    limits = f" of at least {low:g}" if low > -math.inf and high == math.inf else limits
    is_real = isinstance(value, numbers.Real) and not isinstance(value, bool)
    is_finite = is_real and abs(value) <= sys.float_info.max  # type: ignore[arg-type]
    if not is_finite or not low <= value <= high:  # type: ignore[operator]
        refuse(name, value, f"a number{limits}", "give one such as 1" if high > 1 else "give one such as .5")
    return float(value)  # type: ignore[arg-type]


def positive(name: str, value: object, high: float = math.inf) -> float:
    """A finite number above 0."""
    checked = number(name, value, 0, high)
    return checked or refuse(name, value, "a number above 0", "leave it out for the usual one")


def share(name: str, value: object) -> float:
    """A number from 0 to 1."""
    return number(name, value, 0, 1)


def choice(name: str, value: Any, names: Iterable[str]) -> Any:
    """One of the names that there are."""
    listed = list(names)
    if not isinstance(value, str) or value not in listed:
        raise DataError(f"{name}={_shown(value)} is not known; {near_or_all(str(value), listed)}")
    return value


def choices(name: str, values: object, names: Iterable[str]) -> frozenset[Any]:
    """Some of the names that there are."""
    listed = list(names)
    return frozenset(choice(f"{name}[{i}]", member, listed) for i, member in enumerate(texts(name, values)))


def flag(name: str, value: object) -> bool:
    """True or False, also NumPy's: a "no" would count as True."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        refuse(name, value, "True or False", "write one of the two, without quotes")
    return bool(value)


def flags(**values: object) -> None:
    """Refuse arguments of these names that are neither True nor False."""
    for name, value in values.items():
        flag(name, value)


def path(name: str, value: object) -> Path:
    """The path of a file or a folder."""
    if not isinstance(value, str | os.PathLike):
        refuse(name, value, "a path", "write it in quotes, or give a pathlib.Path")
    return Path(value)


def equal(name: str, value: object, expected: object, advice: str = "give one for each") -> None:
    """Refuse a size, a dimension or a kind that differs from the expected one."""
    if value != expected:
        refuse(name, value, _shown(expected), advice)


def present(name: str, value: T | None, advice: str) -> T:
    """Return an optional value that is needed here; a DataError where it is None."""
    if value is None:
        raise DataError(f"{name} must be there, got None; {advice}")
    return value


def some(name: str, values: Sized, advice: str, least: int = 1) -> None:
    """Refuse nothing where at least one is needed, or fewer than are needed."""
    if len(values) < least:
        expected = "one" if least == 1 else least
        raise DataError(f"{name} must be at least {expected}, got {len(values) or 'none'}; {advice}")


def distinct(name: str, names: Iterable[str], advice: str = "give each once") -> None:
    """Refuse a name that comes twice."""
    seen = set[str]()
    for value in names:
        if value in seen:
            raise DataError(f"{name} must differ, got {value!r} twice; {advice}")
        seen.add(value)


def not_both(advice: str = "give one of the two", **values: object) -> None:
    """Refuse two arguments of which each says the same."""
    if all(value is not None for value in values.values()):
        raise DataError(f"{' and '.join(f'{name}=' for name in values)} are both given; {advice}")


def key(name: str, value: object, example: str) -> str:
    """A key of the metadata, with dots between the keys of objects in each other."""
    if not all(text(name, value).split(".")):
        refuse(name, value, "a key of the metadata", f"give one such as {example!r}")
    return str(value)


def function(name: str, value: object) -> Any:
    """Something that can be called."""
    if not callable(value):
        refuse(name, value, "a function", "give the function itself, without brackets behind its name")
    return value


def able(name: str, value: object, method: str, expected: str) -> Any:
    """An object that has a method."""
    if not callable(getattr(value, method, None)) or isinstance(value, type):
        refuse(name, value, expected, f"it has a method {method}(...)")
    return value


def judgements(questions: object, qrels: object) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    """Questions by their ids, and of each judged one the gains of documents by theirs."""
    texts_by_id = mapping("questions", questions, text)
    gains_by_id = mapping("qrels", qrels, lambda name, gains: mapping(name, gains, number))
    for name in gains_by_id:
        if name not in texts_by_id:
            refuse(
                "a question of qrels", name, "one of the questions", "give the text of each that is judged"
            )
    return texts_by_id, gains_by_id


def mapping(name: str, value: object, check: Callable[[str, Any], T] | None = None) -> dict[str, T]:
    """A dictionary whose keys are strings, and whose values a check lets through."""
    if not isinstance(value, Mapping):
        refuse(name, value, "a dictionary", "write it as {name: value}")
    for key in value:
        if not isinstance(key, str):
            refuse(f"a key of {name}", key, "a string", "write it in quotes, or make it one with str()")
    return {str(key): check(f"{name}[{key!r}]", item) if check else item for key, item in value.items()}


def json_value(name: str, value: Any) -> Any:
    """A value that JSON and Qdrant can hold, with lists for tuples and Python's numbers for NumPy's."""
    try:
        return _json_value(name, value)
    except RecursionError:
        refuse(name, value, "a value of JSON", "it holds itself, or hundreds of values in each other")


def _json_value(name: str, value: Any) -> Any:
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return mapping(name, value, _json_value)
    if isinstance(value, list | tuple):
        return [_json_value(f"{name}[{i}]", member) for i, member in enumerate(value)]
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        refuse(name, value, "a number of at most 64 bits", "make it a string")
    if isinstance(value, float) and not math.isfinite(value):
        refuse(name, value, "a finite number", "leave it out, or give None")
    if isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
        refuse(name, value, "text without lone surrogates", "decode it with errors='replace'")
    if not isinstance(value, str | int | float | None):
        advice = "write a date as .isoformat(), a number as float(), all else as str()"
        refuse(name, value, "a value of JSON", advice)
    return value


def optional(check: Callable[..., T], name: str, value: object, *limits: Any) -> T | None:
    """What a check makes of a value; None stays None."""
    return None if value is None else check(name, value, *limits)


def or_none(check: Callable[..., T], *limits: Any) -> Callable[[str, Any], T | None]:
    """The check that lets None pass, too; for `fields`."""
    return lambda name, value: optional(check, name, value, *limits)


def fields(record: object, **checks: Callable[[str, Any], Any]) -> None:
    """Put what checks make of the fields of a frozen dataclass into their places."""
    for name, check in checks.items():
        checked = check(f"{type(record).__name__}.{name}", getattr(record, name))
        object.__setattr__(record, name, checked)


def _shown(value: object) -> str:
    return reprlib.repr(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"


def _iterated(name: str, values: Any, expected: str, advice: str = "give a list") -> Iterator[Any]:
    """The members of something that has members in a row: not of a dictionary or a table."""
    # Columns of pyarrow and arrays of NumPy have objects of their own as members.
    listed = getattr(values, "to_pylist", None) or getattr(values, "tolist", None)
    is_row = isinstance(values, Iterable) and getattr(values, "ndim", 1) == 1
    if not is_row or isinstance(values, str | bytes | Mapping):
        refuse(name, values, expected, advice)
    return iter(listed() if callable(listed) else values)
