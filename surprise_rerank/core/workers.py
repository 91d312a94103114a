"""Blocking work for event loops, and coroutines for blocking work: threads that others wait on."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

# A search waits for its store part of the time. In the rest it computes, with torch's number of threads.
_FEWEST, _MOST = 4, 16


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """What `function(*args, **kwargs)` returns or raises, computed in a thread while the event loop goes on.

    All calls of a process share one pool, apart from asyncio's own, so that searches leave the threads alone
    that an application keeps for its files and names. It has as many threads as the machine has cores, but
    at least 4 and at most 16; the first call makes it, and it is closed when Python exits. Calls beyond that
    number wait their turn. The function sees the caller's context variables, but what it sets in them stays
    with it.

    A coroutine that is cancelled stops waiting. A call that still waits for its turn is then dropped; one
    that has begun runs to its end, as threads cannot be stopped. The function must not wait for another
    `in_thread`: where every thread waits for one more, none is left.

    Args:
        function: anything that may be called from another thread.
        args: its arguments.
        kwargs: its named arguments.
    """
    call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_pool(os.getpid()), call)


def awaitable(
    method: Callable[Concatenate[S, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The same method for event loops, computed in a thread; see `in_thread`.

    Args:
        method: of a class; a subclass may override it.
    """

    @functools.wraps(method, updated=())  # not that it is abstract
    async def twin(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        bound: Callable[P, T] = getattr(self, method.__name__)
        return await in_thread(bound, *args, **kwargs)

    twin.__doc__ = f"`{method.__name__}` for an event loop."
    return twin


def result_of(awaited: Awaitable[T]) -> T:
    """What an awaitable gives or raises, waited for by a thread that has no event loop, or a running one.

    It runs in an event loop of its own thread, one for the process, so that clients whose connections belong
    to a loop can be used again.

    Args:
        awaited: what an asynchronous function returned; not from inside another `result_of`.
    """

    async def waiting() -> T:
        return await awaited

    return asyncio.run_coroutine_threadsafe(waiting(), _loop(os.getpid())).result()


async def in_loop(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine gives or raises that runs in the event loop of `result_of`, awaited in any other.

    So clients whose connections belong to a loop serve all loops of a process.

    Args:
        coroutine: not from inside another `in_loop`.
    """
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, _loop(os.getpid())))


@functools.cache
def _loop(process: int) -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="surprise-rerank-loop", daemon=True).start()
    return loop


@functools.cache
def _pool(process: int) -> ThreadPoolExecutor:  # by process: the threads of a pool do not outlive a fork
    size = max(_FEWEST, min(_MOST, os.cpu_count() or 1))
    return ThreadPoolExecutor(size, thread_name_prefix="surprise-rerank")
