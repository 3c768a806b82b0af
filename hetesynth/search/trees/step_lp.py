"""Trees to steps: every step a linear program after which all that is left can still be carried in time.

In: a tree for every chunk. Out: a schedule along them, as long as the busiest resource needs where that is
possible. A step takes of the deliveries that are ready those with the longest path behind them, and no resource
may be left with more than the steps after this one can carry; a resource without slack is filled to the last chunk
in every step. Where that cannot be, the schedule gets a step more. Deliveries over one link with an equally long
path behind them are one variable. As in direct exchange, where resources nest the programs have integral
solutions.
The deliveries of a step are chosen together; ``list_scheduling`` chooses one after the other.

With a forwarding delay, a chunk is passed on only some steps after it could be: its latency then passes while
other chunks are on their way, and the transfers of a step begin and end together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.trees import TreesPolicy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.list_scheduling import Tree, heights, precedence

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

ROUND = 1e-6  # an integral solution is this close to integers


@dataclass
class StepLp:
    """The schedule of ``trees``, chunks of a smaller ``copy`` first. ``forwarding_delay``: steps between those in
    which a rank receives a chunk and passes it on."""

    tables: CopyProblem
    trees: Sequence[Tree]
    copy: Sequence[int]
    forwarding_delay: int
    policy: TreesPolicy
    waiting: list[list[tuple[int, int]]] = field(default_factory=list)  # per column: heap of (copy, delivery)
    steps: int = 0  # that the schedule is to have
    most: int = 0

    def __post_init__(self) -> None:
        self.tasks = [(k, u, a) for k, tree in enumerate(self.trees) for u, _, a in tree]
        self.below, parent = precedence([*self.trees])
        self.height = heights(parent)
        columns: dict[tuple[int, int], int] = {}
        self.column = [
            columns.setdefault((a, h), len(columns)) for (_, _, a), h in zip(self.tasks, self.height, strict=True)
        ]
        self.arc_of = [a for a, _ in columns]
        self.gain: Floats = np.array([1.0 + h for _, h in columns])
        self.waiting = [[] for _ in columns]
        self.capacity: Floats = np.array([r.capacity for r in self.tables.resources], dtype=np.float64)
        self.left: Floats = np.zeros(len(self.capacity))  # deliveries each resource still has to carry
        for _, _, a in self.tasks:
            self.left[self.tables.resources_of[a]] += 1
        self.postponed: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def run(self, ended: Callable[[], bool]) -> Schedule | None:
        """The schedule; None when it was ended or grew too long."""
        matrix = self.tables.use_matrix(self.arc_of)
        self.steps = int(np.ceil((self.left / self.capacity).max(initial=0.0) - ROUND))
        self.most = self.policy.step_lp_growth * self.steps + max(self.height, default=0) + 1
        self._release(self.below[-1])
        transfers: list[Transfer] = []
        later: deque[list[int]] = deque([[]] * self.forwarding_delay)  # what can be passed on in the next steps
        step = 0
        while len(transfers) < len(self.tasks):
            ready: Ints = np.array([c for c, heap in enumerate(self.waiting) if heap], dtype=np.int64)
            numbers = self._choice(matrix[:, ready], ready, step, ended)
            if numbers is None:
                return None
            # the deliveries of one step
            columns = zip(ready.tolist(), numbers.tolist(), strict=True)
            sent = [heappop(self.waiting[c])[1] for c, n in columns for _ in range(n)]
            for i in sent:
                self.left[self.tables.resources_of[self.tasks[i][2]]] -= 1
                self._next(self.tasks[i][:2])
            transfers += [Transfer(step, step + 1, self.tasks[i][0], self.tasks[i][2]) for i in sent]
            later.append([i for t in sent for i in self.below[t]])
            self._release(later.popleft())
            step += 1
        return Schedule.of(transfers, step)

    def _choice(self, matrix: Any, ready: Ints, step: int, ended: Callable[[], bool]) -> Ints | None:
        """How many of each column ``step`` takes; more steps where there is no choice within ``steps``."""
        many = np.array([len(self.waiting[c]) for c in ready], dtype=np.int64)
        if not len(ready):  # all that is left is delayed
            return many
        while self.steps <= self.most and not ended():
            after = self.capacity * max(0, self.steps - step - 1)
            least = np.clip(self.left - after, 0.0, self.capacity)
            if (matrix @ many >= least).all():
                numbers = _most(_StepModel(self.gain[ready], matrix, least, self.capacity, many), self.policy)
                if numbers is not None:
                    return numbers
            self.steps += 1
        return None

    def _release(self, deliveries: Sequence[int]) -> None:
        """Siblings are ready together; where a rank sends a chunk to one peer in a step, one after the other."""
        if self.tables.problem.exclusive_reduction:
            of: dict[tuple[int, int], list[tuple[int, int]]] = {}
            for i in deliveries:
                of.setdefault(self.tasks[i][:2], []).append((self.height[i], i))
            for sending, siblings in of.items():
                self.postponed[sending] = sorted(siblings)
                self._next(sending)
            return
        for i in deliveries:
            self._ready(i)

    def _next(self, sending: tuple[int, int]) -> None:
        if self.postponed.get(sending):
            self._ready(self.postponed[sending].pop()[1])

    def _ready(self, i: int) -> None:
        heappush(self.waiting[self.column[i]], (self.copy[self.tasks[i][0]], i))


@dataclass(frozen=True, slots=True)
class _StepModel:
    """The linear program of one step, a variable for each column."""

    gain: Floats
    matrix: Any  # deliveries of a column on a resource
    least: Floats  # deliveries that each resource has to carry
    capacity: Floats
    many: Ints  # deliveries of each column that are ready


def _most(model: _StepModel, policy: TreesPolicy) -> Ints | None:
    """How many of each column to take, so that the gain is largest; None where no choice meets both limits.

    Direct exchange (``greedy/direct.py``) has the same laws and another program: each chunk is a variable there.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp

    laws = LinearConstraint(model.matrix, model.least, model.capacity)
    for integral in (0, 1):
        solution = milp(
            -model.gain,
            constraints=laws,
            bounds=Bounds(0, model.many),
            integrality=np.full(len(model.gain), integral),
            options={"node_limit": policy.step_lp_nodes} if integral else {},
        ).x
        if solution is None:
            return None
        numbers: Ints = np.rint(solution).astype(np.int64)
        if np.abs(numbers - solution).max(initial=0.0) < ROUND:
            return numbers
    return None
