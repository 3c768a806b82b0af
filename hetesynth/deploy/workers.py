"""Jobs on several processes: each is made once, whatever becomes of the process that has it.

In: jobs, a cache. Out: results as they come, or the error of a job. Every process has a pipe of its own and shares
no lock with the others, so that one that is killed costs only the job it had. That one is given to a new process;
a job that has cost ``LIVES`` processes is an error of its own.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Protocol

from hetesynth.deploy.cache import Cache, CellResult
from hetesynth.deploy.job import Job
from hetesynth.deploy.outcome import Watcher
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.deadline import now
from hetesynth.processes import begin_as_child, no_interrupts

LIVES = 3  # processes that one job may cost
TOLD_AFTER = 0.2  # seconds between two messages of a worker about its progress


@dataclass(frozen=True, slots=True)
class Failed:
    """A job that has no result, and why, with the code of the error."""

    key: str
    message: str
    code: str


Outcome = CellResult | Failed


@dataclass(frozen=True, slots=True)
class Note:
    """What a worker says before its outcome: what it does, or, ``warning``, what went wrong beside it."""

    text: str
    warning: bool = False


Say = Callable[[Note], None]


class Scheduler(Protocol):
    """What runs jobs: processes here, or a cluster."""

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        ...


def made(job: Job, cache: Path | None, say: Say) -> Outcome:
    """The outcome of ``job``, from the cache or made now and kept there."""
    if cache is None:
        return _computed(job, say)
    from hetesynth.deploy.cell_check import CheckedCell, objections
    from hetesynth.deploy.keeping import NORMAL

    store = Cache(cache)
    with store.making(job.key):
        kept = store.get(job.key)  # which another build made meanwhile
        if kept is not None and not objections(CheckedCell.given(job, kept), NORMAL):
            return kept
        outcome = _computed(job, say)
        if isinstance(outcome, CellResult):
            try:
                store.put(outcome)
            except HetesynthError as error:  # the result is there: it only has to be made again next time
                say(Note(error.message, warning=True))
        return outcome


def _computed(job: Job, say: Say) -> Outcome:
    from hetesynth.deploy.compute import compute

    last = now()

    def progress(what: str, steps: int | None) -> None:
        nonlocal last
        if now() - last > TOLD_AFTER:
            last = now()
            say(Note(what))

    try:
        return compute(job, progress)
    except HetesynthError as error:
        return Failed(job.key, error.message, error.code)
    except InternalError as error:  # a judge refused what was made: it costs this cell and no other
        return Failed(job.key, f"internal error: {error}", "HS070")


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """``number`` processes of this machine, whose results are kept in ``cache``."""

    number: int
    cache: Path | None

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        pool = _Pool(deque(jobs), self.cache, watcher)
        try:
            yield from pool.outcomes(min(self.number, len({job.search for job in jobs})))
        finally:
            for worker in pool.workers:
                worker.process.terminate()
                worker.pipe.close()
            for worker in pool.workers:
                worker.process.join()


@dataclass
class _Worker:
    """A process, the end of its pipe, the job it has, and the search that it knows."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection
    job: Job | None = None
    search: tuple[object, ...] = ()


@dataclass
class _Pool:
    waiting: deque[Job]
    cache: Path | None
    watcher: Watcher
    workers: list[_Worker] = field(default_factory=list)
    lost: dict[str, int] = field(default_factory=dict)

    def outcomes(self, number: int) -> Iterator[Outcome]:
        """The outcome of every job."""
        while self.waiting or any(worker.job for worker in self.workers):
            while len(self.workers) < number and self.waiting:
                context = multiprocessing.get_context("spawn")
                ours, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, self.cache), daemon=True)
                with no_interrupts():
                    process.start()
                theirs.close()
                self.workers.append(_Worker(process, ours))
            for worker in self.workers:
                if worker.job is None:
                    self._give(worker)
            for pipe in wait([worker.pipe for worker in self.workers if worker.job]):
                worker = next(worker for worker in self.workers if worker.pipe is pipe)
                outcome = self._heard(worker)
                if outcome is not None:
                    yield outcome

    def _give(self, worker: _Worker) -> None:
        """A job of the search that it knows, else one of a search that no other process has."""
        others = [one.search for one in self.workers if one is not worker]
        mine = (job for job in self.waiting if job.search == worker.search)
        free = (job for job in self.waiting if job.search not in others)
        worker.job = next(mine, None) or next(free, None)
        if worker.job is not None:
            self.waiting.remove(worker.job)
            worker.search = worker.job.search
            self.watcher.working(worker.job.key, "starts")
            with suppress(OSError):  # a dead one is noticed when it is listened to
                worker.pipe.send(worker.job)

    def _heard(self, worker: _Worker) -> Outcome | None:
        job = worker.job
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            return self._died(worker)
        if isinstance(message, Note):
            if message.warning:
                self.watcher.warned(message.text)
            elif job is not None:
                self.watcher.working(job.key, message.text)
            return None
        worker.job = None
        if isinstance(message, CellResult | Failed):
            return message
        raise message if isinstance(message, BaseException) else TypeError(f"no outcome: {message!r}")

    def _died(self, worker: _Worker) -> Outcome | None:
        """The job of a process that is gone goes to another one, unless it has cost too many."""
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.join()
        job = worker.job
        if job is None:
            return None
        self.lost[job.key] = self.lost.get(job.key, 0) + 1
        if self.lost[job.key] < LIVES:
            self.waiting.appendleft(job)
            return None
        code = worker.process.exitcode
        return Failed(job.key, f"{LIVES} processes that made it ended with {code}", "HS851")


def _work(pipe: Connection, cache: Path | None) -> None:
    """What a process does: jobs in, outcomes out, until the pipe or the parent is gone."""
    begin_as_child()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, OSError):
        while True:
            job = pipe.recv()
            try:
                answer: object = made(job, cache, pipe.send)
            except Exception as error:  # our bug: the parent says so
                error.add_note(f"while making {job.cell.name}") if hasattr(error, "add_note") else None
                answer = error
            pipe.send(answer)
