"""What a synthesizer is given: links with capacities in chunks per step, and a collective.

One capacity law: a ``Resource`` is a set of links and a number of chunks per step. A link alone (eq. 4), a
wire that several links cross and a stated group (both eq. 5) are all resources.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property

from hetesynth.model.collective import Collective
from hetesynth.model.deadline import ClockDecisions, Deadline, now
from hetesynth.model.topology import Rank
from hetesynth.model.words import told_apart


@dataclass(frozen=True, slots=True)
class Segment:
    """A physical wire with its capacity in chunks per step (``None``: unlimited). Vertices: GPUs first."""

    src: int
    dst: int
    capacity: int | None
    name: str


@dataclass(frozen=True, slots=True)
class Arc:
    """A link (u, v) with its logical capacity C(u, v) (HeteCCL eq. 1) and the segments it crosses.

    Arc ``i`` is link ``i`` of the topology.
    """

    src: Rank
    dst: Rank
    capacity: int
    segments: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Resource:
    """A limit of ``capacity`` chunks per step over all of ``arcs`` together (HeteCCL eq. 4 and 5)."""

    name: str
    arcs: tuple[int, ...]
    capacity: int


@dataclass(frozen=True)
class Problem:
    """A collective on a graph with capacities.

    ``exclusive_reduction``: in one step a rank adds at most one arriving value to the same chunk
    (HeteCCL eq. 8). A copying problem with it stands for a reversed reduction: there a rank sends the same chunk
    to at most one peer in a step. ``max_peers``: no rank sends to, and none receives from, more than this many
    others over the whole schedule, as thread blocks of a program are limited (None: no limit). ``servers``: the
    server of each rank, by name, for strategies that go server by server; empty: not known.
    """

    ranks: int
    vertices: int
    segments: tuple[Segment, ...]
    arcs: tuple[Arc, ...]
    groups: tuple[Resource, ...]
    collective: Collective
    exclusive_reduction: bool = False
    max_peers: int | None = None
    servers: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.collective.ranks != self.ranks:
            raise ValueError("the collective and the graph differ in their number of ranks")
        if self.max_peers is not None and self.max_peers < 1:
            raise ValueError("a rank needs at least one peer")

    def reversed(self) -> Problem:
        """Return the problem with every link and wire turned around, starts and ends exchanged; indices stay."""
        collective = self.collective
        return replace(
            self,
            segments=tuple(Segment(s.dst, s.src, s.capacity, s.name) for s in self.segments),
            arcs=tuple(Arc(a.dst, a.src, a.capacity, a.segments[::-1]) for a in self.arcs),
            collective=replace(collective, pre=collective.post, post=collective.pre),
        )

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """Every capacity law of the problem: limited segments that several arcs cross, groups, arcs alone.

        Names are unique: parallel wires between the same two vertices become ``a->b``, ``a->b (2)``.
        """
        return (*self._wide_resources, *map(self._arc_resource, range(len(self.arcs))))

    @cached_property
    def _wide_resources(self) -> tuple[Resource, ...]:
        """The laws of segments and groups: all but those of arcs alone, whose names are unique by themselves."""
        crossing: list[list[int]] = [[] for _ in self.segments]
        for i, arc in enumerate(self.arcs):
            for s in arc.segments:
                crossing[s].append(i)
        resources: list[Resource] = []
        for segment, over in zip(self.segments, crossing, strict=True):
            narrow = len(over) > 1 or (over and (segment.capacity or 0) < self.arcs[over[0]].capacity)
            if segment.capacity is not None and narrow:
                resources.append(Resource(segment.name, tuple(over), segment.capacity))
        resources += self.groups
        names = told_apart(resource.name for resource in resources)
        return tuple(
            resource if name == resource.name else replace(resource, name=name)
            for resource, name in zip(resources, names, strict=True)
        )

    def _arc_resource(self, index: int) -> Resource:
        arc = self.arcs[index]
        return Resource(f"link {index} ({arc.src}->{arc.dst})", (index,), arc.capacity)

    @cached_property
    def binding_resources(self) -> tuple[Resource, ...]:
        """The ``resources`` that no other implies; a link at least as wide as a group it is in is left out."""
        shared = [r for r in self._wide_resources if len(r.arcs) > 1]
        tightest = [arc.capacity + 1 for arc in self.arcs]
        for resource in shared:
            for a in resource.arcs:
                tightest[a] = min(tightest[a], resource.capacity)
        alone = [r for r in self._wide_resources if len(r.arcs) == 1 and r.capacity < tightest[r.arcs[0]]]
        alone += [self._arc_resource(i) for i, arc in enumerate(self.arcs) if arc.capacity < tightest[i]]
        return tuple(shared + alone)


@dataclass(frozen=True, slots=True)
class Budget:
    """The limits of a search: wall seconds (``None``: no limit), effort and the seed of its random choices.

    ``effort``: how much work is tried, in multiples of what the policy allots; ``None``: all there is. It decides
    the result on every machine alike; the seconds only cut a search short.
    ``strict_deadline``: no schedule rather than a late one, for a search after others that found some.
    ``clock_decisions``: the record of what the seconds decided.
    """

    seconds: float | None = None
    seed: int = 0
    strict_deadline: bool = False
    clock_decisions: ClockDecisions = field(default_factory=ClockDecisions, compare=False, repr=False)
    effort: float | None = None

    def deadline(self, started: float | None = None) -> Deadline:
        """Return the deadline, ``seconds`` after ``started`` (a time of ``deadline.now``) or after now."""
        began = now() if started is None else started
        return Deadline(math.inf if self.seconds is None else began + self.seconds, self.clock_decisions)

    def left_after(self, spent: float) -> Budget:
        """Return the budget after ``spent`` seconds; at least 0 seconds are left."""
        return self if self.seconds is None else replace(self, seconds=max(0.0, self.seconds - spent))

    def part(self, share: float) -> Budget:
        """Return the budget with ``share`` of the seconds."""
        return self if self.seconds is None else replace(self, seconds=share * self.seconds)
