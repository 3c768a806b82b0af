"""Ctrl-C at safe places only.

Z3's objects count references from Python; an exception between two of those bytecodes corrupts them. Inside
``deferred`` Ctrl-C only raises a flag, and the code in between asks for it where stopping is safe.

A process that was started with the interrupt ignored, as shells start jobs in the background, goes on ignoring it.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

Handler = Callable[[int, "FrameType | None"], object] | int | None


class Announcing:
    """A handler that says at the first Ctrl-C what happens now, and then does what ``before`` does."""

    def __init__(self, say: Callable[[], None], before: Handler) -> None:
        self.say, self.before = say, before
        self.said = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-C arrived."""
        self.announce()
        if callable(self.before):
            self.before(number, frame)

    def announce(self) -> None:
        """Say it, unless it was said."""
        if not self.said:
            self.said = True
            self.say()


@dataclass
class _Flag:
    """A handler that only sets ``interrupted``, and announces what ``before`` would announce. With ``once`` the
    next Ctrl-C is for ``before``."""

    interrupted: threading.Event
    before: Handler
    once: bool = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.announce()
        self.interrupted.set()
        if self.once:
            signal.signal(signal.SIGINT, self.before)

    def announce(self) -> None:
        """What was there before says it."""
        if isinstance(self.before, (Announcing, _Flag)):
            self.before.announce()


@contextmanager
def announcing(say: Callable[[], None]) -> Iterator[None]:
    """``say`` at the first Ctrl-C, at once, wherever it arrives."""
    with _handled(lambda before: Announcing(say, before)):
        yield


@contextmanager
def finishing() -> Iterator[threading.Event]:
    """What is short and must not be lost: a first Ctrl-C only sets the event, a second ends it all the same."""
    interrupted = threading.Event()
    with _handled(lambda before: _Flag(interrupted, before, once=True)):
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
    """Whether Ctrl-C does not concern this code: signals go to the main thread, or are ignored by it."""
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
