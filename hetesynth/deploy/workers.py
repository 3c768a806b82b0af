"""Jobs on several processes: each is made once, whatever becomes of the process that has it."""

import multiprocessing
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, Protocol

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
"""A receiver of texts about a job before its outcome: what is done or, where the flag is set, a warning."""


class Scheduler(Protocol):
    """A runner of jobs: processes here, or a cluster."""

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


@dataclass(frozen=True, slots=True)
class LocalProcesses:
    """``number`` processes of this machine, whose results are kept in ``cache``. Each has a pipe of its own and
    shares no lock with the others, so that one that is killed costs only the job it had."""

    number: int
    cache: Path | None

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        """The outcome of each job, in the order in which they end."""
        searches: dict[tuple[object, ...], deque[Job]] = {}
        for job in jobs:  # those of one search go to one process, which knows it
            searches.setdefault(job.search, deque()).append(job)
        waiting, lost = deque(searches.values()), Counter[str]()
        workers: dict[Any, tuple[BaseProcess, deque[Job]]] = {}  # by our ends of their pipes, with what they have
        number = min(self.number, len(waiting))

        def give(pipe: Any, process: BaseProcess, search: deque[Job]) -> None:
            workers[pipe] = process, search
            watcher.working(search[0].key, "starts")
            with suppress(OSError):  # a dead one is noticed when it is listened to
                pipe.send(search[0])

        try:
            while waiting or workers:
                while waiting and len(workers) < number:
                    context = multiprocessing.get_context("spawn")
                    ours, theirs = context.Pipe()
                    process = context.Process(target=_work, args=(theirs, self.cache), daemon=True)
                    with no_interrupts():
                        process.start()
                    theirs.close()
                    give(ours, process, waiting.popleft())
                pipe: Any
                for pipe in wait([*workers]):
                    worker, search = workers[pipe]
                    job = search[0]
                    try:
                        message = pipe.recv()
                    except (EOFError, OSError):  # the process is gone; its jobs go to another one
                        del workers[pipe]
                        _end(pipe, worker)
                        lost[job.key] += 1
                        if lost[job.key] == LIVES:
                            search.popleft()
                            why = f"{LIVES} processes that made it ended with {worker.exitcode}"
                            yield Failed(job.key, why, "HS851")
                        waiting.extendleft([search] if search else [])
                        continue
                    if isinstance(message, tuple):
                        text, warning = message
                        watcher.warned(text) if warning else watcher.working(job.key, text)
                    elif isinstance(message, CellResult | Failed):
                        search.popleft()
                        if search or waiting:
                            give(pipe, worker, search or waiting.popleft())
                        else:
                            del workers[pipe]
                            _end(pipe, worker)
                        yield message
                    else:
                        raise message
        finally:
            for pipe, (worker, _) in workers.items():
                _end(pipe, worker)


def _end(pipe: Any, worker: BaseProcess) -> None:
    worker.terminate()
    pipe.close()
    worker.join()


def _work(pipe: Connection, cache: Path | None) -> None:
    """Run a worker process: take jobs and give outcomes until the pipe or the parent is gone."""
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
