"""Ray does the parts of a job: the same functions, on the machines of a cluster that share a folder."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from surprise_rerank import _errors as errors
from surprise_rerank._errors import StoreError, SurpriseRerankError
from surprise_rerank.connectors._lucene.signal_handlers import kept_handlers
from surprise_rerank.connectors.similar._folder import Make
from surprise_rerank.core._extras import import_extra

EXTRA = "ray"
_PATIENCE = 5.0  # seconds until an address has answered; Ray itself tries for minutes


class RayCluster:
    """Ray's workers, for `similar_documents(run=RayCluster(...).run)`.

    Args:
        address: of a cluster, such as `auto` or `head:6379`. None means the cluster that RAY_ADDRESS names,
            or one of this machine's own, which ends with this process.
        workers: how many work at the same time.
        num_gpus: graphics processors of a worker, or parts of one.

    Raises:
        MissingExtraError: if Ray is not installed.
    """

    def __init__(self, address: str | None = None, *, workers: int = 2, num_gpus: float = 0) -> None:
        import_extra("ray.data", EXTRA)
        self._address = address
        self._workers, self._gpus = workers, num_gpus

    def run(self, make: Make, numbers: Iterable[int], advance: Callable[[int], None]) -> None:
        """Do parts; Ray gives those of a worker that dies to another one.

        Raises:
            SurpriseRerankError: that a worker raises.
            StoreError: if Ray cannot be reached, or gives up.
        """
        data, ray = import_extra("ray.data", EXTRA), connect(self._address)
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        wanted = list(numbers)
        rows = data.from_items([{"number": n} for n in wanted], override_num_blocks=len(wanted))
        done = rows.map_batches(
            _Worker,
            fn_constructor_args=(make,),
            batch_size=1,
            compute=data.ActorPoolStrategy(min_size=1, max_size=self._workers),
            **({"num_gpus": self._gpus} if self._gpus else {"num_cpus": 1}),
        )
        try:
            for row in done.iter_rows():
                if row["error"]:
                    raise getattr(errors, row["error"])(row["message"])
                advance(1)
        except ray.exceptions.RayError as error:
            first = str(error).strip().partition("\n")[0]
            raise StoreError(f"Ray gave up ({first}); what is done stays, run the same again") from error


def connect(address: str | None) -> Any:
    """Return Ray, connected: to an address, else to RAY_ADDRESS, else to one of this machine's own.

    Raises:
        MissingExtraError: if Ray is not installed.
        StoreError: if it cannot be reached.
    """
    ray, address = import_extra("ray", EXTRA), address or os.environ.get("RAY_ADDRESS") or "local"
    if ray.is_initialized():
        return ray
    place = address if "//" in address else f"//{address}"
    try:
        if (parts := urlsplit(place)).port:
            socket.create_connection((str(parts.hostname), parts.port), _PATIENCE).close()
        with kept_handlers():  # of a Java in this process
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, OSError) as error:
        raise StoreError(
            f"Ray cannot be reached at {address!r}; start a cluster there with `ray start --head`, "
            "or give 'local' for one of this machine's own"
        ) from error
    return ray


class _Worker:
    """An actor: it makes the function once. Our errors are rows, as Ray would wrap them."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._step: Callable[[int], None] | None = None

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[Any]]:
        try:
            step = self._step = self._step or self._make()
            for number in batch["number"].tolist():
                step(number)
        except SurpriseRerankError as error:
            kind = next(base.__name__ for base in type(error).__mro__ if hasattr(errors, base.__name__))
            return {"number": batch["number"], "error": [kind], "message": [str(error)]}
        return {"number": batch["number"], "error": [""], "message": [""]}
