"""The quickest program of several schedules: a closed form prunes, dispatch says what to expect, and the two most
promising are lowered and simulated. Of a program step by step only its bytes are counted before that."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush

from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.tuning import FEW, LATE, Candidate, Effort, program_effort
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.request import Request
from hetesynth.engine.steady_programs import Dispatched, Dispatching, Pipeline, dispatchings
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule, along_trees
from hetesynth.model.target import Target
from hetesynth.model.words import microseconds

DISPATCHED = 20.0  # messages for each transfer of a schedule, to find how it is lowered
MOST_DISPATCHED = 500_000
MOST_TRANSFERS = 33_000  # of a schedule that is lowered step by step; four times as many are only dispatched
LOWERED, LOWERED_FAR = 2, 8  # programs; between sites
AS_EXPECTED = 1.05  # a program that takes longer says nothing of how good others are
STEP_BY_STEP = "step by step"
UNSURE = 0.8  # of what is expected between sites is possible
NEARLY = 1.03  # programs so near to the best are lowered: a third one, and one that is expected to be behind
NEAR_THE_LIMIT = 0.98  # a program that is so near ends the choice
NEAR = "the limit is near"
UNTIMED = "programs left untimed"  # what the clock decided


def step_candidate(solved: SolvedRequest, size: int) -> Candidate:
    """The schedule of the fewest steps as a candidate for ``size`` bytes."""
    label = f"fewest steps, c={solved.problem.collective.chunks_per_rank}"
    costs = CostOptions.of(solved.compilation.request)
    return Candidate.of(label, solved.strategy, solved.chunking, solved.problem, solved.solution, size, costs)


def step_program(
    solved: SolvedRequest, candidate: Candidate, size: int, deadline: Deadline, record: Decisions
) -> Ranked:
    """Return ``candidate``, made of ``solved``, with its quickest program."""
    specs = CandidateSpecs(solved.chunking.topology, solved.compilation.request, size)
    effort = program_effort(solved.compilation.budget, specs.topology.ranks)
    return ranked_programs(specs, [candidate], deadline, record, effort)[0]


@dataclass(frozen=True)
class Ranked:
    """A candidate, its program's seconds (None: not timed, or does not fit) and pipeline (None: step by step)."""

    candidate: Candidate
    seconds: float | None = None
    steady: Pipeline | None = None

    @property
    def way(self) -> str:
        """The way its program is lowered, in words."""
        return STEP_BY_STEP if self.steady is None else self.steady.label


Expected = tuple[float, Pipeline | None]
"""The seconds expected of a way to lower a schedule, and its pipeline; None: step by step."""


@dataclass(frozen=True)
class Route:
    """A schedule whose program may be the quickest, to be dispatched with one protocol. ``seconds``: expected of
    the program before dispatch. ``ways``: to lower the schedule, the best first. ``candidate``: returns the
    schedule verified; None: the judge does not accept it."""

    label: str
    dispatching: Dispatching
    seconds: float
    ways: Iterator[Expected]
    candidate: Callable[[], Candidate | None]

    @property
    def transfers(self) -> int:
        """The number of transfers of the schedule."""
        return len(self.dispatching.schedule.transfers)


def nobody(_: Ranked) -> None:
    """Ignore a program; the callback that tells nobody."""


@dataclass
class ProgramRanking:
    """The programs of routes for ``target``. ``limit``: seconds that no program is quicker than. After
    ``deadline`` only a first program is begun, and only where this ranking is ``alone``. ``told``: called with
    each program that was timed. ``before``: a program timed elsewhere, not lowered again. ``verified``: the first
    verified schedule, timed or not. With an ``effort`` that allots nothing a route is dispatched in one way."""

    specs: CandidateSpecs
    target: Target
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    limit: float = 0.0
    told: Callable[[Ranked], None] = nobody
    before: Ranked | None = None
    alone: bool = True
    ranked: list[Ranked] = field(default_factory=list)
    verified: Ranked | None = None
    dispatched: int = 0  # messages
    known: set[tuple[Schedule, Protocol]] = field(default_factory=set)  # what was dispatched

    @property
    def near_bound(self) -> bool:
        """True if the best program is so near to the limit that others are not worth trying."""
        return self.limit >= NEAR_THE_LIMIT * self.best_seconds

    @property
    def best_seconds(self) -> float:
        """The seconds of the quickest program so far; infinite where there is none."""
        return min((r.seconds or math.inf for r in self.ranked), default=math.inf)

    def run(self, routes: Iterable[Route]) -> None:
        """Add the programs of ``routes`` that may be the quickest to ``ranked``."""
        waiting: list[tuple[float, int, Route, Expected | None]] = [
            (route.seconds, place, route, None) for place, route in enumerate(routes)
        ]
        heapify(waiting)
        self.dispatched = 0
        expected: list[float] = []  # of what was lowered and took about as long
        lowered = 0
        while waiting:
            seconds, place, route, way = heappop(waiting)
            pipeline = None if way is None else way[1]
            name = route.label if pipeline is None else f"{route.label}: {pipeline.label}"
            possible = seconds * (UNSURE if self.specs.far else 1 / NEARLY)
            reason = self.reason_to_skip(possible, route.transfers if way is None else 0)
            if reason is None and pipeline is not None:
                most = LOWERED + (len(expected) == LOWERED and seconds <= NEARLY * expected[0])
                most = LOWERED_FAR if self.specs.far else most
                enough = len(expected) >= most or lowered >= LOWERED_FAR
                reason = f"more was expected of {lowered} others" if enough else None
            took: float | None = None
            what = route.dispatching.schedule, route.dispatching.protocol
            if reason is None and way is None and what in self.known:
                reason = "its schedule is that of another"
            if reason is not None:
                self.decisions.note(name, "skipped", reason)
            elif way is None:
                self.effort.spent += route.transfers
                self.known.add(what)
            else:
                took = self._lower(name, route, pipeline)
                lowered += took is not None and pipeline is not None
                if pipeline is not None and took is not None and took <= AS_EXPECTED * seconds:
                    expected.append(seconds)
            if reason is None and not (took is not None and self.specs.far):  # there other schedules tell more
                following = next(route.ways, None)
                if following is not None:
                    heappush(waiting, (following[0], place, route, following))

    def best_step_by_step(self, *others: Candidate) -> None:
        """Add the step-by-step programs of the quickest one's schedule and of ``others``, where these are small
        and may be quicker."""
        if self.target.format.table or not self.ranked:
            return
        done = {r.candidate.label for r in self.ranked if r.steady is None}
        tried = {c.label: c for c in (self.sorted[0].candidate, *others) if c.label not in done}
        for route in map(self.step_by_step, tried.values()):
            if route.transfers <= FEW and self.reason_to_skip(route.seconds, 0) is None:
                self._lower(f"{route.label}: {STEP_BY_STEP}", route, None)

    def reason_to_skip(self, seconds: float, transfers: int) -> str | None:
        """Return why a program of ``seconds`` expected, which dispatches ``transfers``, is not tried, or None."""
        if self.near_bound:
            return NEAR
        if seconds >= self.best_seconds:
            return (
                f"{microseconds(seconds)} are expected, the best program takes {microseconds(self.best_seconds)}"
            )
        if self.ranked and transfers:
            exceeded = self.effort.exceeded_by(transfers)
            if exceeded is not None:
                return exceeded
        first = self.alone and not self.ranked
        return LATE if not first and self.deadline.expired(UNTIMED) else None

    def _lower(self, name: str, route: Route, pipeline: Pipeline | None) -> float | None:
        """Keep the program of ``route`` lowered by ``pipeline`` and return its seconds; None: it is refused."""
        before, problem, schedule = self.before, route.dispatching.problem, route.dispatching.schedule
        if (
            before is not None
            and before.steady == pipeline
            and before.candidate.label == route.label
            and before.candidate.solution.schedule == schedule
        ):
            self.ranked.append(before)
            return before.seconds
        candidate = route.candidate()
        if candidate is None:
            self.decisions.note(name, "refused", "its schedule was not accepted")
            return None
        self.verified = self.verified or Ranked(candidate, steady=pipeline)
        options, size = self.specs.lowering_for(self.target), self.specs.size
        lowering = Lowering(self.specs.topology, problem, schedule, size, options, self.specs.costs)
        if self.target.format.plan and not isinstance(pipeline, Dispatched):
            quick = lowering.quick_plan(pipeline)
            seconds = None if quick is None else quick.seconds
        elif pipeline is None:
            seconds = lowering.seconds()
        else:
            predictor = lowering.predictor(pipeline)
            seconds = None if predictor is None else predictor.timeline(size).makespan
        if seconds is None:
            self.decisions.note(name, "refused", "it does not fit the target")
            return None
        self.decisions.note(name, "tried", microseconds(seconds))
        self.keep(Ranked(candidate, seconds, pipeline))
        return seconds

    def keep(self, ranked: Ranked) -> None:
        """Add a program that was timed, if it is the quickest of its candidate."""
        others = [r for r in self.ranked if r.candidate.label == ranked.candidate.label]
        self.told(ranked)
        if any((r.seconds or 0.0) <= (ranked.seconds or 0.0) for r in others):
            return
        self.ranked = [*(r for r in self.ranked if r not in others), ranked]
        best = self.sorted[0].steady  # only its program is kept in memory
        for steady in (r.steady for r in self.ranked):
            if steady is not None and steady is not best:
                steady.forget()

    @property
    def sorted(self) -> list[Ranked]:
        """The timed programs, the quickest first."""
        return sorted(self.ranked, key=lambda r: r.seconds or math.inf)

    def dispatchings(self, problem: Problem, schedule: Schedule) -> list[Dispatching]:
        """Return ``schedule`` to be dispatched for the size and the target, with each protocol that may pay."""
        costs = self.specs.costs.costs(self.specs.topology)
        options = self.specs.lowering_for(self.target)
        return dispatchings(problem, schedule, costs, options, self.specs.size, self.best_seconds)

    def ways(self, dispatching: Dispatching) -> Iterator[Expected]:
        """Yield the most promising arrangements, none where chunks do not take trees; of a table its one way."""
        if self.target.format.table:
            yield dispatching.least_seconds, None
            return
        of_all, own = DISPATCHED * self.effort.allotted, DISPATCHED * len(dispatching.schedule.transfers)
        third = (min(of_all, MOST_DISPATCHED) - self.dispatched) / 3
        most = max(min(own, MOST_DISPATCHED), third) if of_all else 0
        with suppress(HetesynthError):
            arrangements, spent = dispatching.best(most)
            self.dispatched += spent
            for seconds, arrangement in arrangements:
                yield seconds, dispatching.pipeline(arrangement)

    def routes(self, candidate: Candidate) -> Iterator[Route]:
        """Yield the routes of ``candidate``: dispatched with each protocol, or else step by step."""
        problem, schedule = candidate.problem, candidate.solution.schedule
        many = len(schedule.transfers)
        if many > 4 * MOST_TRANSFERS:
            self.decisions.note(
                candidate.label, "skipped", f"{many:,} transfers are more than {4 * MOST_TRANSFERS:,}"
            )
            return
        dispatched: list[Route] = []
        if not self.target.format.table and along_trees(schedule, problem.arcs):
            with suppress(HetesynthError):  # plans ask more of trees
                for dispatching in self.dispatchings(problem, schedule):
                    seconds, ways = dispatching.estimate, self.ways(dispatching)
                    dispatched.append(Route(candidate.label, dispatching, seconds, ways, lambda: candidate))
        if not dispatched and many <= MOST_TRANSFERS:
            dispatched = [self.step_by_step(candidate)]
        yield from dispatched

    def step_by_step(self, candidate: Candidate) -> Route:
        """Return the route that lowers the schedule of ``candidate`` step by step."""
        dispatching = self.dispatchings(candidate.problem, candidate.solution.schedule)[0]
        least = self.specs.costs.launch(self.specs.topology) + dispatching.least_seconds
        return Route(candidate.label, dispatching, least, iter([(least, None)]), lambda: candidate)

    def of(self, candidates: Sequence[Candidate]) -> list[Ranked]:
        """Return ``candidates`` by the time of their programs; those that are not timed follow."""
        kept: dict[Schedule, Candidate] = {}
        for c in candidates:
            if kept.setdefault(c.solution.schedule, c) is not c:
                self.decisions.note(c.label, "skipped", "its schedule is that of another")
        self.run(route for c in kept.values() for route in self.routes(c))
        if not self.ranked:  # none that was dispatched fits
            self.known.clear()
            self.run(self.step_by_step(c) for s, c in kept.items() if len(s.transfers) <= MOST_TRANSFERS)
        self.best_step_by_step(*candidates[:1])
        timed = {id(r.candidate) for r in self.ranked}
        untimed = [Ranked(c) for c in candidates if id(c) not in timed]
        return [*self.sorted, *untimed]


def timed_target(request: Request) -> Target | None:
    """Return the target whose programs are timed: the first in MSCCL XML, else the first; None: there is none."""
    targets = (target for target in request.targets if target.format.program)
    return None if request.schedule_only else next(targets, next(iter(request.targets), None))


def ranked_programs(
    specs: CandidateSpecs, candidates: Sequence[Candidate], until: Deadline, decisions: Decisions, effort: Effort
) -> list[Ranked]:
    """Return the candidates by the time of their programs for ``timed_target``; as they are without a target."""
    target = timed_target(specs.request)
    if target is None:
        return [Ranked(candidate) for candidate in candidates]
    return ProgramRanking(specs, target, until, decisions.inside("programs"), effort).of(candidates)
