"""What labels are called: the names by which a text is compared with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import yaml

from surprise_rerank.classify.labels import Labels
from surprise_rerank.core.files import disk_errors
from surprise_rerank.errors import DataError, DatasetError

# Class -> its name, or several descriptions whose vectors' mean counts.
LabelNames: TypeAlias = Mapping[str, tuple[str, ...]]


def label_names(classes: Iterable[str], given: LabelNames | None) -> LabelNames:
    """The names of classes, in the order of the classes' characters.

    Args:
        classes: that texts are labelled with.
        given: the names; by default a class's own, with spaces for its underscores. Classes that no text is
            labelled with can be chosen all the same.

    Raises:
        DataError: if one has no name, or there are fewer than two.
    """
    found = sorted(set(classes))
    if given is None:
        names: LabelNames = {name: (name.replace("_", " "),) for name in found}
    else:
        missing = [name for name in found if name not in given]
        if missing:
            raise DataError(
                f"the label names lack {', '.join(map(repr, missing[:5]))}, which texts are labelled with; "
                f"they have {', '.join(map(repr, list(given)[:10]))}"
            )
        names = {name: given[name] for name in sorted(given)}
    if len(names) < 2:
        raise DataError(f"there is one class, {next(iter(names), '')!r}, expected two at least")
    Labels.of(names)  # reports two classes of one name before anything is encoded
    return names


def read_label_names(path: Path) -> LabelNames:
    """Read a YAML mapping of classes to names, or to lists of names.

    Raises:
        DatasetError: if there is no such file.
        DataError: if it is malformed; names the class.
        StoreError: if it cannot be read.
    """
    if not path.is_file():
        raise DatasetError(f"there is no file {path} of label names")
    with disk_errors(str(path)):
        content = path.read_bytes()
    try:
        read = yaml.load(content, _UniqueKeys)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is not YAML: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(read, dict) or not read:
        raise DataError(f"{path}: expected a mapping of classes to their names, got {str(read)[:60]!r}")
    return {str(name): _names(value, f"{path}, {name}") for name, value in read.items()}


class _UniqueKeys(yaml.BaseLoader):
    """Nothing but texts, as a class may be called 1, or no; and no duplicate class."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        """The mapping of a node.

        Raises:
            ConstructorError: if there is a duplicate key.
        """
        keys = [key.value for key, _ in node.value]
        duplicate = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
        if duplicate is not None:
            raise yaml.constructor.ConstructorError(
                None, None, f"duplicate key {duplicate!r}", node.start_mark
            )
        return dict(super().construct_mapping(node, deep))


def _names(value: Any, place: str) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(n, str) and n.strip() for n in names):
        raise DataError(f"{place}: expected a name or a list of names, got {str(value)[:60]!r}")
    return tuple(names)
