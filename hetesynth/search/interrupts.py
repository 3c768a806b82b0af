"""Ctrl-C at safe places only.

Z3's objects count references from Python; an exception between two of those bytecodes corrupts them. Inside
``deferred`` Ctrl-C only raises a flag, and the code in between asks for it where stopping is safe.

A process that was started with the interrupt ignored, as shells start jobs in the background, goes on ignoring it.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any


@dataclass
class _Announced:
    say: Callable[[], None]
    times: int = 0  # that Ctrl-C came


_contexts: list[_Announced | None] = [None]
"""The announcement of Ctrl-C in each context that handles it, the innermost last; None: there is none."""


def interrupted() -> bool:
    """Return True if Ctrl-C came inside ``announcing``: what can be left out is then left out."""
    return not _unreachable() and _times() > 0


def abandoned() -> bool:
    """Return True if Ctrl-C came a second time: what is left to do is to write what there is."""
    return not _unreachable() and _times() > 1


def _times() -> int:
    return 0 if _contexts[-1] is None else _contexts[-1].times


@contextmanager
def announcing(say: Callable[[], None]) -> Iterator[None]:
    """Call ``say`` at the first Ctrl-C, even where the interrupt itself is put off."""
    with _handled(None, _Announced(say)):
        yield


@contextmanager
def finishing(*, however_often: bool = False) -> Iterator[threading.Event]:
    """Protect short work that must not be lost: a first Ctrl-C only sets the event, a second ends the work even if
    the first came before it, where ``announcing`` counts them. ``however_often``: no Ctrl-C ends the work."""
    event = threading.Event()
    with _handled(event, _contexts[-1], twice=not however_often):
        yield event


@contextmanager
def deferred() -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C sets, then raise KeyboardInterrupt; outside the main thread it is never set."""
    event = threading.Event()
    with _handled(event, _contexts[-1]):
        yield event
    if event.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handled(
    event: threading.Event | None, announced: _Announced | None, *, twice: bool = False
) -> Iterator[None]:
    """Announce Ctrl-C and set ``event``; without one, or again if ``twice``, call the handler from before."""
    if _unreachable():
        yield
        return
    before: Any = signal.getsignal(signal.SIGINT)

    def handle(number: int, frame: FrameType | None) -> None:
        again = twice and event is not None and (event.is_set() or (announced is not None and announced.times > 0))
        if again:
            signal.signal(signal.SIGINT, before)
        elif announced is not None:
            announced.times += 1
            if announced.times == 1:
                announced.say()
        if event is not None and not again:
            event.set()
        elif callable(before):
            before(number, frame)

    signal.signal(signal.SIGINT, handle)
    _contexts.append(announced)
    try:
        yield
    finally:
        _contexts.pop()
        signal.signal(signal.SIGINT, before)


def _unreachable() -> bool:
    """Return True outside the main thread, and where the process ignores the interrupt."""
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
