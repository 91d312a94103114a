"""Results by what they depend on, kept so that an interrupted evaluation goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Generic, TypeAlias, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from surprise_rerank.core.files import disk_errors, whole_file

Key: TypeAlias = Mapping[str, str | int | float | bool | None]
Result = TypeVar("Result")

# What reading JSON of another form raises.
_UNREADABLE = (OSError, ValueError, KeyError, TypeError, AttributeError)


class ResultCache(Generic[Result]):
    """A folder of results, a JSON file for each.

    Args:
        folder: that they are kept in.
        kind: of the results: a dataclass, or a dictionary of some. Kept values of another form count as no
            result.
        protocol: part of every key: a result that was measured another way is not read.
        named_by: the part of a key that a file's name begins with.

    Attributes:
        path: the folder.
        asked: how many results were asked for.
        found: how many of them were kept.

    Raises:
        StoreError: if the folder cannot be made.
    """

    def __init__(
        self, folder: Path, kind: type[Result], *, protocol: int = 1, named_by: str | None = None
    ) -> None:
        self.path = folder
        self._kind = kind
        self._protocol = protocol
        self._named_by = named_by
        self.asked = self.found = 0
        with disk_errors(f"the results in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)

    def find(self, key: Key) -> Result | None:
        """A result; None where there is none, or one that cannot be read.

        Args:
            key: what the result depends on.
        """
        try:
            stored = json.loads(self._file(key).read_bytes())
            return from_json(self._kind, stored["result"]) if stored["key"] == self._whole(key) else None
        except _UNREADABLE:
            return None

    def get(self, key: Key, measure: Callable[[], Result]) -> Result:
        """A result: read where it is kept, else measured and kept.

        Args:
            key: what it depends on.
            measure: makes the result, a dataclass of JSON values.

        Raises:
            StoreError: if it cannot be written.
        """
        self.asked += 1
        found = self.find(key)
        if found is not None:
            self.found += 1
            return found
        result = measure()
        self.keep(key, asdict(cast(Any, result)))
        return result

    def remarks(self, what: str = "results") -> Iterator[str]:
        """How many of the results were read."""
        if self.found:
            yield f"{self.found} of {self.asked} {what} were measured before and read from {self.path}"

    def keep(self, key: Key, values: Mapping[str, Any]) -> None:
        """Keep a result.

        Args:
            key: what it depends on.
            values: the result as JSON values, in place of an earlier one.

        Raises:
            StoreError: if it cannot be written.
        """
        path = self._file(key)
        content = json.dumps({"key": self._whole(key), "result": values}, indent=1)
        with disk_errors(f"the result {path}"), whole_file(path) as file:
            file.write(content.encode())

    def _file(self, key: Key) -> Path:
        whole = json.dumps(self._whole(key), sort_keys=True)
        digits = hashlib.sha256(whole.encode()).hexdigest()[:16]
        return self.path / (f"{key[self._named_by]}-{digits}.json" if self._named_by else f"{digits}.json")

    def _whole(self, key: Key) -> dict[str, Any]:
        return {**key, "protocol": self._protocol}


def from_json(kind: Any, value: Any) -> Any:
    """A value of a type, made of its JSON form.

    Args:
        kind: a dataclass; a tuple or a dictionary of one type; `float`, `int`, `bool`, `str`, or one of these
            or None.
        value: what `json.loads` returned.

    Raises:
        TypeError: if the value has another form.
    """
    if get_origin(kind) in (Union, UnionType):
        return None if value is None else from_json(get_args(kind)[0], value)
    if get_origin(kind) is tuple:
        return tuple(from_json(get_args(kind)[0], own) for own in value)
    if get_origin(kind) is dict:
        return {name: from_json(get_args(kind)[1], own) for name, own in value.items()}
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        if value.keys() != hints.keys():
            raise TypeError(f"expected {', '.join(hints)}, got {', '.join(value)}")
        return kind(**{name: from_json(hints[name], own) for name, own in value.items()})  # type: ignore[operator]
    if type(value) not in ((int, float) if kind is float else (kind,)):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value
