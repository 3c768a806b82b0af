"""Jobs on the workers of a Dask cluster: each is made once, whatever becomes of the worker that has it.

As many cells are given out as the workers that are there can make soon; they go to no others than those workers,
so that versions are known before a cell is sent. A scheduler that is lost ends the build.
"""

from __future__ import annotations

import logging
import pickle
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from concurrent.futures import TimeoutError as LateAnswer  # not Python's own before 3.11
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from hetesynth.deploy.cache import Cache, CellResult, unpacked
from hetesynth.deploy.cell_check import CheckedCell, objections
from hetesynth.deploy.job import Job, versions
from hetesynth.deploy.outcome import Watcher
from hetesynth.deploy.workers import LIVES, Failed, Outcome, made
from hetesynth.errors import HetesynthError, InternalError

T = TypeVar("T")
Versions = tuple[tuple[str, str], ...]

MAX_MESSAGE = 2000
_one_cell = threading.Lock()  # solvers share state within a process
CONNECT_SECONDS = 5.0
CLOSE_SECONDS = 2.0
POLL_SECONDS = 0.2
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ucx|ws|wss)://)?(?:\[[0-9A-Fa-f:.]+\]|[\w.-]+):[0-9]{1,5}")
_TALKING = ("distributed", "asyncio", "tornado")  # loggers of what happens in Dask's threads
PAGE = "docs/building_on_a_cluster.md"
ANSWER_SECONDS = 60.0  # for a scheduler, after which it counts as lost
REPORT_SECONDS = 10.0  # for workers to say what they are; a worker in the middle of a cell may take some of them
MAX_NAMED = 8  # workers that a message names
MAX_TEXT = 200  # characters of what a worker says of itself
WAY_OUT = f"install what is installed here on the workers too, and restart them; see {PAGE}"
LOOK_SECONDS = 2.0  # how often it is asked which workers there are
LONELY_SECONDS = 10.0  # without a worker, before that is said; it is said again after twice as long
FETCH_SECONDS = 120.0  # for a result to come; it is made again after that
GIVEN = 2  # cells given out for each thread of the workers: one that is made, one that is next


@dataclass(frozen=True, slots=True)
class OtherVersions:
    """The worker at ``address`` would give other bytes."""

    address: str
    versions: Versions


def reported(dask_worker: Any) -> tuple[str, Versions]:
    """The worker's name and its versions."""
    return str(dask_worker.name), versions()


def cell(data: bytes, stated: Versions) -> bytes | Failed | OtherVersions | str:
    """The outcome of the job in ``data``, of ``stated`` versions only, or our bug in words: not every exception
    can be sent, and Dask waits for ever for one that cannot. Runs in a thread of a worker's pool."""
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
        return f"{type(error).__name__}: {error}"[:MAX_MESSAGE]
    return outcome.packed() if isinstance(outcome, CellResult) else outcome


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A client of the scheduler at ``address``. Raises HetesynthError HS858."""
    if not _ADDRESS.fullmatch(address):
        help_ = "such as tcp://host:8786 or tls://host:8786: `dask scheduler` says its own"
        raise HetesynthError(f"`{address}` is no address of a Dask scheduler", code="HS858", help=help_)
    try:
        import distributed
    except ImportError:
        message = "--scheduler needs dask.distributed, which is not installed"
        raise HetesynthError(message, code="HS858", help="pip install 'hetesynth[cluster]'") from None
    # A client that did not connect says so a second time where Python throws it away.
    connect: Any = type("Client", (distributed.Client,), {"__del__": lambda client: None})
    for name in [*logging.root.manager.loggerDict]:  # what matters is said by errors here, for good
        if name.partition(".")[0] in _TALKING:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    try:
        client = connect(address, timeout=CONNECT_SECONDS, set_as_default=False, name="hetesynth")
    except Exception as error:
        if isinstance(error, OSError | TypeError | ValueError):  # of the network, or of the settings for TLS
            why = (str(error) or type(error).__name__).splitlines()[0]
        else:
            why = f"what answers speaks another language ({type(error).__name__})"
        help_ = f"start one with `dask scheduler`, which says its address; {PAGE} says how, with TLS too"
        raise HetesynthError(f"no Dask scheduler answers at {address}: {why}", code="HS858", help=help_) from error
    try:
        yield client
    finally:
        with suppress(Exception):
            client.close(timeout=CLOSE_SECONDS)


def lost(address: str, why: str) -> HetesynthError:
    """The scheduler went away."""
    help_ = "cells that ended are in the cache: start the scheduler and build again, and it goes on from there"
    return HetesynthError(f"lost the Dask scheduler at {address}: {why}", code="HS858", help=help_)


class Silent(Exception):
    """There was no answer in time, or there is nobody left to give it."""


def answered(client: Any, call: Callable[[], T], seconds: float) -> T:
    """What ``call``, which asks the scheduler, returns. Raises Silent after ``seconds``, when it goes on unheard,
    and as soon as the connection is lost: Dask would try to connect for longer."""
    answer: Future[T] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    for _ in range(max(1, round(seconds / POLL_SECONDS))):
        wait([answer], POLL_SECONDS)
        if answer.done() or client.status != "running":
            break
    try:
        return answer.result(timeout=0)
    except (OSError, LateAnswer):
        raise Silent from None


@dataclass
class Workers:
    """The workers of a cluster. ``suited``: their threads by address; ``refused``: why not, by address."""

    client: Any
    watcher: Watcher
    suited: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def look(self) -> None:
        """Learn who came and who went. Raises Silent where the scheduler does not answer."""
        threads: dict[str, int] = dict(answered(self.client, self.client.nthreads, ANSWER_SECONDS))
        for gone in [address for address in self.suited if address not in threads]:
            del self.suited[gone]
        new = {a: n for a, n in threads.items() if a not in self.suited and a not in self.refused}
        if not new:
            return
        reports: dict[str, Any] = {}
        try:
            ask = partial(self.client.run, reported, workers=list(new), on_error="return")
            reports = answered(self.client, ask, REPORT_SECONDS)
        except Silent:
            pass
        reasons = {}
        for address, report in sorted(reports.items()):
            match report:
                case (str(), tuple() as theirs) if theirs == versions():
                    pass
                case (str(name), tuple() as theirs):
                    reasons[address] = f"{_cut(name)}: " * (name != address) + difference(theirs)
                case OSError():
                    pass  # it is gone, or comes back
                case _:
                    reasons[address] = f"no hetesynth that can be used ({_cut(str(report))})"
        self.refused |= reasons
        self.suited |= {address: number for address, number in new.items() if address not in reasons}
        if reasons:
            self._tell_refused(reasons)
        crowded = [address for address in new if address in self.suited and new[address] > 1]
        if crowded:
            more = len(crowded) - MAX_NAMED
            them = ", ".join(crowded[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
            self.watcher.warned(f"{them}: several threads, one cell at a time: start workers with --nthreads 1")

    def refuse(self, address: str, theirs: Versions) -> None:
        """Give no more to the worker at ``address``."""
        self.suited.pop(address, None)
        self.refused[address] = difference(theirs)
        self._tell_refused({address: self.refused[address]})

    def _tell_refused(self, reasons: Mapping[str, str]) -> None:
        lines = [f"  {address}: {reason}" for address, reason in list(reasons.items())[:MAX_NAMED]]
        more = len(reasons) - len(lines)
        lines += [f"  and {more} more"] if more else []
        message = "\n".join(["workers of other versions are given nothing:", *lines])
        self.watcher.warned(f"{message}\n  help: {WAY_OUT}")

    def check_some_suit(self) -> None:
        """Raise HetesynthError HS859 where there are workers and none may be given cells."""
        if self.refused and not self.suited:
            message = "no worker of the Dask cluster would give the bytes that are made here"
            raise HetesynthError(message, code="HS859", help=WAY_OUT)


def difference(theirs: Versions) -> str:
    """In which versions a worker differs."""
    try:
        named = dict(theirs)
    except (TypeError, ValueError):
        return "versions that cannot be read"
    differing = [(name, named.get(name, "none"), own) for name, own in versions() if named.get(name) != own]
    return ", ".join(f"{name} {_cut(str(other))}, here {own}" for name, other, own in differing)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}..."


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
                yield from _Run(self, client, watcher, left, Workers(client, watcher)).outcomes()
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
    workers: Workers
    suspects: deque[_Attempt] = field(default_factory=deque)
    given: dict[str, _Attempt] = field(default_factory=dict)
    ended: SimpleQueue[str] = field(default_factory=SimpleQueue)
    looked: float = 0.0
    lonely_since: float = field(default_factory=time.monotonic)
    lonely_told: float = 0.0

    def outcomes(self) -> Iterator[Outcome]:
        """Of every job; whatever ends this takes back what was given out."""
        try:
            yield from self._look()
            self.workers.check_some_suit()
            while self.left or self.given or self.suspects:
                room = GIVEN * sum(self.workers.suited.values()) - len(self.given)
                if self.left and not any(attempt.alone for attempt in self.given.values()):
                    for _ in range(min(room, len(self.left))):
                        self._submit(self.left.popleft())
                elif self.suspects and not self.left and not self.given and room:
                    self._submit(self.suspects.popleft())
                try:
                    key = self.ended.get(timeout=LOOK_SECONDS)
                except Empty:
                    key = None
                outcomes = [*self._look()] if time.monotonic() - self.looked >= LOOK_SECONDS else []
                attempt = None if key is None else self.given.pop(key, None)
                if attempt is not None:
                    outcomes += self._outcome(attempt)
                for outcome in outcomes:
                    if not isinstance(outcome, Failed):
                        try:
                            Cache(self.cluster.cache).put(outcome)
                        except HetesynthError as error:  # it only has to be made again next time
                            self.watcher.warned(error.message)
                    yield outcome
        finally:
            self._take_back([attempt.future for attempt in self.given.values()])

    def _submit(self, attempt: _Attempt) -> None:
        workers = frozenset(self.workers.suited)
        only = {"workers": sorted(workers), "allow_other_workers": False}
        data, versions_ = pickle.dumps(attempt.job), attempt.job.versions
        future = self.client.submit(cell, data, versions_, key=attempt.key, pure=True, **only)
        self.given[attempt.key] = replace(attempt, workers=workers, future=future)
        future.add_done_callback(lambda ended: self.ended.put(ended.key))

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
        elif isinstance(answer, str):
            raise InternalError(f"{attempt.job.cell.name}: {answer}")
        else:
            result = unpacked(answer, attempt.job.key) if isinstance(answer, bytes) else None
            wrong = ("it is none",) if result is None else objections(CheckedCell.given(attempt.job, result))
            if result is None or wrong:
                yield Failed(attempt.job.key, f"a worker sent a wrong result: {wrong[0]}", "HS888")
            else:
                yield result

    def _again(self, attempt: _Attempt) -> Iterator[Outcome]:
        """Give the job out once more; a job that was given out too often has failed."""
        if attempt.number >= LIVES + len(self.workers.refused):
            yield Failed(attempt.job.key, "it was given out again and again, and never came back", "HS851")
        else:
            self.left.appendleft(_Attempt(attempt.job, attempt.number + 1))

    def _suspected(self, attempt: _Attempt, guilty: bool) -> Iterator[Outcome]:
        """Give the job out alone, at the end; where it is ``guilty`` it has failed."""
        if guilty:
            yield Failed(attempt.job.key, "workers that made it were killed, again and again", "HS851")
        else:
            self.suspects.append(_Attempt(attempt.job, attempt.number + 1, alone=True))

    def _take_back(self, futures: list[Any]) -> None:
        with suppress(Exception):
            answered(self.client, lambda: self.client.cancel(futures), CLOSE_SECONDS)

    def _look(self) -> Iterator[Outcome]:
        """See which workers there are; cells that only workers had that are gone are given out again."""
        self.workers.look()
        self.looked = time.monotonic()
        if self.workers.suited:
            self.lonely_since, self.lonely_told = self.looked, 0.0
        lonely = self.looked - self.lonely_since
        if lonely >= max(LONELY_SECONDS, 2 * self.lonely_told):
            self.lonely_told = lonely
            address = self.cluster.address
            self.watcher.warned(
                f"{address} has no worker that can be given cells; waiting for one, {lonely:.0f} s so far\n"
                f"  help: start one with `dask worker {address} --nthreads 1`"
            )
        for key, attempt in list(self.given.items()):
            if not attempt.workers & self.workers.suited.keys() and not attempt.future.done():
                del self.given[key]
                self._take_back([attempt.future])
                yield from self._suspected(attempt, attempt.alone and attempt.number >= LIVES)
