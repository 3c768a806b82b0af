"""Chunks for one rank each (alltoall, gather, scatter) as an integer flow on the time-expanded graph.

In: a problem in which every chunk starts at one rank and is wanted by one other. Out: schedules of given steps,
and bounds. Chunks of one source are one commodity: a single-source integer flow splits into paths, so the number
of chunks is no size of the model (TE-CCL 4.1 without copies). The linear program alone proves bounds: its duals
are prices of each resource in each step, at which all chunks pay more than all steps earn. HiGHS solves both.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hetesynth.machine_code import Floats, Ints
from hetesynth.model.bound import LowerBound, SteppedPriceWitness
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.effort import scaled
from hetesynth.search.search import Search, Strategy

GRAIN = 10**6  # the highest price, when prices are rounded to whole numbers
NO_PATH = 1 << 50
MAX_STEPS = 10_000


def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
    """Return why the problem is no flow of chunks for one rank each, or None."""
    if any(len(pre) > 1 or len(post - pre) > 1 for pre, post in problem.collective.ends):
        return "some chunk has several origins or targets"
    return None if problem.max_peers is None else "peers of a rank are limited, and a flow counts no peers"


@dataclass(frozen=True)
class StepFlow:
    """The flow of ``problem`` in steps, step t of ``rounds[t]`` rounds.

    Columns: for each source the chunks on each arc in each step, then those that wait at each rank from step to
    step. Rows: a chunk that comes to a rank waits there or leaves; what a resource carries in a step.
    """

    problem: Problem
    rounds: tuple[int, ...]

    @cached_property
    def tables(self) -> CopyProblem:
        """Incidence of links and resources."""
        return CopyProblem(self.problem)

    @cached_property
    def demands(self) -> dict[int, Counter[int]]:
        """For each source, how many of its chunks each rank wants."""
        by_source: dict[int, Counter[int]] = {}
        for pre, post in self.problem.collective.ends:
            for target in post - pre:
                by_source.setdefault(min(pre), Counter())[target] += 1
        return dict(sorted(by_source.items()))

    @cached_property
    def sends(self) -> Ints:
        """The source, arc and step of each of the first columns, a row each."""
        hops, last = np.array(self.tables.hops), len(self.rounds)
        src, dst = self.tables.ends
        parts = []
        for source, targets in self.demands.items():
            to_go = hops[:, sorted(targets)].min(axis=1)
            arcs = np.flatnonzero(dst != source)
            first, end = hops[source][src[arcs]], last - to_go[dst[arcs]]
            times = [np.arange(i, max(i, j)) for i, j in zip(first, end, strict=True)]
            counts = [len(t) for t in times]
            steps = np.concatenate(times) if times else np.zeros(0, dtype=np.int64)
            parts.append(np.stack([np.full(len(steps), source), np.repeat(arcs, counts), steps]))
        return np.concatenate(parts, axis=1).T.astype(np.int64)

    def _program(self) -> tuple[Any, int]:
        """Return the HiGHS model, its last column the share of all demands that is met, at most 1, and the number
        of its first capacity row."""
        import highspy
        from scipy.sparse import coo_matrix

        steps, ranks, number = len(self.rounds), self.problem.ranks, len(self.sends)
        width = steps + 1
        place = {source: i for i, source in enumerate(self.demands)}
        src, dst = self.tables.ends
        of = np.array([place[s] for s in self.sends[:, 0].tolist()], dtype=np.int64)
        arc, step = self.sends[:, 1], self.sends[:, 2]
        # a row for each source, rank and step: what leaves and waits, less what comes and has waited
        leaves, comes = ((of * ranks + end[arc]) * width + step for end in (src, dst))
        every = np.arange(len(place) * ranks * width).reshape(-1, width)
        waits = number + np.arange(every.size - len(every))
        share = number + len(waits)
        ends = {(place[s] * ranks + r) * width + steps: n for s, to in self.demands.items() for r, n in to.items()}
        ends |= {(place[s] * ranks + s) * width: -to.total() for s, to in self.demands.items()}
        # a row for each resource and step: what it carries
        use = self.tables.use_matrix(arc.tolist()).tocoo()
        carried = every.size + use.row * steps + step[use.col]
        entries = (
            (leaves, np.arange(number), 1.0), (comes + 1, np.arange(number), -1.0),
            (every[:, :-1].ravel(), waits, 1.0), (every[:, 1:].ravel(), waits, -1.0), (carried, use.col, 1.0),
        )  # fmt: skip
        rows = np.concatenate([*(rows for rows, _, _ in entries), list(ends)])
        columns = np.concatenate([*(columns for _, columns, _ in entries), [share] * len(ends)])
        values = np.concatenate([*(np.full(len(rows), value) for rows, _, value in entries), list(ends.values())])
        most = np.outer([r.capacity for r in self.tables.resources], self.rounds).ravel().astype(np.float64)
        matrix = coo_matrix((values, (rows, columns)), shape=(every.size + len(most), share + 1)).tocsc()
        model: Any = highspy.HighsLp()
        model.num_col_, model.num_row_ = share + 1, every.size + len(most)
        model.col_cost_ = np.append(np.zeros(share), -1.0)
        model.col_lower_ = np.zeros(share + 1)
        model.col_upper_ = np.append(np.full(share, highspy.kHighsInf), 1.0)
        model.row_lower_ = np.append(np.zeros(every.size), np.full(len(most), -highspy.kHighsInf))
        model.row_upper_ = np.append(np.zeros(every.size), most)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = matrix.indptr, matrix.indices
        model.a_matrix_.value_ = matrix.data
        return model, every.size

    def relaxed(self, seconds: float | None = None) -> tuple[float, Floats] | None:
        """Return the share of the demands that can be met by parts of chunks, and the price of each resource in
        each step; None: no answer in ``seconds``."""
        model, first = self._program()
        solver = _solved(model, seconds)
        if solver.getModelStatus().name != "kOptimal":
            return None
        solution = solver.getSolution()
        prices = -np.array(solution.row_dual)[first:].reshape(len(self.tables.resources), len(self.rounds))
        return float(solution.col_value[model.num_col_ - 1]), np.maximum(prices, 0.0)

    def whole(self, rounds: int, seconds: float | None = None) -> Schedule | None:
        """Return a schedule in whole chunks; None: there is none, or none was found in ``seconds`` and ``rounds``
        of HiGHS, which are the same on every machine. Late sends are cheap: with that cost HiGHS was up to eight
        times as quick as with any other that was tried."""
        import highspy

        model, _ = self._program()
        number, rest = len(self.sends), model.num_col_ - len(self.sends)
        model.col_lower_ = np.append(np.zeros(model.num_col_ - 1), 1.0)
        model.col_cost_ = np.append(1.0 + len(self.rounds) - self.sends[:, 2], np.zeros(rest))
        model.integrality_ = [highspy.HighsVarType.kInteger] * number + [highspy.HighsVarType.kContinuous] * rest
        solver = _solved(model, seconds, rounds, mip_max_improving_sols=1)
        if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        return self._schedule(np.rint(np.array(solver.getSolution().col_value)[:number]).astype(np.int64))

    def _schedule(self, flow: Ints) -> Schedule:
        """Return the schedule of ``flow``, by column, split into the paths of chunks from the last step back."""
        at: dict[tuple[int, int], list[int]] = defaultdict(list)  # by source and rank, the chunks that are there
        for k, (pre, post) in enumerate(self.problem.collective.ends):
            for target in post - pre:
                at[min(pre), target].append(k)
        used = np.flatnonzero(flow)
        by_step: dict[int, list[int]] = defaultdict(list)
        for n in used.tolist():
            by_step[int(self.sends[n, 2])].append(n)
        paths: dict[int, list[tuple[int, int]]] = defaultdict(list)  # of each chunk its steps and arcs, backwards
        for step in sorted(by_step, reverse=True):
            left: list[tuple[tuple[int, int], int]] = []
            for n in by_step[step]:
                source, a, _ = self.sends[n].tolist()
                arc = self.problem.arcs[a]
                for _ in range(int(flow[n])):
                    k = at[source, arc.dst].pop()
                    paths[k].append((step, a))
                    left.append(((source, arc.src), k))
            for place, k in left:
                at[place].append(k)
        transfers: list[Transfer] = []
        for k, path in paths.items():
            kept: list[tuple[int, int]] = []
            for step, a in reversed(path):  # a chunk that comes to a rank again has stayed there
                been = [self.problem.arcs[b].src for _, b in kept]
                arc = self.problem.arcs[a]
                if arc.dst in been:
                    del kept[been.index(arc.dst) :]
                else:
                    kept.append((step, a))
            transfers += [Transfer(step, step + 1, k, a) for step, a in kept]
        return Schedule.of(transfers, len(self.rounds))


def _solved(model: Any, seconds: float | None, rounds: int = 0, **options: float) -> Any:
    """Return the HiGHS solver after it ran on ``model``, for at most ``rounds`` of an integer program (0: any)."""
    import highspy

    left = [rounds]

    def count(event: Any) -> None:
        left[0] -= 1
        event.data_in.user_interrupt = left[0] <= 0

    make: Any = highspy.Highs
    solver = make()
    limit = {} if seconds is None else {"time_limit": max(1e-3, seconds)}
    for option, value in {"output_flag": False, "threads": 1, "random_seed": 0, **options, **limit}.items():
        solver.setOptionValue(option, value)
    if rounds:
        solver.cbMipInterrupt.subscribe(count)
    solver.passModel(model)
    solver.run()
    return solver


def stepped_bound(flow: StepFlow, prices: Floats) -> LowerBound | None:
    """Return the bound that no schedule has as few steps as ``flow``, by rounded ``prices`` of resources in steps;
    None: they prove nothing. A chunk pays at least its cheapest path through the steps, and all steps earn no more
    than prices times capacities (linear programming duality, as of ``price_bound``, with the time axis)."""
    if not prices.any():
        return None
    whole = np.rint(prices * (GRAIN / prices.max())).astype(np.int64)
    tables, steps = flow.tables, len(flow.rounds)
    earned = int((whole @ np.array(flow.rounds)) @ np.array([r.capacity for r in tables.resources]))
    src, dst = tables.ends
    arc, resource = tables.uses
    paid = 0
    for source, targets in flow.demands.items():
        cost = np.full(flow.problem.ranks, NO_PATH)
        cost[source] = 0
        for step in range(steps):
            of_arc = np.zeros(len(src), dtype=np.int64)
            np.add.at(of_arc, arc, whole[resource, step])
            later = cost.copy()
            np.minimum.at(later, dst, cost[src] + of_arc)
            cost = later
        paid += sum(count * int(cost[rank]) for rank, count in targets.items())
    if paid <= earned:
        return None
    named = tuple(
        (tables.resources[r].name, t, int(whole[r, t]))
        for r, t in zip(*map(np.ndarray.tolist, np.nonzero(whole)), strict=True)
    )
    proof = f"in {steps} steps the cheapest paths cost {paid} at prices that let all steps earn {earned}"
    return LowerBound(steps + 1, "stepped-price", proof, SteppedPriceWitness(steps, named, paid, earned))


def proved_bound(problem: Problem, at_least: int, most: int, seconds: float | None = None) -> LowerBound | None:
    """The bound by linear programs of at most ``most`` columns, from ``at_least`` steps up; None: nothing new."""
    best: LowerBound | None = None
    for steps in range(max(1, at_least), MAX_STEPS):
        flow = StepFlow(problem, (1,) * steps)
        answer = None if columns(problem, steps) > most else flow.relaxed(seconds)
        proved = None if answer is None or answer[0] > 1 - 1e-6 else stepped_bound(flow, answer[1])
        if proved is None:
            return best
        best = proved
    return best


def columns(problem: Problem, steps: int) -> int:
    """Return about how many columns the flow in ``steps`` steps has."""
    sources = len({pre for pre, post in problem.collective.ends if post - pre})
    return sources * len(problem.arcs) * steps


def improve(search: Search) -> LowerBound | None:
    """Prove that no schedule has as few steps as the bound says, as far as that goes, then offer a schedule in
    whole chunks of the fewest steps for which one is found. Return the bound proved."""
    problem = search.problem
    share = search.policy.smt.units_in_auto
    most = scaled(400_000, share)
    search.progress("flow", None if search.best is None else search.best.makespan)
    proved = proved_bound(problem, search.target, most, search.remaining())
    if proved is not None:
        search.target = proved.steps
    best = search.target + 3 if search.best is None else search.best.makespan
    for steps in range(search.target, best):
        if columns(problem, steps) > most or search.out_of_time():
            search.solver_spent = True
            break
        schedule = StepFlow(problem, (1,) * steps).whole(scaled(120, share), search.remaining())
        if schedule is not None:
            search.offer(schedule, "flow")
            break
    return proved


STRATEGY = Strategy("flow", improve, refuses)
