"""A result as a report: what the page, the picture and the trace of it show; report/ only draws.

The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.predictors import (
    CostOptions,
    PlanPredictor,
    Prediction,
    ProgramPredictor,
    SchedulePredictor,
    first_predictor,
    prediction,
    sizes_between,
)
from hetesynth.engine.problem import verified_solver
from hetesynth.engine.ring_baseline import NAMES, ring_baseline
from hetesynth.engine.simulate import file_predictor
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import Collective
from hetesynth.model.cost import costed
from hetesynth.model.problem import Arc, Budget, Problem
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.time_bound import TimeBound, of_scope, tightest
from hetesynth.model.topology import Topology
from hetesynth.model.words import counted, runtime_words, size_text
from hetesynth.report.contents import CegisRun, Curve, ProgramRun, Report, ScheduleRun
from hetesynth.search.chunking import chunk
from hetesynth.topology.language import TopologySource

BASELINES = ("double-tree", "sph", "all-pairs", "doubling", "hierarchical")


def baseline_curves(
    topology: Topology, problem: Problem, sizes: tuple[int, ...], options: CostOptions
) -> tuple[list[Curve], tuple[str, ...]]:
    """The baselines that apply, and why others do not. What NCCL runs is timed as a program; on many ranks at
    three sizes, between which it grows evenly."""
    import numpy as np

    from hetesynth.search.collectives import collective
    from hetesynth.search.registry import strategy
    from hetesynth.search.solve import Solution

    missing: list[str] = []
    goal = problem.collective
    few = sizes
    if goal.ranks > 32 and len(sizes) > 3:
        few = sizes[0], sizes[round((len(sizes) - 1) / 2)], sizes[-1]
    rings = [ring_baseline(topology, goal.name, goal.root, size, options) for size in few[:1]]
    if not isinstance(rings[0], str):
        rings += [ring_baseline(topology, goal.name, goal.root, size, options) for size in few[1:]]
    refusal = next((rival for rival in rings if isinstance(rival, str)), None)
    curves: list[Curve] = []
    if refusal is not None:
        missing.append(f"Baseline ring does not apply: {refusal}.")
    else:
        between = np.interp(sizes, few, [rival.seconds for rival in rings if not isinstance(rival, str)])
        curves.append(Curve(f"{NAMES[goal.name]}, program", "baseline", tuple(between.tolist())))
    for chunks in (max(4, goal.chunks_per_rank), goal.chunks_per_rank, 1):  # 4: as many as libraries have channels
        parts = collective(goal.name, goal.ranks, chunks, goal.root)
        problem = replace(problem, max_peers=None, collective=parts)
        moves = sum(len(pre | post) - 1 for pre, post in zip(parts.pre, parts.post, strict=True))
        if moves <= MAX_BASELINE_MOVES:
            break
    else:
        which, more = "Other baselines" if curves else "Baselines", f"more than {MAX_BASELINE_MOVES:,} deliveries"
        return curves, (*missing, f"{which} are left out: there are {more}.")
    if chunks != goal.chunks_per_rank:
        missing.append(f"Baselines have {counted(chunks, 'chunk')} per rank.")
    by_times: dict[tuple[float, ...], list[str]] = {}
    for name in BASELINES:
        try:
            outcome = verified_solver(strategy(name), Budget(), options.policy).solve(problem)
        except HetesynthError as error:
            reason = error.message.rpartition("this problem: ")[2]
            missing.append(f"Baseline {name} does not apply: {reason}.")
            continue
        if isinstance(outcome, Solution):
            predictor = SchedulePredictor(topology, problem, outcome.schedule, options)
            by_times.setdefault(tuple(predictor.predict(s).seconds for s in sizes), []).append(name)
    curves += [Curve(" = ".join(names), "baseline", seconds) for seconds, names in by_times.items()]
    return curves, tuple(missing)


MAX_BASELINE_MOVES = 10_000  # of chunks, and of parts of sums
SMALLEST, LARGEST = 1_000, 4_000_000_000
MAX_TRANSFERS = 200_000  # of a schedule that is drawn


@dataclass(frozen=True)
class _Subject:
    """What is reported on, before anything of it is run."""

    title: str
    topology: Topology
    size: int
    sizes: tuple[int, ...]
    options: CostOptions
    problem: Problem | None
    schedule: SchedulePredictor | None
    program: ProgramPredictor | PlanPredictor | None
    facts: tuple[tuple[str, str], ...]
    certificate: tuple[str, ...]
    notes: tuple[str, ...]
    capacities: bool
    cegis: CegisRun | None = None
    derived: bool = False  # the schedule is read off the program, only to be drawn
    verdict: str = ""


def report_of_synthesis(synthesis: Synthesis) -> Report:
    """The report of ``synthesis``, for the size it was made for or, without one, that which its chunks make.

    Raises HetesynthError HS573 for more transfers than can be drawn.
    """
    from hetesynth.engine.page.report_cegis import cegis_run

    problem, solution = synthesis.problem, synthesis.solution
    options = CostOptions.of(synthesis.request)
    shown = synthesis.time_optimality.size
    collective = problem.collective
    facts: tuple[tuple[str, str], ...] = (
        ("Steps", str(solution.certificate.steps)),
        ("Lower bound", counted(solution.certificate.bound.steps, "step")),
        ("Transfers", f"{len(solution.schedule.transfers):,}"),
        ("Strategy", synthesis.strategy),
        ("Step (tau_ref)", f"{float(synthesis.chunking.tau_ref) * 1e6:.4g} us"),
    )
    if synthesis.choice is not None:
        facts += (("Chosen", synthesis.choice.label),)
    program = first_predictor(synthesis.topology, synthesis.programs, options)
    notes = tuple(f"WARNING: {warned.message}; {warned.help}." for warned in synthesis.warnings)
    notes += () if synthesis.advice is None else (f"{synthesis.advice.message}.",)
    notes += () if program is not None else ("No program was made: thread blocks are not shown.",)
    certificate = solution.certificate
    said = [
        f"The schedule takes {counted(certificate.steps, 'step')}. No schedule of the step model takes fewer than "
        f"{certificate.bound.steps}: {certificate.bound.proof}.",
        "The two meet: it is proven optimal in steps."
        if certificate.proven_optimal
        else f"It is at most {counted(certificate.gap, 'step')} from optimal.",
    ]
    if solution.within is not None and not certificate.proven_optimal and solution.within == certificate.steps:
        said.append("It is optimal among schedules that put a reduce-scatter before an allgather.")
    checked = "The bound was rechecked from its witness by code that shares nothing with what found it"
    said.append(f"{checked}, but for {synthesis.recheck.open}." if synthesis.recheck.open else f"{checked}.")
    programs = ", and every program read back and executed" if synthesis.programs else ""
    said.append(f"The schedule was replayed transfer by transfer{programs}; nothing was found wrong.")
    return _report(
        _Subject(
            title=f"{synthesis.topology.name}: {collective.name}",
            topology=synthesis.topology,
            size=shown,
            sizes=tuple(sorted({*sizes_between(SMALLEST, LARGEST), shown})),
            options=options,
            problem=problem,
            schedule=SchedulePredictor(synthesis.topology, problem, solution.schedule, options),
            program=program,
            facts=facts,
            certificate=tuple(said),
            notes=notes,
            capacities=True,
            cegis=cegis_run(synthesis),
            verdict="" if synthesis.verdict is None else synthesis.verdict.line,
        )
    )


def report_of_file(
    path: Path,
    topology: TopologySource,
    sizes: Sequence[int],
    options: CostOptions,
    *,
    shown: int | None = None,
    title: str = "",
    verdict: str = "",
    target: Target = PORTABLE,
) -> Report:
    """The report of a schedule JSON, an MSCCL XML with the messages of ``target``, or an MSCCL++ plan, at the size
    ``shown``: without one, at the largest of ``sizes`` up to 256 MB. ``title``: instead of the file's name.

    Raises HetesynthError for what cannot be simulated.
    """
    from hetesynth.programs.lifting.buffers import shape
    from hetesynth.programs.lifting.lift import lift
    from hetesynth.search.collectives import collective
    from hetesynth.topology.language import load_topology

    cluster = load_topology(topology)
    predictor = file_predictor(path, cluster, options, target)
    schedule: SchedulePredictor | None = None
    program: ProgramPredictor | PlanPredictor | None = None
    if isinstance(predictor, SchedulePredictor):
        schedule = predictor
        notes: tuple[str, ...] = ("Thread blocks are not shown: the file is a schedule, not a program.",)
    elif isinstance(predictor, ProgramPredictor):
        program, moves = predictor, predictor.program
        try:
            size = shape(moves)
            asked = collective(moves.collective, moves.ranks, size.chunks_per_rank, moves.root)
            room = sum(len(b.instructions) for gpu in moves.gpus for b in gpu.thread_blocks) + 1
            arcs = tuple(Arc(link.src, link.dst, room) for link in cluster.links)
            graph = Problem(cluster.ranks, cluster.ranks, (), arcs, (), asked)
            lifted = lift(moves, asked, size.pieces, graph)
            schedule = SchedulePredictor(cluster, lifted.problem, lifted.schedule, options)
            notes = (
                "Steps are those in which the transfers of the program depend on each other; the times of wires "
                "and links are those of a schedule with these steps, not of the program.",
            )
        except (HetesynthError, ValueError) as error:
            notes = (f"The program is not shown as steps: {error}.",)
    else:
        program = predictor
        notes = ("The plan is not shown as steps: it moves data without messages to read them off.",)
    facts: tuple[tuple[str, str], ...] = ((predictor.kind.capitalize(), path.name),)
    if schedule is not None:
        moved = schedule.schedule
        facts += (("Steps", str(moved.makespan)), ("Transfers", f"{len(moved.transfers):,}"))
    goal = None if schedule is None else chunk(cluster).problem(schedule.problem.collective)
    return _report(
        _Subject(
            title=title or f"{cluster.name}: {path.name}",
            topology=cluster,
            size=shown or max((s for s in sizes if s <= 256_000_000), default=min(sizes)),
            sizes=tuple(sizes),
            options=options,
            problem=goal,
            schedule=schedule,
            program=program,
            facts=facts,
            certificate=("The number of steps is not judged here: hetesynth bounds says what no schedule beats.",),
            notes=notes,
            capacities=False,
            derived=program is not None,
            verdict=verdict,
        )
    )


def report_files(report: Report, page: Path | None, trace: Path | None) -> Mapping[Path, bytes]:
    """What is to be written: the page (or the picture, where its name ends in .svg), the trace, or both.

    Raises HetesynthError HS572 for a picture of a program that is not shown as steps.
    """
    files: dict[Path, bytes] = {}
    if page is not None and page.suffix.lower() == ".svg":
        from hetesynth.report.svg import schedule_svg

        if report.run is None:
            raise HetesynthError(
                "there are no steps to draw: the program moves what no schedule can say",
                code="HS572",
                help="use --report FILE.html",
            )
        title = f"{report.title} in {counted(report.run.schedule.makespan, 'step')}"
        files[page] = schedule_svg(report.topology, report.run.problem, report.run.schedule, title).encode()
    elif page is not None:
        from hetesynth.report.html.page import html_page

        files[page] = html_page(report)
    if trace is not None:
        from hetesynth.report.trace import chrome_trace

        files[trace] = chrome_trace(report)
    return files


def write_reports(report: Report, page: Path | None, trace: Path | None) -> list[Path]:
    """Write the page and the trace, both or none; their paths."""
    from hetesynth.files.atomic import write_all

    files = report_files(report, page, trace)
    write_all(files)
    return list(files)


# -- parts of a report


def _report(subject: _Subject) -> Report:
    predictor = subject.schedule
    count = 0 if predictor is None else len(predictor.schedule.transfers)
    if count > MAX_TRANSFERS:
        raise HetesynthError(
            f"there are too many transfers for a report: {count:,}, at most {MAX_TRANSFERS:,}",
            code="HS573",
            help="what --report and --trace would show is not written; everything else is",
        )
    from hetesynth.engine.page.report_blocks import plan_run, program_run
    from hetesynth.report.contents import Report, ScheduleRun
    from hetesynth.search.bounds.throughput import time_bounds

    problem, sizes, topology, options = subject.problem, subject.sizes, subject.topology, subject.options
    bounds: tuple[TimeBound, ...] = ()
    compared: list[Curve] = []
    missing: tuple[str, ...] = ()
    goal: Collective | None = None  # what is carried out, as far as it is known
    if problem is not None:
        goal = problem.collective
        rates = calibrated(topology, options.rates)
        bounds = time_bounds(rates, goal.name, goal.root, options.policy)
        compared, missing = baseline_curves(topology, problem, sizes, options)
    elif isinstance(subject.program, PlanPredictor):
        goal = subject.program.asked()
    run: ScheduleRun | None = None
    timed: list[tuple[str, Prediction]] = []
    curves: list[Curve] = []
    if predictor is not None:
        timeline = predictor.timeline(subject.size)
        run = ScheduleRun(predictor.problem, predictor.schedule, timeline, subject.capacities)
        if not subject.derived:
            name = predictor.problem.collective.name
            timed.append(("schedule", prediction(name, topology.ranks, subject.size, timeline)))
            seconds = tuple(predictor.predict(s).seconds for s in sizes)
            curves.append(Curve("this schedule", "schedule", seconds))
    program: ProgramRun | None = None
    if isinstance(subject.program, PlanPredictor):
        program = plan_run(subject.program, subject.size, goal)
    elif subject.program is not None:
        program = program_run(subject.program, subject.size)
        if program.shown < program.loops:
            loops = f"The program loops {program.loops:.4g} times over the buffer"
            missing = (*missing, f"{loops}; {program.shown} loops are drawn.")
    if program is not None and subject.program is not None:
        name = subject.program.collective
        timed.append(("program", prediction(name, topology.ranks, subject.size, program.timeline)))
        seconds = tuple(subject.program.predict(s).seconds for s in sizes)
        curves.append(Curve("this program", "program", seconds))
    curves += compared
    if bounds:
        launch = options.launch(topology)
        least = tuple(launch + float(tightest(bounds, s).seconds(s)) for s in sizes)
        curves.append(Curve("lower bound", "bound", least))
    facts = [("Size", size_text(subject.size)), ("GPUs", str(topology.ranks))]
    for kind, run_of_it in reversed(timed):
        what = "Schedule step by step" if kind == "schedule" else kind.capitalize()
        facts.append((f"{what}, predicted", f"{run_of_it.seconds * 1e6:,.1f} us"))
        speeds = f"{run_of_it.algorithm_bandwidth / 1e9:.1f} / {run_of_it.bus_bandwidth / 1e9:.1f} GB/s"
        facts.append((f"{what}, algbw / busbw", speeds))
    return Report(
        title=subject.title,
        topology=topology,
        collective=goal,
        size=subject.size,
        facts=(*facts, *subject.facts),
        certificate=(*subject.certificate, *_in_time(subject, bounds, timed)),
        notes=(*subject.notes, *missing),
        run=run,
        program=program,
        sizes=sizes,
        curves=tuple(curves),
        verdict=subject.verdict,
        cegis=subject.cegis,
    )


def _in_time(
    subject: _Subject, bounds: tuple[TimeBound, ...], timed: list[tuple[str, Prediction]]
) -> tuple[str, ...]:
    """The bound in time at the size shown, and how near the predictions are to it."""
    if not bounds:
        return ()
    bound = tightest(bounds, subject.size)
    launch = subject.options.launch(subject.topology)
    least = launch + float(bound.seconds(subject.size))
    started = f", once the kernel has started ({launch * 1e6:g} us)" if launch else ""
    said = [
        f"No schedule, however fine its chunks, moves {size_text(subject.size)} in less than "
        f"{least * 1e6:,.1f} us: {bound.proof}{started}."
    ]
    trees = [float(b.seconds(subject.size)) for b in of_scope(bounds, "tree-based")]
    if max(trees, default=0.0) > least:
        said.append(
            f"Along in-trees to one rank and out-trees from there it takes at least {max(trees) * 1e6:,.1f} us."
        )
    for name, predicted in timed:
        if predicted.seconds > 0:
            share = least / predicted.seconds
            said.append(
                f"The {name} is predicted to take {predicted.seconds * 1e6:,.1f} us: {share:.1%} of the speed "
                "that this bound allows."
            )
    options = subject.options
    costs = runtime_words(costed(options.runtime, options.rates))
    how = f"calibration {options.rates}, {costs}"
    said.append(f"Times are simulated ({how}), not measured.")
    return tuple(said)
