"""A schedule: which chunk crosses which link during which steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Transfer:
    """Chunk ``chunk`` crosses link ``link`` during ticks [start, end).

    ``reduce``: the arriving value is added to what the receiver holds; otherwise it replaces it.
    In the step model a tick is a step and ``end == start + 1``.
    """

    start: int
    end: int
    chunk: int
    link: int
    reduce: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.start < self.end:
            raise ValueError(f"transfer of chunk {self.chunk}: [{self.start}, {self.end}) is not an interval")


def _canonical(t: Transfer) -> tuple[int, int, int, int, bool]:
    return t.start, t.end, t.chunk, t.link, t.reduce


@dataclass(frozen=True, slots=True)
class Schedule:
    """Transfers in canonical order and the number of ticks they take.

    Build with ``Schedule.of``, which sorts: equal schedules are equal values.
    """

    transfers: tuple[Transfer, ...]
    makespan: int

    def __post_init__(self) -> None:
        last = 0
        for transfer in self.transfers:
            last = max(last, transfer.end)
        if last > self.makespan:
            raise ValueError(f"a transfer ends at {last}, after the makespan {self.makespan}")

    @classmethod
    def of(cls, transfers: Iterable[Transfer], makespan: int | None = None) -> Schedule:
        """The schedule of ``transfers``; its makespan is the last end unless stated."""
        ordered = tuple(sorted(transfers, key=_canonical))
        last = max((t.end for t in ordered), default=0)
        return cls(ordered, last if makespan is None else makespan)

    def steps(self) -> list[list[Transfer]]:
        """The transfers by the tick they start in: ``steps()[t]``, one list per tick of the makespan."""
        by_start: dict[int, list[Transfer]] = defaultdict(list)
        for transfer in self.transfers:
            by_start[transfer.start].append(transfer)
        return [by_start[t] for t in range(self.makespan)]
