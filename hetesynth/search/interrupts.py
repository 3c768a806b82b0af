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
"""What each context that Ctrl-C is handled in announces it by, the innermost last."""


def interrupted() -> bool:
    """Whether Ctrl-C came inside ``announcing``: what can be left out is."""
    return not _unreachable() and _times() > 0


def abandoned() -> bool:
    """Whether it came a second time: what is left to do is to write what there is."""
    return not _unreachable() and _times() > 1


def _times() -> int:
    return 0 if _contexts[-1] is None else _contexts[-1].times


@contextmanager
def announcing(say: Callable[[], None]) -> Iterator[None]:
    """``say`` at the first Ctrl-C, whatever puts it off."""
    with _handled(None, _Announced(say)):
        yield


@contextmanager
def finishing(*, however_often: bool = False) -> Iterator[threading.Event]:
    """What is short and must not be lost: a first Ctrl-C only sets the event, a second ends it all the same, be
    the first inside or, where ``announcing`` counts them, before. ``however_often``: none ends it."""
    event = threading.Event()
    with _handled(event, _contexts[-1], twice=not however_often):
        yield event


@contextmanager
def deferred() -> Iterator[threading.Event]:
    """An event that Ctrl-C sets. Outside the main thread, where signals do not arrive, it is never set."""
    event = threading.Event()
    with _handled(event, _contexts[-1]):
        yield event
    if event.is_set():
        raise KeyboardInterrupt


@contextmanager
def _handled(
    event: threading.Event | None, announced: _Announced | None, *, twice: bool = False
) -> Iterator[None]:
    """Ctrl-C is announced and sets ``event``; without one, or again where it ends ``twice``, it goes on."""
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
    """Outside the main thread, and where the process ignores the interrupt."""
    if threading.current_thread() is not threading.main_thread():
        return True
    return signal.getsignal(signal.SIGINT) is signal.SIG_IGN
