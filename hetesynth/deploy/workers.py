"""Jobs on several processes: each is made once, whatever becomes of the process that has it."""

from __future__ import annotations

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
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


Say = Callable[[str, bool], None]
"""What a worker says before its outcome: what it does, or, where the flag is set, what went wrong beside it."""


class Scheduler(Protocol):
    """What runs jobs: processes here, or a cluster."""

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        ...


def made(job: Job, cache: Path | None, say: Say) -> Outcome:
    """The outcome of ``job``, made now and kept in the cache."""
    from hetesynth.deploy.compute import compute

    last = now()

    def progress(what: str, steps: int | None) -> None:
        nonlocal last
        if now() - last > TOLD_AFTER:
            last = now()
            say(what, False)

    try:
        result = compute(job, progress)
    except HetesynthError as error:
        return Failed(job.key, error.message, error.code)
    except InternalError as error:  # a judge refused what was made: it costs this cell and no other
        return Failed(job.key, f"internal error: {error}", "HS070")
    if cache is not None:
        try:
            Cache(cache).put(result)
        except HetesynthError as error:  # the result is there: it only has to be made again next time
            say(error.message, True)
    return result


@dataclass
class _Worker:
    """A process, the end of its pipe, the job it has, and the search that it knows."""

    process: BaseProcess
    pipe: Connection
    job: Job | None = None
    search: tuple[object, ...] = ()


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """``number`` processes of this machine, whose results are kept in ``cache``. Each has a pipe of its own and
    shares no lock with the others, so that one that is killed costs only the job it had."""

    number: int
    cache: Path | None

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        waiting, lost, workers = deque(jobs), Counter[str](), list[_Worker]()
        number = min(self.number, len({job.search for job in jobs}))
        try:
            while waiting or any(worker.job for worker in workers):
                while len(workers) < number and waiting:
                    context = multiprocessing.get_context("spawn")
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(theirs, self.cache), daemon=True)
                    with no_interrupts():
                        process.start()
                    theirs.close()
                    workers.append(_Worker(process, ours))
                for worker in (worker for worker in workers if worker.job is None):
                    # a job of the search that it knows, else one of a search that no other process has
                    others = [one.search for one in workers if one is not worker]
                    mine = (job for job in waiting if job.search == worker.search)
                    free = (job for job in waiting if job.search not in others)
                    job = next(mine, None) or next(free, None)
                    if job is not None:
                        waiting.remove(job)
                        worker.job, worker.search = job, job.search
                        watcher.working(job.key, "starts")
                        with suppress(OSError):  # a dead one is noticed when it is listened to
                            worker.pipe.send(job)
                busy = {worker.pipe: worker for worker in workers if worker.job}
                for pipe in wait([*busy]):
                    worker, job = busy[pipe], busy[pipe].job  # type: ignore[index]
                    assert job is not None
                    try:
                        message = worker.pipe.recv()
                    except (EOFError, OSError):  # the process is gone; its job goes to another one
                        workers.remove(worker)
                        worker.pipe.close()
                        worker.process.join()
                        lost[job.key] += 1
                        if lost[job.key] < LIVES:
                            waiting.appendleft(job)
                        else:
                            why = f"{LIVES} processes that made it ended with {worker.process.exitcode}"
                            yield Failed(job.key, why, "HS851")
                        continue
                    if isinstance(message, tuple):
                        text, warning = message
                        watcher.warned(text) if warning else watcher.working(job.key, text)
                    elif isinstance(message, CellResult | Failed):
                        worker.job = None
                        yield message
                    else:
                        raise message
        finally:
            for worker in workers:
                worker.process.terminate()
                worker.pipe.close()
            for worker in workers:
                worker.process.join()


def _work(pipe: Connection, cache: Path | None) -> None:
    """What a process does: jobs in, outcomes out, until the pipe or the parent is gone."""
    begin_as_child()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(EOFError, OSError):
        while True:
            job = pipe.recv()
            try:
                answer: object = made(job, cache, lambda *said: pipe.send(said))
            except Exception as error:  # our bug: the parent says so
                error.add_note(f"while making {job.cell.name}") if hasattr(error, "add_note") else None
                answer = error
            pipe.send(answer)
