"""The main job: a topology and a collective to judged files.

text -> Topology -> capacities -> Problem -> Schedule -> Program -> XML and JSON, each result judged before
anything is written.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import strategy_of
from hetesynth.commands.files_in_time import in_time
from hetesynth.compile.addressing import demand_addressable, demand_carried
from hetesynth.compile.artifacts import (
    UNFIT,
    Choice,
    ProgramSpec,
    SolvedRequest,
    Synthesis,
    demand_callable,
    finished,
    judged_files,
    step_model,
)
from hetesynth.compile.compilation import Compilation, compilation
from hetesynth.compile.first_candidate import demand_first_candidate, first_candidate
from hetesynth.compile.phases import Warn, no_warning
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.problem import load_problem, no_schedule
from hetesynth.compile.request import Request
from hetesynth.compile.ring_baseline import is_simulated
from hetesynth.compile.steady_programs import LibraryProgram, SteadyState
from hetesynth.compile.time_ahead import TimeAhead
from hetesynth.compile.time_optimality import bounds_of, implied_size
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.frontend import load_topology
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.report.words import microseconds
from hetesynth.synthesis.effort import for_steps
from hetesynth.synthesis.interrupts import abandoned
from hetesynth.synthesis.registry import demand_strategy
from hetesynth.synthesis.search import Progress, no_progress

if TYPE_CHECKING:
    from hetesynth.autotune.choice import Chosen, Keep
    from hetesynth.autotune.program_ranking import Ranked
    from hetesynth.autotune.tuning import TuningRun
    from hetesynth.compile.time_verdict import TimeVerdict


def synthesize(
    request: Request, progress: Progress = no_progress, warn: Warn = no_warning, budget: Budget | None = None,
    decisions: Decisions | None = None, trace: CegisTrace | None = None, *, every_root: bool = False,
) -> Synthesis:  # fmt: skip
    """The main job. Raises HetesynthError when there is no schedule (exit 1) or none was found (exit 3).

    ``warn`` is told before the search where the budget is less than the least time of the other phases.
    ``budget``: what is spent, by default that of the request. ``every_root``: there are runs for the
    other roots as well. ``decisions``, ``trace``: records to write to, which are there where nothing is found too.
    """
    demand_strategy(request.strategy, sized=request.size is not None)
    demand_first_candidate(request)
    demand_callable(request, every_root=every_root)
    run, shown = compilation(request, progress, budget, decisions, trace, every_root=every_root), Shown()
    try:
        synthesis = (
            _by_steps(run, shown, warn) if request.size is None else _for_size(run, shown, request.size, warn)
        )
    except KeyboardInterrupt:
        if shown.best is None:
            raise
        synthesis = replace(finished(shown.best), cut_short=True, ending="interrupt")
    try:
        return replace(synthesis, verdict=verdict_of(synthesis, run.deadline))
    except KeyboardInterrupt:
        return replace(synthesis, cut_short=True, ending="interrupt")


@dataclass
class Shown:
    """``best``: what was shown as the best so far, which no Ctrl-C loses."""

    best: SolvedRequest | None = None


def verdict_of(synthesis: Synthesis, deadline: Deadline) -> TimeVerdict | None:
    """The time of what is written beside the limit and the library; None where no time is simulated."""
    from hetesynth.compile.time_verdict import time_verdict

    optimality, request = synthesis.time_optimality, synthesis.request
    if optimality.bound is None:
        return None
    options, root = CostOptions.of(request), synthesis.problem.collective.root
    without_library = None
    if not is_simulated(synthesis.topology, request.collective, root, optimality.size, options):
        seconds = TimeAhead.of(request, synthesis.topology.ranks).library()
        long = seconds > request.policy.compile.simulated_anyway
        if abandoned():
            without_library = "interrupted"
        elif long and deadline.expired("library not simulated", seconds):
            without_library = "the time budget is over"
    with synthesis.timer.phase("predict"):
        bounds = bounds_of(synthesis.topology, request.collective, root, options)
        if not synthesis.programs:
            return time_verdict(
                synthesis.topology, root, bounds, optimality.size, optimality.seconds, options, "schedule",
                without_library=without_library,
            )  # fmt: skip
        plan = synthesis.targets[0].format == "mscclpp-json"
        return time_verdict(
            synthesis.topology, root, bounds, optimality.size, synthesis.program_seconds, options,
            "plan" if plan else "program", without_library=without_library,
        )  # fmt: skip


def _by_steps(run: Compilation, shown: Shown, warn: Warn) -> Synthesis:
    """The schedule of the fewest steps; with objective time the quickest program for the size that it implies."""
    request = run.request
    by_time = request.objective == "time" and request.strategy == "auto" and not request.schedule_only
    solved = _step_search(run, warn, request.policy.compile.step_share if by_time else 1.0)
    shown.best = solved
    if solved.solution.ending == "interrupt" or request.schedule_only:
        return finished(solved)
    if by_time:
        return _quickest(run, shown, solved)
    return finished(_pipelined(run, solved) if request.strategy == "auto" else solved)


def _pipelined(run: Compilation, solved: SolvedRequest) -> SolvedRequest:
    """The same with the program that is quickest for the size that the chunks make."""
    from hetesynth.autotune.step_programs import step_candidate, step_program

    size = implied_size(solved.problem, solved.chunking.chunk_bytes)
    try:
        with run.timer.phase("choice"):
            ranked = step_program(solved, step_candidate(solved, size), size, run.deadline, run.decisions)
    except (HetesynthError, KeyboardInterrupt):  # the plain program is written
        return solved
    if ranked.seconds is not None:
        record = run.decisions.inside("files")
        record.note(ranked.candidate.label, "chosen", f"{ranked.way}: {microseconds(ranked.seconds)}")
    programs = replace(solved.programs, throttling=ranked.throttling, steady=ranked.steady)
    return replace(solved, programs=programs)


def _step_search(run: Compilation, warn: Warn, share: float) -> SolvedRequest:
    """The schedule of the fewest steps, found in ``share`` of the budget, its files' time left out."""
    from hetesynth.compile.verified_solver import verified_solver

    request, timer = run.request, run.timer
    chunking, problem = load_problem(request, timer)
    timer.expect(request, problem.ranks, warn, run.budget)
    strategy = strategy_of(request, chunking.topology)
    with timer.phase("search"):
        record = run.decisions.inside("steps")
        policy = for_steps(request.policy, run.budget.effort)
        solver = verified_solver(strategy, _for_search(run, problem.ranks, share), policy)
        solver = replace(solver, first_candidate=first_candidate(request, problem), trace=run.trace)
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


def _for_search(run: Compilation, ranks: int, share: float) -> Budget:
    """``share`` of the budget, or what is left of it without the time of the files."""
    ahead = TimeAhead.of(run.request, ranks)
    last = ahead.files(ahead.transfers(run.request.chunks)) + ahead.time_bounds()
    part, left = run.budget.part(share), run.budget_left.left_after(last * run.deadline.pace())
    return min(part, left, key=lambda budget: budget.seconds or 0.0)


def _quickest(run: Compilation, shown: Shown, solved: SolvedRequest) -> Synthesis:
    """The quickest program for the size that the chunks of ``solved`` make, be it of ``solved`` or not.

    Where the choice for that size fails, is interrupted or comes too late it is the program of ``solved``.
    """
    from hetesynth.autotune.choice import choose, with_schedule

    request, topology, timer = run.request, solved.chunking.topology, run.timer
    size, deadline = implied_size(solved.problem, solved.chunking.chunk_bytes), run.deadline
    sized = replace(request, size=size, chunking=replace(request.chunking, chunk_bytes=None))
    least = TimeAhead.of(request, topology.ranks).files(len(solved.solution.schedule.transfers))
    if deadline.expired("choice by time", least):
        return finished(solved)
    try:
        demand_addressable(request, size)
        with timer.phase("choice"):
            record = run.decisions.inside("time")
            budget = replace(run.budget_left, strict_deadline=True)
            chosen = choose(topology, sized, size, run.progress, budget, record, _keeping(run, shown), run.trace)
            chosen = with_schedule(chosen, sized, solved, deadline)
    except HetesynthError:
        return finished(solved)
    synthesis = _written(run, shown, chosen, size)
    ending = "interrupt" if "interrupt" in (chosen.run.ending, synthesis.ending) else solved.solution.ending
    synthesis = replace(synthesis, ending=ending)
    if synthesis.solution is solved.solution:
        return synthesis
    return replace(synthesis, step_model=step_model(solved), ending=ending)


def _keeping(run: Compilation, shown: Shown) -> Keep:
    """What keeps the best candidate of a tuning run as what was shown."""

    def keep(tuning: TuningRun, best: Ranked) -> None:
        choice = Choice(best.candidate.label, len(tuning.tried), True, (), "interrupt")
        shown.best = _solved(run, tuning, best, choice)

    return keep


def _solved(run: Compilation, tuning: TuningRun, entry: Ranked, choice: Choice) -> SolvedRequest:
    targets = run.request.targets
    timed = isinstance(entry.steady, SteadyState | LibraryProgram) and targets[0].format == "msccl-xml"
    seconds = entry.seconds if timed else None
    spec = ProgramSpec(targets, entry.throttling, *run.request.calls, steady=entry.steady, seconds=seconds)
    pipelined = entry.candidate.pipelined
    choice = replace(choice, pipelined=pipelined is not None, trees=None if pipelined is None else pipelined.trees)
    return entry.candidate.solved(run, spec, tuning.time_optimality(entry.candidate), choice)


def _for_size(run: Compilation, shown: Shown, size: int, warn: Warn) -> Synthesis:
    """The candidate with the quickest program for ``size`` whose programs fit every target."""
    from hetesynth.autotune.choice import choose

    request, timer = run.request, run.timer
    demand_addressable(request, size)
    with timer.phase("parse"):
        topology = load_topology(request.topology)
    timer.expect(request, topology.ranks, warn, run.budget)
    with timer.phase("search"):
        keep = _keeping(run, shown)
        chosen = choose(topology, request, size, run.progress, run.budget_left, run.decisions, keep, run.trace)
    return _written(run, shown, chosen, size)


def _written(run: Compilation, shown: Shown, chosen: Chosen, size: int) -> Synthesis:
    """The files of the first that fits every target, of those whose files are made in time."""
    tuning, interrupted = chosen.run, chosen.run.interrupted
    unfit: list[tuple[str, float, str]] = []
    refusal: HetesynthError | None = None
    record = run.decisions.inside("files")
    queue = list(chosen.ranked) if interrupted else in_time(chosen.ranked, run, record)
    shown.best = _solved(run, tuning, chosen.ranked[0], Choice(chosen.ranked[0].candidate.label, 1, True))
    while queue:
        if abandoned():
            raise KeyboardInterrupt
        entry = queue.pop(0)
        candidate = entry.candidate
        short = interrupted or bool(run.budget.clock_decisions)
        ending = "interrupt" if interrupted else "time" if short and not tuning.cut_short else tuning.ending
        others = ((one.candidate.label, one.seconds) for one in queue if one.candidate.label != candidate.label)
        runner_up = next(((label, seconds) for label, seconds in others if seconds is not None), None)
        choice = Choice(candidate.label, len(tuning.tried), short, tuple(unfit), ending, runner_up=runner_up)
        record.note(candidate.label, "chosen", _why_chosen(entry, first=entry is chosen.ranked[0]))
        try:
            solved = _solved(run, tuning, entry, choice)
            synthesis = judged_files(solved)
            demand_carried(synthesis, size)
            return synthesis if synthesis.program_seconds else replace(synthesis, program_seconds=entry.seconds)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            refusal = refusal or error
            unfit.append((candidate.label, candidate.seconds, error.message))
            record.note(candidate.label, "refused", error.message)
    raise refusal or InternalError("a tuning run without candidates")


def _why_chosen(entry: Ranked, *, first: bool) -> str:
    kind, seconds = ("schedule", entry.candidate.seconds) if entry.seconds is None else ("program", entry.seconds)
    next_best = "the quickest" if first else "the quickest that fits the targets and the time"
    return f"{next_best}, its {kind} takes {microseconds(seconds)}"
