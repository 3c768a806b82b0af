"""TE-CCL (SIGCOMM 2024): a collective as a multi-commodity flow over epochs of ``tau`` seconds, solved by HiGHS.

In: a copying problem and the seconds of its links. Out: for each transfer the epoch in which it begins, the fewest
epochs, and whether they are proved. ``Copies``: F and B of every chunk, integers (the general model, and its
rounds A*); ``Flows``: F, B and R of every source, where nothing is copied, linear. docs/strategies.md says which
equation is which, and where they differ from the paper.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil, floor, inf
from typing import Any, Literal, NamedTuple

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem, distances
from hetesynth.search.effort import scaled
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.search import Search, Strategy
from hetesynth.search.timed.earliest_arrival import LinkTimes, Rates, TimedRoutes, earliest_arrival, quickest
from hetesynth.search.timed.list_scheduling import by_start

MOST_VARIABLES = 10_000  # of a round
MOST_WORK = 60_000  # of a whole model: variables x epochs; HiGHS has no limit of work before the first node
MOST_FLOWS = 60_000  # of a linear program
MOST_NODES = 500  # of a branch and bound, at effort 1
LONGEST_DELAY = 12  # epochs: where alpha takes more, epochs are longer than a chunk on the fastest link
NEARLY = 1e-6
Sent = tuple[int, int, int]  # the epoch, the arc, the chunk or the source
Status = Literal["found", "infeasible", "unknown"]


class Held(NamedTuple):
    """The start of a round: the ranks that hold each chunk, the epoch of the round in which others get it, and the
    transfers that began before the round, in epochs below zero."""

    holds: frozenset[tuple[int, int]]  # chunk, rank
    coming: dict[tuple[int, int], int]
    before: tuple[Sent, ...] = ()


@dataclass(frozen=True)
class Epochs:
    """The links in epochs of ``tau`` seconds. ``switches_copy``: a wire carries a chunk once for all receivers."""

    tables: CopyProblem
    link_times: LinkTimes
    tau: float
    switches_copy: bool = False

    @cached_property
    def windows(self) -> list[tuple[int, int]]:
        """For each resource a number of epochs (kappa), and the most chunks that it carries in them."""
        of = list[tuple[int, int]]()
        for busy in self.link_times.busy:
            kappa = max(1, ceil(busy / self.tau - NEARLY))
            of.append((kappa, floor(kappa * self.tau / busy + NEARLY) if busy > 0 else 1 << 30))
        return of

    @cached_property
    def delay(self) -> list[int]:
        """For each arc the epochs from the begin of a transfer until its receiver has it (delta + kappa)."""
        return [
            ceil(alpha / self.tau - NEARLY) + max((self.windows[r][0] for r in used), default=1)
            for alpha, used in zip(self.link_times.alpha, self.tables.resources_of, strict=True)
        ]

    @cached_property
    def far(self) -> Any:
        """The epochs along the quickest path between ranks, a ranks x ranks matrix (Floyd-Warshall)."""
        usable = np.array(self.tables.arcs, dtype=np.int64)
        src, dst = (ends[usable] for ends in self.tables.ends)
        return distances(self.tables.problem.ranks, src, dst, np.array(self.delay, dtype=np.float64)[usable])

    @property
    def longest(self) -> int:
        """The longest delay of an arc, in epochs."""
        return max((self.delay[a] for a in self.tables.arcs), default=1)

    def rounded(self) -> LinkTimes:
        """Return the seconds of the links, rounded up to epochs."""
        tau = self.tau
        alpha = [tau * ceil(seconds / tau - NEARLY) for seconds in self.link_times.alpha]
        return LinkTimes(alpha, [kappa * tau / most for kappa, most in self.windows])


def epoch_seconds(tables: CopyProblem, link_times: LinkTimes) -> list[float]:
    """Return the seconds of a chunk on the slowest link and the fastest, at least what alphas allow, each once."""
    seconds = [link_times.bandwidth_seconds(tables)[a] for a in tables.arcs]
    alpha = max((link_times.alpha[a] for a in tables.arcs), default=0.0)
    least = max(alpha / LONGEST_DELAY, 1e-12)
    return sorted({max(least, max(seconds, default=0.0)), max(least, min(seconds, default=0.0))}, reverse=True)


@dataclass
class Program:
    """A linear or mixed-integer program: columns and rows as they are added; ``solve`` maximizes the gains."""

    gains: list[float] = field(default_factory=list)
    bounds: list[tuple[float, float]] = field(default_factory=list)
    whole: list[int] = field(default_factory=list)
    rows: list[tuple[list[int], list[float], float, float]] = field(default_factory=list)

    def column(self, gain: float = 0.0, low: float = 0.0, high: float = 1.0, *, whole: bool = False) -> int:
        """Add a variable and return the number of its column."""
        self.gains.append(gain)
        self.bounds.append((low, high))
        if whole:
            self.whole.append(len(self.gains) - 1)
        return len(self.gains) - 1

    def row(self, plus: Sequence[int], minus: Sequence[int] = (), low: float = -inf, high: float = 0.0) -> None:
        """Add the constraint that columns ``plus`` less columns ``minus`` are within ``low`` and ``high``."""
        self.rows.append(([*plus, *minus], [1.0] * len(plus) + [-1.0] * len(minus), low, high))

    def solve(self, seconds: float, nodes: int = 0, *, first: bool = False) -> tuple[Status, Any, bool]:
        """Return the status, the columns' values, and True if they are optimal within the gap. With ``nodes`` the
        columns ``whole`` are integers. ``first``: any values will do."""
        import highspy

        if not self.gains:  # nothing can be sent
            wrong = any(low > 0.0 for _, _, low, _ in self.rows)
            return "infeasible" if wrong else "found", None if wrong else np.zeros(0), True
        model: Any = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self.gains), len(self.rows)
        model.col_cost_ = -np.array(self.gains, dtype=np.float64)
        low, high = np.array(self.bounds, dtype=np.float64).reshape(-1, 2).T.copy()
        model.col_lower_, model.col_upper_ = low, high
        model.row_lower_, model.row_upper_ = (np.array([row[i] for row in self.rows], dtype=float) for i in (2, 3))
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.cumsum([0, *(len(row[0]) for row in self.rows)]).astype(np.int32)
        model.a_matrix_.index_ = np.array([i for row in self.rows for i in row[0]], dtype=np.int32)
        model.a_matrix_.value_ = np.array([v for row in self.rows for v in row[1]], dtype=np.float64)
        if nodes:
            kinds = [highspy.HighsVarType.kContinuous] * len(self.gains)
            for i in self.whole:
                kinds[i] = highspy.HighsVarType.kInteger
            model.integrality_ = kinds
        make: Any = highspy.Highs
        solver = make()
        options: dict[str, Any] = {"output_flag": False, "threads": 1, "random_seed": 0, "mip_rel_gap": 0.0}
        if nodes:
            options |= {"mip_max_nodes": nodes}
        if first:
            options |= {"mip_rel_gap": inf, "mip_abs_gap": inf, "mip_max_improving_sols": 1}
        if seconds < inf:
            options["time_limit"] = max(0.0, seconds)
        for option, value in options.items():
            solver.setOptionValue(option, value)
        solver.passModel(model)
        solver.run()
        status, states = solver.getModelStatus(), highspy.HighsModelStatus
        if status in (states.kInfeasible, states.kUnboundedOrInfeasible):
            return "infeasible", None, True
        if solver.getInfo().primal_solution_status != highspy.kSolutionStatusFeasible:
            return "unknown", None, False
        return "found", np.array(solver.getSolution().col_value), status == states.kOptimal


def loads(program: Program, epochs: Epochs, columns: dict[Sent, int], before: Iterable[Sent] = ()) -> None:
    """Add the limits of resources: sum of F <= T tau in a window of one epoch, or kappa epochs if a chunk
    takes so long. A switch that copies sends a chunk on once: then a wire's largest F counts, not all."""
    by_resource: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    together: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for (k, a, c), column in columns.items():
        for r in epochs.tables.resources_of[a]:
            together[r, k, c if epochs.switches_copy else column].append(column)
    for (r, k, _), some in together.items():
        carried = some[0]
        if len(some) > 1:
            carried = program.column()
            for column in some:
                program.row([column], [carried])
        by_resource[r][k].append(carried)
    used = Counter((r, k) for k, a, _ in before for r in epochs.tables.resources_of[a])
    for r, at in by_resource.items():
        kappa, most = epochs.windows[r]
        for k in range(min(at), max(at) + 1):
            window = range(k - kappa + 1, k + 1)
            inside = [column for epoch in window for column in at.get(epoch, ())]
            room = most - sum(used[r, epoch] for epoch in window)
            if sum(program.bounds[column][1] for column in inside) > room:
                program.row(inside, high=max(0, room))


class Copies(Program):
    """The general model, of ``last`` epochs from ``holdings``. ``rounds``: not all has to arrive; a delivery that
    is missing at the end is worth the more the nearer its chunk is (A*)."""

    def __init__(self, epochs: Epochs, last: int, holdings: Held, *, rounds: bool = False) -> None:
        super().__init__()
        self.epochs, self.last, self.holdings, self.rounds = epochs, last, holdings, rounds
        self.sent: dict[Sent, int] = {}
        tables, delay, far = epochs.tables, epochs.delay, epochs.far
        for c, (pre, post) in enumerate(tables.problem.collective.ends):
            ready = {n: 0 for n in range(tables.problem.ranks) if (c, n) in holdings.holds}
            ready |= {n: k for (chunk, n), k in holdings.coming.items() if chunk == c}
            lacking = sorted(post - pre - set(ready))
            if not lacking:
                continue
            soonest = np.min([far[n] + k for n, k in ready.items()], axis=0)
            goal = far[:, lacking].min(axis=1)
            into: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
            out: dict[tuple[int, int], list[int]] = defaultdict(list)
            for a in tables.arcs:
                u, v = tables.problem.arcs[a].src, tables.problem.arcs[a].dst
                latest = last - 1 if rounds else last - delay[a] - min(goal[v], last)
                if v not in ready and soonest[u] <= latest:
                    for k in range(int(soonest[u]), int(latest) + 1):
                        column = self.sent[k, a, c] = self.column(whole=True)
                        into[v][k + delay[a]].append(column)
                        out[u, k].append(column)
            at_end: dict[int, int] = {}  # B after the last epoch, of what is on its way too
            for n in range(tables.problem.ranks):
                self._sends(ready.get(n), n, into[n], out, at_end, demanded=n in lacking)
            if rounds:
                self._rewards(lacking, ready, at_end)
        loads(self, epochs, self.sent, holdings.before)

    def _sends(
        self, ready: int | None, n: int, into: dict[int, list[int]], out: dict[tuple[int, int], list[int]],
        at_end: dict[int, int], *, demanded: bool,
    ) -> None:  # fmt: skip
        """Add the rows of rank ``n``: B is what the rank had and what arrives; each copy sent is at most B. A rank
        that has the chunk, or will, gets no other."""
        buffer: list[int] = []
        for k in range(self.last + 1):
            if ready is None and (buffer or into.get(k)):
                must = demanded and k == self.last and not self.rounds
                holdings = self.column(1.0 / k if demanded else 0.0, low=1.0 if must else 0.0)
                self.row([holdings], [*buffer, *into.get(k, ())], low=0.0)
                buffer = [holdings]
                for column in out[n, k]:
                    self.row([column], buffer)
            if self.epochs.tables.problem.exclusive_reduction and len(out[n, k]) > 1:
                self.row(out[n, k], high=1.0)
        later = [column for k, some in into.items() if k > self.last for column in some]
        if buffer or later:
            at_end[n] = self.column()
            self.row([at_end[n]], [*buffer, *later], low=0.0)
        elif demanded and not self.rounds:
            self.row([self.column(high=0.0)], low=1.0, high=1.0)  # nothing arrives in so few epochs

    def _rewards(self, lacking: list[int], ready: dict[int, int], at_end: dict[int, int]) -> None:
        """Add a reward for each missing delivery by its nearest holder (logical edges by Floyd-Warshall)."""
        far = self.epochs.far
        for d in lacking:
            nearest = min(far[n, d] for n in ready)
            worth = [self.column(0.5 / self.last / (1.0 + nearest))]
            for n, column in at_end.items():
                if far[n, d] < nearest:
                    worth.append(self.column(0.5 / self.last / (1.0 + far[n, d])))
                    self.row(worth[-1:], [column])
            self.row(worth, high=1.0)


class Flows(Program):
    """The model without copies: the chunks of a source are one flow F; B is what a rank keeps, R what it reads.
    Linear; with integers where flows of several sources share links by halves."""

    def __init__(self, epochs: Epochs, last: int) -> None:
        super().__init__()
        tables, delay, far = epochs.tables, epochs.delay, epochs.far
        self.sent: dict[Sent, int] = {}
        self.read: dict[Sent, int] = {}  # epoch, rank, source
        demand: dict[int, Counter[int]] = defaultdict(Counter)
        for pre, post in tables.problem.collective.ends:
            if post - pre:
                demand[min(pre)][min(post - pre)] += 1
        for s, demanded in demand.items():
            into: dict[tuple[int, int], list[int]] = defaultdict(list)
            out: dict[tuple[int, int], list[int]] = defaultdict(list)
            goal = far[:, sorted(demanded)].min(axis=1)
            for a in tables.arcs:
                u, v = tables.problem.arcs[a].src, tables.problem.arcs[a].dst
                latest = last - delay[a] - min(goal[v], last)
                if v != s and far[s, u] <= latest:  # nothing has to come back to its source
                    for k in range(int(far[s, u]), int(latest) + 1):
                        column = self.sent[k, a, s] = self.column(high=inf, whole=True)
                        into[v, k + delay[a]].append(column)
                        out[u, k].append(column)
            for n in range(tables.problem.ranks):
                if n == s:  # it holds all from the start: what leaves it is what is read elsewhere
                    continue
                kept: list[int] = []
                for k in range(last + 1):
                    reads = list[int]()
                    if n in demanded and far[s, n] <= k:
                        reads = [self.column(1.0 / k, high=inf)]
                        self.read[k, n, s] = reads[0]
                    if kept or reads or into[n, k] or out[n, k]:
                        now = self.column(high=inf)
                        self.row([now, *reads, *out[n, k]], [*kept, *into[n, k]], low=0.0)
                        kept = [now]
                if n in demanded:
                    some = [column for (_, d, of), column in self.read.items() if d == n and of == s]
                    self.row(some, low=demanded[n], high=demanded[n])
        loads(self, replace(epochs, switches_copy=False), self.sent)  # F is of several chunks

    def chunks_sent(self, epochs: Epochs, values: Any) -> list[Sent]:
        """Return the path of every chunk, from its destination back, without flow that no path takes (the reverse
        pass). Of a flow in parts the largest that are left count, so that a resource may carry too much."""
        tables = epochs.tables
        left = {key: float(values[column]) for key, column in self.sent.items() if values[column] > NEARLY}
        reads = {key: float(values[column]) for key, column in self.read.items() if values[column] > NEARLY}
        into: dict[tuple[int, int], list[Sent]] = defaultdict(list)
        for k, a, s in left:
            into[tables.problem.arcs[a].dst, s].append((k, a, s))
        sent: list[Sent] = []
        for c, (pre, post) in enumerate(tables.problem.collective.ends):
            if not post - pre:
                continue
            s, at = min(pre), min(post - pre)
            read = max((key for key in reads if key[1:] == (at, s)), key=lambda key: (min(1.0, reads[key]), key))
            reads[read] -= 1.0
            k = read[0]
            while at != s:
                there = [key for key in into[at, s] if key[0] + epochs.delay[key[1]] <= k]
                step = max(
                    there, key=lambda key: (min(1.0, round(left[key], 6)), key[0] + epochs.delay[key[1]], key)
                )
                left[step] -= 1.0
                sent.append((step[0], step[1], c))
                k, at = step[0], tables.problem.arcs[step[1]].src
        return sent


@dataclass(frozen=True)
class Solved:
    """A solution. ``sent``: its transfers, none if none was found; ``epochs``: how many they take. ``fewest``: no
    schedule has fewer, proved. ``whole``: epochs are kept; else ``sent`` has parts of chunks, to be ordered."""

    sent: tuple[Sent, ...]
    epochs: int
    fewest: bool
    whole: bool = True


def variables(epochs: Epochs, last: int) -> int:
    """Return about how many variables a model of ``last`` epochs has: F of all chunks, or of all sources."""
    collective = epochs.tables.problem.collective
    flows = (
        len({min(pre) for pre in collective.pre})
        if copies_nothing(epochs.tables.problem)
        else len(collective.chunks)
    )
    return flows * len(epochs.tables.arcs) * last


def copies_nothing(problem: Problem) -> bool:
    """Return True if each chunk has one holder and at most one receiver, so that the linear program will do."""
    return all(len(pre) == 1 and len(post - pre) <= 1 for pre, post in problem.collective.ends)


def most(problem: Problem) -> int:
    """Return the number of variables past which no model is tried."""
    return MOST_FLOWS if copies_nothing(problem) else MOST_VARIABLES


def fewest_epochs(epochs: Epochs, upper: int, left: Callable[[], float], nodes: int = MOST_NODES) -> Solved:
    """Return a solution of the fewest epochs, by halving from the guess ``upper`` with any schedule in each, and
    of these the one that arrives earliest (the epoch search). ``left``: returns the seconds left."""
    flow, holdings = copies_nothing(epochs.tables.problem), _held(epochs.tables.problem)

    def ask(last: int, *, first: bool) -> tuple[Status, Solved | None]:
        model = Flows(epochs, last) if flow else Copies(epochs, last, holdings)
        status, values, _ = model.solve(left(), 0 if flow else nodes, first=first)
        parts = False
        if flow and status == "found" and any(abs(v - round(v)) > NEARLY for v in values):
            again, integers, _ = model.solve(left(), nodes, first=first)
            values, parts = (values, True) if again != "found" else (integers, False)
            status = "infeasible" if again == "infeasible" else status
        if status != "found":
            return status, None
        if isinstance(model, Flows):
            sent = model.chunks_sent(epochs, values)
        else:
            sent = [key for key, column in model.sent.items() if values[column] > 0.5]
        return status, Solved(tuple(sent), _end(epochs, sent), fewest=False, whole=not parts)

    low = int(
        max((epochs.far[min(p), d] for p, q in epochs.tables.problem.collective.ends for d in q - p), default=0)
    )
    best: Solved | None = None
    proved, last = low, max(low, upper)  # fewer than ``proved`` are too few
    while best is None or proved < best.epochs:
        status, solved = ask(last, first=True)
        if solved is not None and (best is None or (solved.whole, -solved.epochs) > (best.whole, -best.epochs)):
            best = solved
        if status == "infeasible":
            proved = last + 1
        elif solved is None or not solved.whole or left() <= 0.0:
            break
        last = (proved + best.epochs) // 2 if best is not None else ceil(1.5 * last)
    if best is None:
        return Solved((), 0, fewest=False)
    if best.whole and left() > 0.0:
        _, solved = ask(best.epochs, first=False)
        best = solved if solved is not None and solved.whole else best
    return Solved(best.sent, best.epochs, fewest=best.whole and proved >= best.epochs, whole=best.whole)


def in_rounds(epochs: Epochs, left: Callable[[], float], nodes: int = MOST_NODES) -> Solved:
    """Return the solution by rounds of a few epochs, each solved alone (A*); chunks under way come in the next."""
    last = max(epochs.longest, 4)
    holdings, sent, done = _held(epochs.tables.problem), list[Sent](), 0
    ends = tuple(epochs.tables.problem.collective.ends)
    while any(
        (c, d) not in holdings.holds and (c, d) not in holdings.coming
        for c, (p, q) in enumerate(ends)
        for d in q - p
    ):
        model = Copies(epochs, last, holdings, rounds=True)
        status, values, _ = model.solve(left(), nodes)
        now = [key for key, column in model.sent.items() if values[column] > 0.5] if status == "found" else []
        if not now:
            return Solved((), 0, fewest=False)
        sent += [(done + k, a, c) for k, a, c in now]
        arrives = dict(holdings.coming)
        for k, a, c in now:
            arrives[c, epochs.tables.problem.arcs[a].dst] = k + epochs.delay[a]
        holdings = Held(
            holdings.holds | {at for at, k in arrives.items() if k <= last},
            {at: k - last for at, k in arrives.items() if k > last},
            tuple((k - last, a, c) for k, a, c in (*holdings.before, *now) if k > last - epochs.longest),
        )
        done += last
    return Solved(tuple(sent), _end(epochs, sent), fewest=False)


def _held(problem: Problem) -> Held:
    return Held(frozenset((c, n) for c, pre in enumerate(problem.collective.pre) for n in pre), {})


def _end(epochs: Epochs, sent: Iterable[Sent]) -> int:
    return max((k + epochs.delay[a] for k, a, _ in sent), default=0)


def te_ccl_strategy(rates: Rates) -> Strategy:
    """Return a strategy that offers the quickest solution with epochs of the slowest link or of the fastest."""

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        nodes = scaled(MOST_NODES, search.budget.effort or 1.0)

        def left() -> float:
            seconds = search.remaining()
            return inf if seconds is None else 0.0 if search.out_of_time(0.05) else seconds

        for tau in epoch_seconds(tables, link_times):
            epochs = Epochs(tables, link_times, tau)
            if copies_nothing(tables.problem):
                guess = earliest_arrival(tables, epochs.rounded(), [0.0] * len(tables.resources))
                upper = ceil(guess.seconds / tau + NEARLY)
                whole = variables(epochs, upper) <= MOST_FLOWS
            elif variables(epochs, max(epochs.longest, 4)) <= MOST_VARIABLES:
                solved = in_rounds(epochs, left, nodes)
                yield from timed_routes(epochs, solved)
                upper = solved.epochs
                whole = upper > 0 and variables(epochs, upper) * upper <= MOST_WORK
            else:
                continue
            if whole and left() > 0.0:
                yield from timed_routes(epochs, fewest_epochs(epochs, upper, left, nodes))

    def refuses(problem: Problem, policy: Policy) -> str | None:
        tables = within_peers(problem)
        if tables is None or not tables.arcs:
            return stranded(problem, policy)
        taus = epoch_seconds(tables, rates.link_times(tables))
        copying = not copies_nothing(problem)
        epochs = [Epochs(tables, rates.link_times(tables), tau) for tau in taus]
        least = min(variables(e, max(e.longest, 4) if copying else int(e.far.max())) for e in epochs)
        if least <= most(problem):
            return None
        what = "round" if copying else "linear program"
        return f"its smallest {what} would have about {least:,} variables, more than {most(problem):,}"

    return quickest("te-ccl", rates, rounds, refuses)


def timed_routes(epochs: Epochs, solved: Solved) -> Iterator[TimedRoutes]:
    """Yield the routes that begin as soon as they can in the order of epochs, and, if whole, in the epochs."""
    tables, order = epochs.tables, sorted(solved.sent)
    if not order:
        return
    again = by_start(tables, epochs.link_times, [(c, a) for _, a, c in order], 1.0)
    lasting = [(1 - NEARLY) * seconds for seconds in epochs.link_times.bandwidth_seconds(tables)]
    yield replace(again, lasting=lasting)
    if solved.whole:
        start = {(c, a): k * epochs.tau for k, a, c in order}
        yield TimedRoutes(start, again.load, solved.epochs * epochs.tau, lasting)
