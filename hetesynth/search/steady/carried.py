"""Trees to steps: every delivery in the earliest step in which its resources have room, the urgent first.

In: a problem and what carries each chunk. Out: a schedule in the step model. A chunk of an allreduce is added
along a tree to its root, then copied along another. Urgent is what has the longest path behind it; as that order
has senders before receivers, each delivery is placed once (serial schedule generation; Kolisch 1996).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.packing.rounding import Carrier


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Chunk ``chunk`` over arc ``arc``; ``height``: deliveries on the longest path from here on, itself
    included."""

    chunk: int
    arc: int
    reduce: bool
    height: int
    order: int


def schedule_of(problem: Problem, carriers: Sequence[Carrier]) -> Schedule:
    """The schedule of ``carriers``, one for each chunk of ``problem``."""
    deliveries = [d for k, carrier in enumerate(carriers) for d in _deliveries(problem, k, carrier)]
    deliveries.sort(key=lambda d: (-d.height, d.order, d.chunk, d.arc))
    return Schedule.of(_Steps(problem).placed(deliveries))


def _deliveries(problem: Problem, chunk: int, carrier: Carrier) -> list[_Delivery]:
    """Of one chunk: additions towards the root, then copies from it."""
    arcs = problem.arcs
    copies = _from_root(carrier.root, [(arcs[a].src, arcs[a].dst, a) for a in carrier.outward.tolist()])
    additions = _from_root(carrier.root, [(arcs[a].dst, arcs[a].src, a) for a in carrier.inward.tolist()])
    below: dict[int, int] = defaultdict(int)  # by rank, deliveries on the longest path that begins there
    heights: list[tuple[int, int]] = []
    for src, dst, a in reversed(copies):
        heights.append((a, below[dst] + 1))
        below[src] = max(below[src], below[dst] + 1)
    deliveries = [_Delivery(chunk, a, False, height, 0) for a, height in heights]
    depth = {carrier.root: below[carrier.root]}
    for parent, child, a in additions:
        depth[child] = depth[parent] + 1
        deliveries.append(_Delivery(chunk, a, True, depth[child], 0))
    return deliveries


def _from_root(root: int, edges: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """``edges`` of a tree, (parent, child, arc), parents first."""
    leaving: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for edge in edges:
        leaving[edge[0]].append(edge)
    ordered: list[tuple[int, int, int]] = []
    level = [root]
    while level:
        ordered += (following := [edge for rank in level for edge in leaving[rank]])
        level = [child for _, child, _ in following]
    return ordered


@dataclass
class _Steps:
    """What every resource carries in every step so far."""

    problem: Problem
    ready: dict[tuple[int, int], int] = field(default_factory=dict)  # (chunk, rank) -> step from which it may send
    busy: dict[tuple[int, int, int], bool] = field(default_factory=dict)  # (chunk, rank, step) with an addition

    def __post_init__(self) -> None:
        resources = self.problem.binding_resources
        self.capacity = [resource.capacity for resource in resources]
        self.uses: list[list[int]] = [[] for _ in self.problem.arcs]
        for number, resource in enumerate(resources):
            for a in resource.arcs:
                self.uses[a].append(number)
        self.load: list[list[int]] = [[] for _ in resources]
        self.full_until = [0] * len(resources)
        self.exclusive = self.problem.exclusive_reduction
        self.copying = not self.problem.collective.reduces  # also the dual of a reduction

    def placed(self, deliveries: Sequence[_Delivery]) -> list[Transfer]:
        """Transfers in the steps that have room."""
        transfers = []
        for delivery in deliveries:
            arc = self.problem.arcs[delivery.arc]
            shared = (
                arc.src if self.copying else arc.dst
            )  # of the dual: a rank sends a chunk to one peer in a step
            excluded = self.exclusive and (self.copying or delivery.reduce)
            step = self._room(delivery.arc, self.ready.get((delivery.chunk, arc.src), 0))
            while excluded and (delivery.chunk, shared, step) in self.busy:
                step = self._room(delivery.arc, step + 1)
            if excluded:
                self.busy[delivery.chunk, shared, step] = True
            for r in self.uses[delivery.arc]:
                load = self.load[r]
                load.extend([0] * (step + 1 - len(load)))
                load[step] += 1
                while self.full_until[r] < len(load) and load[self.full_until[r]] >= self.capacity[r]:
                    self.full_until[r] += 1
            key = delivery.chunk, arc.dst
            self.ready[key] = max(self.ready.get(key, 0), step + 1)
            transfers.append(Transfer(step, step + 1, delivery.chunk, delivery.arc, delivery.reduce))
        return transfers

    def _room(self, arc: int, step: int) -> int:
        """The first step from ``step`` on in which all resources of ``arc`` have room."""
        uses = self.uses[arc]
        step = max([step, *(self.full_until[r] for r in uses)])
        while any(step < len(self.load[r]) and self.load[r][step] >= self.capacity[r] for r in uses):
            step += 1
        return step
