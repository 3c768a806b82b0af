"""What users run is the program, so the programs of several schedules are timed: thread blocks keep the order of a
schedule's steps only in part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.tuning import LATE, Candidate, Effort, efforts
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.request import Request
from hetesynth.engine.steady_programs import Dispatched, Dispatching, Pipeline, dispatchings
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.schedule import along_trees
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.model.words import microseconds
from hetesynth.programs.msccl.lower import LoweringOptions

DISPATCHED = 20.0  # messages for each transfer of a schedule, to find how it is lowered
MOST_TRANSFERS = 33_000  # of a schedule whose program is timed; four times as many are only dispatched


def step_candidate(solved: SolvedRequest, size: int) -> Candidate:
    """The schedule of the fewest steps as a candidate for ``size`` bytes."""
    label = f"fewest steps, c={solved.problem.collective.chunks_per_rank}"
    costs = CostOptions.of(solved.compilation.request)
    return Candidate.of(label, solved.strategy, solved.chunking, solved.problem, solved.solution, size, costs)


def step_program(
    solved: SolvedRequest, candidate: Candidate, size: int, deadline: Deadline, record: Decisions
) -> Ranked:
    """``candidate``, made of ``solved``, with its quickest program."""
    specs = CandidateSpecs(solved.chunking.topology, solved.compilation.request, size)
    effort = efforts(solved.compilation.budget, specs.topology.ranks).steady
    return ranked_programs(specs, [candidate], deadline, record, effort)[0]


@dataclass(frozen=True)
class Ranked:
    """A candidate, how its program runs as a pipeline, and its time; None: not timed, or it fits no target."""

    candidate: Candidate
    seconds: float | None = None
    steady: Pipeline | None = None

    @property
    def way(self) -> str:
        """How its program is lowered, in words."""
        return "step by step" if self.steady is None else self.steady.label


@dataclass
class ProgramRanking:
    """Times the programs of candidates, lowered as ``options`` say; after ``deadline`` only a first one. ``best``:
    seconds of a program that was timed before."""

    topology: Topology
    size: int
    options: LoweringOptions
    costs: CostOptions
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    best: float = math.inf

    def of(self, candidates: Sequence[Candidate]) -> list[Ranked]:
        """``candidates`` by the time of their programs, each step by step or in steady state."""
        ranked: list[Ranked] = []
        for c in candidates:
            transfers = len(c.solution.schedule.transfers)
            work, most = transfers, 4 * MOST_TRANSFERS
            if not self.options.target.format.program:  # others have several forms
                work, most = 3 * transfers, MOST_TRANSFERS
            reason = self.effort.exceeded_by(work)
            if reason is None and transfers > most:
                reason = f"{transfers:,} transfers are more than {most:,}"
            if reason is None and ranked and self.deadline.expired("programs left untimed"):
                reason = LATE
            if any(c.solution.schedule == other.candidate.solution.schedule for other in ranked):
                reason = "its schedule is that of another"
            reason = reason or self._behind(c)
            if reason is not None:
                self.decisions.note(c.label, "skipped", reason)
                ranked.append(Ranked(c))
                continue
            self.effort.spent += work
            ways: list[Ranked] = []
            if transfers <= MOST_TRANSFERS:
                seconds = c.lowering(self.size, self.options, self.costs).seconds()
                why = "its program does not fit" if seconds is None else microseconds(seconds)
                self.decisions.note(c.label, "refused" if seconds is None else "tried", why)
                ways.append(Ranked(c, seconds))
            ways = [r for r in (*ways, self.in_steady_state(c)) if r.seconds is not None]
            ranked.append(min(ways, key=lambda r: r.seconds or 0.0, default=Ranked(c)))
            self.best = min(self.best, ranked[-1].seconds or math.inf)
        return sorted(ranked, key=lambda r: math.inf if r.seconds is None else r.seconds)

    def _behind(self, candidate: Candidate) -> str | None:
        """Whether the bytes alone take its program longer than the best one."""
        question = candidate.problem, candidate.solution.schedule, self.costs.costs(self.topology)
        least = self.costs.launch(self.topology) + Dispatching(*question, self.options, self.size).least_seconds
        if least < self.best:
            return None
        return f"its bytes take {microseconds(least)}, the best program {microseconds(self.best)}"

    def in_steady_state(self, candidate: Candidate) -> Ranked:
        """``candidate`` with its program in steady state; untimed where that is not tried, or does not fit."""
        if not self.options.target.format.program:
            return Ranked(candidate)  # of plans and tables the quicker lowering is timed anyway
        label = f"{candidate.label}, in steady state"
        if not along_trees(candidate.solution.schedule, candidate.problem.arcs):
            self.decisions.note(
                label, "skipped", "its sums go along no trees, so pieces may not change their order"
            )
            return Ranked(candidate)
        if self.deadline.expired("programs left untimed"):
            self.decisions.note(label, "skipped", LATE)
            return Ranked(candidate)
        costs, schedule = self.costs.costs(self.topology), candidate.solution.schedule
        many = len(schedule.transfers)
        dispatched: list[tuple[float, Pipeline]] = []
        protocols = dispatchings(candidate.problem, schedule, costs, self.options, self.size)
        for dispatching in sorted(protocols, key=lambda d: d.least_seconds):
            if all(dispatching.estimate < seconds for seconds, _ in dispatched):
                arrangements, _ = dispatching.best(min(DISPATCHED * many, 500_000))
                dispatched += [(s, dispatching.pipeline(a)) for s, a in islice(arrangements, 1)]
        steady = min(dispatched, key=lambda d: d[0])[1] if dispatched else None
        lowering = candidate.lowering(self.size, self.options, self.costs)
        predictor = lowering.predictor(steady) if steady else None
        if steady is None or predictor is None:
            self.decisions.note(label, "refused", "its program does not fit")
            return Ranked(candidate)
        self.effort.spent += many
        seconds = predictor.timeline(self.size).makespan
        if isinstance(steady, Dispatched):
            steady.forget()
        self.decisions.note(label, "tried", f"{steady.label}: {microseconds(seconds)}")
        return Ranked(candidate, seconds, steady)


def timed_target(request: Request) -> Target | None:
    """The target whose programs are timed: the first in MSCCL XML, else the first."""
    targets = (target for target in request.targets if target.format.program)
    return None if request.schedule_only else next(targets, next(iter(request.targets), None))


def ranked_programs(
    specs: CandidateSpecs,
    candidates: Sequence[Candidate],
    until: Deadline,
    decisions: Decisions,
    effort: Effort,
    best: float = math.inf,
) -> list[Ranked]:
    """The candidates by the time of their programs for ``timed_target``; as they are without one. ``best``:
    seconds of a program that was timed before."""
    target = timed_target(specs.request)
    if target is None:
        return [Ranked(candidate) for candidate in candidates]
    options, record = specs.lowering_for(target), decisions.inside("programs")
    ranking = ProgramRanking(specs.topology, specs.size, options, specs.costs, until, record, effort, best)
    return ranking.of(candidates)
