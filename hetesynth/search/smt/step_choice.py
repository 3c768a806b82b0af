"""One step of a schedule as a model: what enters the regions that are short of time.

In: who holds what at the start of the step, the regions and how much they may lack at its end. Out: sends that
keep every capacity and leave each region enough time, or that there are none, or neither. A chunk enters a region
over one link at most. What else the step carries is filled in greedily afterwards, so it is no part of the model.

The model is shown to a linear program first. Where that has no answer there is none; else Z3 is told the sends
that it uses, and all of them where those do not suffice.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from hetesynth.model.problem import Problem
from hetesynth.search.bounds.lower import most_copies
from hetesynth.search.bounds.regions import Coverer, partitions
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Clauses

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Region:
    """A set of ranks. ``entering``: arcs from outside; ``capacity``: chunks they carry in a step; ``wanting``: how
    many of the ranks want a chunk that starts outside, at least; ``copies``: to how many others of the set a rank
    sends one chunk in a step, at most."""

    ranks: tuple[int, ...]
    entering: tuple[int, ...]
    capacity: int
    wanting: int
    copies: int

    def limit(self, rest: int) -> int:
        """How many chunks that none of the ranks holds can still reach all that want them in ``rest`` steps."""
        holders, served = 1, 0
        for left in range(rest):
            if holders >= self.wanting:
                served += (rest - left) * self.wanting
                break
            served += holders
            holders *= 1 + self.copies
        return self.capacity * served // self.wanting


class SuffixLaws:
    """What a prefix of a schedule must leave for the steps that are left: for single ranks, servers, and all ranks
    but these, how many chunks that none of them holds may be left when so many steps remain.

    That follows from the capacity of the links that enter the set and from how fast a chunk spreads in it, so
    every schedule obeys it: a prefix that breaks one of these laws cannot be completed in time, which shows the
    step of the mistake long before the end. ``levels``: partitions of the ranks, coarsest first; ``wants``: chunks
    x ranks.
    """

    def __init__(self, tables: CopyProblem) -> None:
        problem = tables.problem
        everybody = frozenset(range(problem.ranks))
        self.wants: Bools = np.zeros((len(problem.collective.post), problem.ranks), dtype=np.bool_)
        for k, post in enumerate(problem.collective.post):
            self.wants[k, sorted(post)] = True
        self.levels = list(reversed(partitions(problem)))
        parts = [frozenset(part) for level in self.levels for part in level]
        distinct = dict.fromkeys(ranks for part in parts for ranks in (part, everybody - part) if ranks)
        coverer = Coverer(problem)
        regions = (_region(problem, coverer, ranks) for ranks in distinct)
        self.regions = tuple(region for region in regions if region is not None)
        self._members = np.zeros((problem.ranks, len(self.regions)), dtype=np.float32)
        for i, region in enumerate(self.regions):
            self._members[list(region.ranks), i] = 1.0
        self._wanted: Bools = self.wants.astype(np.float32) @ self._members > 0  # chunks x regions

    def lacking(self, holds: Bools) -> Bools:
        """Chunks x regions: wanted there and held by none of its ranks. ``holds``: chunks x ranks."""
        lacking: Bools = self._wanted & ~(holds.astype(np.float32) @ self._members > 0)
        return lacking

    def broken(self, holds: Bools, rest: int) -> list[int]:
        """The regions that lack more than can still enter them in ``rest`` steps."""
        counts = self.lacking(holds).sum(axis=0).tolist()
        return [i for i, region in enumerate(self.regions) if counts[i] and counts[i] > region.limit(rest)]


def _region(problem: Problem, coverer: Coverer, ranks: frozenset[int]) -> Region | None:
    """None where nothing has to enter, or nothing can."""
    entering = tuple(a for a, arc in enumerate(problem.arcs) if arc.dst in ranks and arc.src not in ranks)
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    wanting = [len(post & ranks) for pre, post in pairs if post & ranks and not pre & ranks]
    if not entering or not wanting:
        return None
    capacity = coverer.cover(entering).capacity
    return Region(tuple(sorted(ranks)), entering, capacity, min(wanting), most_copies(problem, ranks))


Send = tuple[int, int]  # chunk, arc
Floats = npt.NDArray[np.float64]


class Peers:
    """Whom each rank sends to and receives from, where the problem limits that."""

    def __init__(self, tables: CopyProblem, links: Iterable[int] = (), *, limited: bool = True) -> None:
        self._arcs = tables.problem.arcs
        self._limit = tables.problem.max_peers if limited else None
        self._out: dict[int, set[int]] = {}
        self._in: dict[int, set[int]] = {}
        for a in links:
            self.meet(a)

    def meet(self, a: int) -> None:
        """Arc ``a`` is used."""
        arc = self._arcs[a]
        self._out.setdefault(arc.src, set()).add(arc.dst)
        self._in.setdefault(arc.dst, set()).add(arc.src)

    def may(self, a: int) -> bool:
        """Whether arc ``a`` needs no more peers than there may be."""
        if self._limit is None:
            return True
        arc = self._arcs[a]
        receivers, senders = self._out.get(arc.src, ()), self._in.get(arc.dst, ())
        return (arc.dst in receivers or len(receivers) < self._limit) and (
            arc.src in senders or len(senders) < self._limit
        )


@dataclass
class Step:
    """A step being filled: what it still carries, what arrives. ``holds``: chunks x ranks at its start."""

    tables: CopyProblem
    holds: Bools
    peers: Peers
    sends: list[Send] = field(default_factory=list)
    left: list[int] = field(init=False)
    after: Bools = field(init=False)
    _leaving: set[Send] = field(default_factory=set)  # (chunk, rank) that sends it

    def __post_init__(self) -> None:
        self.left = [r.capacity for r in self.tables.resources]
        self.after = self.holds.copy()

    def fits(self, a: int) -> bool:
        """Whether arc ``a`` carries one chunk more."""
        left = self.left
        return all(left[r] > 0 for r in self.tables.resources_of[a]) and self.peers.may(a)

    def may(self, k: int, a: int) -> bool:
        """Whether chunk ``k`` may be sent over arc ``a``, which has room."""
        arc = self.tables.problem.arcs[a]
        return bool(self.holds[k, arc.src]) and not (
            self.after[k, arc.dst] or (self.tables.problem.exclusive_reduction and (k, arc.src) in self._leaving)
        )

    def take(self, k: int, a: int) -> None:
        """Send chunk ``k`` over arc ``a``."""
        arc = self.tables.problem.arcs[a]
        for r in self.tables.resources_of[a]:
            self.left[r] -= 1
        self.after[k, arc.dst] = True
        self._leaving.add((k, arc.src))
        self.peers.meet(a)
        self.sends.append((k, a))

    def send(self, k: int, a: int) -> bool:
        """Send chunk ``k`` over arc ``a`` if it may be sent and has room; whether it was."""
        possible = self.may(k, a) and self.fits(a)
        if possible:
            self.take(k, a)
        return possible

    def room(self, a: int) -> tuple[int, int]:
        """How much room the resources of arc ``a`` have: the fullest, and all together."""
        rooms = [self.left[r] for r in self.tables.resources_of[a]]
        return min(rooms, default=0), sum(rooms)


class Refill:
    """Fills steps of one problem greedily (HeteCCL 5.2, REVISEFULL). ``rng``: breaks ties among chunks that are
    equally rare.

    The coarsest partition comes before finer ones: a chunk that no rank of a server holds enters it once, the
    rarest chunks first (those that fewest regions hold), regions in turn. What a region holds spreads in it by the
    finer partitions, last the single ranks. A chunk that nobody near wants is not relayed.
    """

    def __init__(self, tables: CopyProblem, laws: SuffixLaws, rng: np.random.Generator) -> None:
        self.tables = tables
        self.laws = laws
        self._rng = rng
        arcs = tables.problem.arcs
        self._entering: list[dict[int, list[int]]] = []  # by level, the arcs into each region
        for level in laws.levels:
            home = {rank: i for i, region in enumerate(level) for rank in region}
            entering: dict[int, list[int]] = {}
            for a in tables.arcs:
                if home[arcs[a].src] != home[arcs[a].dst]:
                    entering.setdefault(home[arcs[a].dst], []).append(a)
            self._entering.append(entering)

    def step(self, holds: Bools, keep: Iterable[Send], links: Iterable[int], rest: int) -> Step:
        """One step: of ``keep`` what breaks no law, in order, then what else fits. ``links``: used before;
        ``rest``: how many steps follow."""
        step = Step(self.tables, holds, Peers(self.tables, links))
        for k, a in keep:
            step.send(k, a)
        tie = self._rng.random(len(holds))
        for level, entering in zip(self.laws.levels, self._entering, strict=True):
            self._fill(step, level, entering, tie, rest)
        return step

    def _fill(
        self, step: Step, level: Sequence[Sequence[int]], entering: dict[int, list[int]], tie: Floats, rest: int
    ) -> None:
        """Regions in turn, those with the least time left first, a chunk each, until nothing more can enter."""
        limit_of = {region.ranks: region.limit(rest) for region in self.laws.regions}
        limits = [limit_of.get(tuple(sorted(region)), 0) for region in level]
        present = np.stack([step.after[:, list(region)].any(axis=1) for region in level], axis=1)
        missed = np.stack([self.laws.wants[:, list(region)].any(axis=1) for region in level], axis=1)
        rarity = present.sum(axis=1).astype(np.float64) + tie
        lacking = {i: np.flatnonzero(missed[:, i] & ~present[:, i]).tolist() for i in sorted(entering)}
        turn = [i for i, chunks in lacking.items() if chunks]
        while turn:
            entered = []
            for i in sorted(turn, key=lambda i: (limits[i] - len(lacking[i]), i)):
                k = self._enter(step, lacking[i], entering[i], rarity)
                if k is not None:
                    rarity[k] += 1.0
                    lacking[i].remove(k)
                    entered.append(i)
            turn = [i for i in entered if lacking[i]]

    def _enter(self, step: Step, chunks: list[int], entering: Sequence[int], rarity: Floats) -> int | None:
        """The rarest of ``chunks`` that can enter over one of the arcs now, which it does; None: none can."""
        by_sender: dict[int, list[int]] = {}
        for a in entering:
            if step.fits(a):
                by_sender.setdefault(self.tables.problem.arcs[a].src, []).append(a)
        if not by_sender:
            return None
        possible: Bools = np.atleast_1d(step.holds[np.ix_(chunks, list(by_sender))].any(axis=1))
        for i in np.argsort(rarity[chunks], kind="stable").tolist():
            if possible[i]:
                k: int = chunks[i]
                holding = (leaving for sender, leaving in by_sender.items() if step.holds[k, sender])
                routes = [a for leaving in holding for a in leaving if step.may(k, a)]
                if routes:
                    step.take(k, max(routes, key=step.room))
                    return k
        return None


NEARLY = 1e-6
ANY = 1e6  # relative gap: the first solution will do


@dataclass(frozen=True, slots=True)
class Row:
    """Of ``variables``, numbered from 0, at most, or at least, so many hold."""

    variables: tuple[int, ...]
    most: int | None = None
    least: int | None = None


def cheapest(
    variables: int, rows: Sequence[Row], costs: Sequence[float], *, most_nodes: int = 0
) -> tuple[list[int], list[int]] | None:
    """The variables above zero in a cheapest solution, and those at one; None: the rows contradict each other.

    Counts that pair senders with receivers are hard for a solver that learns clauses and easy here.
    """
    import highspy

    model: Any = highspy.HighsLp()
    model.num_col_, model.num_row_ = variables, len(rows)
    model.col_cost_ = np.asarray(costs, dtype=np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(variables), np.ones(variables)
    model.row_lower_ = np.array(
        [-highspy.kHighsInf if row.least is None else row.least for row in rows], dtype=float
    )
    model.row_upper_ = np.array([highspy.kHighsInf if row.most is None else row.most for row in rows], dtype=float)
    used = np.array([v for row in rows for v in row.variables], dtype=np.int32)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row.variables) for row in rows)]).astype(np.int32)
    model.a_matrix_.index_ = used
    model.a_matrix_.value_ = np.ones(len(used))
    make: Any = highspy.Highs
    solver = make()
    for option, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    if most_nodes:
        model.integrality_ = [highspy.HighsVarType.kInteger] * variables
        solver.setOptionValue("mip_max_nodes", most_nodes)
        solver.setOptionValue("mip_rel_gap", ANY)
    solver.passModel(model)
    solver.run()
    solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    if not solved and not (
        most_nodes and solver.getInfo().primal_solution_status == highspy.kSolutionStatusFeasible
    ):
        return None
    values = np.array(solver.getSolution().col_value)
    return np.flatnonzero(values > NEARLY).tolist(), np.flatnonzero(values > 1.0 - NEARLY).tolist()


@dataclass(frozen=True, slots=True)
class Sample:
    """Which sends are looked at: of each region the rarest chunks, ``steps`` times what can enter it, and for each
    chunk and receiver so many of the senders. None: all."""

    steps: int | None = None
    most_senders: int | None = None

    def chunks(self, capacity: int) -> int | None:
        """How many chunks of a region."""
        return None if self.steps is None else self.steps * capacity

    def senders(self, routes: Sequence[int], first: int) -> Sequence[int]:
        """Those of ``routes`` that are looked at, spread over them."""
        if self.most_senders is None or len(routes) <= self.most_senders:
            return routes
        turned = [*routes[first % len(routes) :], *routes[: first % len(routes)]]
        return turned[:: -(-len(turned) // self.most_senders)]


class StepChoice:
    """The model of a step after which ``rest`` steps remain. ``regions``: those whose chunks may enter."""

    def __init__(
        self,
        tables: CopyProblem,
        laws: SuffixLaws,
        holds: Bools,
        rest: int,
        regions: Set[int],
        peers: Peers,
        sample: Sample,
    ) -> None:
        self.tables = tables
        self.sends: list[Send] = []
        self.rows: list[Row] = []
        self._numbers: dict[Send, int] = {}
        self._rarity: list[float] = holds.mean(axis=1).tolist()
        lacking = laws.lacking(holds)
        arcs = tables.problem.arcs
        for i in sorted(regions):
            # what may enter region i
            region = laws.regions[i]
            chunks = sorted(np.flatnonzero(lacking[:, i]).tolist(), key=lambda k: (self._rarity[k], k))
            into: dict[int, list[int]] = defaultdict(list)
            for a in region.entering:
                if peers.may(a):
                    into[arcs[a].dst].append(a)
            for k in chunks[: sample.chunks(region.capacity)]:
                for rank, entering in into.items():
                    routes = [a for a in entering if holds[k, arcs[a].src]]
                    for a in sample.senders(routes, k + rank):
                        if (k, a) not in self._numbers:
                            self._numbers[k, a] = len(self.sends)
                            self.sends.append((k, a))
        capacity = [resource.capacity for resource in tables.resources]
        self._at_most(((r, n) for n, (_, a) in enumerate(self.sends) for r in tables.resources_of[a]), capacity)
        # eq. 6; with exclusive reductions a rank sends a chunk to one peer (eq. 8)
        self._at_most(((k, arcs[a].dst), n) for n, (k, a) in enumerate(self.sends))
        if tables.problem.exclusive_reduction:
            self._at_most(((k, arcs[a].src), n) for n, (k, a) in enumerate(self.sends))
        for i in sorted(regions):
            self._enough_enters(laws, i, lacking, rest)

    def _at_most(self, keyed: Iterable[tuple[Any, int]], capacity: Sequence[int] = ()) -> None:
        """Of the sends with the same key at most the capacity of that key; by default one."""
        alike: dict[Any, list[int]] = defaultdict(list)
        for key, number in keyed:
            alike[key].append(number)
        for key, numbers in alike.items():
            limit = capacity[key] if capacity else 1
            if len(numbers) > limit:
                self.rows.append(Row(tuple(numbers), most=limit))

    def _enough_enters(self, laws: SuffixLaws, i: int, lacking: Bools, rest: int) -> None:
        """Region ``i`` lacks no more at the end of the step than can enter it later."""
        region = laws.regions[i]
        needed = int(lacking[:, i].sum()) - region.limit(rest)
        if needed <= 0:
            return
        entering = set(region.entering)
        entries: dict[int, list[int]] = defaultdict(list)
        for number, (k, a) in enumerate(self.sends):
            if a in entering and lacking[k, i]:
                entries[k].append(number)
        self.rows += [Row(tuple(numbers), most=1) for numbers in entries.values() if len(numbers) > 1]
        self.rows.append(Row(tuple(n for numbers in entries.values() for n in numbers), least=needed))

    def likely(self, most_nodes: int = 0) -> tuple[list[int], list[int]] | None:
        """The sends that a linear program uses, the rarest chunks first, and of these the whole ones; None: there
        is no answer. ``most_nodes``: of a branch and bound that leaves whole ones only, and may give up."""
        if any(row.least is not None and row.least > len(row.variables) for row in self.rows):
            return None
        costs = [self._rarity[k] - 2.0 for k, _ in self.sends]
        return cheapest(len(self.sends), self.rows, costs, most_nodes=most_nodes)

    def clauses(self, among: Sequence[int], stop: threading.Event | None) -> tuple[Clauses, dict[int, int]]:
        """The model of the sends ``among`` for Z3, and the variable of each."""
        clauses = Clauses(stop)
        variables = {n: clauses.variable("send_{}_{}".format(*self.sends[n])) for n in among}
        for row in self.rows:
            stated = [variables[n] for n in row.variables if n in variables]
            if row.most is not None and len(stated) > row.most:
                clauses.at_most(stated, row.most)
            if row.least is not None:
                clauses.at_least(stated, row.least)
        return clauses, variables
