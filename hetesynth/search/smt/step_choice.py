"""One step of a schedule as a model: sends by which the regions that are short of time get enough, or that there
are none, or neither.

A chunk enters a region over one link at most. What else the step carries is filled in greedily afterwards, so it
is no part of the model. It is shown to a linear program first: where that has no answer there is none; else Z3 is
told the sends that it uses.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np

from hetesynth.machine_code import Bools, Floats
from hetesynth.search.bounds.lower import most_copies
from hetesynth.search.bounds.regions import Coverer, partitions
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.list_scheduling import StepRoom
from hetesynth.search.smt.clauses import Clauses

Send = tuple[int, int]  # chunk, arc


@dataclass(frozen=True, slots=True)
class Region:
    """A set of ``ranks``. ``entering``: arcs from outside; ``capacity``: chunks they carry in a step; ``wanting``:
    how many of ``ranks`` want a chunk from outside, at least; ``copies``: to how many others of them one sends it
    in a step, at most."""

    ranks: tuple[int, ...]
    entering: tuple[int, ...]
    capacity: int
    wanting: int
    copies: int

    def limit(self, rest: int) -> int:
        """Return how many chunks missing in the set can still reach all that want them in ``rest`` steps."""
        holders, served = 1, 0
        for left in range(rest):
            if holders >= self.wanting:
                served += (rest - left) * self.wanting
                break
            served += holders
            holders *= 1 + self.copies
        return self.capacity * served // self.wanting


class SuffixLaws:
    """The laws on what a prefix leaves for the steps that are left: for single ranks, servers, and all ranks but
    these, how many chunks that none of them holds may be left when so many steps remain. That follows from the
    capacity of the links that enter the set and from how fast a chunk spreads in it, so a prefix that breaks one
    of these laws cannot be completed in time, which shows the step of the mistake long before the end. ``levels``:
    partitions of the ranks, coarsest first; ``wants``: chunks x ranks."""

    def __init__(self, tables: CopyProblem) -> None:
        self.tables, problem = tables, tables.problem
        everybody = frozenset(range(problem.ranks))
        self.wants: Bools = np.zeros((len(problem.collective.post), problem.ranks), dtype=np.bool_)
        for k, post in enumerate(problem.collective.post):
            self.wants[k, sorted(post)] = True
        self.levels = list(reversed(partitions(problem)))
        parts = [frozenset(part) for level in self.levels for part in level]
        distinct = dict.fromkeys(ranks for part in parts for ranks in (part, everybody - part) if ranks)
        coverer = Coverer(problem)
        regions: list[Region] = []
        for ranks in distinct:
            entering = tuple(a for a, arc in enumerate(problem.arcs) if arc.dst in ranks and arc.src not in ranks)
            ends = problem.collective.ends
            wanting = [len(post & ranks) for pre, post in ends if post & ranks and not pre & ranks]
            if entering and wanting:
                capacity, copies = coverer.cover(entering).capacity, most_copies(problem, ranks)
                regions.append(Region(tuple(sorted(ranks)), entering, capacity, min(wanting), copies))
        self.regions = tuple(regions)
        self._members = np.zeros((problem.ranks, len(self.regions)), dtype=np.float32)
        for i, region in enumerate(self.regions):
            self._members[list(region.ranks), i] = 1.0
        self._wanted: Bools = self.wants.astype(np.float32) @ self._members > 0  # chunks x regions

    def lacking(self, holds: Bools) -> Bools:
        """Return, chunks x regions, what a region wants and none of its ranks ``holds`` (chunks x ranks)."""
        return self._wanted & ~(holds.astype(np.float32) @ self._members > 0)

    def broken(self, holds: Bools, rest: int) -> list[int]:
        """Return the regions that lack more than can still enter them in ``rest`` steps."""
        counts = self.lacking(holds).sum(axis=0).tolist()
        return [i for i, region in enumerate(self.regions) if counts[i] and counts[i] > region.limit(rest)]


class Peers:
    """The peers that each rank sends to and receives from, where the problem limits them."""

    def __init__(self, tables: CopyProblem, links: Iterable[int]) -> None:
        self._arcs = tables.problem.arcs
        self._limit = tables.problem.max_peers
        self._out: dict[int, set[int]] = defaultdict(set)
        self._in: dict[int, set[int]] = defaultdict(set)
        for a in links:
            self.meet(a)

    def meet(self, a: int) -> None:
        """Record a use of arc ``a``."""
        arc = self._arcs[a]
        self._out[arc.src].add(arc.dst)
        self._in[arc.dst].add(arc.src)

    def may(self, a: int) -> bool:
        """Return True if arc ``a`` needs no more peers than there may be."""
        if self._limit is None:
            return True
        arc = self._arcs[a]
        receivers, senders = self._out[arc.src], self._in[arc.dst]
        return (arc.dst in receivers or len(receivers) < self._limit) and (
            arc.src in senders or len(senders) < self._limit
        )


class Step(StepRoom):
    """A step being filled: the room in it, what arrives. ``holds``: chunks x ranks at its start."""

    def __init__(self, tables: CopyProblem, holds: Bools, peers: Peers) -> None:
        super().__init__(tables)
        self.arcs, self.holds, self.peers = tables.problem.arcs, holds, peers
        self.after = holds.copy()
        self.sends: list[Send] = []

    def fits(self, arc: int) -> bool:
        """Return True if ``arc`` carries one chunk more, and needs no more peers than there may be."""
        return super().fits(arc) and self.peers.may(arc)

    def may(self, k: int, a: int) -> bool:
        """Return True if chunk ``k`` may be sent over arc ``a``, which has room."""
        arc = self.arcs[a]
        return bool(self.holds[k, arc.src] and not self.after[k, arc.dst]) and self.may_send(k, arc.src)

    def take(self, k: int, a: int) -> None:
        """Send chunk ``k`` over arc ``a``."""
        self.book(k, self.arcs[a].src, a)
        self.after[k, self.arcs[a].dst] = True
        self.peers.meet(a)
        self.sends.append((k, a))

    def send(self, k: int, a: int) -> bool:
        """Send chunk ``k`` over arc ``a`` if it may be sent and has room; return True if it was sent."""
        possible = self.may(k, a) and self.fits(a)
        if possible:
            self.take(k, a)
        return possible

    def room(self, a: int) -> tuple[int, int]:
        """Return the room that the resources of arc ``a`` have: that of the fullest, and of all together."""
        rooms = [self.left[r] for r in self.uses[a]]
        return min(rooms, default=0), sum(rooms)


class Refill:
    """Fills steps of one problem greedily (HeteCCL 5.2, REVISEFULL). ``rng``: breaks ties among chunks that are
    equally rare. The coarsest partition comes before finer ones: a chunk that no rank of a server holds enters it
    once, the rarest chunks first (those that fewest regions hold), regions in turn. What a region holds spreads in
    it by the finer partitions, last the single ranks. A chunk that nobody near wants is not relayed."""

    def __init__(self, laws: SuffixLaws, rng: np.random.Generator) -> None:
        self.tables = tables = laws.tables
        self.laws, self._rng = laws, rng
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
        """Return a step with those of ``keep`` that break no law, in order, then with what fits. ``links``: used
        before; ``rest``: steps that follow."""
        step = Step(self.tables, holds, Peers(self.tables, links))
        for k, a in keep:
            step.send(k, a)
        tie = self._rng.random(len(holds))
        limit_of = {region.ranks: region.limit(rest) for region in self.laws.regions}
        for level, entering in zip(self.laws.levels, self._entering, strict=True):
            # regions in turn, those with the least time left first, a chunk each, until nothing more can enter
            limits = [limit_of.get(tuple(sorted(region)), 0) for region in level]
            present = np.stack([step.after[:, list(region)].any(axis=1) for region in level], axis=1)
            missed = np.stack([self.laws.wants[:, list(region)].any(axis=1) for region in level], axis=1)
            rarity = present.sum(axis=1).astype(np.float64) + tie
            lacking = {i: np.flatnonzero(missed[:, i] & ~present[:, i]).tolist() for i in sorted(entering)}
            turn = [i for i, chunks in lacking.items() if chunks]
            while turn:
                entered = []
                slack = {i: (limits[i] - len(lacking[i]), i) for i in turn}
                for i in sorted(turn, key=slack.__getitem__):
                    chunk = self._enter(step, lacking[i], entering[i], rarity)
                    if chunk is not None:
                        rarity[chunk] += 1.0
                        lacking[i].remove(chunk)
                        entered.append(i)
                turn = [i for i in entered if lacking[i]]
        return step

    def _enter(self, step: Step, chunks: list[int], entering: Sequence[int], rarity: Floats) -> int | None:
        """Send the rarest of ``chunks`` that can enter over one of the arcs now, and return it; None: none can."""
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
                routes = [a for leaving in by_sender.values() for a in leaving if step.may(k, a)]
                if routes:
                    step.take(k, max(routes, key=step.room))
                    return k
        return None


class Row(NamedTuple):
    """A count: of ``variables``, numbered from 0, between ``least`` and ``most`` hold."""

    variables: tuple[int, ...]
    most: float = inf
    least: float = -inf


def cheapest(
    variables: int, rows: Sequence[Row], costs: Sequence[float], *, most_nodes: int = 0
) -> tuple[list[int], list[int]] | None:
    """Return the variables above zero in a cheapest solution, and those at one; None: there is, or was found, no
    solution. Counts that pair senders with receivers are hard for a solver that learns clauses and easy here."""
    import highspy

    model: Any = highspy.HighsLp()
    model.num_col_, model.num_row_ = variables, len(rows)
    model.col_cost_ = np.asarray(costs, dtype=np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(variables), np.ones(variables)
    model.row_lower_, model.row_upper_ = (np.array([row[side] for row in rows], dtype=float) for side in (2, 1))
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
        solver.setOptionValue("mip_rel_gap", 1e6)  # the first solution will do
    solver.passModel(model)
    solver.run()
    solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    if not solved and not (
        most_nodes and solver.getInfo().primal_solution_status == highspy.kSolutionStatusFeasible
    ):
        return None
    values = np.array(solver.getSolution().col_value)
    return np.flatnonzero(values > 1e-6).tolist(), np.flatnonzero(values > 1.0 - 1e-6).tolist()


class StepChoice:
    """The model of a step before ``rest`` others. ``regions``: those that chunks may enter. ``few``: the rarest
    chunks of each region only, four times what can enter it, and four senders for each chunk and receiver."""

    def __init__(
        self, laws: SuffixLaws, holds: Bools, rest: int, regions: Set[int], peers: Peers, *, few: bool
    ) -> None:
        tables = laws.tables
        self.sends: list[Send] = []
        self.rows: list[Row] = []
        numbers: dict[Send, int] = {}
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
            for k in chunks[: 4 * region.capacity] if few else chunks:
                for rank, entering in into.items():
                    routes = [a for a in entering if holds[k, arcs[a].src]]
                    if few and len(routes) > 4:  # spread over them
                        first = (k + rank) % len(routes)
                        routes = [*routes[first:], *routes[:first]][:: -(-len(routes) // 4)]
                    for a in routes:
                        if (k, a) not in numbers:
                            numbers[k, a] = len(self.sends)
                            self.sends.append((k, a))
        capacity = [resource.capacity for resource in tables.resources]
        self._at_most(((r, n) for n, (_, a) in enumerate(self.sends) for r in tables.resources_of[a]), capacity)
        # eq. 6; with exclusive reductions a rank sends a chunk to one peer (eq. 8)
        self._at_most(((k, arcs[a].dst), n) for n, (k, a) in enumerate(self.sends))
        if tables.problem.exclusive_reduction:
            self._at_most(((k, arcs[a].src), n) for n, (k, a) in enumerate(self.sends))
        for i in sorted(regions):
            # region i lacks no more at the end of the step than can enter it later
            needed = int(lacking[:, i].sum()) - laws.regions[i].limit(rest)
            if needed > 0:
                inside = set(laws.regions[i].entering)
                entries = [(k, n) for n, (k, a) in enumerate(self.sends) if a in inside and lacking[k, i]]
                by_chunk = self._at_most(entries)
                self.rows.append(Row(tuple(n for alike in by_chunk.values() for n in alike), least=needed))

    def _at_most(self, keyed: Iterable[tuple[Any, int]], capacity: Sequence[int] = ()) -> dict[Any, list[int]]:
        """State that at most the capacity of a key, by default one, of its sends hold; return the sends by key."""
        alike: dict[Any, list[int]] = defaultdict(list)
        for key, number in keyed:
            alike[key].append(number)
        for key, numbers in alike.items():
            limit = capacity[key] if capacity else 1
            if len(numbers) > limit:
                self.rows.append(Row(tuple(numbers), most=limit))
        return alike

    def likely(self, most_nodes: int = 0) -> tuple[list[int], list[int]] | None:
        """Return the sends that a linear program uses, rarest chunks first, and the whole ones; None: it has no
        answer. ``most_nodes``: limits a branch and bound that leaves whole ones only, and may give up."""
        if any(row.least > len(row.variables) for row in self.rows):
            return None
        costs = [self._rarity[k] - 2.0 for k, _ in self.sends]
        return cheapest(len(self.sends), self.rows, costs, most_nodes=most_nodes)

    def clauses(self, among: Sequence[int], stop: threading.Event | None) -> tuple[Clauses, dict[int, int]]:
        """Return the model of the sends ``among`` for Z3, and the variable of each."""
        clauses = Clauses(stop)
        variables = {n: clauses.variable("send_{}_{}".format(*self.sends[n])) for n in among}
        for row in self.rows:
            stated = [variables[n] for n in row.variables if n in variables]
            if len(stated) > row.most:
                clauses.at_most(stated, int(row.most))
            if row.least > 0:
                clauses.at_least(stated, int(row.least))
        return clauses, variables
