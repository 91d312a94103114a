"""Patterns of `.gitignore`, as git means them, that end in time whatever they are."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Iterable
from typing import Any

import regex
from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore import GitIgnorePatternError
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from surprise_rerank._errors import DataError

_LONGEST = 4096  # characters of a pattern; no path is longer
_FEW_STARS = 2  # so many cannot take long; `re`, which cannot be stopped, is ten times as fast as `regex`
# Seconds that all the patterns of a file may take, and more for every name that they are compared with.
_SECONDS, _SECONDS_A_NAME = 1.0, 0.05


class Patterns:
    """Patterns of one `.gitignore`, or of an option.

    Lines of a file that are no patterns are left out, as git does; of an option they are a DataError.
    """

    def __init__(self, lines: Iterable[str], option: str = "") -> None:
        self._seconds = _SECONDS
        patterns = []
        for line in lines:
            pattern = _pattern(line)
            if pattern is None and option:
                raise DataError(f"{option}={line!r} is no pattern; give those of .gitignore: *.md, drafts/")
            if pattern is None:
                continue
            if pattern.regex is not None and str(pattern).count("*") > _FEW_STARS:
                pattern.regex = _BoundedPattern(pattern.regex.pattern, self)  # type: ignore[assignment]
            patterns.append(pattern)
        self._spec = GitIgnoreSpec(patterns, backend="simple")

    def decide(self, name: str) -> bool | None:
        """Whether they take a file or folder (with a / at the end); None where they say nothing of it.

        Raises:
            TimeoutError: if all comparisons together took too long; another call would, too.
        """
        self._seconds += _SECONDS_A_NAME
        begun = time.monotonic()
        try:
            return self._spec.check_file(name).include
        finally:
            self._seconds -= time.monotonic() - begun

    def takes(self, name: str) -> bool:
        """Whether they take a file or folder.

        Raises:
            DataError: if that takes too long.
        """
        try:
            return bool(self.decide(name))
        except TimeoutError as error:
            raise DataError("the patterns of include and exclude take too long; use fewer *") from error

    def seconds(self) -> float:
        """How long a comparison may take."""
        if self._seconds <= 0:
            raise TimeoutError
        return self._seconds


def _pattern(line: str) -> GitIgnoreSpecPattern | None:
    """The pattern of a line; None where it is none."""
    try:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # of brackets in brackets
            return GitIgnoreSpecPattern(line) if len(line) <= _LONGEST else None
    except (GitIgnorePatternError, re.error):
        return None


class _BoundedPattern:
    """A regular expression for pathspec, which takes no longer than its patterns have left."""

    def __init__(self, pattern: str, patterns: Patterns) -> None:
        self.pattern = pattern
        self._compiled, self._patterns = regex.compile(pattern), patterns

    def search(self, name: str) -> Any:
        return self._compiled.search(name, timeout=self._patterns.seconds())
