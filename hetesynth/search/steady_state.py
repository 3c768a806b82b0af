"""Steady-state trees: the packing of trees that loads the fullest resource least, in whole chunks.

In: a copying problem or an allreduce, what its links cost in seconds, the servers. Out: schedules along trees
that carry the optimum of a linear program, rounded to chunks (Beaumont et al. 2005: pipelined broadcasts;
ForestColl; Edmonds 1973). Chunks of an allreduce may be reduced at any rank, unlike in HeteCCL eq. 7.
"""

import math
from collections import OrderedDict, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Deadline
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem, reachable
from hetesynth.search.list_scheduling import Task, Tasks
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.exchange import Shallow, packings_of
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.rounding import Carrier, Expansion, WholePacking
from hetesynth.search.packing.structures import demands
from hetesynth.search.packing.symmetry import trivial
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import Rates


def schedule_of(problem: Problem, carriers: Sequence[Carrier]) -> Schedule:
    """Return the schedule along ``carriers``, one a chunk; longest paths first, in the first step with room."""
    arcs, ordered = problem.arcs, list[Task]()
    for chunk, carrier in enumerate(carriers):  # additions towards the root, and copies from it
        additions = _from_root(carrier.root, {a: (arcs[a].dst, arcs[a].src) for a in carrier.inward.tolist()})
        copies = _from_root(carrier.root, {a: (arcs[a].src, arcs[a].dst) for a in carrier.outward.tolist()})
        ordered += [*(Task(chunk, a, True) for a in reversed(additions)), *(Task(chunk, a) for a in copies)]
    tasks = Tasks(CopyProblem(problem), ordered)
    return tasks.schedule(tasks.early([(-height, *t) for height, t in zip(tasks.heights, ordered, strict=True)]))


def _from_root(root: int, ends: Mapping[int, tuple[int, int]]) -> list[int]:
    """Return the arcs of a tree, whose parents and children are ``ends``, parents first."""
    leaving: dict[int, list[int]] = defaultdict(list)
    for a, (parent, _) in ends.items():
        leaving[parent].append(a)
    ordered = list(leaving[root])
    for a in ordered:
        ordered += leaving[ends[a][1]]
    return ordered


PACKED: tuple[CollectiveName, ...] = ("allgather", "broadcast", "allreduce")
"""The collectives that trees carry, reductions being taken backwards."""


Entry = tuple[Expansion, Deadline, dict[object, list[WholePacking]]]
EXPANSIONS: OrderedDict[tuple[object, ...], Entry] = OrderedDict()
"""The last few expansions, by all that they depend on, with the packings they were rounded to; one that a deadline
cut short is not used under another deadline."""


def whole_packings(
    problem: Problem,
    rates: Rates,
    policy: Policy,
    deadline: Deadline,
    trees: int | None = None,
    connections: int | None = None,
    *,
    stars: Shallow = "no",
    most: float = math.inf,
) -> list[WholePacking]:
    """Return packings of whole chunks of ``problem``, whose arcs are links of ``rates``: ``trees`` trees of each
    root, or in all for an allreduce (None: a tree for each chunk), with at most ``connections`` of a rank where
    that can be. They are rounded from the fractional packing, or what there is of it at ``deadline``; each is
    worked out once. ``stars``: whether those of an allreduce are of few levels, where that pays. The list is
    empty where prices prove that all load some resource for more than ``most`` seconds a byte."""
    collective, tables, n = problem.collective, within_peers(problem), problem.ranks
    usable = range(len(problem.arcs)) if tables is None else tables.arcs
    name, root = collective.name, min(collective.pre[0]) if collective.name == "broadcast" else None
    ends = tuple((problem.arcs[a].src, problem.arcs[a].dst) for a in usable)
    resources, alpha = tuple(tuple(rates.resources[a]) for a in usable), tuple(rates.alpha[a] for a in usable)
    servers = tuple(rates.servers) or ("",) * n  # where none are told apart, one
    question = name, root, n, ends, resources, tuple(rates.rate), alpha, servers, policy.packing
    entry = EXPANSIONS.pop(question, None)
    if entry is None or (entry[0].packing.cut_short and entry[1] is not deadline):
        network = Network.of_links(n, ends, resources, tuple(map(Fraction, rates.rate)), alpha)
        alike, packing = optimal_packing(network, name, root, servers, policy.packing, deadline)
        every = demands(network, name, root, trivial(network), policy.packing)
        entry = Expansion(network, alike, every, packing, name == "allreduce", servers), deadline, {}
    EXPANSIONS[question] = entry
    while len(EXPANSIONS) > 4:
        EXPANSIONS.popitem(last=False)
    expansion, _, rounded = entry
    groups = n if name == "allgather" else 1
    chunks = len(collective.chunks) // groups
    number = trees or chunks  # of each root, or in all
    if expansion.least_seconds(number * groups) > most:
        return []
    key = number, connections, stars
    if key not in rounded:
        rounded[key] = packings_of(expansion, number, connections, policy.packing.exchange_rounds, stars)
    arcs, each = np.array(usable), chunks // number
    listed: list[WholePacking] = []
    for packed in rounded[key]:
        carriers = [Carrier(c.root, arcs[c.outward], arcs[c.inward]) for c in packed.carriers]
        repeated = tuple(carrier for carrier in carriers for _ in range(each))
        listed.append(replace(packed, carriers=repeated, chunks_on=packed.chunks_on * each))
    return listed


def refuses(problem: Problem, policy: Policy) -> str | None:
    """Return why ``problem`` is not for trees, or None."""
    if problem.collective.name not in PACKED:
        return "every chunk is for one rank"
    tables = within_peers(problem)
    if tables is None:
        return stranded(problem, policy)
    ends = [(problem.arcs[a].src, problem.arcs[a].dst) for a in tables.arcs]
    return None if reachable(problem.ranks, ends).all() else "links do not lead from every rank to every other"


def steady_state_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers one schedule, along the optimal packing in whole chunks."""

    def improve(search: Search) -> None:
        [packed] = whole_packings(search.problem, rates, search.policy, search.deadline)
        search.offer(schedule_of(search.problem, packed.carriers), "steady-state")

    return Strategy("steady-state", improve, refuses, whole=True)
