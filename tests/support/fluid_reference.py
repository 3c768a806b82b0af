"""A slow simulator of transfer graphs, exact in fractions: the judge of the fast one, and unlike it in every part.

No events and no heap: each round looks at all tasks, fills all rates from zero, and goes on by the smallest time
after which anything changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hetesynth.model.timeline import TransferGraph


@dataclass(frozen=True)
class Task:
    """As in ``TransferGraph``, for one task."""

    uses: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    delay: Fraction = Fraction(0)
    size: Fraction = Fraction(0)
    after: Fraction = Fraction(0)


def graph_of(rates: Sequence[Fraction], tasks: Sequence[Task]) -> TransferGraph:
    """The arrays that the simulator takes."""

    def rows(values: list[tuple[int, ...]]) -> tuple[np.ndarray, np.ndarray]:
        return (
            np.asarray([v for row in values for v in row], dtype=np.int64),
            np.cumsum([0, *(len(row) for row in values)], dtype=np.int64),
        )

    def column(name: str) -> np.ndarray:
        return np.asarray([float(getattr(t, name)) for t in tasks], dtype=np.float64)

    waits, uses = rows([t.waits for t in tasks]), rows([t.uses for t in tasks])
    return TransferGraph(
        tuple(f"r{i}" for i in range(len(rates))), np.asarray([float(r) for r in rates]), *waits, *uses,
        column("delay"), column("size"), column("after"),
    )  # fmt: skip


def fullest(graph: TransferGraph) -> float:
    """Seconds that the fullest resource needs."""
    task = np.repeat(np.arange(graph.tasks), np.diff(graph.uses_start))
    load = np.bincount(graph.uses, weights=graph.size[task], minlength=len(graph.names))
    return float((load / graph.rate).max(initial=0.0))


def ends(rates: Sequence[Fraction], tasks: Sequence[Task]) -> list[Fraction]:
    """When each task ends."""
    now = Fraction(0)
    # what is left of each task: delay, bytes, computation
    left = [[t.delay, t.size if t.uses else Fraction(0), t.after] for t in tasks]
    end: list[Fraction | None] = [None] * len(tasks)
    while None in end:
        for _ in tasks:  # tasks without any time left end at once, and so may those that wait for them
            for i, t in enumerate(tasks):
                if end[i] is None and not any(left[i]) and all(_ended(end[w], now) for w in t.waits):
                    end[i] = now
        going = [i for i, t in enumerate(tasks) if end[i] is None and all(_ended(end[w], now) for w in t.waits)]
        if not going:
            break
        flowing = [i for i in going if not left[i][0] and left[i][1]]
        rate = _filled(rates, tasks, flowing)
        spans = []
        for i in going:
            stage = next(k for k in range(3) if left[i][k])
            spans.append((i, stage, rate[i] if stage == 1 else Fraction(1)))
        step = min(left[i][stage] / speed for i, stage, speed in spans)
        for i, stage, speed in spans:
            left[i][stage] -= step * speed
        now += step
    return [e for e in end if e is not None]


def _ended(end: Fraction | None, now: Fraction) -> bool:
    return end is not None and end <= now


def _filled(rates: Sequence[Fraction], tasks: Sequence[Task], flowing: list[int]) -> dict[int, Fraction]:
    """Max-min fair rates: raise all by the same until a resource is full, stop its flows, go on."""
    rate = {i: Fraction(0) for i in flowing}
    rising = set(flowing)
    while rising:
        room = []
        for r, capacity in enumerate(rates):
            through = [i for i in flowing if r in tasks[i].uses]
            climbing = sum(i in rising for i in through)
            if climbing:
                room.append(((capacity - sum(rate[i] for i in through)) / climbing, r))
        rise = min(room)[0]
        for i in rising:
            rate[i] += rise
        for gap, r in room:
            if gap == rise:
                rising -= {i for i in flowing if r in tasks[i].uses}
    return rate
