"""A schedule: which chunk crosses which link during which steps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from hetesynth.model.problem import Arc
from hetesynth.model.topology import Link


@dataclass(frozen=True, slots=True, order=True)
class Transfer:
    """A crossing of link ``link`` by chunk ``chunk`` during ticks [start, end).

    ``reduce``: the arriving value is added to what the receiver holds; otherwise it replaces it.
    In the step model a tick is a step and ``end == start + 1``.
    """

    start: int
    end: int
    chunk: int
    link: int
    reduce: bool = False


@dataclass(frozen=True, slots=True)
class Schedule:
    """Transfers in canonical order and the number of ticks they take.

    Build with ``Schedule.of``, which sorts: equal schedules are equal values. ``rounds``: in the step model, the
    number of ticks of each step (SCCL 3.2, Q); what arrives in a step is sent on in later steps only.
    """

    transfers: tuple[Transfer, ...]
    makespan: int
    rounds: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, transfers: Iterable[Transfer], makespan: int | None = None, rounds: tuple[int, ...] = ()
    ) -> Schedule:
        """Return the schedule of ``transfers``; its makespan is the last end unless stated."""
        ordered = tuple(sorted(transfers, key=lambda t: (t.start, t.end, t.chunk, t.link, t.reduce)))
        last = max((t.end for t in ordered), default=0)
        return cls(ordered, last if makespan is None else makespan, rounds)

    @property
    def stepwise(self) -> Schedule:
        """The schedule with one tick for each step, whatever its rounds: the order in which messages wait."""
        if not self.rounds:
            return self
        step = [s for s, rounds in enumerate(self.rounds) for _ in range(rounds)]
        moved = (replace(t, start=step[t.start], end=step[t.start] + 1) for t in self.transfers)
        return Schedule.of(moved, len(self.rounds))

    def steps(self) -> list[list[Transfer]]:
        """Return the transfers by the tick they start in: ``steps()[t]``, one list per tick of the makespan."""
        by_start: dict[int, list[Transfer]] = defaultdict(list)
        for transfer in self.transfers:
            by_start[transfer.start].append(transfer)
        return [by_start[t] for t in range(self.makespan)]


def hops(schedule: Schedule, links: Sequence[Link] | Sequence[Arc]) -> int:
    """Return the most links that any data crosses one after another; a sum counts as its farthest part."""
    farthest: dict[tuple[int, int], int] = {}
    on_the_way: list[tuple[int, int, int, int]] = []  # end, chunk, receiver, links crossed
    for transfer in schedule.transfers:
        while on_the_way and on_the_way[0][0] <= transfer.start:
            _, chunk, receiver, crossed = heappop(on_the_way)
            farthest[chunk, receiver] = max(crossed, farthest.get((chunk, receiver), 0))
        link = links[transfer.link]
        crossed = 1 + farthest.get((transfer.chunk, link.src), 0)
        heappush(on_the_way, (transfer.end, transfer.chunk, link.dst, crossed))
    return max([*farthest.values(), *(crossed for *_, crossed in on_the_way)], default=0)


def along_trees(schedule: Schedule, links: Sequence[Link] | Sequence[Arc]) -> bool:
    """Return True if no rank sends its sum of a chunk twice or takes in two copies of a chunk: then the data
    decide all orders but one: a rank that trades sums has to send its own before it adds the other."""
    sums = Counter((t.chunk, links[t.link].src) for t in schedule.transfers if t.reduce)
    copies = Counter((t.chunk, links[t.link].dst) for t in schedule.transfers if not t.reduce)
    return max((*sums.values(), *copies.values()), default=1) == 1
