"""Ctrl-C at safe places only.

Z3's objects count references from Python; an exception between two of those bytecodes corrupts them. Inside
``deferred`` Ctrl-C only raises a flag, and the code in between asks for it where stopping is safe.

A process that was started with the interrupt ignored, as shells start jobs in the background, goes on ignoring it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def finishing() -> Iterator[threading.Event]:
    """What is short and must not be lost: a first Ctrl-C only sets the event, a second ends it all the same."""
    interrupted = threading.Event()
    if _unreachable():
        yield interrupted
        return
    before = signal.getsignal(signal.SIGINT)

    def once(*_: object) -> None:
        interrupted.set()
        signal.signal(signal.SIGINT, before)

    signal.signal(signal.SIGINT, once)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def deferred() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets. Outside the main thread, where signals do not arrive, it is never set."""
    interrupted = threading.Event()
    if _unreachable():
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupted.is_set():
        raise KeyboardInterrupt


def _unreachable() -> bool:
    """Whether Ctrl-C does not concern this code: signals go to the main thread, or are ignored by it."""
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
