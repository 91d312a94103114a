import asyncio
import contextvars
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from surprise_rerank.core.workers import in_thread


def test_the_result_and_the_arguments_pass_through():
    async def main():
        return await in_thread(divmod, 7, 2), await in_thread(int, "ff", base=16)

    assert asyncio.run(main()) == ((3, 1), 255)


def test_arguments_may_be_called_function():
    def named(function):
        return function

    assert asyncio.run(in_thread(named, function=3)) == 3


def test_an_error_is_raised_where_it_is_awaited():
    with pytest.raises(ZeroDivisionError):
        asyncio.run(in_thread(divmod, 1, 0))


def test_the_event_loop_goes_on_meanwhile():
    released = threading.Event()

    async def main():
        waiting = asyncio.create_task(in_thread(released.wait, 10))
        await asyncio.sleep(0)
        released.set()
        return await waiting

    assert asyncio.run(main())


def test_context_variables_are_carried_over_and_changes_stay_there():
    variable = contextvars.ContextVar("variable", default="unset")

    def change():
        before = variable.get()
        variable.set("the thread's")
        return before

    async def main():
        variable.set("the caller's")
        return await in_thread(change), variable.get()

    assert asyncio.run(main()) == ("the caller's", "the caller's")


def test_no_more_threads_than_the_bound_work_at_once():
    lock = threading.Lock()
    now, most = 0, 0

    def work():
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        time.sleep(0.005)
        with lock:
            now -= 1

    async def main():
        await asyncio.gather(*(in_thread(work) for _ in range(64)))

    asyncio.run(main())
    assert 2 <= most <= 16


def test_threads_are_kept_from_one_event_loop_to_the_next():
    def name():
        return threading.current_thread().name

    assert {asyncio.run(in_thread(name)).split("_")[0] for _ in range(3)} == {"surprise-rerank"}


def test_a_cancelled_coroutine_stops_waiting():
    released = threading.Event()

    async def main():
        waiting = asyncio.create_task(in_thread(released.wait, 10))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        released.set()

    start = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - start < 5


FORKED = textwrap.dedent(
    """
    import asyncio, os, sys
    from surprise_rerank.core.workers import in_thread

    asyncio.run(in_thread(int))
    child = os.fork()
    if child == 0:
        answer = 1
        try:
            answer = asyncio.run(asyncio.wait_for(in_thread(int, "0"), 10))
        finally:
            os._exit(answer)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_gets_threads_of_its_own():
    # In a process of its own: this one has threads of others, too, and what they hold at a fork stays held.
    subprocess.run([sys.executable, "-P", "-W", "ignore", "-c", FORKED], check=True, timeout=60)
