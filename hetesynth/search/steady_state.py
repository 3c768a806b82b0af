"""Steady-state trees: the packing of trees that loads the fullest resource least, in whole chunks.

In: a copying problem or an allreduce, what its links cost in seconds, the servers. Out: schedules along trees
that carry the optimum of a linear program, rounded to chunks (Beaumont et al. 2005: pipelined broadcasts;
ForestColl; Edmonds 1973). Chunks of an allreduce may be reduced at any rank, unlike in HeteCCL eq. 7.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.policy import PackingPolicy, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.list_scheduling import Task, Tasks
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.exchange import few_trees
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Carrier, Expansion, WholePacking
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial
from hetesynth.search.peers import reachable, stranded, within_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import Rates


def schedule_of(problem: Problem, carriers: Sequence[Carrier]) -> Schedule:
    """The schedule of ``carriers``, one for each chunk of ``problem``: every delivery in the earliest step with
    room, what has the longest path behind it first."""
    arcs, ordered = problem.arcs, list[Task]()
    for chunk, carrier in enumerate(carriers):  # additions towards the root, and copies from it
        additions = _from_root(carrier.root, {a: (arcs[a].dst, arcs[a].src) for a in carrier.inward.tolist()})
        copies = _from_root(carrier.root, {a: (arcs[a].src, arcs[a].dst) for a in carrier.outward.tolist()})
        ordered += [*(Task(chunk, a, True) for a in reversed(additions)), *(Task(chunk, a) for a in copies)]
    tasks = Tasks(CopyProblem(problem), ordered)
    return tasks.schedule(tasks.early([(-height, *t) for height, t in zip(tasks.heights, ordered, strict=True)]))


def _from_root(root: int, ends: Mapping[int, tuple[int, int]]) -> list[int]:
    """The arcs of a tree, whose parents and children are ``ends``, parents first."""
    leaving: dict[int, list[int]] = defaultdict(list)
    for a, (parent, _) in ends.items():
        leaving[parent].append(a)
    ordered = list(leaving[root])
    for a in ordered:
        ordered += leaving[ends[a][1]]
    return ordered


PACKED: tuple[CollectiveName, ...] = ("allgather", "broadcast", "allreduce")
"""What is carried by trees, reductions being taken backwards."""


@dataclass(frozen=True)
class _Question:
    """What a packing depends on; equal ones are answered once."""

    name: CollectiveName
    root: int | None
    ranks: int
    ends: tuple[tuple[int, int], ...]
    resources: tuple[tuple[int, ...], ...]
    rate: tuple[float, ...]
    alpha: tuple[float, ...]
    servers: tuple[str, ...]
    policy: PackingPolicy


Entry = tuple[Expansion, Deadline, dict[object, WholePacking]]
EXPANSIONS: OrderedDict[_Question, Entry] = OrderedDict()
"""The last few expansions, by what was asked, with what they were rounded to; what a deadline cut short is not
used under another one."""


def _whole(question: _Question, deadline: Deadline, trees: int, connections: int | None) -> WholePacking:
    """``trees`` trees of each root, or in all, from the fractional packing of ``question``, or what there is of it
    at ``deadline``; worked out once."""
    entry, policy = EXPANSIONS.pop(question, None), question.policy
    if entry is None or (entry[0].packing.cut_short and entry[1] is not deadline):
        rates, name, root = tuple(map(Fraction, question.rate)), question.name, question.root
        network = Network.of_links(question.ranks, question.ends, question.resources, rates, question.alpha)
        alike, packing = optimal_packing(network, name, root, question.servers, policy, deadline)
        every = demands(network, name, root, trivial(network), policy)
        entry = Expansion(network, alike, every, packing, name == "allreduce"), deadline, {}
    EXPANSIONS[question] = entry
    while len(EXPANSIONS) > 4:
        EXPANSIONS.popitem(last=False)
    expansion, _, rounded = entry
    if (trees, connections) not in rounded:
        rounded[trees, connections] = few_trees(expansion, trees, connections, policy.exchange_rounds)
    return rounded[trees, connections]


def whole_packing(
    problem: Problem,
    rates: Rates,
    policy: Policy,
    deadline: Deadline,
    trees: int | None = None,
    connections: int | None = None,
) -> WholePacking:
    """Trees for the chunks of ``problem`` on links of ``rates``, in their order; links are its arcs."""
    collective, tables = problem.collective, within_peers(problem)
    usable = range(len(problem.arcs)) if tables is None else tables.arcs
    question = _Question(
        name=collective.name,
        root=next(iter(collective.pre[0])) if collective.name == "broadcast" else None,
        ranks=problem.ranks,
        ends=tuple((problem.arcs[a].src, problem.arcs[a].dst) for a in usable),
        resources=tuple(tuple(rates.resources[a]) for a in usable),
        rate=tuple(rates.rate),
        alpha=tuple(rates.alpha[a] for a in usable),
        servers=tuple(rates.servers) or ("",) * problem.ranks,  # where none are told apart, one
        policy=policy.packing,
    )
    chunks = len(collective.chunks) // (problem.ranks if collective.name == "allgather" else 1)
    number = trees or chunks
    packed = _whole(question, deadline, number, connections)
    arcs, each = np.array(usable), chunks // number
    carriers = [Carrier(c.root, arcs[c.outward], arcs[c.inward]) for c in packed.carriers]
    repeated = tuple(carrier for carrier in carriers for _ in range(each))
    return replace(packed, carriers=repeated, chunks_on=packed.chunks_on * each)


def refuses(problem: Problem, policy: Policy) -> str | None:
    """Why ``problem`` is not for trees."""
    if problem.collective.name not in PACKED:
        return "every chunk is for one rank"
    tables = within_peers(problem)
    if tables is None:
        return stranded(problem, policy)
    ends = [(problem.arcs[a].src, problem.arcs[a].dst) for a in tables.arcs]
    return None if reachable(problem.ranks, ends).all() else "links do not lead from every rank to every other"


def steady_state_strategy(rates: Rates) -> Strategy:
    """A strategy that offers one schedule, along the optimal packing in whole chunks."""

    def improve(search: Search) -> None:
        packed = whole_packing(search.problem, rates, search.policy, search.deadline)
        search.offer(schedule_of(search.problem, packed.carriers), "steady-state")

    return Strategy("steady-state", improve, refuses, whole=True)
