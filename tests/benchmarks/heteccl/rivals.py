"""TACCL and TE-CCL by their published algorithms, as schedules and programs of ours.

In: a cluster, a collective, sizes. Out: seconds of each model's program, lowered step by step as MSCCL does, by
the simulator that times ours. Models, not the systems: no MILP is solved.

TACCL: a sketch leaves only some links between servers; routes are balanced by load over the links of the sketch;
transfers are ordered by time (here list scheduling). Both sketches of its repository for servers with several NICs
(microsoft/taccl, taccl/examples/sketch: sk1-dgx2-n2, sk2-dgx2-n2) are tried, and the quicker program counts.

TE-CCL: epochs as long as the slowest link needs for a chunk, in which a fast link carries several, are the steps
of HeteCCL's eq. 1. HS, epochs aligned with HeteCCL's steps, is a schedule of the fewest steps; SE one that is as
good as it can be round by round (its A*), a single greedy pass here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory, verified_solver
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.cost import chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Link, SharedGroup, Topology
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search import registry
from hetesynth.search.chunking import chunk
from hetesynth.search.effort import for_steps
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution
from hetesynth.search.timed.earliest_arrival import Rates

ROUTERS = ("timed-trees", "timed")  # the second where the first has no trees: one NIC for all of a server
SKETCHES = ("a sender and a receiver for each NIC", "GPUs of the same number")


@dataclass(frozen=True, slots=True)
class Rivals:
    """The models on ``topology``; ``request`` says which collective, with how many chunks, what time counts."""

    topology: Topology
    request: Request

    def taccl(self, size: int) -> tuple[float | None, str]:
        """Seconds of the quicker sketch, and which that is; None where neither joins all GPUs."""
        best: tuple[float | None, str] = (None, "")
        for sketch, topology in self._sketched():
            seconds = self._taccl(topology, size)
            if seconds is not None and (best[0] is None or seconds < best[0]):
                best = seconds, sketch
        return best

    def teccl(self, variant: str, sizes: tuple[int, ...]) -> list[float | None]:
        """Seconds for each size of variant ``HS`` or ``SE``."""
        one_pass = Strategy("one greedy pass", lambda search: greedy.improve(search, 1))
        strategy = registry.strategy("auto") if variant == "HS" else one_pass
        problem, schedule = self._solved(self.topology, strategy)
        return [self._seconds(self.topology, problem, schedule, size) for size in sizes]

    def _sketched(self) -> Iterator[tuple[str, Topology]]:
        for name in SKETCHES:
            yield name, sketched(self.topology, name)

    def _taccl(self, topology: Topology, size: int) -> float | None:
        ranks, request = topology.ranks, self.request
        prices = CostOptions.of(request).costs(topology)
        piece = chunk_bytes(request.collective, ranks, request.chunks, size)
        rates = Rates(
            prices.link_alpha, prices.link_resources, prices.resource_rate, float(piece), topology.servers
        )
        for name in ROUTERS:
            variants = registry.timed_strategies(registry.row_of(name), rates)
            programs = [self._timed(topology, strategy, size) for _, strategy in variants]
            quickest = min((seconds for seconds in programs if seconds is not None), default=None)
            if quickest is not None:
                return quickest
        return None

    def _timed(self, topology: Topology, strategy: Strategy, size: int) -> float | None:
        try:
            problem, schedule = self._solved(topology, strategy)
        except HetesynthError:
            return None
        return self._seconds(topology, problem, schedule, size)

    def _solved(self, topology: Topology, strategy: Strategy) -> tuple[Problem, Schedule | None]:
        request = self.request
        problem = ProblemFactory(topology, request).problem(chunk(topology, request.chunking))
        solver = verified_solver(strategy, request.budget, for_steps(request.policy, request.budget.effort))
        outcome = solver.solve(problem)
        return problem, outcome.schedule if isinstance(outcome, Solution) else None

    def _seconds(self, topology: Topology, problem: Problem, schedule: Schedule | None, size: int) -> float | None:
        if schedule is None:
            return None
        options = LoweringOptions("rival", servers=topology.servers)
        return Lowering(topology, problem, schedule, size, options, CostOptions.of(self.request)).seconds()


def sketched(topology: Topology, sketch: str) -> Topology:
    """``topology`` with those links between servers that a sketch of TACCL leaves."""
    place = _places(topology)
    nics = [_nics(topology, link) for link in topology.links]
    members: dict[int, set[int]] = {}
    for link, (first, last) in zip(topology.links, nics, strict=True):
        members.setdefault(first, set()).add(link.src)
        members.setdefault(last, set()).add(link.dst)

    def kept(link: Link, ends: tuple[int, int]) -> bool:
        if topology.servers[link.src] == topology.servers[link.dst]:
            return True
        if sketch == SKETCHES[1]:
            (i, n), (j, m) = place[link.src], place[link.dst]
            return i % min(n, m) == j % min(n, m)
        first, last = ends
        return link.src == min(members[first]) and link.dst == max(members[last])

    chosen = [i for i, link in enumerate(topology.links) if kept(link, nics[i])]
    number = {old: new for new, old in enumerate(chosen)}
    groups = (
        (group, tuple(number[i] for i in group.links if i in number)) for group in topology.groups
    )  # fmt: skip
    remaining: tuple[SharedGroup, ...] = tuple(replace(group, links=links) for group, links in groups if links)
    return replace(topology, links=tuple(topology.links[i] for i in chosen), groups=remaining)


def _places(topology: Topology) -> list[tuple[int, int]]:
    """Of each rank: its place in its server, and how many GPUs that has."""
    servers = topology.servers
    counts = {server: servers.count(server) for server in servers}
    return [(servers[:rank].count(server), counts[server]) for rank, server in enumerate(servers)]


def _nics(topology: Topology, link: Link) -> tuple[int, int]:
    """The vertices of the first and the last NIC of a path, -1 where it has none."""
    wires = [topology.wires[i] for i in link.wires]
    passed = [wire.dst for wire in wires if topology.vertices[wire.dst].kind == "nic"]
    return (passed[0], passed[-1]) if passed else (-1, -1)
