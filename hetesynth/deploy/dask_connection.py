"""A client of a Dask scheduler: connected, or an error that says why not; Dask's own words are left out.

In: an address. Out: a client, for a while. Knows nothing of jobs.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from hetesynth.errors import HetesynthError

T = TypeVar("T")

CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 2.0
POLL_SECONDS = 0.2
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):[0-9]{1,5}")
_TALKING = ("distributed", "asyncio", "tornado")  # loggers of what happens in Dask's threads
PAGE = "docs/building_on_a_cluster.md"


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at ``address``. Raises HetesynthError HS858."""
    if not _ADDRESS.fullmatch(address):
        raise HetesynthError(
            f"`{address}` is no address of a Dask scheduler",
            code="HS858",
            help="such as tcp://host:8786 or tls://host:8786: `dask scheduler` says its own",
        )
    try:
        import distributed
    except ImportError:
        raise HetesynthError(
            "--scheduler needs dask.distributed, which is not installed",
            code="HS858",
            help="pip install 'hetesynth[cluster]'",
        ) from None
    # A client that did not connect says so a second time where Python throws it away.
    connect: Any = type("Client", (distributed.Client,), {"__del__": lambda client: None})
    _silence()
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False, name="hetesynth")
    except Exception as error:
        raise _unreachable(address, error) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=CLOSE_SECONDS)


def _silence() -> None:
    """For the rest of the process: Dask's threads talk on after the end. What matters is said by errors here."""
    for name in [*logging.root.manager.loggerDict]:
        if name.partition(".")[0] in _TALKING:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _unreachable(address: str, error: Exception) -> HetesynthError:
    """``error``: of the network or of the settings for TLS; or any, where something else answers there."""
    first_line = (str(error) or type(error).__name__).splitlines()[0]
    expected = isinstance(error, OSError | TypeError | ValueError)
    return HetesynthError(
        f"no Dask scheduler answers at {address}: "
        + (first_line if expected else f"what answers speaks another language ({type(error).__name__})"),
        code="HS858",
        help=f"start one with `dask scheduler`, which says its address; {PAGE} says how, with TLS too",
    )


def lost(address: str, why: str) -> HetesynthError:
    """The scheduler went away."""
    return HetesynthError(
        f"lost the Dask scheduler at {address}: {why}",
        code="HS858",
        help="cells that ended are in the cache: start the scheduler and build again, and it goes on from there",
    )


class Silent(Exception):
    """There was no answer in time, or there is nobody left to give it."""


def answered(client: Any, call: Callable[[], T], seconds: float) -> T:
    """What ``call``, which asks the scheduler, returns. Raises Silent after ``seconds``, when it goes on unheard,
    and as soon as the connection is lost: Dask would try to connect for longer."""
    results: list[T] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            results.append(call())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    for _ in range(max(1, round(seconds / POLL_SECONDS))):
        thread.join(POLL_SECONDS)
        if not thread.is_alive() or client.status != "running":
            break
    if errors and not isinstance(errors[0], OSError):
        raise errors[0]
    if not results:
        raise Silent
    return results[0]
