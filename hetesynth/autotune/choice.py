"""The one choice for a size: the candidate whose program is quickest, as ``synth``, ``atlas`` and ``compare``
take it.

In: a topology, a request, a size. Out: a tuning run and its candidates, the quickest program first. Steady-state
candidates and NCCL's rings come first, where chunks are for several ranks; where the best of them is near what
is possible, nothing else is tried. Else candidates of all strategies follow, by the rules, and their programs are
ranked together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.effort import Effort, efforts
from hetesynth.autotune.program_ranking import (
    Ranked,
    program_deadline,
    ranked_programs,
    schedule_budget,
    timed_target,
)
from hetesynth.autotune.ring_candidate import ring_candidate
from hetesynth.autotune.steady import NAME, SteadyCandidates
from hetesynth.autotune.tuning import UNTRIED, Candidate, TuningRun, tune
from hetesynth.chunking import Chunking
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory, demand_several_ranks
from hetesynth.compile.request import Request
from hetesynth.compile.time_optimality import bounds_of
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.topology import Topology
from hetesynth.synthesis.interrupts import finishing
from hetesynth.synthesis.search import Ending, Progress, no_progress

if TYPE_CHECKING:
    from hetesynth.synthesis.solve import Solution


@dataclass(frozen=True)
class Chosen:
    """A tuning run and its candidates by the time of their programs."""

    run: TuningRun
    ranked: list[Ranked]


def choose(
    topology: Topology, request: Request, size: int, progress: Progress = no_progress,
    budget: Budget | None = None, decisions: Decisions | None = None,
) -> Chosen:  # fmt: skip
    """The candidates for ``size`` bytes, the quickest program first.

    ``budget``: by default that of the request. What effort 1 finds is part of what more effort finds, as what is
    tried in which order depends on the effort. Raises HetesynthError as ``tune`` does.
    """
    record, spent, started = decisions or Decisions(), budget or request.budget, now()
    if spent.effort is None or spent.effort <= 1:
        return _chosen(topology, request, size, progress, spent, record)
    first = _chosen(topology, request, size, progress, replace(spent, effort=1.0), record.inside("effort 1"))
    if first.run.interrupted or first.run.ending == "bound":
        return first
    left = spent if spent.seconds is None else replace(spent, seconds=max(0.0, spent.seconds - (now() - started)))
    try:
        more = _chosen(topology, request, size, progress, left, record)
    except KeyboardInterrupt:
        return Chosen(replace(first.run, interrupted=True, cut_short=True, ending="interrupt"), first.ranked)
    tried, cut_short = first.run.tried + more.run.tried, first.run.cut_short or more.run.cut_short
    run = replace(more.run, tried=tried, cut_short=cut_short)
    return Chosen(run, _merged(first.ranked, more.ranked))


def _chosen(
    topology: Topology, request: Request, size: int, progress: Progress, spent: Budget, record: Decisions
) -> Chosen:
    """The same with one effort."""
    started = now()
    steady, run = _steady(topology, request, size, spent, record)
    if run is not None:
        return Chosen(run, steady)
    left = spent if spent.seconds is None else replace(spent, seconds=max(0.0, spent.seconds - (now() - started)))
    if steady and left.seconds == 0.0:
        spent.clock_decisions.note(UNTRIED)
        return Chosen(_steady_run(topology, request, size, steady, spent), steady)
    programs = timed_target(request) is not None
    try:
        run = tune(
            topology, request, size, progress, programs=programs, budget=schedule_budget(request, left),
            decisions=record,
        )  # fmt: skip
    except (HetesynthError, KeyboardInterrupt) as error:
        if not steady:
            raise
        stopped = isinstance(error, KeyboardInterrupt)
        return Chosen(_steady_run(topology, request, size, steady, spent, interrupted=stopped), steady)
    with finishing():
        policy = request.policy.autotune
        deadline = program_deadline(spent, started, policy)
        if run.interrupted:
            deadline = replace(deadline, at=min(deadline.at, now() + policy.seconds_after_interrupt))
        effort = efforts(spent, topology.ranks, request.policy.effort).programs
        ranked = ranked_programs(topology, request, run.candidates, size, deadline, record, effort)
    return Chosen(run, _merged(steady, ranked))


def with_schedule(
    chosen: Chosen, topology: Topology, request: Request, problem: Problem, solution: Solution, chunking: Chunking
) -> Chosen:  # fmt: skip
    """The same with the schedule of the fewest steps among the candidates. Its program is timed only where the
    schedule alone is quicker than the best program."""
    size, options = chosen.run.size, CostOptions.of(request)
    predictor = SchedulePredictor(topology, problem, solution.schedule, options)
    chunks, seconds = problem.collective.chunks_per_rank, predictor.timeline(size).makespan
    label = f"fewest steps, c={chunks}"
    candidate = Candidate(label, request.strategy, chunks, chunking, problem, solution, predictor, seconds)
    best, target = chosen.ranked[0], timed_target(request)
    if target is None:
        ranked = sorted([*chosen.ranked, Ranked(candidate)], key=lambda r: r.candidate.seconds)
        return replace(chosen, ranked=ranked)
    if best.seconds is not None and seconds >= best.seconds:
        return replace(chosen, ranked=[*chosen.ranked, Ranked(candidate)])
    deadline = replace(Budget(), clock_decisions=request.budget.clock_decisions).deadline()
    own = ranked_programs(topology, request, [candidate], size, deadline, Decisions(), Effort(math.inf))
    return replace(chosen, ranked=_merged(chosen.ranked, own))


def _merged(steady: list[Ranked], ranked: list[Ranked]) -> list[Ranked]:
    """All by the time of their programs; those that were not timed, or do not fit, after the others."""
    timed = sorted((r for r in [*steady, *ranked] if r.seconds is not None), key=lambda r: r.seconds or 0.0)
    return [*timed, *(r for r in [*steady, *ranked] if r.seconds is None)]


def _steady(
    topology: Topology, request: Request, size: int, budget: Budget, record: Decisions
) -> tuple[list[Ranked], TuningRun | None]:  # fmt: skip
    """Steady-state candidates and rings, and a tuning run where nothing else has to be tried."""
    target, rule = timed_target(request), record.inside("opening")
    reason = None
    if target is None:
        reason = "no program is made"
    elif request.strategy not in ("auto", NAME):
        reason = f"strategy {request.strategy} is stated"
    if target is None or reason is not None:
        rule.note("steady state", "skipped", reason or "")
        return [], None
    demand_several_ranks(topology)
    factory = ProblemFactory(topology, request)
    bounds = bounds_of(topology, request.collective, factory.root, CostOptions.of(request))
    specs = CandidateSpecs(topology, request, size, bounds.bounds)
    clock = budget.clock_decisions.inside()
    deadline = replace(budget, clock_decisions=clock).deadline()
    candidates = SteadyCandidates(
        factory, specs, target, bounds.seconds(size), lambda: deadline.expired(UNTRIED), rule,
        efforts(budget, topology.ranks, request.policy.effort).steady,
    )  # fmt: skip
    try:
        ranked = candidates.all()
    except KeyboardInterrupt:
        ranked = candidates.quickest_first()
        if not ranked:
            raise
        return ranked, _steady_run(topology, request, size, ranked, budget, interrupted=True)
    if request.strategy == NAME:
        return ranked, _steady_run(topology, request, size, ranked, budget) if ranked else None
    rings = None if specs.personalized else ring_candidate(factory, specs, target, rule)
    ranked = _merged(ranked, [] if rings is None else [rings])
    near = request.policy.autotune.steady_near
    met = rings is not None and bounds.seconds(size) >= near * (rings.seconds or 0.0)
    if ranked and (candidates.near_bound or met):
        return ranked, _steady_run(topology, request, size, ranked, budget)
    return ranked, None


def _steady_run(
    topology: Topology, request: Request, size: int, ranked: list[Ranked], budget: Budget, *,
    interrupted: bool = False,
) -> TuningRun:  # fmt: skip
    """The tuning run of steady-state candidates alone."""
    factory = ProblemFactory(topology, request)
    bounds = bounds_of(topology, request.collective, factory.root, CostOptions.of(request))
    tried = tuple((r.candidate.label, r.candidate.seconds) for r in ranked)
    cut_short = interrupted or bool(budget.clock_decisions)
    ending: Ending = "interrupt" if interrupted else "time" if cut_short else "tried"
    return TuningRun(size, bounds, tuple(r.candidate for r in ranked), tried, cut_short, interrupted, ending)
