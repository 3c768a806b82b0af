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
from types import FrameType
from typing import Any


class _Handler:
    """What Ctrl-C does inside of a context. ``before``: the handler outside of it.

    With ``say`` it is counted and announced, and goes on to ``before``. With ``event`` it only sets that, and is
    announced; where it ends ``twice`` all the same, a second Ctrl-C goes on to ``before``, though the first came
    earlier.
    """

    def __init__(
        self, say: Callable[[], None] | None = None, event: threading.Event | None = None, *, twice: bool = False
    ) -> None:
        self.say, self.event, self.twice = say, event, twice
        self.before: Any = None
        self.times = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        announcing = _announcing(self)
        again = self.twice and self.event is not None and (self.event.is_set() or _times(announcing) > 0)
        if again:
            signal.signal(signal.SIGINT, self.before)
        elif announcing is not None and announcing.say is not None:
            announcing.times += 1
            if announcing.times == 1:
                announcing.say()
        if self.event is None or again:
            if callable(self.before):
                self.before(number, frame)
        else:
            self.event.set()


def _announcing(handler: Any) -> _Handler | None:
    """The innermost handler that counts."""
    while isinstance(handler, _Handler) and handler.say is None:
        handler = handler.before
    return handler if isinstance(handler, _Handler) else None


def _times(announcing: _Handler | None) -> int:
    return 0 if announcing is None else announcing.times


def interrupted() -> bool:
    """Whether Ctrl-C came inside ``announcing``: what can be left out is."""
    return not _unreachable() and _times(_announcing(signal.getsignal(signal.SIGINT))) > 0


def abandoned() -> bool:
    """Whether it came a second time: what is left to do is to write what there is."""
    return not _unreachable() and _times(_announcing(signal.getsignal(signal.SIGINT))) > 1


@contextmanager
def announcing(say: Callable[[], None]) -> Iterator[None]:
    """``say`` at the first Ctrl-C, whatever puts it off."""
    with _handled(_Handler(say)):
        yield


@contextmanager
def finishing(*, however_often: bool = False) -> Iterator[threading.Event]:
    """What is short and must not be lost: a first Ctrl-C only sets the event, a second ends it all the same, be
    the first inside or, where ``announcing`` counts them, before. ``however_often``: none ends it."""
    event = threading.Event()
    with _handled(_Handler(event=event, twice=not however_often)):
        yield event


@contextmanager
def deferred() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets. Outside the main thread, where signals do not arrive, it is never set."""
    event = threading.Event()
    with _handled(_Handler(event=event)):
        yield event
    if event.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handled(handler: _Handler) -> Iterator[None]:
    """Ctrl-C goes to ``handler``; the handler before comes back at the end."""
    if _unreachable():
        yield
        return
    handler.before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler.before)


def _unreachable() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
