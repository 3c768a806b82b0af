"""What runs on a worker of a Dask cluster: one cell, and what the worker is.

In: a job as bytes and the versions that it was given out with. Out: its result as bytes, or why there is none. All
that a cell needs is in its job: a worker has no topology file, no cache and no folder.
"""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import Any

from hetesynth.building.job import Job, versions
from hetesynth.building.result import CellResult
from hetesynth.building.workers import Failed, made

Versions = tuple[tuple[str, str], ...]

_one_cell = threading.Lock()  # solvers share state within a process


@dataclass(frozen=True, slots=True)
class OtherVersions:
    """The worker at ``address`` would give other bytes."""

    address: str
    versions: Versions


def reported(dask_worker: Any) -> tuple[str, Versions]:
    """The worker's name and its versions."""
    return str(dask_worker.name), versions()


def cell(data: bytes, stated: Versions) -> bytes | Failed | OtherVersions:
    """The outcome of the job in ``data``; of ``stated`` versions only. Runs in a thread of a worker's pool."""
    if versions() != stated:
        from distributed import get_worker

        return OtherVersions(get_worker().address, versions())
    job = pickle.loads(data)
    if not isinstance(job, Job):
        raise TypeError("no job")
    with _one_cell:
        outcome = made(job, None, lambda note: None)
    return outcome.packed() if isinstance(outcome, CellResult) else outcome
