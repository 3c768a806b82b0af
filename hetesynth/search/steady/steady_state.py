"""Steady-state trees: the packing of trees that loads the fullest resource least, in whole chunks.

In: a copying problem or an allreduce, what its links cost in seconds, the servers. Out: schedules along trees
that carry the optimum of a linear program, rounded to chunks (Beaumont et al. 2005: pipelined broadcasts;
ForestColl; Edmonds 1973). Chunks of an allreduce may be reduced at any rank, unlike in HeteCCL eq. 7.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.problem import Problem
from hetesynth.policy import Policy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.packing.exchange import few_trees
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.optimum import optimal_packing
from hetesynth.search.packing.rounding import Carrier, Expansion, WholePacking
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial
from hetesynth.search.peers import reachable, within_peers, without_peers
from hetesynth.search.search import Search
from hetesynth.search.steady.carried import schedule_of
from hetesynth.search.strategy import Strategy
from hetesynth.search.timed.earliest_arrival import Rates

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
    """Trees for the chunks of ``problem``, in their order; links are its arcs.

    ``trees``: how many, an even part of the chunks, of each root or in all; by default as many as chunks.
    ``connections``: that a rank may have where every tree has its own; absent: any number. At ``deadline`` the
    fractional packing is taken as far as it is, which is noted.
    """
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
