"""Ctrl-C, a request to end and a closed terminal, held back while files are written.

An exception between two renames would leave some files new and others old. Inside ``held_back`` a signal is only
noted; the code in between asks for it where stopping leaves nothing behind.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = [  # Ctrl-C last, so that the others are always put back
    signal.Signals[name] for name in ("SIGHUP", "SIGTERM", "SIGINT") if name in signal.Signals.__members__
]


class Interruptions:
    """The signals that came."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        """A signal handler."""
        self.noted.append(number)

    def check(self) -> None:
        """KeyboardInterrupt when a signal came."""
        if self.noted:
            raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Interruptions]:
    """What comes inside takes effect at ``check``, or at the end; a Ctrl-C after the last check is too late.

    Signals that are ignored stay so. Outside the main thread, where signals do not arrive, nothing is held.
    """
    interruptions = Interruptions()
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, interruptions.note)
        yield interruptions
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for noted in interruptions.noted:
            if noted != signal.SIGINT:
                signal.raise_signal(noted)
