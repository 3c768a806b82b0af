"""What runs on a worker of a Dask cluster: one cell, and what the worker is.

In: a job as bytes and the versions that it was given out with. Out: its result as bytes, or why there is none. All
that a cell needs is in its job: a worker has no topology file, no cache and no folder.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.job import Job, versions
from hetesynth.deploy.result import CellResult
from hetesynth.deploy.workers import Failed, made

Versions = tuple[tuple[str, str], ...]

MAX_MESSAGE = 2000
_one_cell = threading.Lock()  # solvers share state within a process


@dataclass(frozen=True, slots=True)
class OtherVersions:
    """The worker at ``address`` would give other bytes."""

    address: str
    versions: Versions


@dataclass(frozen=True, slots=True)
class Broken:
    """Our bug, in words: not every exception can be sent, and Dask waits for ever for one that cannot."""

    message: str


def reported(dask_worker: Any) -> tuple[str, Versions]:
    """The worker's name and its versions."""
    return str(dask_worker.name), versions()


def cell(data: bytes, stated: Versions) -> bytes | Failed | OtherVersions | Broken:
    """The outcome of the job in ``data``; of ``stated`` versions only. Runs in a thread of a worker's pool."""
    if versions() != stated:
        from distributed import get_worker

        return OtherVersions(get_worker().address, versions())
    try:
        job = pickle.loads(data)
        if not isinstance(job, Job):
            raise TypeError("no job")
        with _one_cell:
            outcome = made(job, None, lambda note: None)
    except Exception as error:
        return Broken(f"{type(error).__name__}: {error}"[:MAX_MESSAGE])
    return outcome.packed() if isinstance(outcome, CellResult) else outcome
