"""A result as a report: what the page, the picture and the trace of it show; report/ only draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.predictors import (
    CostOptions,
    PlanPredictor,
    ProgramPredictor,
    SchedulePredictor,
    first_predictor,
    sizes_between,
)
from hetesynth.engine.ring_baseline import NAMES, ring_baseline
from hetesynth.engine.simulate import file_predictor
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import Collective
from hetesynth.model.cost import costed
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.time_bound import TimeBound, tightest
from hetesynth.model.topology import Topology
from hetesynth.model.words import counted, runtime_words, size_text
from hetesynth.report.contents import Curve, ProgramRun, Report, Role, ScheduleRun
from hetesynth.search.collectives import collective
from hetesynth.topology.language import TopologySource, load_topology


def library_curve(
    topology: Topology, goal: Collective, sizes: tuple[int, ...], options: CostOptions
) -> tuple[list[Curve], tuple[str, ...]]:
    """What NCCL runs, timed as a program, or why it cannot be; on many ranks at three sizes and evenly between."""
    import numpy as np

    few = sizes
    if goal.ranks > 32 and len(sizes) > 3:
        few = sizes[0], sizes[round((len(sizes) - 1) / 2)], sizes[-1]
    seconds: list[float] = []
    for size in few:
        rings = ring_baseline(topology, goal.name, goal.root, size, options)
        if isinstance(rings, str):
            return [], (f"{NAMES[goal.name]} are not shown: {rings}.",)
        seconds.append(rings.seconds)
    between = np.interp(sizes, few, seconds)
    return [Curve(f"{NAMES[goal.name]}, program", "baseline", tuple(between.tolist()))], ()


SMALLEST, LARGEST = 1_000, 4_000_000_000
MAX_TRANSFERS = 200_000  # of a schedule that is drawn


def report_of_synthesis(synthesis: Synthesis) -> Report:
    """The report of ``synthesis``, for the size it was made for or that its chunks make. HetesynthError HS573: too
    large."""
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
    notes += () if synthesis.advice is None else (f"{synthesis.advice}.",)
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
    left = f", but for {synthesis.recheck.open}" if synthesis.recheck.open else ""
    said.append(f"The bound was rechecked from its witness by code that shares nothing with what found it{left}.")
    programs = ", every program read back and executed" if synthesis.programs else ""
    said.append(f"The schedule was replayed transfer by transfer{programs}.")
    draft = Report(
        title=f"{synthesis.topology.name}: {collective.name}",
        topology=synthesis.topology,
        collective=collective,
        size=shown,
        sizes=tuple(sorted({*sizes_between(SMALLEST, LARGEST), shown})),
        facts=facts,
        certificate=tuple(said),
        notes=notes,
        verdict="" if synthesis.verdict is None else synthesis.verdict.line,
    )
    schedule = SchedulePredictor(synthesis.topology, problem, solution.schedule, options)
    return _drawn(draft, schedule, program, options, capacities=True)


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
    ``shown``: without one, at the largest of ``sizes`` up to 256 MB. ``title``: instead of the file's name."""
    from hetesynth.programs.lifting.buffers import shape
    from hetesynth.programs.lifting.lift import lift

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
    draft = Report(
        title=title or f"{cluster.name}: {path.name}",
        topology=cluster,
        collective=None if schedule is None else schedule.problem.collective,
        size=shown or max((s for s in sizes if s <= 256_000_000), default=min(sizes)),
        sizes=tuple(sizes),
        facts=facts,
        certificate=("The number of steps is not judged here: hetesynth bounds says what no schedule beats.",),
        notes=notes,
        verdict=verdict,
    )
    return _drawn(draft, schedule, program, options, capacities=False)


def report_files(report: Report, page: Path | None, trace: Path | None) -> Mapping[Path, bytes]:
    """The page (or the picture, where its name ends in .svg), the trace, or both. HetesynthError HS572: no steps
    to draw."""
    files: dict[Path, bytes] = {}
    if page is not None and page.suffix.lower() == ".svg":
        from hetesynth.report.svg import schedule_svg

        if report.run is None:
            message = "there are no steps to draw: the program moves what no schedule can say"
            raise HetesynthError(message, code="HS572", help="use --report FILE.html")
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


def _drawn(
    draft: Report,
    schedule: SchedulePredictor | None,
    program: ProgramPredictor | PlanPredictor | None,
    options: CostOptions,
    *,
    capacities: bool,
) -> Report:
    """``draft`` with what ran, with its curves, and with what these say."""
    count = 0 if schedule is None else len(schedule.schedule.transfers)
    if count > MAX_TRANSFERS:
        message = f"there are too many transfers for a report: {count:,}, at most {MAX_TRANSFERS:,}"
        way_out = "what --report and --trace would show is not written; everything else is"
        raise HetesynthError(message, code="HS573", help=way_out)
    from hetesynth.engine.page.report_blocks import plan_run, program_run
    from hetesynth.search.bounds.throughput import time_bounds

    goal, size, sizes, topology = draft.collective, draft.size, draft.sizes, draft.topology
    bounds: tuple[TimeBound, ...] = ()
    compared: list[Curve] = []
    notes = list(draft.notes)
    if goal is not None:
        bounds = time_bounds(calibrated(topology, options.rates), goal.name, goal.root, options.policy)
        compared, missing = library_curve(topology, goal, sizes, options)
        notes += missing
    shown: dict[Role, SchedulePredictor | ProgramPredictor | PlanPredictor] = {}
    run: ScheduleRun | None = None
    ran: ProgramRun | None = None
    if schedule is not None:
        run = ScheduleRun(schedule.problem, schedule.schedule, schedule.timeline(size), capacities)
        if program is None or capacities:  # else it is read off the program, only to be drawn
            shown["schedule"] = schedule
    if program is not None:
        shown["program"] = program
        ran = plan_run(program, size) if isinstance(program, PlanPredictor) else program_run(program, size)
        if ran.shown < ran.loops:
            loops = f"The program loops {ran.loops:.4g} times over the buffer"
            notes.append(f"{loops}; {ran.shown} loops are drawn.")
    curves, facts, certificate = [], list(draft.facts), list(draft.certificate)
    for role, predictor in shown.items():
        curves.append(Curve(f"this {role}", role, tuple(predictor.predict(s).seconds for s in sizes)))
        predicted, what = predictor.predict(size), "Program" if role == "program" else "Schedule step by step"
        speeds = f"{predicted.algorithm_bandwidth / 1e9:.1f} / {predicted.bus_bandwidth / 1e9:.1f} GB/s"
        facts[:0] = [
            (f"{what}, predicted", f"{predicted.seconds * 1e6:,.1f} us"),
            (f"{what}, algbw / busbw", speeds),
        ]
    curves += compared
    if bounds:
        launch, bound = options.launch(topology), tightest(bounds, size)
        curves.append(
            Curve("lower bound", "bound", tuple(launch + float(tightest(bounds, s).seconds(s)) for s in sizes))
        )
        least = launch + float(bound.seconds(size))
        started = f", once the kernel has started ({launch * 1e6:g} us)" if launch else ""
        costs = runtime_words(costed(options.runtime, options.rates))
        certificate += [
            f"No schedule, however fine its chunks, moves {size_text(size)} in less than "
            f"{least * 1e6:,.1f} us: {bound.proof}{started}.",
            f"Times are simulated (calibration {options.rates}, {costs}), not measured.",
        ]
    return replace(
        draft,
        facts=(("Size", size_text(size)), ("GPUs", str(topology.ranks)), *facts),
        certificate=tuple(certificate),
        notes=tuple(notes),
        run=run,
        program=ran,
        curves=tuple(curves),
    )
