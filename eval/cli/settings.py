"""`--set KEY=VALUE`: what few people turn, by the names that the settings classes of Python have."""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Collection as Names
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import click

from surprise_rerank._errors import DataError, refuse_unknown

Kind = TypeVar("Kind")
Function = TypeVar("Function", bound=Callable[..., Any])

# An attribute in a docstring, or several with one text; what follows is further indented.
_ATTRIBUTE = re.compile(r"^    ([a-z]\w*(?:, \w+)*): (.*(?:\n {8,}.*)*)", re.MULTILINE)


class _Key(NamedTuple):
    """What a key sets: the type of its value, its default, and what it does."""

    hint: Any
    default: Any
    does: str


@dataclasses.dataclass(frozen=True, slots=True)
class SetValues:
    """Keys that were given, with their values; `passages.tokens` is the field `tokens` of `passages`."""

    values: Mapping[str, Any]

    def __bool__(self) -> bool:
        return bool(self.values)

    def of(self, kind: type[Kind], **others: Any) -> Kind:
        """Settings of a class, with the values of options."""
        return self.changed(kind(**others))

    def changed(self, base: Kind) -> Kind:
        """The same settings with what was given in place; a DataError if a part is left out and set."""
        names = {setting.name for setting in dataclasses.fields(base)}  # type: ignore[arg-type]
        changes = {key: value for key, value in self.values.items() if key in names}
        parts: dict[str, dict[str, Any]] = {}
        for key, value in self.values.items():
            name, dot, inner = key.partition(".")
            if dot and name in names:
                parts.setdefault(name, {})[inner] = value
        for name, changed in parts.items():
            if changes.get(name, ...) is None:
                raise DataError(f"--set {name}=no goes without --set {name}.{next(iter(changed))}")
            now = changes.get(name, getattr(base, name))
            if now is None:
                now = _part(get_type_hints(type(base))[name])()
            changes[name] = (
                {**now, **changed} if isinstance(now, Mapping) else dataclasses.replace(now, **changed)
            )
        return dataclasses.replace(base, **changes)  # type: ignore[type-var]


def set_option(kinds: Callable[[], Sequence[type]], but: Names[str] = ()) -> Callable[[Function], Function]:
    """The option `--set`, which gives the command its `settings`; fields in `but` have options."""

    def parse(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> SetValues:
        if not texts:
            return SetValues({})
        keys = dict(pair for kind in kinds() for pair in _keys(kind, but))
        if "help" in texts:
            _list(keys)
            context.exit()
        return SetValues(_values(texts, keys))

    return click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        is_eager=True,
        callback=parse,
        help="What few people turn. Several times; `--set help` lists the keys.",
    )


def _keys(kind: type, but: Names[str], before: str = "") -> Iterator[tuple[str, _Key]]:
    hints, described = get_type_hints(kind), _described(kind)
    for setting in dataclasses.fields(kind):
        if setting.name in but:
            continue
        name, hint = f"{before}{setting.name}", hints[setting.name]
        default = setting.default
        if setting.default_factory is not dataclasses.MISSING:
            default = setting.default_factory()
        is_open = get_origin(hint) in (dict, Mapping)
        yield (
            f"{name}." if is_open else name,
            _Key(get_args(hint)[1] if is_open else hint, default, described.get(setting.name, "")),
        )
        part = _part(hint)
        if part is not None:
            yield from _keys(part, (), f"{name}.")


def _part(hint: Any) -> Any:
    """The settings class that a field holds, if it does."""
    return next((kind for kind in _alternatives(hint) if dataclasses.is_dataclass(kind)), None)


def _described(kind: type) -> dict[str, str]:
    """Field -> the first clause of what its class, or one above it, says of it."""
    clauses: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        _, _, attributes = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")
        for names, text in _ATTRIBUTE.findall(attributes):
            clause = re.split(r"; |\.(?: |$)", " ".join(text.split()))[0]
            clauses |= dict.fromkeys(names.split(", "), clause.replace("`", ""))
    return clauses


def _list(keys: Mapping[str, _Key]) -> None:
    """A line for each key: the name with its default, the choices, and what it does."""
    rows = []
    for key, (hint, default, does) in keys.items():
        name = f"{key}PATH" if key.endswith(".") else f"{key}={_shown(default)}"
        literals = [kind for kind in _alternatives(hint) if get_origin(kind) is Literal]
        choices = ", ".join(str(choice) for kind in literals for choice in get_args(kind))
        rows.append((name, f"{does} ({choices})" if choices else does))
    width = max(len(name) for name, _ in rows)
    for name, does in rows:
        click.echo(f"{name:<{width}}  {does}".rstrip())


def _shown(value: Any) -> str:
    if value is None or value is dataclasses.MISSING:
        return ""
    if isinstance(value, bool) or dataclasses.is_dataclass(value):
        return "yes" if value else "no"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _values(texts: Sequence[str], keys: Mapping[str, _Key]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--set {text!r}: write KEY=VALUE; `--set help` lists the keys")
        open_ended = next((name for name in keys if name.endswith(".") and key.startswith(name)), key)
        if open_ended == key:
            refuse_unknown([key], [name for name in keys if not name.endswith(".")], "--set")
        read = _value(key, value, keys[open_ended].hint)
        if key in values and not isinstance(read, tuple):
            raise click.UsageError(f"--set {key} is given twice; give it once")
        values[key] = (*values[key], *read) if key in values else read
    return values


def _value(key: str, text: str, hint: Any) -> Any:
    """A value of the type: of tuples, with commas between; of settings classes, whether there are any."""
    from pydantic import TypeAdapter, ValidationError

    alternatives, part = _alternatives(hint), _part(hint)
    if text == "none" and type(None) in alternatives:
        return None
    value: Any = text
    if any(get_origin(kind) is tuple for kind in alternatives):
        value = [part_text.strip() for part_text in text.split(",") if part_text.strip()]
    try:
        read = TypeAdapter(hint if part is None else bool).validate_python(value)
    except ValidationError as error:
        wrong = (
            fault["msg"].removeprefix("Input should be ")
            for fault in error.errors()
            if fault["loc"] != ("none",)
        )
        expected = " or ".join(dict.fromkeys(wrong))
        raise click.UsageError(f"--set {key}={text}: expected {expected}") from error
    return read if part is None else part() if read else None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
