"""Ctrl-C at safe places only.

Z3's objects count references from Python; an exception between two of those bytecodes corrupts them. Inside
``deferred`` Ctrl-C only raises a flag, and the code in between asks for it where stopping is safe.

A process that was started with the interrupt ignored, as shells start jobs in the background, goes on ignoring it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import cast

Handler = Callable[[int, "FrameType | None"], object] | int | None


class Announcing:
    """A handler that says at the first Ctrl-C what happens now, and then does what ``before`` does. ``times``: how
    often Ctrl-C came."""

    def __init__(self, say: Callable[[], None], before: Handler) -> None:
        self.say, self.before = say, before
        self.times = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C arrived."""
        self.announce()
        if callable(self.before):
            self.before(number, frame)

    def announce(self) -> None:
        """Count it; say what happens now, unless it was said."""
        self.times += 1
        if self.times == 1:
            self.say()


@dataclass
class _Flag:
    """A handler that only sets ``interrupted``, and announces what ``before`` would announce. With ``once`` a
    second Ctrl-C is for ``before``, though the first came earlier."""

    interrupted: threading.Event
    before: Handler
    once: bool = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.once and (self.interrupted.is_set() or _times(self.before)):
            signal.signal(signal.SIGINT, self.before)
            if callable(self.before):
                self.before(number, frame)
            return
        self.announce()
        self.interrupted.set()

    def announce(self) -> None:
        if isinstance(self.before, (Announcing, _Flag)):
            self.before.announce()


def _times(handler: Handler) -> int:
    while isinstance(handler, _Flag):
        handler = handler.before
    return handler.times if isinstance(handler, Announcing) else 0


def interrupted() -> bool:
    """Whether Ctrl-C came inside ``announcing``: what can be left out is."""
    return not _unreachable() and _times(cast("Handler", signal.getsignal(signal.SIGINT))) > 0


def abandoned() -> bool:
    """Whether it came a second time: what is left to do is to write what there is."""
    return not _unreachable() and _times(cast("Handler", signal.getsignal(signal.SIGINT))) > 1


@contextmanager
def announcing(say: Callable[[], None]) -> Iterator[None]:
    """``say`` at the first Ctrl-C, at once, wherever it arrives: in foreign code too, which a thread sees to."""
    if _unreachable():
        yield
        return
    once = _Once(say)
    with _heard(once), _handled(lambda before: Announcing(once, before)):
        yield


class _Once:
    """What is said once, by whichever thread comes first."""

    def __init__(self, say: Callable[[], None]) -> None:
        self._say, self._first = say, threading.Lock()

    def __call__(self) -> None:
        if self._first.acquire(blocking=False):
            self._say()


@contextmanager
def _heard(say: Callable[[], None]) -> Iterator[None]:
    """``say`` when a signal arrives, though the main thread is in foreign code, where handlers wait."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    listener = threading.Thread(target=_listen, args=(reading, say), daemon=True)
    listener.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writing)
        listener.join()
        os.close(reading)


def _listen(reading: int, say: Callable[[], None]) -> None:
    while numbers := os.read(reading, 64):
        if signal.SIGINT in numbers:
            say()


@contextmanager
def finishing(*, however_often: bool = False) -> Iterator[threading.Event]:
    """What is short and must not be lost: a first Ctrl-C only sets the event, a second ends it all the same, be
    the first inside or, where ``announcing`` counts them, before. ``however_often``: none ends it."""
    interrupted = threading.Event()
    with _handled(lambda before: _Flag(interrupted, before, once=not however_often)):
        yield interrupted


@contextmanager
def deferred() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets. Outside the main thread, where signals do not arrive, it is never set."""
    interrupted = threading.Event()
    with _handled(lambda before: _Flag(interrupted, before)):
        yield interrupted
    if interrupted.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handled(handler: Callable[[Handler], Announcing | _Flag]) -> Iterator[None]:
    """Ctrl-C goes to what ``handler`` makes of the handler before, which comes back at the end."""
    if _unreachable():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler(before))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _unreachable() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
