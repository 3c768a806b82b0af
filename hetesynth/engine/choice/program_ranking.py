"""What users run is the program, so the programs of several schedules are timed: step by step, in steady state and
with each kind of throttling.

A schedule's own time says what its order of steps is worth; thread blocks keep that order only in part, more so
where NICs keep their peers (rings, server rings), so the two rankings differ.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from hetesynth.engine import fused_receives
from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.tuning import Candidate, Effort, efforts
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.engine.request import Request
from hetesynth.engine.steady_programs import Pipeline, SteadyState, quickest_plan, steady_predictor
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions, Verdict
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.runtime_costs import RuntimeCosts
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.model.words import microseconds
from hetesynth.policy import DEFAULT, Policy
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.programs.msccl.throttling import AFTERS, Throttling
from hetesynth.programs.steady_state.lower import arrangements
from hetesynth.search import registry


def step_candidate(solved: SolvedRequest, size: int) -> Candidate:
    """The schedule of the fewest steps as a candidate for ``size`` bytes."""
    request, topology = solved.compilation.request, solved.chunking.topology
    predictor = SchedulePredictor(topology, solved.problem, solved.solution.schedule, CostOptions.of(request))
    chunks = solved.problem.collective.chunks_per_rank
    return Candidate(
        f"fewest steps, c={chunks}", solved.strategy, chunks, solved.chunking, solved.problem, solved.solution,
        predictor, predictor.timeline(size).makespan,
    )  # fmt: skip


def step_program(
    solved: SolvedRequest, candidate: Candidate, size: int, deadline: Deadline, record: Decisions
) -> Ranked:
    """``candidate``, made of ``solved``, with its quickest program."""
    request, topology = solved.compilation.request, solved.chunking.topology
    allotted = efforts(solved.compilation.budget, topology.ranks, request.policy.effort).steady.allotted
    return ranked_programs(topology, request, [candidate], size, deadline, record, Effort(allotted))[0]


LATE = "the time budget is over"


@dataclass(frozen=True)
class Ranked:
    """A candidate, how its program is throttled or runs as a pipeline, and what that takes; None: not timed, or
    it fits no target."""

    candidate: Candidate
    throttling: Throttling | None = None
    seconds: float | None = None
    steady: Pipeline | None = None

    @property
    def way(self) -> str:
        """How its program is lowered, in words."""
        if self.steady is not None:
            return self.steady.label
        return "step by step" if self.throttling is None else f"throttled after {self.throttling.after}"


@dataclass
class ProgramRanking:
    """Times the programs of candidates for ``size`` bytes, lowered as ``options`` say.

    After ``deadline`` only a first one is timed. Programs that are not timed are
    taken to lose as much of their schedule's time as the worst of the others; those that do not fit the target
    come last.
    """

    topology: Topology
    size: int
    options: LoweringOptions
    deadline: Deadline | None = None
    policy: Policy = DEFAULT
    decisions: Decisions = field(default_factory=Decisions)
    runtime: RuntimeCosts | None = None
    effort: Effort = field(default_factory=lambda: Effort(math.inf))

    @property
    def _limits(self) -> AutotunePolicy:
        return self.policy.autotune

    @property
    def _costs(self) -> CostOptions:
        return CostOptions(policy=self.policy, runtime=self.runtime)

    def of(self, candidates: Sequence[Candidate]) -> list[Ranked]:
        """``candidates`` by the time of their programs."""
        timed, untimed = self._plain(candidates)
        if not timed:
            return [Ranked(c) for c in candidates]
        timed = self._throttled(candidates, timed)
        loss = max(
            self._limits.untimed_loss, *(seconds / candidates[place].seconds for seconds, place, _ in timed)
        )
        by_time = [(seconds, place, _ranked(candidates[place], way, seconds)) for seconds, place, way in timed]
        by_time += [(candidates[place].seconds * loss, place, Ranked(candidates[place])) for place in untimed]
        by_time.sort(key=lambda entry: entry[:2])
        misfits = set(range(len(candidates))) - {place for _, place, _ in by_time}
        return [*(ranked for _, _, ranked in by_time), *(Ranked(candidates[place]) for place in sorted(misfits))]

    def _plain(self, candidates: Sequence[Candidate]) -> tuple[list[_Timed], list[int]]:
        """The programs without throttling, in steady state or not, the quickest first, and what was not timed."""
        timed: list[_Timed] = []
        untimed: list[int] = []
        transfers_timed = 0
        keeping = {row.name for row in registry.keeping_time()}
        first, places = self._first(candidates), range(len(candidates))
        for place in sorted(places, key=lambda i: (i != first, candidates[i].name not in keeping, i)):
            c = candidates[place]
            transfers = len(c.solution.schedule.transfers)
            reason = self._untimed(c, transfers_timed, first=not (timed or untimed))
            if reason is not None:
                self.decisions.note(c.label, "skipped", reason)
                untimed.append(place)
                continue
            transfers_timed += transfers
            self.effort.spend(self._work(transfers))
            seconds = self.seconds(c, self.options)
            verdict: Verdict = "refused" if seconds is None else "tried"
            why = "its program does not fit" if seconds is None else microseconds(seconds)
            self.decisions.note(c.label, verdict, why)
            ways: list[_Timed] = [] if seconds is None else [(seconds, place, None)]
            timed += sorted([*ways, *self._piped(c, place)], key=lambda entry: entry[0])[:1]
        timed.sort(key=lambda entry: entry[:2])
        return timed, untimed

    def _first(self, candidates: Sequence[Candidate]) -> int:
        """Which is timed first: the quickest schedule; where not both can be timed, of those about as quick that
        with the fewest transfers, as they cost a program time."""
        transfers = [len(c.solution.schedule.transfers) for c in candidates]
        most = (1.0 + self._limits.programs_alike) * candidates[0].seconds
        fewest = min((i for i, c in enumerate(candidates) if c.seconds <= most), key=transfers.__getitem__)
        both = self._work(transfers[0] + transfers[fewest])
        return fewest if self.effort.spent + both > self.effort.allotted else 0

    def _piped(self, candidate: Candidate, place: int) -> list[_Timed]:
        """Its program in steady state; none where that is not tried, or does not fit."""
        if self.options.target.format.plan:
            return []  # of plans the quicker lowering is timed anyway
        operations = (self.effort.allotted - self.effort.spent) / self.policy.effort.operation
        costs = self._costs.costs(self.topology)
        problem, schedule = candidate.problem, candidate.solution.schedule
        listed = arrangements(problem, schedule, costs, self.options, self.size)
        fitting = (a for a in listed if a.pieces * len(schedule.transfers) <= operations)
        arrangement = min(fitting, key=lambda a: (a.division != "own", a.estimate), default=None)
        label = f"{candidate.label}, in steady state"
        if arrangement is None:
            self.decisions.note(label, "skipped", "its programs are too long for the effort")
            return []
        if self._past():
            self.decisions.note(label, "skipped", LATE)
            return []
        self.effort.spend(self.policy.effort.operation * arrangement.pieces * len(schedule.transfers))
        steady = SteadyState(arrangement, costs)
        predictor = steady_predictor(self.topology, problem, schedule, steady, self.options, self._costs)
        if predictor is None:
            self.decisions.note(label, "refused", "its program does not fit")
            return []
        seconds = predictor.timeline(self.size).makespan
        steady.latest.forget()
        self.decisions.note(label, "tried", f"{steady.label}: {microseconds(seconds)}")
        return [(seconds, place, steady)]

    def _untimed(self, candidate: Candidate, transfers_timed: int, *, first: bool) -> str | None:
        """Why a program is not timed, or None."""
        limits, transfers = self._limits, len(candidate.solution.schedule.transfers)
        if transfers > limits.max_program_transfers:
            return f"{transfers:,} transfers are more than {limits.max_program_transfers:,}"
        if transfers_timed + transfers > limits.max_programs_transfers:
            return f"with those before, {transfers:,} transfers are more than {limits.max_programs_transfers:,}"
        exceeded = self.effort.exceeded_by(self._work(transfers))
        if exceeded is not None:
            return exceeded
        return LATE if not first and self._past() else None

    def _throttled(self, candidates: Sequence[Candidate], timed: list[_Timed]) -> list[_Timed]:
        """The same with the best throttling where a schedule is quicker than the best program; sorted."""
        ranked = list(timed)
        least, spent = min((seconds for seconds, _, _ in timed), default=0.0), 0
        for i, (quickest, place, way) in enumerate(timed):
            c = candidates[place]
            transfers = len(c.solution.schedule.transfers)
            reason = self._unthrottled(c, transfers, least, spent)
            if reason is not None:
                self.decisions.note(f"{c.label}, throttled", "skipped", reason)
                continue
            spent += transfers
            self.effort.spend(len(AFTERS) * self._work(transfers))
            throttling, seconds = self.quickest(c, quickest)
            how = (
                "no throttling is quicker"
                if throttling is None
                else f"after {throttling.after}: {microseconds(seconds)}"
            )
            self.decisions.note(f"{c.label}, throttled", "tried", how)
            ranked[i] = (seconds, place, throttling or way)
            least = min(least, seconds)
        ranked.sort(key=lambda entry: entry[:2])
        return ranked

    def _unthrottled(self, candidate: Candidate, transfers: int, least: float, spent: int) -> str | None:
        """Why throttling is not tried, or None."""
        if self.options.target.format.plan:
            return "plans are not throttled"
        most = self._limits.max_throttled_transfers
        if candidate.seconds >= least:
            return f"its schedule takes {microseconds(candidate.seconds)}, the best program {microseconds(least)}"
        if spent + transfers > most:
            return f"with those before, {spent + transfers:,} transfers are more than {most:,}"
        exceeded = self.effort.exceeded_by(len(AFTERS) * self._work(transfers))
        return exceeded or (LATE if self._past() else None)

    def _work(self, transfers: int) -> float:
        effort = self.policy.effort
        return (effort.program if not self.options.target.format.plan else effort.plan) * transfers

    def _past(self) -> bool:
        return self.deadline is not None and self.deadline.expired("programs left untimed")

    def quickest(self, candidate: Candidate, least: float) -> tuple[Throttling | None, float]:
        """The throttling with which the program is quickest, if quicker than in ``least`` seconds, and its
        seconds."""
        best: tuple[Throttling | None, float] = (None, least)
        schedule, costs = candidate.solution.schedule, self._costs
        for throttling in throttlings(self.topology, candidate.problem, schedule, self.size, self.options, costs):
            seconds = self.seconds(candidate, replace(self.options, throttling=throttling))
            if seconds is not None and seconds < best[1]:
                best = (throttling, seconds)
        return best

    def like(self, candidate: Candidate, way: str, after: str | None) -> Ranked:
        """``candidate`` lowered as another one was: along its trees in steady state, throttled, or step by step,
        with the time of its program."""
        if way == "trees":
            timed = [_ranked(candidate, steady, seconds) for seconds, _, steady in self._piped(candidate, 0)]
            return timed[0] if timed else Ranked(candidate)
        throttling = None
        if way == "throttled" and not self.options.target.format.plan:
            schedule, costs = candidate.solution.schedule, self._costs
            listed = throttlings(self.topology, candidate.problem, schedule, self.size, self.options, costs)
            throttling = next((t for t in listed if t.after == after), None)
        return Ranked(candidate, throttling, self.seconds(candidate, replace(self.options, throttling=throttling)))

    def seconds(self, candidate: Candidate, options: LoweringOptions) -> float | None:
        """What the program takes, with fused receives or without, or the plan, in steady state or not; None where
        the target cannot hold it."""
        schedule = candidate.solution.schedule
        if options.target.format.plan:
            quick = quickest_plan(self.topology, candidate.problem, schedule, self.size, options, self._costs)
            return None if quick is None else quick.seconds
        return fused_receives.seconds(self.topology, candidate.problem, schedule, self.size, options, self._costs)


_Timed = tuple[float, int, Throttling | Pipeline | None]
"""Seconds of a program, the place of its candidate, how it is throttled or runs in steady state."""


def _ranked(candidate: Candidate, way: Throttling | Pipeline | None, seconds: float) -> Ranked:
    if isinstance(way, Throttling):
        return Ranked(candidate, way, seconds)
    return Ranked(candidate, None, seconds, way)


def throttlings(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> Iterator[Throttling]:  # fmt: skip
    """Every kind of throttling, by the time that ``schedule`` takes for ``size`` bytes or one slice of them."""
    collective, number = problem.collective, len(schedule.transfers)
    pieces = collective.chunks_per_rank * (1 if collective.name in ("broadcast", "reduce") else collective.ranks)
    at_once = options.target.fifo(options.protocol, collective.name).slice_bytes
    predictor = SchedulePredictor(topology, problem, schedule, costs)
    timeline = predictor.timeline(min(size, at_once * pieces))
    begin, end = timeline.begin[:number].tolist(), timeline.sent[:number].tolist()
    for after in AFTERS:
        yield Throttling.of(problem, schedule, begin, end, after)


def timed_target(request: Request) -> Target | None:
    """The target whose programs are timed: the first in MSCCL XML, else the first."""
    targets = (target for target in request.targets if not target.format.plan)
    return None if request.schedule_only else next(targets, next(iter(request.targets), None))


def timed_lowering(request: Request, target: Target, topology: Topology) -> LoweringOptions:
    """How programs that are only timed are lowered for ``target``, without throttling."""
    return LoweringOptions("timed", target=target, servers=topology.servers, policy=request.policy.lowering)


def schedule_budget(request: Request, budget: Budget) -> Budget:
    """The part of ``budget`` that is for schedules, where their programs are to be timed too."""
    return budget if timed_target(request) is None else budget.part(request.policy.autotune.share_schedules)


def ranked_programs(
    topology: Topology, request: Request, candidates: Sequence[Candidate], size: int, deadline: Deadline,
    decisions: Decisions, effort: Effort,
) -> list[Ranked]:  # fmt: skip
    """The candidates by the time of their programs for ``timed_target``; as they are without one."""
    target = timed_target(request)
    if target is None:
        return [Ranked(candidate) for candidate in candidates]
    options = timed_lowering(request, target, topology)
    record = decisions.inside("programs")
    ranking = ProgramRanking(topology, size, options, deadline, request.policy, record, request.runtime, effort)
    return ranking.of(candidates)
