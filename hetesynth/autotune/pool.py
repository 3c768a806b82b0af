"""Schedules for a span of sizes: tuning runs at a few of them, every candidate of the shortlist predicted at each.

In: a topology, a request, sizes. Out: a ``Pool``: members and what each takes at each size. Atlas and compare both
choose from one. With ``programs`` members stand by what their programs take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetesynth.autotune.choice import choose
from hetesynth.autotune.program_ranking import Ranked, timed_lowering, timed_target
from hetesynth.autotune.tuning import Candidate, TuningRun, tune
from hetesynth.compile.fused_receives import program_predictor
from hetesynth.compile.plan_predictor import PlanPredictor, first_predictor
from hetesynth.compile.predictors import CostOptions, ProgramPredictor
from hetesynth.compile.request import Request
from hetesynth.compile.steady_plans import plan_emitted
from hetesynth.compile.steady_programs import Pipeline, steady_predictor
from hetesynth.compile.time_optimality import Bounds, TimeOptimality
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.throttling import Throttling
from hetesynth.model.cost import chunk_bytes
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.synthesis.search import Ending, Progress, combined, no_progress


@dataclass(frozen=True)
class Member:
    """A candidate and how its programs are throttled, which makes it another member than without.

    ``schedule[j]``: seconds at size j of the pool, infinite where it cannot be cut. ``losses``: by size, seconds
    of its program for each of its schedule, where the program was timed; None: programs do not count.
    ``untimed_loss``: the same where it was timed at no size.
    """

    candidate: Candidate
    throttling: Throttling | None
    steady: Pipeline | None
    schedule: tuple[float, ...] = field(repr=False)
    untimed_loss: float
    losses: Mapping[int, float] | None = field(default=None, repr=False)

    def seconds(self, size: int) -> float:
        """What counts at any size: the program, taken to lose between two sizes what it loses there."""
        return seconds_at(self.candidate, size) * self.loss(size)

    def loss(self, size: int) -> float:
        """Seconds of the program for each second of the schedule."""
        if self.losses is None:
            return 1.0
        if not self.losses:
            return self.untimed_loss
        timed = sorted(self.losses)
        return float(np.interp(math.log(size), [math.log(s) for s in timed], [self.losses[s] for s in timed]))


@dataclass(frozen=True)
class Pool:
    """Different members, and ``seconds[i][j]`` of member i at size j, by which they are chosen."""

    sizes: tuple[int, ...]
    bounds: Bounds
    members: tuple[Member, ...]
    cut_short: bool
    seconds: tuple[tuple[float, ...], ...] = field(repr=False)
    interrupted: bool = False
    ending: Ending = "tried"

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Of the members."""
        return tuple(m.candidate for m in self.members)

    def best(self, j: int) -> int:
        """The quickest member at size j."""
        return min(range(len(self.members)), key=lambda i: (self.seconds[i][j], i))

    def time_optimality(self, i: int, j: int) -> TimeOptimality:
        """The schedule of member i at size j beside the bound."""
        return self.bounds.optimality(self.sizes[j], self.members[i].schedule[j])

    def without(self, i: int) -> Pool:
        """All but member i."""
        keep = [k for k in range(len(self.members)) if k != i]
        return replace(
            self, members=tuple(self.members[k] for k in keep), seconds=tuple(self.seconds[k] for k in keep)
        )


def pool(
    topology: Topology, request: Request, sizes: Sequence[int], progress: Progress = no_progress, *,
    programs: bool = False, hurried: bool = False, budget: Budget | None = None,
    decisions: Decisions | None = None,
) -> Pool:  # fmt: skip
    """The shortlist of tuning runs at a few of ``sizes``, which share ``budget``, by default that of the request.

    ``programs``: whether members stand by their programs, or plans, for ``timed_target``.
    ``decisions``: is told what each tuning run tried, and what it left out and why.
    Ctrl-C ends the tuning runs; after it only the best of each goes on. ``hurried``, or without ``programs``,
    only the sizes that can be predicted at once are then predicted, the others being infinite. Raises
    HetesynthError when no tuning run found anything; a size too small to be cut is left to the others.
    """
    target = timed_target(request) if programs else None
    budget = budget or request.budget
    budget = replace(budget, clock_decisions=budget.clock_decisions.inside())
    policy, deadline = request.policy.autotune, budget.deadline()
    runs = _TuningRuns(topology, request, target, progress, decisions or Decisions())
    runs.all(sample_sizes(sizes, policy), budget, deadline)
    if runs.bounds is None:
        raise runs.failure or HetesynthError("no sizes", code="HS611", help="give at least one size")
    interrupted = runs.interrupted
    until = now() + policy.seconds_after_interrupt if interrupted and (hurried or not programs) else math.inf
    members = [_member(r, sizes, until, policy) for r in runs.shortlist.values()]
    if target is not None and not interrupted:
        members = _MemberTiming(topology, request, target, sizes).timed(members, deadline)
    seconds = tuple(tuple(s * m.loss(size) for s, size in zip(m.schedule, sizes, strict=True)) for m in members)
    cut_short = interrupted or bool(budget.clock_decisions)
    ending = combined(runs.endings, interrupted=interrupted, cut_short=cut_short)
    return Pool(tuple(sizes), runs.bounds, tuple(members), cut_short, seconds, interrupted, ending)


@dataclass
class _TuningRuns:
    """Tuning runs one after the other, and what came of them."""

    topology: Topology
    request: Request
    target: Target | None
    progress: Progress
    decisions: Decisions
    shortlist: dict[tuple[str, int, str], Ranked] = field(default_factory=dict)
    bounds: Bounds | None = None
    interrupted: bool = False
    endings: list[Ending] = field(default_factory=list)
    failure: HetesynthError | None = None

    def all(self, sizes: Sequence[int], budget: Budget, deadline: Deadline) -> None:
        """A run for each of ``sizes``; those that are left share what is left until ``deadline``."""
        least = self.request.policy.autotune.least_seconds_of_run
        for number, size in enumerate(sizes):
            left = deadline.left()
            seconds = None if math.isinf(left) else max(least, left) / (len(sizes) - number)
            clock = budget.clock_decisions.inside(f"{size} bytes")
            share = replace(budget, seconds=seconds, clock_decisions=clock)
            try:
                run, ranked = self._one(size, share)
            except HetesynthError as error:
                self.failure = self.failure or error
                continue
            except KeyboardInterrupt:
                if not self.shortlist:
                    raise
                self.interrupted = True
                return
            self.bounds, self.interrupted = run.bounds, run.interrupted
            self.endings.append(run.ending)
            for r in ranked[:1] if run.interrupted else ranked:
                self.shortlist.setdefault((r.candidate.label, r.candidate.chunking.chunk_bytes, r.way), r)
            if self.interrupted:
                return

    def _one(self, size: int, budget: Budget) -> tuple[TuningRun, list[Ranked]]:
        """A tuning run and the best of it; what is throttled is there without throttling too, for other sizes."""
        short, record = self.request.policy.autotune.shortlist, self.decisions.inside(f"{size} bytes")
        if self.target is None:
            run = tune(
                self.topology, self.request, size, self.progress, programs=False, budget=budget, decisions=record
            )
            return run, [Ranked(c) for c in run.candidates[:short]]
        chosen = choose(self.topology, self.request, size, self.progress, budget, record)
        run, ranked = chosen.run, chosen.ranked
        best = ranked[:short]
        return run, [*best, *(Ranked(r.candidate) for r in best if r.throttling is not None)]


def _member(ranked: Ranked, sizes: Sequence[int], until: float, policy: AutotunePolicy) -> Member:
    """``until``: in seconds of ``deadline.now``; what is not predicted by then takes forever."""
    seconds = (seconds_at(ranked.candidate, s) if now() < until else math.inf for s in sizes)
    return Member(ranked.candidate, ranked.throttling, ranked.steady, tuple(seconds), policy.untimed_loss)


@dataclass(frozen=True)
class _MemberTiming:
    """Times the programs of members, at the sizes where they may be needed and while time lasts."""

    topology: Topology
    request: Request
    target: Target
    sizes: Sequence[int]

    def timed(self, members: Sequence[Member], deadline: Deadline) -> list[Member]:
        """``members`` with what their programs lose."""
        sizes, policy = self.sizes, self.request.policy.autotune
        losses: list[dict[int, float]] = [{} for _ in members]
        best = [min(m.schedule[j] for m in members) for j in range(len(sizes))]
        near = [
            [j for j, s in enumerate(m.schedule) if math.isfinite(s) and s <= policy.near_best * best[j]]
            for m in members
        ]
        ends = [sizes[places[-1] if places else -1] for places in near]  # for the largest, programs are written
        predictors = [self._predictor(m, end) for m, end in zip(members, ends, strict=True)]

        def measure(i: int, j: int) -> None:
            predictor = predictors[i]
            if predictor is not None and sizes[j] not in losses[i]:
                losses[i][sizes[j]] = predictor.timeline(sizes[j]).makespan / members[i].schedule[j]

        for i, places in enumerate(near):  # the ends of its span first: what is lost depends on the size
            transfers = len(members[i].candidate.solution.schedule.transfers)
            quick = transfers <= policy.quick_program_transfers
            for j in {places[-1], places[0]} if places and quick else places[-1:]:
                measure(i, j)
        for j in range(len(sizes)):
            for i in sorted(range(len(members)), key=lambda i: (members[i].schedule[j], i)):
                if j not in near[i] or sizes[j] in losses[i]:
                    continue
                if deadline.expired("programs left untimed"):
                    break
                measure(i, j)
        return [replace(m, losses=loss) for m, loss in zip(members, losses, strict=True)]

    def _predictor(self, member: Member, size: int) -> ProgramPredictor | PlanPredictor | None:
        """What tells the time of the program or plan, made for ``size`` bytes; None where it is too large or does
        not fit."""
        candidate, policy = member.candidate, self.request.policy
        if len(candidate.solution.schedule.transfers) > policy.autotune.max_program_transfers:
            return None
        options = timed_lowering(self.request, self.target, self.topology)
        options = replace(options, throttling=member.throttling)
        schedule = candidate.solution.schedule
        costs = CostOptions.of(self.request)
        if self.target.format == "mscclpp-json":
            problem = candidate.problem
            plan = plan_emitted(self.topology, problem, schedule, size, member.steady, options, costs)
            return None if plan is None else first_predictor(self.topology, {"": plan}, costs)
        if member.steady is not None:
            return steady_predictor(self.topology, candidate.problem, schedule, member.steady, options, costs)
        return program_predictor(self.topology, candidate.problem, schedule, size, options, costs)


def sample_sizes(sizes: Sequence[int], policy: AutotunePolicy) -> list[int]:
    """A few of ``sizes``, from the first to the last."""
    count = min(policy.sampled_sizes, len(sizes))
    places = [round(k * (len(sizes) - 1) / max(1, count - 1)) for k in range(count)]
    return [sizes[p] for p in dict.fromkeys(places)]


def seconds_at(candidate: Candidate, size: int) -> float:
    """Simulated seconds of the schedule; infinite where a chunk would be less than a byte."""
    collective = candidate.problem.collective
    chunks = collective.chunks_per_rank
    if chunks > 1 and chunk_bytes(collective.name, collective.ranks, chunks, size) < 1:
        return math.inf
    if candidate.pipelined is not None:
        return candidate.pipelined.seconds(size)
    return candidate.predictor.timeline(size).makespan
