"""The main job: a topology and a collective to judged files.

text -> Topology -> capacities -> Problem -> Schedule -> Program -> XML and JSON, each result judged before
anything is written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import strategy_of
from hetesynth.compile.addressing import demand_addressable, demand_carried
from hetesynth.compile.artifacts import (
    UNFIT,
    Choice,
    ProgramSpec,
    SolvedRequest,
    Synthesis,
    demand_callable,
    finished,
    step_model,
)
from hetesynth.compile.compilation import Compilation, compilation
from hetesynth.compile.phases import Warn, no_warning
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.problem import load_problem, no_schedule
from hetesynth.compile.request import Request
from hetesynth.compile.time_optimality import bounds_of, implied_size
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.frontend import load_topology
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.report.words import microseconds
from hetesynth.synthesis.effort import for_steps
from hetesynth.synthesis.registry import demand_strategy
from hetesynth.synthesis.search import Progress, no_progress

if TYPE_CHECKING:
    from hetesynth.autotune.choice import Chosen
    from hetesynth.autotune.program_ranking import Ranked
    from hetesynth.compile.time_verdict import TimeVerdict


def synthesize(
    request: Request, progress: Progress = no_progress, warn: Warn = no_warning, budget: Budget | None = None,
    decisions: Decisions | None = None, *, every_root: bool = False,
) -> Synthesis:  # fmt: skip
    """The main job. Raises HetesynthError when there is no schedule (exit 1) or none was found (exit 3).

    ``warn`` is told before the search where the budget is less than the least time of the other phases.
    ``budget``: what is spent, by default that of the request. ``every_root``: there are runs for the
    other roots as well. ``decisions``: a record to write to, which is there where nothing is found too.
    """
    demand_strategy(request.strategy, sized=request.size is not None)
    demand_callable(request, every_root=every_root)
    run = compilation(request, progress, budget, decisions, every_root=every_root)
    synthesis = _by_steps(run, warn) if request.size is None else _for_size(run, request.size, warn)
    return replace(synthesis, verdict=verdict_of(synthesis))


def verdict_of(synthesis: Synthesis) -> TimeVerdict | None:
    """The time of what is written beside the limit and the library; None where no time is simulated."""
    from hetesynth.compile.time_verdict import time_verdict

    optimality, request = synthesis.time_optimality, synthesis.request
    if optimality.bound is None:
        return None
    with synthesis.timer.phase("predict"):
        options, root = CostOptions.of(request), synthesis.problem.collective.root
        bounds = bounds_of(synthesis.topology, request.collective, root, options)
        if not synthesis.programs:
            return time_verdict(
                synthesis.topology, root, bounds, optimality.size, optimality.seconds, options, "schedule"
            )  # fmt: skip
        plan = synthesis.targets[0].format == "mscclpp-json"
        return time_verdict(
            synthesis.topology, root, bounds, optimality.size, synthesis.program_seconds, options,
            "plan" if plan else "program",
        )  # fmt: skip


def _by_steps(run: Compilation, warn: Warn) -> Synthesis:
    """The schedule of the fewest steps; with objective time the quickest program for the size that it implies."""
    request = run.request
    by_time = request.objective == "time" and request.strategy == "auto" and not request.schedule_only
    solved = _step_search(run, warn, request.policy.compile.step_share if by_time else 1.0)
    if not by_time or solved.solution.ending == "interrupt":
        return finished(solved)
    return _quickest(run, solved)


def _step_search(run: Compilation, warn: Warn, share: float) -> SolvedRequest:
    """The schedule of the fewest steps, found in ``share`` of the budget."""
    from hetesynth.compile.verified_solver import verified_solver

    request, timer = run.request, run.timer
    chunking, problem = load_problem(request, timer)
    timer.expect(request, problem.ranks, warn, run.budget)
    strategy = strategy_of(request, chunking.topology)
    budget = run.budget.part(share)
    with timer.phase("search"):
        record = run.decisions.inside("steps")
        policy = for_steps(request.policy, run.budget.effort)
        solver = verified_solver(strategy, budget, policy)
        outcome = replace(solver, progress=run.progress, decisions=record).solve(problem)
    match outcome:
        case Infeasible(reason=reason):
            raise no_schedule(reason)
        case GaveUp(reason=reason):
            other = "" if request.strategy == "auto" else ", or use --strategy auto"
            way_out = f"raise --time-budget or --max-peers{other}"
            late = " in the time budget" if run.budget.clock_decisions else ""
            raise HetesynthError(f"{reason}{late}", code="HS602", exit_code=3, help=way_out)
    steps, bound = outcome.schedule.makespan, outcome.bound.steps
    record.note(request.strategy, "chosen", f"its schedule has {steps} steps; the bound is {bound}")
    timer.phases["bound"] = outcome.bound_seconds
    timer.phases["search"] -= outcome.bound_seconds
    programs = ProgramSpec(request.targets)
    return SolvedRequest(run, request.strategy, chunking, problem, outcome, programs)


def _quickest(run: Compilation, solved: SolvedRequest) -> Synthesis:
    """The quickest program for the size that the chunks of ``solved`` make, be it of ``solved`` or not.

    Where the choice for that size fails or is interrupted it is the program of ``solved``.
    """
    from hetesynth.autotune.choice import choose, with_schedule

    request, topology, timer = run.request, solved.chunking.topology, run.timer
    size = implied_size(solved.problem, solved.chunking.chunk_bytes)
    budget = run.budget.left_after(timer.total)
    sized = replace(request, size=size, chunking=replace(request.chunking, chunk_bytes=None))
    try:
        demand_addressable(request, size)
        with timer.phase("choice"):
            record = run.decisions.inside("time")
            chosen = choose(topology, sized, size, run.progress, budget, record)
            chosen = with_schedule(chosen, topology, sized, solved.problem, solved.solution, solved.chunking)
    except HetesynthError:
        return finished(solved)
    except KeyboardInterrupt:
        return replace(finished(solved), cut_short=True, ending="interrupt")
    synthesis = _written(run, chosen, size)
    ending = "interrupt" if chosen.run.interrupted else solved.solution.ending
    synthesis = replace(synthesis, ending=ending)
    if synthesis.solution is solved.solution:
        return synthesis
    return replace(synthesis, step_model=step_model(solved), ending=ending)


def _for_size(run: Compilation, size: int, warn: Warn) -> Synthesis:
    """The candidate with the quickest program for ``size`` whose programs fit every target."""
    from hetesynth.autotune.choice import choose

    request, timer = run.request, run.timer
    demand_addressable(request, size)
    with timer.phase("parse"):
        topology = load_topology(request.topology)
    timer.expect(request, topology.ranks, warn, run.budget)
    with timer.phase("search"):
        chosen = choose(topology, request, size, run.progress, run.budget, run.decisions)
    return _written(run, chosen, size)


def _written(run: Compilation, chosen: Chosen, size: int) -> Synthesis:
    """The files of the first that fits every target."""
    tuning, ranked, request = chosen.run, chosen.ranked, run.request
    unfit: list[tuple[str, float, str]] = []
    refusal: HetesynthError | None = None
    record = run.decisions.inside("files")
    for place, entry in enumerate(ranked):
        candidate = entry.candidate
        short = tuning.interrupted or bool(run.budget.clock_decisions)
        ending = "time" if short and not tuning.cut_short else tuning.ending
        choice = Choice(candidate.label, len(tuning.tried), short, tuple(unfit), ending)
        record.note(candidate.label, "chosen", _why_chosen(entry, place))
        try:
            spec = ProgramSpec(request.targets, entry.throttling, steady=entry.steady)
            synthesis = finished(candidate.solved(run, spec, tuning.time_optimality(candidate), choice))
            demand_carried(synthesis, size)
            return synthesis if synthesis.program_seconds else replace(synthesis, program_seconds=entry.seconds)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            refusal = refusal or error
            unfit.append((candidate.label, candidate.seconds, error.message))
            record.note(candidate.label, "refused", error.message)
    raise refusal or InternalError("a tuning run without candidates")


def _why_chosen(entry: Ranked, place: int) -> str:
    kind, seconds = ("schedule", entry.candidate.seconds) if entry.seconds is None else ("program", entry.seconds)
    next_best = "the quickest" if place == 0 else "the quickest that fits the targets so far"
    return f"{next_best}, its {kind} takes {microseconds(seconds)}"
