"""What libraries log while the server runs, and errors that nobody waits for, hold no text."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the extra 'server' is not installed")

from serving import Log

from surprise_rerank.connectors.server.logs import ForwardingHandler
from surprise_rerank.connectors.server.work import Workers

SECRET = "zebra"


def _fails() -> None:
    raise ValueError(f"cannot encode {SECRET}")


def test_of_what_asyncio_logs_only_the_first_line_is_handed_on() -> None:
    log = Log()
    handler, source = ForwardingHandler(log.logger()), logging.getLogger("asyncio")
    source.addHandler(handler)

    async def forget() -> None:
        future = asyncio.get_running_loop().run_in_executor(None, _fails)
        await asyncio.wait([future])

    try:
        asyncio.run(forget())
        gc.collect()
    finally:
        source.removeHandler(handler)
    (line,) = log.lines
    assert line["said"] == "Future exception was never retrieved"
    assert (line["source"], line["error"], line["level"]) == ("asyncio", "ValueError", "error")
    assert line["at"].startswith(f"{__name__}:")
    assert SECRET not in log.getvalue()


def test_work_that_fails_just_when_its_caller_is_cancelled_is_nobodys_error() -> None:
    workers = Workers(1)
    begun, may_fail = threading.Event(), threading.Event()
    told: list[dict[str, Any]] = []

    def work(stop: threading.Event) -> None:
        begun.set()
        assert may_fail.wait(20)
        _fails()

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    async def cancelled_at_the_last_moment() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: told.append(context))
        running = asyncio.ensure_future(workers.run(receive, work))
        await asyncio.sleep(0)
        assert begun.wait(20)
        may_fail.set()
        workers.close()  # the loop stands still until the thread has ended
        await asyncio.sleep(0)  # and takes the result, of which the caller hears in the next turn only
        running.cancel()
        await asyncio.wait([running])
        assert running.cancelled()
        del running  # with what it has raised, which holds the frames and so the result
        gc.collect()

    asyncio.run(cancelled_at_the_last_moment())
    gc.collect()
    assert told == []
