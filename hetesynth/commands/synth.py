"""The main job: a topology and a collective to judged files.

text -> Topology -> capacities -> Problem -> Schedule -> Program -> XML and JSON, each result judged before
anything is written.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hetesynth.autotune.program_ranking import (
    for_candidate,
    program_deadline,
    ranked_programs,
    sparing,
    timed_target,
)
from hetesynth.compile.addressing import demand_addressable, demand_carried
from hetesynth.compile.artifacts import UNFIT, Choice, Synthesis, demand_callable, finished
from hetesynth.compile.phases import PhaseTimer, Warn, unheard
from hetesynth.compile.problem import load_problem, no_schedule
from hetesynth.compile.request import Request
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.frontend import load_topology
from hetesynth.model.deadline import Cuts, now
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.synthesis.search import Progress, silent


def synthesize(request: Request, progress: Progress = silent, warn: Warn = unheard) -> Synthesis:
    """The main job. Raises HetesynthError when there is no schedule (exit 1) or none was found (exit 3).

    ``warn`` is told before the search where the budget is less than the least time of the other phases.
    """
    from hetesynth.autotune.candidates import strategy_of
    from hetesynth.synthesis.registry import demand_strategy
    from hetesynth.synthesis.solve import Solver
    from hetesynth.verify.schedule.judge import schedule_violations

    demand_strategy(request.strategy, sized=request.size is not None)
    demand_callable(request)
    clock = PhaseTimer()
    request = replace(request, budget=replace(request.budget, cuts=Cuts()))
    if request.size is not None:
        return _for_size(request, request.size, clock, progress, warn)
    chunking, problem = load_problem(request, clock)
    clock.expect(request, problem.ranks, warn)
    chosen = strategy_of(request, chunking.topology)
    with clock.phase("search"):
        oracle = partial(schedule_violations, policy=request.policy.verify)
        outcome = Solver(chosen, request.budget, oracle, progress, request.policy).solve(problem)
    match outcome:
        case Infeasible(reason=reason):
            raise no_schedule(reason)
        case GaveUp(reason=reason):
            way_out = "raise --time-budget or --max-peers, or use --strategy auto"
            late = " in the time budget" if request.budget.cuts else ""
            raise HetesynthError(f"{reason}{late}", code="HS602", exit_code=3, help=way_out)
    clock.phases["bound"] = outcome.bound_seconds
    clock.phases["search"] -= outcome.bound_seconds
    return finished(request, chunking, problem, outcome, clock, progress)


def _for_size(request: Request, size: int, clock: PhaseTimer, progress: Progress, warn: Warn) -> Synthesis:
    """The candidate with the quickest program for ``size`` whose programs fit every target."""
    from hetesynth.autotune.tuning import tune
    from hetesynth.synthesis.interrupts import finishing

    started = now()
    demand_addressable(request, size)
    with clock.phase("parse"):
        topology = load_topology(request.topology)
    clock.expect(request, topology.ranks, warn)
    with clock.phase("search"):
        programs = timed_target(request) is not None
        held = tune(topology, sparing(request), size, progress, programs=programs)
    unfit: list[tuple[str, float, str]] = []
    refusal: HetesynthError | None = None
    with finishing(), clock.phase("predict"):
        deadline = program_deadline(request.budget, started)
        ranked = ranked_programs(topology, request, held.candidates, held.size, deadline)
    for found in ranked:
        candidate, throttling = found.candidate, found.throttling
        short = held.interrupted or bool(request.budget.cuts)
        ending = "time" if short and not held.cut_short else held.ending
        choice = Choice(candidate.label, len(held.tried), short, tuple(unfit), ending)
        try:
            made = for_candidate(
                request, candidate, held.time_optimality(candidate), clock, choice, progress, throttling
            )
            demand_carried(made, size)
            return made if made.program_seconds else replace(made, program_seconds=found.seconds)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            refusal = refusal or error
            unfit.append((candidate.label, candidate.seconds, error.message))
    raise refusal or InternalError("a tuning run without candidates")
