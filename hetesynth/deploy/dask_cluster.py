"""Jobs on the workers of a Dask cluster, which gives a cell to another worker where one is killed.

A worker of other versions, and a scheduler that is lost, end the build.
"""

import logging
import pickle
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.deploy.cache import Cache, CellResult, unpacked
from hetesynth.deploy.cell_check import CheckedCell, objections
from hetesynth.deploy.job import Job, versions
from hetesynth.deploy.outcome import Watcher
from hetesynth.deploy.workers import Failed, Outcome, made
from hetesynth.errors import HetesynthError, InternalError

Versions = tuple[tuple[str, str], ...]

_one_cell = threading.Lock()  # solvers share state within a process
CONNECT_SECONDS = 5.0
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):[0-9]{1,5}")
_TALKING = ("distributed", "asyncio", "tornado")  # loggers of what happens in Dask's threads
PAGE = "docs/building_on_a_cluster.md"


def cell(data: bytes, stated: Versions) -> bytes | Failed | tuple[str, Versions] | str:
    """Return the outcome of the job in ``data``; where this worker's versions are not ``stated``, its address and
    versions; or our bug in words: not every exception can be sent, and Dask waits for ever for one that cannot.
    Runs in a thread of a worker's pool."""
    if versions() != stated:
        from distributed import get_worker

        return get_worker().address, versions()
    try:
        job = pickle.loads(data)
        if not isinstance(job, Job):
            raise TypeError("no job")
        with _one_cell:
            outcome = made(job, None, lambda *_: None)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:2000]
    return outcome.packed() if isinstance(outcome, CellResult) else outcome


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at ``address``. Raises HetesynthError HS858."""
    try:
        import distributed

        connect: Any = distributed.Client
    except ImportError:
        message = "--scheduler needs dask.distributed, which is not installed"
        raise HetesynthError(message, code="HS858", help="pip install 'hetesynth[cluster]'") from None
    for name in [*logging.root.manager.loggerDict]:  # what matters is said by errors here, for good
        if name.partition(".")[0] in _TALKING:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        if not _ADDRESS.fullmatch(address):
            raise ValueError("it is no address, such as tcp://host:8786 or tls://host:8786")
        client = connect(address, timeout=CONNECT_SECONDS, name="hetesynth")
    except Exception as error:
        why = (str(error) or type(error).__name__).splitlines()[0]
        help_ = f"start one with `dask scheduler`, which says its address; {PAGE} says how, with TLS too"
        raise HetesynthError(f"no Dask scheduler answers at {address}: {why}", code="HS858", help=help_) from error
    try:
        yield client
    finally:
        with suppress(Exception):  # the scheduler forgets what this client asked for
            client.close(timeout=2.0)


def _refused(worker: str) -> HetesynthError:
    help_ = f"install what is installed here on the workers too, and restart them; see {PAGE}"
    message = f"a worker of the Dask cluster would not give the bytes that are made here: {worker}"
    return HetesynthError(message, code="HS859", help=help_)


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """The workers of the scheduler at ``address``. ``cache``: where results are kept here."""

    address: str
    cache: Path

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        with connected(self.address) as client:
            from distributed import CancelledError

            if not client.nthreads():
                watcher.warned(
                    f"{self.address} has no worker; waiting for one\n"
                    f"  help: start one with `dask worker {self.address} --nthreads 1`"
                )
            try:
                for outcome in self._outcomes(client, jobs):
                    if isinstance(outcome, CellResult):
                        try:
                            Cache(self.cache).put(outcome)
                        except HetesynthError as error:  # it only has to be made again next time
                            watcher.warned(error.message)
                    yield outcome
            except (CancelledError, OSError) as error:
                message = f"lost the Dask scheduler at {self.address}"
                help_ = "cells that ended are in the cache: start the scheduler and build again"
                raise HetesynthError(message, code="HS858", help=help_) from error

    def _outcomes(self, client: Any, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """Yield the outcomes of ``jobs``. When a worker is killed, Dask suspects every cell that it had: cells
        that Dask gives up are made again one by one, so that a cell fails only where it is alone."""
        from distributed import KilledWorker
        from distributed import as_completed as untyped

        as_completed: Any = untyped

        def submitted(job: Job, ending: str) -> Any:
            """Return the future of ``job``; its key is the same for every build that needs the cell."""
            key = f"hetesynth-cell-{job.key}{ending}"
            return client.submit(cell, pickle.dumps(job), job.versions, key=key, pure=True)

        given = {future.key: (job, future) for job in jobs for future in [submitted(job, "")]}
        suspects: list[Job] = []
        for future in as_completed([future for _, future in given.values()]):
            job, _ = given.pop(future.key)
            try:
                yield _outcome(job, future)
            except KilledWorker:
                suspects.append(job)
            future.release()
        for job in suspects:
            try:
                yield _outcome(job, submitted(job, "-alone"))
            except KilledWorker:
                yield Failed(job.key, "workers that made it were killed, again and again", "HS851")


def _outcome(job: Job, future: Any) -> Outcome:
    """Return the outcome of ``job``, judged here, as anybody may run a worker."""
    try:
        answer = future.result()
    except ImportError as error:
        raise _refused(f"{error}") from None
    if isinstance(answer, tuple):
        address, theirs = answer[0], dict(answer[1])
        other = (f"{name} {theirs.get(name)}, here {own}" for name, own in versions() if theirs.get(name) != own)
        raise _refused(f"{address}: {', '.join(other)}"[:2000])
    if isinstance(answer, Failed):
        return replace(answer, key=job.key)
    if isinstance(answer, str):
        raise InternalError(f"{job.cell.name}: {answer}")
    result = unpacked(answer, job.key) if isinstance(answer, bytes) else None
    wrong = ("it is none",) if result is None else objections(CheckedCell.given(job, result))
    if result is None or wrong:
        return Failed(job.key, f"a worker sent a wrong result: {wrong[0]}", "HS888")
    return result
