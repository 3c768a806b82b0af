"""Jobs on several processes: each is made once, whatever becomes of the process that has it.

In: jobs, a cache. Out: results as they come, or the error of a job. A process that dies costs the job it had,
which is given to another one; a job whose process died three times is an error of its own.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hetesynth.building.cache import Cache
from hetesynth.building.job import Job
from hetesynth.building.result import CellResult
from hetesynth.errors import HetesynthError

LIVES = 3
"""Processes that one job may cost."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that has no result, and why; what ``HetesynthError`` says."""

    key: str
    message: str
    code: str
    help: str
    exit_code: int


Outcome = CellResult | Failed


class Scheduler(Protocol):
    """What runs jobs: processes here, or a cluster."""

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        ...


def made(job: Job, cache: Path | None) -> Outcome:
    """The outcome of ``job``, from the cache or made now and kept there. Runs in a worker."""
    from hetesynth.building.compute import compute

    if cache is None:
        return _computed(job, compute)
    store = Cache(cache)
    with store.making(job.key):
        kept = store.get(job.key)
        if kept is not None:
            return kept
        outcome = _computed(job, compute)
        if isinstance(outcome, CellResult):
            store.put(outcome)
        return outcome


def _computed(job: Job, compute: Callable[[Job], CellResult]) -> Outcome:
    try:
        return compute(job)
    except HetesynthError as error:
        return Failed(job.key, error.message, error.code, error.help, error.exit_code)


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """``number`` processes of this machine."""

    number: int
    cache: Path

    def run(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        left, lives = list(jobs), dict.fromkeys((job.key for job in jobs), LIVES)
        while left:
            ended: set[str] = set()
            try:
                for outcome in self._pool(left):
                    ended.add(outcome.key)
                    yield outcome
            except BrokenProcessPool:
                for job in left[: self.number]:
                    lives[job.key] -= job.key not in ended
            left = [job for job in left if job.key not in ended]
            for job in [job for job in left if lives[job.key] <= 0]:
                left.remove(job)
                yield Failed(job.key, "the process that made it was killed, again and again", "HS851", "", 70)

    def _pool(self, jobs: Sequence[Job]) -> Iterator[Outcome]:
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(min(self.number, len(jobs)), context, initializer=_begin)
        try:
            waiting: set[Future[Outcome]] = {pool.submit(made, job, self.cache) for job in jobs}
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def _begin() -> None:
    """Ctrl-C is for the process that gave the work; solvers of one process use one core."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent.join()
    os._exit(1)


def processors() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
