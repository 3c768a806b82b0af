"""Work on several processes of this machine: how they begin, and that none outlives the one that gave the work.

In: a function, items, a number of processes. Out: results in the order of the items. Ctrl-C is for the process
that gives the work; the others end with it, even where it is killed. Knows nothing of what is worked on.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import resource_tracker
from typing import Any, TypeVar

T = TypeVar("T")
R = TypeVar("R")


def processors() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def side_by_side(
    function: Callable[[T], R], items: Iterable[T], number: int, *,
    share: int = 1, begin: Callable[..., None] | None = None, arguments: tuple[Any, ...] = (),
) -> Iterator[R]:  # fmt: skip
    """What ``function`` returns for each of ``items``, by ``number`` processes, ``share`` items at once.

    ``begin``: what each process does first, with ``arguments``. Raises BrokenProcessPool where one was killed.
    What is being done when this is left early is not waited for.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(number, context, initializer=_begin, initargs=(begin, arguments))
    ended = False
    try:
        with no_interrupts():
            results = pool.map(function, items, chunksize=share)
        yield from results
        ended = True
    finally:
        pool.shutdown(wait=ended, cancel_futures=True)


def _begin(begin: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    begin_as_child()
    if begin is not None:
        begin(*arguments)


def begin_as_child() -> None:
    """What a new process does first: it ignores Ctrl-C, and ends with its parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    """A process whose parent was killed would wait for work for ever."""
    parent.join()
    os._exit(1)


@contextmanager
def no_interrupts() -> Iterator[None]:
    """A process that is started inside never sees Ctrl-C, not even before it can ignore it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which lets signals through again, the first time
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
