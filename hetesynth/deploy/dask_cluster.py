"""Jobs on the workers of a Dask cluster: each is made once, whatever becomes of the worker that has it.

In: jobs, the address of a scheduler, a cache. Out: results as they come, each in the cache before it is handed on.
A worker that is lost costs the cell it had, which Dask gives to another one; a scheduler that is lost ends the
build, and the next one goes on from the cache. As many cells are given out as the workers that are there can
make soon; they go to no others than those workers, so that versions are known before a cell is sent.
"""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from hetesynth.deploy.cache import Cache
from hetesynth.deploy.cell_check import CheckedCell, objections
from hetesynth.deploy.dask_connection import CLOSE_SECONDS, Silent, answered, connected, lost
from hetesynth.deploy.dask_task import Broken, OtherVersions, cell
from hetesynth.deploy.dask_workers import Workers
from hetesynth.deploy.job import Job
from hetesynth.deploy.keeping import NORMAL
from hetesynth.deploy.result import CellResult, unpacked
from hetesynth.deploy.watching import Watcher
from hetesynth.deploy.workers import LIVES, Failed, Outcome
from hetesynth.errors import HetesynthError, InternalError

LOOK_SECONDS = 2.0
"""How often it is asked which workers there are."""
LONELY_SECONDS = 10.0
"""Without a worker, before that is said; it is said again after twice as long."""
FETCH_SECONDS = 120.0
"""For a result to come; it is made again after that."""
GIVEN = 2
"""Cells given out for each thread of the workers: one that is made, one that is next."""


@dataclass(frozen=True, slots=True)
class DaskCluster:
    """The workers of the scheduler at ``address``. ``cache``: where results are kept here."""

    address: str
    cache: Path

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        with connected(self.address) as client:
            try:
                left = deque(_Attempt(job) for job in jobs)
                yield from _Run(self, client, watcher, left).outcomes()
            except Silent:
                raise lost(self.address, "it does not answer") from None
            except Exception as error:
                if isinstance(error, HetesynthError) or client.status == "running":
                    raise
                raise lost(self.address, "the connection ended") from error


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A job that is given out for the ``number``-th time, to one of ``workers``. ``alone``: with no other one, so
    that it is known what a worker died of; Dask suspects all that a worker had, those too that had to wait."""

    job: Job
    number: int = 1
    alone: bool = False
    workers: frozenset[str] = frozenset()
    future: Any = None

    @property
    def key(self) -> str:
        """As Dask names it: the same for every build that needs the cell."""
        again = "" if self.number == 1 else f"-{self.number}"
        return f"hetesynth-cell-{self.job.key}{again}"


@dataclass
class _Run:
    cluster: DaskCluster
    client: Any
    watcher: Watcher
    left: deque[_Attempt]
    workers: Workers = field(init=False)
    suspects: deque[_Attempt] = field(default_factory=deque)
    given: dict[str, _Attempt] = field(default_factory=dict)
    ended: SimpleQueue[str] = field(default_factory=SimpleQueue)
    looked: float = 0.0
    lonely_since: float | None = None
    lonely_told: float = 0.0

    def __post_init__(self) -> None:
        self.workers = Workers(self.client, self.watcher)

    def outcomes(self) -> Iterator[Outcome]:
        """Of every job; whatever ends this takes back what was given out."""
        try:
            yield from self._look()
            self.workers.check_some_suit()
            while self.left or self.given or self.suspects:
                self._give_out()
                for outcome in self._next():
                    if not isinstance(outcome, Failed):
                        self._keep(outcome)
                    yield outcome
        finally:
            self._take_back([attempt.future for attempt in self.given.values()])

    def _keep(self, result: CellResult) -> None:
        try:
            Cache(self.cluster.cache).put(result)
        except HetesynthError as error:  # the result is there: it only has to be made again next time
            self.watcher.warned(error.message)

    def _give_out(self) -> None:
        room = GIVEN * sum(self.workers.suited.values()) - len(self.given)
        if self.left and not any(attempt.alone for attempt in self.given.values()):
            for _ in range(min(room, len(self.left))):
                self._submit(self.left.popleft())
        elif self.suspects and not self.left and not self.given and room:
            self._submit(self.suspects.popleft())

    def _submit(self, attempt: _Attempt) -> None:
        workers = frozenset(self.workers.suited)
        future = self.client.submit(
            cell, pickle.dumps(attempt.job), attempt.job.versions,
            key=attempt.key, pure=True, workers=sorted(workers), allow_other_workers=False,
        )  # fmt: skip
        self.given[attempt.key] = replace(attempt, workers=workers, future=future)
        future.add_done_callback(lambda ended: self.ended.put(ended.key))

    def _next(self) -> Iterator[Outcome]:
        """The outcome of the next cell that ends; none where it is given out again or nothing ends for a while."""
        try:
            key = self.ended.get(timeout=LOOK_SECONDS)
        except Empty:
            key = None
        if time.monotonic() - self.looked >= LOOK_SECONDS:
            yield from self._look()
        attempt = None if key is None else self.given.pop(key, None)
        if attempt is not None:
            yield from self._outcome(attempt)

    def _outcome(self, attempt: _Attempt) -> Iterator[Outcome]:
        from asyncio import TimeoutError as LateError  # not Python's own before 3.11

        from distributed import CancelledError, KilledWorker

        try:
            answer = attempt.future.result(timeout=FETCH_SECONDS)
        except KilledWorker:
            yield from self._suspected(attempt, attempt.alone)
            return
        except CancelledError as error:
            if getattr(error, "reason", "scheduler-connection-lost") == "scheduler-connection-lost":
                raise lost(self.cluster.address, "the connection ended") from None
            yield from self._again(attempt)
            return
        except LateError:
            yield from self._again(attempt)
            return
        finally:
            attempt.future.release()
        if isinstance(answer, OtherVersions):
            self.workers.refuse(answer.address, answer.versions)
            yield from self._again(attempt)
        elif isinstance(answer, Failed):
            yield replace(answer, key=attempt.job.key)
        elif isinstance(answer, Broken):
            raise InternalError(f"{attempt.job.cell.name}: {answer.message}")
        else:
            result = unpacked(answer, attempt.job.key) if isinstance(answer, bytes) else None
            wrong = (
                ("it is none",) if result is None else objections(CheckedCell.given(attempt.job, result), NORMAL)
            )
            yield _wrong(attempt.job, wrong[0]) if result is None or wrong else result

    def _again(self, attempt: _Attempt) -> Iterator[Outcome]:
        """Give the job out once more; a job that was given out too often has failed."""
        if attempt.number >= LIVES + len(self.workers.refused):
            yield _failed(attempt.job, "it was given out again and again, and never came back")
        else:
            self.left.appendleft(_Attempt(attempt.job, attempt.number + 1))

    def _suspected(self, attempt: _Attempt, guilty: bool) -> Iterator[Outcome]:
        """Give the job out alone, at the end; where it is ``guilty`` it has failed."""
        if guilty:
            yield _failed(attempt.job, "workers that made it were killed, again and again")
        else:
            self.suspects.append(_Attempt(attempt.job, attempt.number + 1, alone=True))

    def _take_back(self, futures: list[Any]) -> None:
        with suppress(Exception):
            answered(self.client, lambda: self.client.cancel(futures), CLOSE_SECONDS)

    def _look(self) -> Iterator[Outcome]:
        """See which workers there are; cells that only workers had that are gone are given out again."""
        self.workers.look()
        self.looked = time.monotonic()
        self._tell_lonely()
        for key, attempt in list(self.given.items()):
            if not attempt.workers & self.workers.suited.keys() and not attempt.future.done():
                del self.given[key]
                self._take_back([attempt.future])
                yield from self._suspected(attempt, attempt.alone and attempt.number >= LIVES)

    def _tell_lonely(self) -> None:
        if self.workers.suited:
            self.lonely_since, self.lonely_told = None, 0.0
            return
        if self.lonely_since is None:
            self.lonely_since = self.looked
        seconds = self.looked - self.lonely_since
        if seconds >= max(LONELY_SECONDS, 2 * self.lonely_told):
            self.lonely_told = seconds
            address = self.cluster.address
            self.watcher.warned(
                f"{address} has no worker that can be given cells; waiting for one, {seconds:.0f} s so far\n"
                f"  help: start one with `dask worker {address} --nthreads 1`"
            )


def _wrong(job: Job, why: str) -> Failed:
    help_ = "build it without --scheduler, and look at who can reach the cluster"
    return Failed(job.key, f"a worker sent a wrong result: {why}", "HS888", help_, 3)


def _failed(job: Job, why: str) -> Failed:
    return Failed(job.key, why, "HS851", "give workers more memory (`dask worker --memory-limit`)", 3)
