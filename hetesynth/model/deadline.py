"""Time limits, and a record of what they decided.

In: seconds. Out: whether they are over. What a limit ends, or keeps from beginning, may come out differently on
another machine or under another load, so every such decision is noted in ``ClockDecisions``. Nothing else in
the compiler decides by the clock what comes out; ``now`` is where the time comes from. A ``threading.Timer``
ends greedy rounds at a deadline, which is noted as well.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

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
class Pace:
    """Seconds of the clock for each second of this process, since it was made: more than 1 where other work shares
    the cores. A second of each at first."""

    clock: float = field(default_factory=now)
    processor: float = field(default_factory=time.process_time)

    def __call__(self) -> float:
        """At least 1."""
        return max(1.0, (1.0 + now() - self.clock) / (1.0 + time.process_time() - self.processor))


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment, in seconds of ``now``, after which nothing more is begun; ``at`` infinite: none. ``pace``: what
    makes seconds of the clock of seconds of work."""

    at: float
    clock_decisions: ClockDecisions
    pace: Pace = field(default_factory=Pace)

    def left(self) -> float:
        """Seconds until then; negative after it."""
        return self.at - now()

    def expired(self, where: str, ahead: float = 0.0) -> bool:
        """Whether work that takes ``ahead`` seconds on an idle core ends after it; notes ``where`` if so."""
        if self.left() > (ahead * self.pace() if ahead > 0.0 else ahead):
            return False
        self.clock_decisions.note(where)
        return True


def no_deadline() -> Deadline:
    """One that never comes."""
    return Deadline(math.inf, ClockDecisions())
