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
    """Seconds of a clock that only goes forward."""
    return source()


@dataclass
class ClockDecisions:
    """What the clock decided, in the order of first occurrence: names of places, each with how often.

    ``place`` stands before the names that parts of a command note in ``inside``.
    """

    places: dict[str, int] = field(default_factory=dict)
    place: str = ""
    above: ClockDecisions | None = field(default=None, repr=False)

    def note(self, where: str) -> None:
        """The clock decided something in ``where``."""
        self.places[where] = self.places.get(where, 0) + 1
        if self.above is not None:
            self.above.note(f"{self.place}: {where}" if self.place else where)

    def inside(self, place: str = "") -> ClockDecisions:
        """A record of one part of the whole, which is told of all that the part notes."""
        return ClockDecisions(place=place, above=self)

    def told(self) -> tuple[str, ...]:
        """The places in words, the first first."""
        return tuple(f"{where} ({n} times)" if n > 1 else where for where, n in self.places.items())

    def __bool__(self) -> bool:
        return bool(self.places)


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment, in seconds of ``now``, after which nothing more is begun; ``at`` infinite: none."""

    at: float
    clock_decisions: ClockDecisions

    def left(self) -> float:
        """Seconds until then; negative after it."""
        return self.at - now()

    def expired(self, where: str) -> bool:
        """Whether it has passed; notes ``where`` if so."""
        if self.left() > 0.0:
            return False
        self.clock_decisions.note(where)
        return True


def no_deadline() -> Deadline:
    """One that never comes."""
    return Deadline(math.inf, ClockDecisions())
