"""What a run of a program ends with: plain values that travel between processes and into JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Ending = Literal["done", "stall", "fault"]


class Fault(Exception):
    """The program did what breaks every runtime: an access outside a buffer, a message of the wrong size."""


@dataclass(frozen=True, slots=True)
class WrongBytes:
    """A stretch of wrong bytes inside one chunk of one buffer: the bytes expected and found, in hexadecimal."""

    rank: int
    buffer: Literal["input", "output"]
    chunk: int
    offset: int
    expected: str
    found: str


@dataclass(frozen=True, slots=True)
class Run:
    """An execution on all ranks, or on one. ``seconds``: until the thread blocks were done. ``wrong``: wrong
    bytes, of ``checked``. ``diagnosis``: who waits for what, or what went wrong; empty when it ended."""

    in_place: bool
    ending: Ending
    seconds: float
    checked: int = 0
    wrong: int = 0
    first: tuple[WrongBytes, ...] = ()
    diagnosis: tuple[str, ...] = ()

    @property
    def correct(self) -> bool:
        """True if the run ended with every byte right."""
        return self.ending == "done" and not self.wrong


MAX_SHOWN = 8


def gathered(checks: Sequence[Run]) -> Run:
    """The run as a whole: the slowest rank's time, all wrong bytes, the first few of them."""
    first = [w for check in checks for w in check.first[:2]][:MAX_SHOWN]
    return replace(
        next((check for check in checks if check.ending != "done"), checks[0]),
        seconds=max(check.seconds for check in checks),
        checked=sum(check.checked for check in checks),
        wrong=sum(check.wrong for check in checks),
        first=tuple(first),
    )


MAX_LINES = 16
PER_RANK = 3


def diagnosis(waits: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """The first waits of each rank, at most ``MAX_LINES`` lines; then how many more there are."""
    each = PER_RANK if len(waits) > 2 else MAX_LINES
    lines = [f"rank {rank} {text}" for rank in sorted(waits) for text in waits[rank][:each]]
    total = sum(len(texts) for texts in waits.values())
    shown = lines[:MAX_LINES]
    if total > len(shown):
        shown.append(f"and {total - len(shown)} more waits")
    return tuple(shown)
