"""Time limits, and a record of what they decided.

What a limit ends, or keeps from beginning, may come out differently on another machine or under another load, so
every such decision is noted in ``ClockDecisions``. Nothing else in the compiler decides by the clock what comes
out; ``now`` is where the time comes from. A ``threading.Timer`` ends greedy rounds at a deadline, which is noted
as well.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

MOST_SECONDS = 3600 * 10_000
"""Timers of the system end at some number."""

source = time.monotonic  # a test may replace it


def now() -> float:
    """Return the seconds of a clock that only goes forward."""
    return source()


@dataclass
class ClockDecisions:
    """The places where the clock decided something, in the order of first occurrence, each with its count.

    ``above``: the record of the whole, which is told of each note with ``place`` before its name.
    """

    places: dict[str, int] = field(default_factory=dict)
    place: str = ""
    above: ClockDecisions | None = field(default=None, repr=False)

    def note(self, where: str) -> None:
        """Note that the clock decided something in ``where``, here and in all records above."""
        self.places[where] = self.places.get(where, 0) + 1
        if self.above is not None:
            self.above.note(f"{self.place}: {where}" if self.place else where)

    def inside(self, place: str = "") -> ClockDecisions:
        """Return a record for one part, ``place``; all that is noted there is noted in this record too."""
        return ClockDecisions(place=place, above=self)

    def told(self) -> tuple[str, ...]:
        """Return the places in words, in the order of first occurrence: ``place (2 times)``."""
        return tuple(f"{where} ({n} times)" if n > 1 else where for where, n in self.places.items())

    def __bool__(self) -> bool:
        return bool(self.places)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment ``at``, in seconds of ``now``, after which nothing more is begun; infinite: there is no limit."""

    at: float
    clock_decisions: ClockDecisions

    def left(self) -> float:
        """Return the seconds until the deadline; negative after it."""
        return self.at - now()

    def expired(self, where: str) -> bool:
        """Return True if the deadline has passed, and then note ``where`` in ``clock_decisions``."""
        if self.left() > 0.0:
            return False
        self.clock_decisions.note(where)
        return True


def no_deadline() -> Deadline:
    """Return a deadline that never comes, with a record of its own."""
    return Deadline(math.inf, ClockDecisions())
