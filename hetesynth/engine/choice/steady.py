"""Steady-state candidates: the optimal packing with some numbers of chunks, as programs that keep its promise.
Numbers are tried in the order of what their rounding leaves of the optimum, until a program is near enough to the
bound or the effort, which is counted in operations, is spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from heapq import heapify, heappop, heappush

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import DISPATCHED, Ranked
from hetesynth.engine.choice.tuning import LATE, UNTRIED, Candidate, Effort, Pipelined
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.problem import verified_solver
from hetesynth.engine.steady_programs import Dispatched, DispatchedPlan, Dispatching, dispatchings
from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import OVER_EFFORT, Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.model.words import microseconds
from hetesynth.search.collectives import DUAL, invert
from hetesynth.search.packing.rounding import WholePacking
from hetesynth.search.registry import row_of, timed_strategies
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution
from hetesynth.search.steady_state import refuses, schedule_of, whole_packings

NAME = "steady-state"
NEAR_THE_LIMIT = 0.98  # a program that is so near ends the choice
PEERS = 18  # of a rank where every chunk is for one, relays included: 24 to 64 GPUs lose with 12, 15 and 22
COUNTS: tuple[int, ...] = (1, 2, 3, 4)  # trees of each root
ROOTED_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # trees of a broadcast or a reduce
REDUCED = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # of an allreduce: 64 thread blocks hold about 16


@dataclass(frozen=True)
class Plan:
    """A packing with ``trees`` trees, or as many of each root, and one arrangement of its program or plan.
    ``solved``: is asked for the verified ``schedule``. ``seconds_per_byte``: of the fullest resource."""

    seconds_per_byte: float
    chunks: int
    trees: int
    solved: Callable[[], Solution | Infeasible | GaveUp]
    problem: Problem
    schedule: Schedule
    pipeline: Dispatched | DispatchedPlan | None  # None: a table
    seconds: float  # expected
    peers: int | None = None
    stars: bool = False

    @property
    def label(self) -> str:
        """What it is called."""
        return label_of(self.chunks, self.trees, self.peers, stars=self.stars)

    @property
    def name(self) -> str:
        """With its arrangement."""
        return self.label if self.pipeline is None else f"{self.label}: {self.pipeline.label}"


def label_of(chunks: int, trees: int, peers: int | None = None, *, stars: bool = False) -> str:
    """What a candidate with these numbers is called. ``stars``: its trees are of few levels."""
    of_trees = (f", {trees} trees" if trees != chunks else "") + (", stars" if stars else "")
    return f"{NAME}, c={chunks}{of_trees}{'' if peers is None else f', {peers} peers'}"


def limited(strategy: Strategy, peers: int) -> Strategy:
    """``strategy`` on the problem in which a rank sends to, and receives from, no more than ``peers`` others."""

    def improve(search: Search) -> None:
        narrow = replace(
            search, problem=replace(search.problem, max_peers=peers), oracle=lambda _problem, _schedule: []
        )  # its offer is judged
        strategy.improve(narrow)
        if narrow.best is not None:
            search.offer(narrow.best, NAME)

    return replace(strategy, improve=improve)


def along(packed: WholePacking) -> Strategy:
    """A strategy that offers the schedule along the trees of ``packed``."""

    def improve(search: Search) -> None:
        search.offer(schedule_of(search.problem, packed.carriers), NAME)

    return Strategy(NAME, improve, whole=True)


def schedule_along(problem: Problem, packing: WholePacking) -> Schedule:
    """The schedule along the trees of ``packing``."""
    if problem.collective.name not in DUAL:
        return schedule_of(problem, packing.carriers)
    dual, recover = invert(problem)
    return recover(schedule_of(dual, packing.carriers))


def copied(problem: Problem) -> Problem:
    """The problem, or of a reduction to one rank for each chunk its dual."""
    return invert(problem)[0] if problem.collective.name in DUAL else problem


def numbers_of_peers(servers: Sequence[str], blocks: int, fewest: int) -> tuple[int | None, ...]:
    """To how many others a rank may send, the best number first; None: to all, of which what comes from one and
    goes to another may share one of ``blocks``. Over relays each takes two, and a rank needs the others of its
    server and a rank of every other, or ``fewest``."""
    sizes = Counter(servers)
    few = max(fewest, max(sizes.values()) + len(sizes) - 2)
    every: tuple[int | None, ...] = (None,) if len(servers) - 1 < blocks else ()
    narrow = (few,) if few < len(servers) - 1 and 2 * few <= blocks else ()
    return every + narrow or (None,)


NEAR = "the limit is near"


@dataclass(frozen=True)
class Turn:
    """What may be tried: a packing, estimated, or its ``plan``, and the further ``plans`` of the packing, which
    are looked at one by one."""

    label: str
    seconds: float
    work: float
    plans: Iterator[Plan]
    plan: Plan | None = None

    def of(self, plan: Plan, work: float) -> Turn:
        """That of the next plan."""
        return Turn(plan.name, plan.seconds, work, self.plans, plan)


@dataclass
class SteadyCandidates:
    """Tries them. ``limit``: seconds that nothing is quicker than. Nothing is begun after ``deadline``. ``told``:
    of each program that was timed. ``verified``: the first verified schedule, timed or not."""

    specs: CandidateSpecs
    target: Target
    limit: float
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    told: Callable[[Ranked], None]
    before: Ranked | None = None  # timed elsewhere, and not lowered again where its turn comes
    ranked: list[Ranked] = field(default_factory=list)
    verified: Ranked | None = None
    dispatched: int = 0  # messages

    @property
    def near_bound(self) -> bool:
        """Whether the best program is as near to the limit as makes others not worth trying."""
        best = self.best_seconds
        return bool(best) and self.limit >= NEAR_THE_LIMIT * best

    @property
    def best_seconds(self) -> float:
        """Of the quickest program so far; 0 where none is."""
        return min((r.seconds or 0.0 for r in self.ranked), default=0.0)

    def try_all(self) -> None:
        """Try the plans in their order, until a program is near the limit or the effort or the time is spent."""
        if not self.specs.personalized:
            self._try(self._packings())
            return
        for paths in self._exchanges():
            self._try([paths])

    def _try(self, packings: Iterable[Turn]) -> None:
        """The quickest first: a packing by its estimate, dispatched when its turn comes, then by its best plan."""
        waiting = [(turn.seconds, place, turn) for place, turn in enumerate(packings)]
        heapify(waiting)
        while waiting:
            _, place, turn = heappop(waiting)
            reason = NEAR if self.near_bound else self._ended(turn)
            if reason is not None:
                self.decisions.note(turn.label, "skipped", reason)
            elif turn.plan is not None:
                self.try_plan(turn.plan)
            if reason is None or OVER_EFFORT in reason:
                following = next(turn.plans, None)
                if following is not None:
                    heappush(waiting, (following.seconds, place, turn.of(following, self._work(following))))

    def _late(self, *, first: bool) -> bool:
        """Whether the deadline has passed; of nothing but this strategy the ``first`` is tried all the same."""
        alone = self.specs.request.strategy == NAME and first
        return not alone and self.deadline.expired(UNTRIED)

    def _ended(self, turn: Turn) -> str | None:
        if self.ranked:
            exceeded = self.effort.exceeded_by(turn.work)
            if exceeded is not None:
                return exceeded
            best = self.best_seconds
            if turn.seconds >= best:
                return f"{microseconds(turn.seconds)} are expected, the best program takes {microseconds(best)}"
        return LATE if self._late(first=not self.ranked) else None

    def _work(self, plan: Plan) -> float:
        if plan.pipeline is None:
            return 3.0 * self.specs.transfers(plan.chunks)
        each = 0.5 if isinstance(plan.pipeline, DispatchedPlan) else 1.0  # a plan has half as many operations
        return each * plan.pipeline.arrangement.pieces * self.specs.transfers(plan.chunks)

    def _packings(self) -> Iterator[Turn]:
        """Different ones, by numbers of trees, until twice as many as load the fullest resource with its share."""
        policy, enough, seen = self.specs.request.policy, math.inf, set[Schedule]()
        for place, (chunks, trees) in enumerate(self._counts()):
            if trees > enough:
                break
            if self._late(first=place == 0):
                self.decisions.note(label_of(chunks, chunks), "skipped", LATE)
                continue
            problem = self.specs.factory.problem(self.specs.paper_chunking(chunks), chunks)
            packed = copied(problem)
            reason = refuses(packed, policy)
            if reason is not None:
                self.decisions.note(NAME, "refused", reason)
                break
            question = packed, self.specs.rates(chunks), policy, self.deadline, trees, self.connections(trees)
            packings = whole_packings(*question, stars=True)
            self.limit = max(self.limit, packings[0].least * self.specs.size)
            if packings[0].near_bound:
                enough = min(enough, 2 * trees)
            for packing in packings:
                schedule = schedule_along(problem, packing)
                if schedule in seen:
                    continue
                seen.add(schedule)
                solved = cache(partial(self.solved_by, problem, along(packing)))
                stars = packing is not packings[0]
                plan = partial(Plan, packing.seconds, chunks, trees, solved, stars=stars)
                label, work = label_of(chunks, trees, stars=stars), len(schedule.transfers)
                for dispatching in self.dispatchings(problem, schedule):
                    yield Turn(label, dispatching.estimate, work, self.arranged(plan, dispatching))

    def connections(self, trees: int) -> int | None:
        """How many a rank may have for every tree to have its own; None where they are too many in any case."""
        most, ranks = self.target.thread_blocks - 1, self.specs.topology.ranks
        ends = {"allgather": 2 * ranks, "reducescatter": 2 * ranks, "allreduce": 4}
        many = trees * ends.get(self.specs.request.collective, 2) * (ranks - 1) > most * ranks
        return None if many else most

    def _counts(self) -> list[tuple[int, int]]:
        """Chunks per rank, and trees of each root, or in all where any root will do."""
        request, ranks = self.specs.request, self.specs.topology.ranks
        fixed = request.fixed_chunks
        reduced = request.collective == "allreduce"
        numbers = COUNTS
        if reduced:
            numbers = tuple(sorted({*REDUCED, ranks}))
        elif request.collective in ("broadcast", "reduce"):
            numbers = ROOTED_COUNTS
        if fixed is not None:
            chunks = fixed * ranks if reduced else fixed
            return [(fixed, trees) for trees in sorted({*numbers, chunks}) if chunks % trees == 0]
        counts = [(trees // math.gcd(trees, ranks) if reduced else trees, trees) for trees in numbers]
        return self._fitting(counts)

    def _fitting(self, counts: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Those whose chunks are neither too small nor too many; the first in any case."""
        fitting = [
            (chunks, trees)
            for chunks, trees in counts
            if self.specs.chunk_bytes(chunks) >= 4_096 and self.specs.transfers(chunks) <= 20_000
        ]
        return fitting or counts[:1]

    def _exchanges(self) -> Iterator[Turn]:
        """Balanced paths, where every chunk is for one rank; by numbers of chunks and of peers."""
        request, counts = self.specs.request, (1, 2)
        fixed, blocks = request.fixed_chunks, self.target.thread_blocks - 1
        peers: tuple[int | None, ...] = (None,)  # as many as the request leaves
        if request.max_peers is None:
            peers = numbers_of_peers(self.specs.topology.servers, blocks, PEERS)
        for place, (chunks, few) in enumerate(
            (chunks, few)
            for chunks, _ in self._fitting([(c, c) for c in (counts if fixed is None else (fixed,))])
            for few in peers
        ):
            label = label_of(chunks, chunks, few)
            reason = NEAR if self.near_bound else None
            if reason is None and self.ranked:
                reason = self.effort.exceeded_by(4 * self.specs.transfers(chunks))  # balancing takes so long
            if reason is not None:
                self.decisions.note(label, "skipped", reason)
            elif self._late(first=place == 0):
                self.decisions.note(label, "skipped", LATE)
            else:
                yield from self._exchange(label, chunks, few)

    def _exchange(self, label: str, chunks: int, few: int | None) -> Iterator[Turn]:
        """That of paths for ``chunks`` chunks per rank over ``few`` peers of each."""
        problem = self.specs.factory.problem(self.specs.paper_chunking(chunks), chunks)
        _, strategy = timed_strategies(row_of("exchange"), self.specs.rates(chunks))[0]
        solved = cache(partial(self.solved_by, problem, strategy if few is None else limited(strategy, few)))
        try:
            solution = solved()
        except HetesynthError as error:
            self.decisions.note(label, "refused", error.message)
            return
        if isinstance(solution, Solution):
            dispatching = self.dispatchings(problem, solution.schedule)[0]
            plan = partial(Plan, dispatching.load, chunks, chunks, solved, peers=few)
            work, plans = len(solution.schedule.transfers), self.arranged(plan, dispatching)
            yield Turn(label, dispatching.least_seconds, work, plans)

    def dispatchings(self, problem: Problem, schedule: Schedule) -> list[Dispatching]:
        """``schedule``, to be dispatched for the size and the target."""
        options = self.specs.lowering_for(self.target)
        return dispatchings(problem, schedule, self._costs, options, self.specs.size)

    def arranged(self, plan: Callable[..., Plan], dispatching: Dispatching) -> Iterator[Plan]:
        """A plan for each of the arrangements of the program that are expected to be quickest."""
        problem, schedule = dispatching.problem, dispatching.schedule
        if self.target.format.table:
            yield plan(problem, schedule, None, dispatching.least_seconds)
            return
        messages = min(DISPATCHED * self.effort.allotted, 500_000)
        with suppress(HetesynthError):  # chunks that do not take trees
            arrangements, spent = dispatching.best((messages - self.dispatched) / 3)
            self.dispatched += spent
            for seconds, arrangement in arrangements:
                yield plan(problem, schedule, dispatching.pipeline(arrangement), seconds)

    @cached_property
    def _costs(self) -> Costs:
        return self.specs.costs.costs(self.specs.topology)

    def solved_by(self, problem: Problem, strategy: Strategy) -> Solution | Infeasible | GaveUp:
        """What ``strategy`` finds, verified."""
        request = self.specs.request
        return verified_solver(strategy, Budget(seed=request.budget.seed), request.policy).solve(problem)

    def try_plan(self, plan: Plan) -> None:
        """Lower the packing and keep its program, if it is the quickest of its packing."""
        before = self.before
        if (
            before is not None
            and before.steady == plan.pipeline
            and before.candidate.label == plan.label
            and before.candidate.solution.schedule == plan.schedule
        ):
            self.effort.spent += self._work(plan)
            self.ranked.append(before)
            return
        solution = plan.solved()
        if not isinstance(solution, Solution):
            self.decisions.note(plan.name, "refused", "its schedule was not accepted")
            return
        topology, size, pipeline = self.specs.topology, self.specs.size, plan.pipeline
        costs, options = self.specs.costs, self.specs.lowering_for(self.target)
        problem = plan.problem
        pipelined = Pipelined(self.specs.latency(problem, solution.schedule), plan.seconds_per_byte, plan.trees)
        chunking = self.specs.paper_chunking(plan.chunks)
        candidate = Candidate.of(plan.label, NAME, chunking, problem, solution, size, costs, pipelined)
        self.verified = self.verified or Ranked(candidate, steady=plan.pipeline)
        self.effort.spent += self._work(plan)
        seconds: float | None = None
        lowering = Lowering(topology, problem, plan.schedule, size, options, costs)
        if isinstance(pipeline, DispatchedPlan):
            quick = lowering.quick_plan(pipeline)
            seconds = None if quick is None else quick.seconds
        elif pipeline is None:
            seconds = lowering.seconds()
        else:
            predictor = lowering.predictor(pipeline)
            seconds = None if predictor is None else predictor.timeline(size).makespan
        if seconds is None:
            self.decisions.note(plan.name, "refused", "it does not fit the target")
            return
        self.decisions.note(plan.name, "tried", microseconds(seconds))
        ranked = Ranked(candidate, seconds, plan.pipeline)
        self.told(ranked)
        others = [r for r in self.ranked if r.candidate.label == plan.label]
        if all(seconds < (r.seconds or 0.0) for r in others):
            self.ranked = [r for r in self.ranked if r not in others]
            self.ranked.append(ranked)
        best = min(self.ranked, key=lambda r: r.seconds or 0.0).steady  # only its program is kept in memory
        for steady in (pipeline, *(r.steady for r in self.ranked)):
            if isinstance(steady, Dispatched) and steady is not best:
                steady.forget()
