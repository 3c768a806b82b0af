"""Steady-state trees: the packing of trees that loads the fullest resource least, in whole chunks.

In: a copying problem or an allreduce, what its links cost in seconds, the servers. Out: schedules along trees
that carry the optimum of a linear program, rounded to chunks (Beaumont et al. 2005: pipelined broadcasts;
ForestColl; Edmonds 1973). Chunks of an allreduce may be reduced at any rank, unlike in HeteCCL eq. 7.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import Policy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.exchange import few_trees
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Carrier, Expansion, WholePacking
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial
from hetesynth.search.peers import reachable, within_peers, without_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import Rates


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


PACKED: tuple[CollectiveName, ...] = ("allgather", "broadcast", "allreduce")
"""What is carried by trees, reductions being taken backwards."""


@dataclass(frozen=True)
class _Question:
    """What a packing depends on; equal ones are answered once."""

    name: CollectiveName
    root: int | None
    ranks: int
    arcs: tuple[int, ...]
    ends: tuple[tuple[int, int], ...]
    resources: tuple[tuple[int, ...], ...]
    rate: tuple[float, ...]
    alpha: tuple[float, ...]
    servers: tuple[str, ...]
    policy: PackingPolicy


@dataclass(frozen=True)
class _Entry:
    """An expansion, the deadline that it was made under, and what it was rounded to."""

    expansion: Expansion
    deadline: Deadline
    rounded: dict[tuple[int, int | None], WholePacking] = field(default_factory=dict)


class Expansions:
    """The last few expansions by what was asked; what a deadline cut short is not used under another one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[_Question, _Entry] = OrderedDict()

    def of(self, question: _Question, deadline: Deadline) -> Expansion:
        """The fractional packing of ``question``, or what there is of it at ``deadline``, ready to be rounded."""
        return self._entry(question, deadline).expansion

    def whole(
        self, question: _Question, deadline: Deadline, trees: int, connections: int | None
    ) -> WholePacking:  # fmt: skip
        """``trees`` trees of each root, or in all, from the expansion of ``question``; worked out once."""
        entry, asked = self._entry(question, deadline), (trees, connections)
        if asked not in entry.rounded:
            entry.rounded[asked] = few_trees(entry.expansion, trees, connections)
        return entry.rounded[asked]

    def _entry(self, question: _Question, deadline: Deadline) -> _Entry:
        entry = self._entries.pop(question, None)
        if entry is None or (entry.expansion.packing.cut_short and entry.deadline is not deadline):
            entry = _Entry(_expanded(question, deadline), deadline)
        self._entries[question] = entry
        while len(self._entries) > self._most:
            self._entries.popitem(last=False)
        return entry

    def clear(self) -> None:
        """Forget all."""
        self._entries.clear()


EXPANSIONS = Expansions(4)


def _expanded(question: _Question, deadline: Deadline) -> Expansion:
    policy = question.policy
    network = Network.of_links(
        question.ranks, question.ends, question.resources, tuple(map(Fraction, question.rate)), question.alpha
    )
    alike, packing = optimal_packing(
        network, question.name, question.root, question.servers, policy, deadline
    )  # fmt: skip
    every = demands(network, question.name, question.root, trivial(network), policy)
    return Expansion(network, alike, every, packing, question.name == "allreduce", policy)


def question_of(problem: Problem, rates: Rates, policy: Policy) -> _Question:
    """What has to be packed for ``problem`` on links of ``rates``."""
    collective = problem.collective
    tables = within_peers(problem, policy.bounds)
    usable = range(len(problem.arcs)) if tables is None else tables.arcs
    servers = tuple(rates.servers) or ("",) * problem.ranks  # where none are told apart, one
    return _Question(
        name=collective.name,
        root=next(iter(collective.pre[0])) if collective.name == "broadcast" else None,
        ranks=problem.ranks,
        arcs=tuple(usable),
        ends=tuple((problem.arcs[a].src, problem.arcs[a].dst) for a in usable),
        resources=tuple(tuple(rates.resources[a]) for a in usable),
        rate=tuple(rates.rate),
        alpha=tuple(rates.alpha[a] for a in usable),
        servers=servers,
        policy=policy.packing,
    )


def whole_packing(
    problem: Problem, rates: Rates, policy: Policy, deadline: Deadline, trees: int | None = None,
    connections: int | None = None,
) -> WholePacking:  # fmt: skip
    """Trees for the chunks of ``problem``, in their order; links are its arcs."""
    collective = problem.collective
    question = question_of(problem, rates, policy)
    chunks = len(collective.chunks) // (problem.ranks if collective.name == "allgather" else 1)
    number = trees or chunks
    packed = EXPANSIONS.whole(question, deadline, number, connections)
    arcs, each = np.array(question.arcs), chunks // number
    carriers = [Carrier(c.root, arcs[c.outward], arcs[c.inward]) for c in packed.carriers]
    repeated = tuple(carrier for carrier in carriers for _ in range(each))
    return replace(packed, carriers=repeated, chunks_on=packed.chunks_on * each)


def refuses(problem: Problem, policy: Policy) -> str | None:
    """Why ``problem`` is not for trees."""
    if problem.collective.name not in PACKED:
        return "every chunk is for one rank"
    tables = within_peers(problem, policy.bounds)
    if tables is None:
        return without_peers(problem, policy)
    ends = [(problem.arcs[a].src, problem.arcs[a].dst) for a in tables.arcs]
    return None if reachable(problem.ranks, ends).all() else "links do not lead from every rank to every other"


def steady_state_strategy(rates: Rates) -> Strategy:
    """A strategy that offers one schedule, along the optimal packing in whole chunks."""

    def improve(search: Search) -> None:
        packed = whole_packing(search.problem, rates, search.policy, search.deadline)
        search.offer(schedule_of(search.problem, packed.carriers), "steady-state")

    return Strategy("steady-state", improve, refuses, whole=True)
