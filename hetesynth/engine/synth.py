"""The main job: text -> Topology -> capacities -> Problem -> Schedule -> Program -> XML and JSON, each result
judged before anything is written."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.engine.artifacts import (
    UNFIT,
    Choice,
    ProgramSpec,
    SolvedRequest,
    Synthesis,
    demand_addressable,
    demand_callable,
    demand_carried,
    finished,
    judged_files,
    step_model,
)
from hetesynth.engine.choice.candidates import CandidateSpecs, strategy_of
from hetesynth.engine.choice.choice import Chosen, choose, with_schedule
from hetesynth.engine.choice.program_ranking import (
    Ranked,
    ranked_programs,
    step_candidate,
    step_program,
    timed_target,
)
from hetesynth.engine.choice.tuning import Effort
from hetesynth.engine.compilation import Compilation, PhaseTimer, compilation
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import (
    demand_first_candidate,
    first_candidate,
    load_problem,
    no_schedule,
    usable_topology,
    verified_solver,
)
from hetesynth.engine.program_warnings import demand_single_root
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import Bounds, Timed, TimeVerdict, implied_size, time_verdict
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import no_deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.topology import Topology
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.model.words import microseconds
from hetesynth.processes import Tell, last_result
from hetesynth.search.chunking import Chunking
from hetesynth.search.effort import for_steps
from hetesynth.search.interrupts import abandoned
from hetesynth.search.registry import demand_strategy
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.believable import load_topology

GRACE = 300.0
"""Seconds after the budget for the first result where there is none."""
STEP_SHARE = 0.75
"""Of the budget for the search whose schedule is lowered and judged after it."""
FIRST_ONLY = 0.01
"""Seconds after which nothing but a first schedule is begun."""


def synthesize(
    request: Request,
    progress: Progress = no_progress,
    budget: Budget | None = None,
    decisions: Decisions | None = None,
    trace: CegisTrace | None = None,
    *,
    began: float | None = None,
    every_root: bool = False,
) -> Synthesis:
    """Return the synthesis of ``request``. HetesynthError when there is no schedule (exit 1) or none was found
    (exit 3). Where ``budget`` has seconds the work is done in a process that hands over each better ``Synthesis``
    and is killed when they are over: the last one is the result, and says that it was cut short. ``began``: the
    moment of ``time.monotonic`` from which the seconds count. ``decisions``, ``trace``: records to write to, kept
    where nothing is found too."""
    spent = budget or request.budget
    record = Decisions() if decisions is None else decisions
    steps = CegisTrace() if trace is None else trace
    if spent.seconds is None:
        return synthesized(compilation(request, progress, spent, record, steps, every_root=every_root))
    before, began = len(steps.entries), time.monotonic() if began is None else began

    def work(tell: Tell) -> Synthesis:
        def improved(synthesis: Synthesis) -> None:
            tell("result", with_warnings(synthesis))

        def told(what: str, best: int | None) -> None:
            tell("progress", (what, best))

        try:
            run = compilation(request, told, spent, record, steps, every_root=every_root, improved=improved)
            return with_warnings(synthesized(run))
        finally:
            tell("records", (record.entries, steps.entries[before:]))

    def heard(kind: str, value: Any) -> None:
        if kind == "progress":
            progress(*value)
        else:
            record.entries[:], steps.entries[before:] = value

    synthesis, ending = last_result(work, began + spent.seconds, GRACE, heard)
    if synthesis is None:
        share = ", the share of one root" if every_root else ""
        if ending == "interrupt":
            raise KeyboardInterrupt
        message = f"nothing was found, judged and timed in {spent.seconds:.3g} s{share}, nor {GRACE:.3g} s later"
        raise HetesynthError(message, code="HS602", exit_code=3, help="raise --time-budget, or leave it out")
    if ending == "done":
        return synthesis
    heard("records", (synthesis.decisions, synthesis.cegis))
    timer, choice = synthesis.timer, synthesis.choice
    missing = max(0.0, time.monotonic() - began - timer.total)
    timer.phases["search"] = timer.phases.get("search", 0.0) + missing
    by_clock = ("search",) if ending == "time" else ()
    cut = replace(
        synthesis,
        cut_short=True,
        ending=ending,
        solution=replace(synthesis.solution, cut_short=True, ending=ending),
        choice=None if choice is None else replace(choice, cut_short=True, ending=ending),
        decided_by_clock=tuple(dict.fromkeys((*synthesis.decided_by_clock, *by_clock))),
    )
    vars(cut)["warnings"] = synthesis.warnings  # they do not depend on the ending
    return cut


def for_every_root(
    request: Request,
    progress: Progress = no_progress,
    trace: CegisTrace | None = None,
    *,
    began: float | None = None,
) -> list[Synthesis]:
    """Return one synthesis for each root, in order; every root gets its share of what is left of a time budget.
    After an interrupt the roots that are left get what a first schedule takes. HetesynthError HS303 where the
    collective has no root, HS514 where a target would take the first file for every root."""
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=False, every=True)
    ranks, seconds, steps = load_topology(request.topology).ranks, request.budget.seconds, trace or CegisTrace()
    until = (time.monotonic() if began is None else began) + (seconds or 0.0)
    syntheses: list[Synthesis] = []
    for root in range(ranks):
        asked, part = replace(request, root=root), steps.inside(f"root {root}")
        stopped = any(synthesis.ending == "interrupt" for synthesis in syntheses)
        share = None if seconds is None else max(FIRST_ONLY, (until - time.monotonic()) / (ranks - root))
        budget = replace(request.budget, seconds=FIRST_ONLY if stopped else share)
        if seconds is None:
            syntheses.append(synthesized(compilation(asked, progress, budget, trace=part, every_root=True)))
        else:
            syntheses.append(synthesize(asked, progress, budget, trace=part, every_root=True))
    return syntheses


def write_every_root(syntheses: Sequence[Synthesis], stem: Path) -> list[Path]:
    """Write all files of all roots, ``stem-root3.xml`` and so on, all or none; return the paths, root by root."""
    from hetesynth.files.atomic import write_all

    paths = {
        stem.with_name(f"{stem.name}-root{synthesis.request.root}{suffix}"): data
        for synthesis in syntheses
        for suffix, data in synthesis.files.items()
    }
    write_all(paths)
    return list(paths)


def with_warnings(synthesis: Synthesis) -> Synthesis:
    """Return ``synthesis`` with its warnings made, which it keeps: they are pickled with it."""
    vars(synthesis)["warnings"] = synthesis.warnings  # which keeps them: they are pickled with it
    return synthesis


def synthesized(run: Compilation) -> Synthesis:
    """Return the synthesis that ``run`` finds, in this process: after its deadline no candidate is begun."""
    request, shown = run.request, Shown()
    demand_strategy(request.strategy, sized=request.size is not None)
    demand_first_candidate(request)
    demand_callable(request, every_root=run.every_root)
    try:
        if request.size is None:
            synthesis = _by_steps(run, shown)
        else:
            demand_addressable(request, request.size)
            with run.timer.phase("parse"):
                topology = usable_topology(request)
            with run.timer.phase("search"):
                chosen = _chosen(run, shown, topology, request, run.budget_left, run.decisions)
            synthesis = _written(run, shown, chosen, request.size)
    except KeyboardInterrupt:
        if shown.best is None:
            raise
        synthesis = replace(finished(shown.best), cut_short=True, ending="interrupt")
    try:
        return replace(synthesis, verdict=verdict_of(synthesis))
    except KeyboardInterrupt:
        return replace(synthesis, cut_short=True, ending="interrupt")


@dataclass
class Shown:
    """The results so far. ``best``: what no Ctrl-C loses, and its ``seconds``. ``handed``: the seconds of the one
    whose files were handed over last."""

    best: SolvedRequest | None = None
    seconds: float = math.inf
    handed: float = math.inf


def verdict_of(synthesis: Synthesis) -> TimeVerdict | None:
    """Return the verdict on the first program, else on the schedule; None where the schedule was not simulated."""
    optimality, request = synthesis.time_optimality, synthesis.request
    if optimality.bound is None:
        return None
    options, goal, first = CostOptions.of(request), synthesis.problem.collective, synthesis.first_times
    timed: Timed = synthesis.targets[0].format.kind if synthesis.programs else "schedule"
    times = optimality.seconds, optimality.line_seconds
    if synthesis.programs:
        times = first.seconds, first.line_seconds
    with synthesis.timer.phase("predict"):
        question = synthesis.topology, goal.name, goal.root, optimality.size, times, options, timed
        return time_verdict(*question, target=synthesis.targets[0], useful=first.useful, ranged=first.compared)


def _by_steps(run: Compilation, shown: Shown) -> Synthesis:
    """Return the schedule of the fewest steps with its quickest program; with objective time see ``_quickest``."""
    request = run.request
    chunking, problem = load_problem(request, run.timer)
    strategy_of(request, chunking.topology)  # what cannot be asked for is refused before anything is searched for
    if request.objective == "time" and request.strategy == "auto" and not request.schedule_only:
        return _quickest(run, shown, chunking, problem)
    solved = _step_search(run, chunking, problem, run.budget.part(STEP_SHARE))
    shown.best = solved
    last = request.schedule_only or request.strategy != "auto" or solved.solution.ending == "interrupt"
    if last or run.improved is not None:  # the verdict, and a quicker program of it, may come too late
        synthesis = finished(solved)
        if run.improved is not None:
            run.improved(replace(synthesis, verdict=verdict_of(synthesis)))
        if last:
            return synthesis
    size = implied_size(problem, chunking.chunk_bytes)
    try:
        with run.timer.phase("choice"):
            ranked = step_program(solved, step_candidate(solved, size), size, run.deadline, run.decisions)
    except HetesynthError:  # the plain program is written
        return finished(solved)
    except KeyboardInterrupt:  # and the run is reported as interrupted
        return finished(replace(solved, solution=replace(solved.solution, ending="interrupt", cut_short=True)))
    if ranked.seconds is not None:
        record = run.decisions.inside("files")
        record.note(ranked.candidate.label, "chosen", f"{ranked.way}: {microseconds(ranked.seconds)}")
    programs = replace(solved.programs, steady=ranked.steady)
    return finished(replace(solved, programs=programs))


def _step_search(run: Compilation, chunking: Chunking, problem: Problem, budget: Budget) -> SolvedRequest:
    """Return the schedule of the fewest steps found with ``budget``. HetesynthError HS601, HS602: none."""
    request, timer = run.request, run.timer
    strategy = strategy_of(request, chunking.topology)
    with timer.phase("search"):
        record = run.decisions.inside("steps")
        policy, first = (
            for_steps(request.policy, run.budget.effort),
            first_candidate(request, problem, chunking.topology),
        )
        told = {"progress": run.progress, "decisions": record, "trace": run.trace}
        outcome = verified_solver(strategy, budget, policy, first_candidate=first, **told).solve(problem)
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


def _quickest(run: Compilation, shown: Shown, chunking: Chunking, problem: Problem) -> Synthesis:
    """Return the program of the fewest steps for the size that the chunks make if ``with_schedule`` takes it, else
    the quickest. The choice precedes the search for steps. If it fails the program of the fewest steps is written;
    if that search is interrupted, or finds nothing, ``step_model`` is None."""
    request, topology, size = run.request, chunking.topology, implied_size(problem, chunking.chunk_bytes)
    sized = replace(request, size=size, chunking=replace(request.chunking, chunk_bytes=None))
    chosen: Chosen | None = None
    try:
        demand_addressable(request, size)
        with run.timer.phase("choice"):
            budget, record = run.budget_left.part(STEP_SHARE), run.decisions.inside("time")
            chosen = _chosen(run, shown, topology, sized, budget, record)
    except HetesynthError:  # too large or too small a size, too little time
        pass
    if chosen is None:
        shown.best = _step_search(run, chunking, problem, run.budget_left)
        return finished(shown.best)
    solved: SolvedRequest | None = None
    interrupted = chosen.run.interrupted
    try:
        if not interrupted:
            solved = _step_search(run, chunking, problem, run.budget_left)
            interrupted = solved.solution.ending == "interrupt"
    except KeyboardInterrupt:
        interrupted = True
    except HetesynthError as error:
        if error.code != "HS602":  # another than that the search gave up
            raise
    if solved is not None and not interrupted:
        chosen = with_schedule(chosen, sized, solved, run.deadline)
    synthesis = _written(run, shown, chosen, size)
    if solved is None or synthesis.solution is solved.solution:
        return replace(synthesis, ending="interrupt", cut_short=True) if interrupted else synthesis
    ending = "interrupt" if interrupted or synthesis.ending == "interrupt" else solved.solution.ending
    return replace(synthesis, step_model=step_model(solved), ending=ending)


def _chosen(
    run: Compilation, shown: Shown, topology: Topology, sized: Request, budget: Budget, record: Decisions
) -> Chosen:
    """Return the candidates for the size of ``sized``, the quickest program first. The best so far is kept in
    ``shown``; its files are handed over to whoever ends the run in time, if it is much quicker than the last of
    which files were made."""
    size, untimed = sized.size or 0, timed_target(run.request) is None

    def keep(bounds: Bounds, tried: int, ranked: Ranked) -> None:
        seconds = _seconds(ranked)
        if (shown.best is None or ranked.seconds is not None) and seconds < shown.seconds:
            choice = Choice(ranked.candidate.label, tried, True, "interrupt")
            shown.best, shown.seconds = _solved(run, bounds, size, ranked, choice), seconds
        if run.improved is None or seconds > 0.95 * shown.handed:
            return
        if ranked.seconds is None and not untimed:
            specs = CandidateSpecs(topology, run.request, size)
            effort = Effort(math.inf)
            ranked = ranked_programs(specs, [ranked.candidate], no_deadline(), Decisions(), effort)[0]
        if (ranked.seconds is None and not untimed) or _seconds(ranked) >= shown.handed:
            return
        choice = Choice(ranked.candidate.label, tried, True, "time")
        apart = replace(run, timer=PhaseTimer())  # for the whole run this is a part of the search
        try:
            synthesis = _judged(apart, bounds, size, ranked, choice)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
        else:
            run.improved(replace(synthesis, verdict=verdict_of(synthesis)))
            shown.handed = _seconds(ranked)

    soon = run.improved is not None
    return choose(CandidateSpecs(topology, sized, size), run.progress, budget, record, keep, run.trace, soon=soon)


def _seconds(ranked: Ranked) -> float:
    """Return the seconds of the program, or of the schedule where there is no program or it was not timed."""
    return ranked.candidate.seconds if ranked.seconds is None else ranked.seconds


def _judged(run: Compilation, bounds: Bounds, size: int, ranked: Ranked, choice: Choice) -> Synthesis:
    """Return the judged files of ``ranked``. HetesynthError HS509: a program is of no use for ``size`` bytes."""
    synthesis = judged_files(_solved(run, bounds, size, ranked, choice))
    demand_carried(synthesis, size)
    return synthesis


def _solved(run: Compilation, bounds: Bounds, size: int, entry: Ranked, choice: Choice) -> SolvedRequest:
    spec = ProgramSpec(run.request.targets, steady=entry.steady)
    return entry.candidate.solved(run, spec, bounds.optimality(size, entry.candidate.seconds), choice)


def _written(run: Compilation, shown: Shown, chosen: Chosen, size: int) -> Synthesis:
    """Return the files of the first candidate that fits every target."""
    tuning, interrupted = chosen.run, chosen.run.interrupted
    refusal: HetesynthError | None = None
    record = run.decisions.inside("files")
    queue, first = list(chosen.ranked), chosen.ranked[0]
    shown.best = _solved(run, tuning.bounds, size, first, Choice(first.candidate.label, 1, True))
    while queue:
        if abandoned():
            raise KeyboardInterrupt
        entry = queue.pop(0)
        candidate = entry.candidate
        short = interrupted or bool(run.budget.clock_decisions)
        ending = "interrupt" if interrupted else "time" if short and not tuning.cut_short else tuning.ending
        others = ((one.candidate.label, one.seconds) for one in queue if one.candidate.label != candidate.label)
        runner_up = next(((label, seconds) for label, seconds in others if seconds is not None), None)
        choice = Choice(candidate.label, len(tuning.tried), short, ending, runner_up=runner_up)
        kind, took = ("schedule", candidate.seconds) if entry.seconds is None else ("program", entry.seconds)
        rank = "the best" if entry is first else "the best that fits the targets"
        record.note(candidate.label, "chosen", f"{rank}, its {kind} takes {microseconds(took)}")
        try:
            return _judged(run, tuning.bounds, size, entry, choice)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            refusal = refusal or error
            record.note(candidate.label, "refused", error.message)
    raise refusal or InternalError("a tuning run without candidates")
