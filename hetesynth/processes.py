"""Work on several processes of this machine: how they begin, and that none outlives the one that gave the work."""

import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, Literal, TypeVar

from hetesynth.errors import HetesynthError, InternalError

Ended = Literal["done", "time", "interrupt"]
Tell = Callable[[str, Any], None]
T = TypeVar("T")
R = TypeVar("R")


def processors() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    function: Callable[[T], R],
    items: Iterable[T],
    number: int,
    share: int = 1,
    killed: HetesynthError | None = None,
) -> Iterator[R]:
    """Yield the result of ``function`` for each of ``items``, by ``number`` processes, ``share`` items at once; by
    this one where the number is one. If left early, it does not wait for running items.

    Raises ``killed``, else BrokenProcessPool, where a process was killed.
    """
    if number <= 1:
        yield from map(function, items)
        return
    pool = ProcessPoolExecutor(number, multiprocessing.get_context("spawn"), initializer=begin_as_child)
    ended = False
    try:
        with no_interrupts():
            results = pool.map(function, items, chunksize=share)
        yield from results
        ended = True
    except BrokenProcessPool as error:
        raise killed or error from error
    finally:
        pool.shutdown(wait=ended, cancel_futures=True)


def begin_as_child() -> None:
    """Make a new process ignore Ctrl-C and end with its parent, even if that is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def no_interrupts() -> Iterator[None]:
    """Keep Ctrl-C from processes that are started inside, also before they can ignore it."""
    resource_tracker.ensure_running()  # which lets signals through again, the first time
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def last_result(work: Callable[[Tell], T], until: float, grace: float, heard: Tell) -> tuple[T | None, Ended]:
    """The last result of ``work``, which runs in a process of its own, and what ended it.

    Native code does not stop when it is asked to, but a process can be killed. ``work`` is handed a function that
    tells what it has: a ``result`` takes the place of the one before, any other kind is for ``heard``. What it
    returns is the final result; what it raises is raised here. At ``until`` of ``time.monotonic``, or at Ctrl-C,
    it is killed.
    Where there is no result by then it has ``grace`` seconds more for its first; after these, and at a second
    Ctrl-C, the result is None.
    """
    fork = multiprocessing.get_context("fork")  # what is loaded is there, and closures need no pickling
    receiving, sending = fork.Pipe(duplex=False)

    def child() -> None:
        begin_as_child()

        def tell(kind: str, value: Any) -> None:
            sending.send((kind, pickle.dumps(value)))

        try:
            tell("done", work(tell))
        except Exception as error:
            ours = isinstance(error, HetesynthError | InternalError | OSError)  # others may not be pickled
            raised = error if ours else InternalError(f"{type(error).__name__}: {error}")
            tell("error", (raised, traceback.format_exc()))

    with _counted_interrupts() as interrupts:
        process = fork.Process(target=child, daemon=True)
        process.start()
        sending.close()
        last = None
        ended: Ended = "time"
        try:
            while ended != "done" and len(interrupts) < 2:
                if interrupts and ended == "time":
                    ended, until = "interrupt", min(until, time.monotonic())
                left = until + (grace if last is None else 0.0) - time.monotonic()
                if not receiving.poll(min(max(0.0, left), 0.1)):  # what was sent before is read in any case
                    if left <= 0:
                        break
                    continue
                kind, message = receiving.recv()
                if kind in ("result", "done"):
                    last, ended = message, kind if kind == "done" else ended
                elif kind == "error":
                    error, trace = pickle.loads(message)
                    raise error from RuntimeError(f"in the process that searches:\n{trace}")
                else:
                    heard(kind, pickle.loads(message))
        except EOFError:
            process.join()
            message = f"the process that searches was ended from outside ({process.exitcode})"
            help_ = "perhaps the memory did not suffice; --schedule-only needs less"
            raise HetesynthError(message, code="HS613", help=help_, exit_code=3) from None
        finally:
            process.kill()
            process.join()
            receiving.close()
    return None if last is None else pickle.loads(last), ended


@contextmanager
def _counted_interrupts() -> Iterator[list[int]]:
    """Ctrl-C inside appends to the list and raises nothing: a mask would not do, as other threads have none. The
    handler outside is told too, as it may count and announce it."""
    interrupts: list[int] = []
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before == signal.SIG_IGN:
        yield interrupts
        return

    def count(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if callable(before):
            with suppress(KeyboardInterrupt):
                before(number, frame)

    signal.signal(signal.SIGINT, count)
    try:
        yield interrupts
    finally:
        signal.signal(signal.SIGINT, before)
