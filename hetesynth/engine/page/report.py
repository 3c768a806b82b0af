"""A result as a report: what the page, the picture and the trace of it show; report/ only draws.

The same input gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
from hetesynth.model.cost import bandwidths, costed
from hetesynth.model.problem import Arc, Budget, Problem
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.time_bound import TimeBound, of_scope, tightest
from hetesynth.model.topology import Topology
from hetesynth.model.words import counted, runtime_words, size_text
from hetesynth.report.contents import Curve
from hetesynth.search.chunking import chunk

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.model.program import Program
    from hetesynth.model.timeline import Timeline
    from hetesynth.report.contents import CegisRun, Curve, ProgramRun, Report, ScheduleRun
    from hetesynth.topology.language import TopologySource


BASELINES = ("double-tree", "sph", "all-pairs", "doubling", "hierarchical")


def baseline_curves(
    topology: Topology,
    problem: Problem,
    sizes: tuple[int, ...],
    options: CostOptions,
) -> tuple[list[Curve], tuple[str, ...]]:
    """The baselines that apply, and why others do not."""
    from hetesynth.engine.problem import verified_solver
    from hetesynth.search.collectives import collective
    from hetesynth.search.registry import strategy
    from hetesynth.search.solve import Solution

    policy = options.policy.compile
    by_times: dict[tuple[float, ...], list[str]] = {}
    missing: list[str] = []
    problem = replace(problem, max_peers=None)
    goal = problem.collective
    rings = _ring_curve(topology, goal, sizes, options)
    if isinstance(rings, str):
        missing.append(f"Baseline ring does not apply: {rings}.")
        rings = []
    for chunks in (max(policy.baseline_chunks, goal.chunks_per_rank), goal.chunks_per_rank, 1):
        problem = replace(problem, collective=collective(goal.name, goal.ranks, chunks, goal.root))
        if _least_moves(problem) <= policy.max_baseline_deliveries:
            break
    else:
        more = f"there are more than {policy.max_baseline_deliveries:,} deliveries"
        return rings, (
            *missing,
            f"Other baselines are left out: {more}." if rings else f"Baselines are left out: {more}.",
        )
    if problem.collective.chunks_per_rank != goal.chunks_per_rank:
        missing.append(f"Baselines have {chunks} chunk{'' if chunks == 1 else 's'} per rank.")
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
    curves = [Curve(" = ".join(names), "baseline", seconds) for seconds, names in by_times.items()]
    return rings + curves, tuple(missing)


def _ring_curve(
    topology: Topology, goal: Collective, sizes: tuple[int, ...], options: CostOptions
) -> list[Curve] | str:
    """What NCCL runs, as a program, or why there is none; between simulated sizes it grows evenly."""
    import numpy as np

    policy, few = options.policy.compile, sizes
    if goal.ranks > policy.few_sizes_from_ranks and len(sizes) > policy.few_sizes:
        places = np.linspace(0, len(sizes) - 1, policy.few_sizes).round().astype(int)
        few = tuple(sizes[i] for i in places)
    seconds = []
    for size in few:
        baseline = ring_baseline(topology, goal.name, goal.root, size, options)
        if isinstance(baseline, str):
            return baseline
        seconds.append(baseline.seconds)
    between = np.interp(sizes, few, seconds)
    return [Curve(f"{NAMES[goal.name]}, program", "baseline", tuple(between.tolist()))]


def _least_moves(problem: Problem) -> int:
    """How often a chunk, or a part of a sum, must move at least; ``Collective.deliveries`` counts no parts."""
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    return sum(len(pre | post) - 1 for pre, post in pairs)


SMALLEST, LARGEST = 1_000, 4_000_000_000
USUAL_SIZE = 256_000_000
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
            certificate=_certificate(synthesis),
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
    from hetesynth.topology.language import load_topology

    cluster = load_topology(topology)
    predictor = file_predictor(path, cluster, options, target)
    schedule: SchedulePredictor | None = None
    program: ProgramPredictor | PlanPredictor | None = None
    if isinstance(predictor, SchedulePredictor):
        schedule = predictor
        notes: tuple[str, ...] = ("Thread blocks are not shown: the file is a schedule, not a program.",)
    elif isinstance(predictor, ProgramPredictor):
        program = predictor
        schedule, notes = _lifted(predictor.program, cluster, options)
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
            size=shown or max((s for s in sizes if s <= USUAL_SIZE), default=min(sizes)),
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
    timed: list[tuple[str, Timeline]] = []
    curves: list[Curve] = []
    if predictor is not None:
        timeline = predictor.timeline(subject.size)
        run = ScheduleRun(predictor.problem, predictor.schedule, timeline, subject.capacities)
        if not subject.derived:
            timed.append(("schedule", timeline))
            seconds = tuple(predictor.predict(s).seconds for s in sizes)
            curves.append(Curve("this schedule", "schedule", seconds))
    program, cut = _program_run(subject, goal)
    if program is not None and subject.program is not None:
        timed.append(("program", program.timeline))
        seconds = tuple(subject.program.predict(s).seconds for s in sizes)
        curves.append(Curve("this program", "program", seconds))
    curves += compared
    if bounds:
        launch = options.launch(topology)
        least = tuple(launch + float(tightest(bounds, s).seconds(s)) for s in sizes)
        curves.append(Curve("lower bound", "bound", least))
    return Report(
        title=subject.title,
        topology=topology,
        collective=goal,
        size=subject.size,
        facts=(*_time_facts(subject, timed), *subject.facts),
        certificate=(*subject.certificate, *_in_time(subject, bounds, timed)),
        notes=(*subject.notes, *missing, *cut),
        run=run,
        program=program,
        sizes=sizes,
        curves=tuple(curves),
        verdict=subject.verdict,
        cegis=subject.cegis,
    )


def _program_run(subject: _Subject, goal: Collective | None) -> tuple[ProgramRun | None, tuple[str, ...]]:
    """The loops of the program that are shown, and a note where they are not all."""
    from hetesynth.engine.page.report_blocks import plan_run, program_run

    predictor = subject.program
    if predictor is None:
        return None, ()
    if isinstance(predictor, PlanPredictor):
        return plan_run(predictor, subject.size, goal), ()
    run = program_run(predictor, subject.size)
    if run.shown >= run.loops:
        return run, ()
    return run, (f"The program loops {run.loops:.4g} times over the buffer; {run.shown} loops are drawn.",)


def _time_facts(subject: _Subject, timed: list[tuple[str, Timeline]]) -> tuple[tuple[str, str], ...]:
    topology = subject.topology
    if subject.problem is not None:
        collective = subject.problem.collective.name
    elif subject.program is not None:
        collective = subject.program.collective
    else:
        raise ValueError("a report needs a schedule or a program")
    facts = [("Size", size_text(subject.size)), ("GPUs", str(topology.ranks))]
    for name, timeline in reversed(timed):
        reached = bandwidths(collective, topology.ranks, subject.size, timeline.makespan)
        what = "Schedule step by step" if name == "schedule" else name.capitalize()
        facts.append((f"{what}, predicted", f"{timeline.makespan * 1e6:,.1f} us"))
        facts.append((f"{what}, algbw / busbw", f"{reached.algorithm / 1e9:.1f} / {reached.bus / 1e9:.1f} GB/s"))
    return tuple(facts)


def _certificate(synthesis: Synthesis) -> tuple[str, ...]:
    """What is proved of the number of steps, and who checked it."""
    solution, certificate = synthesis.solution, synthesis.solution.certificate
    bound = certificate.bound
    said = [
        f"The schedule takes {counted(certificate.steps, 'step')}. No schedule of the step model takes fewer than "
        f"{bound.steps}: {bound.proof}.",
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
    return tuple(said)


def _in_time(
    subject: _Subject, bounds: tuple[TimeBound, ...], timed: list[tuple[str, Timeline]]
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
    for name, timeline in timed:
        if timeline.makespan > 0:
            share = least / timeline.makespan
            said.append(
                f"The {name} is predicted to take {timeline.makespan * 1e6:,.1f} us: {share:.1%} of the speed "
                "that this bound allows."
            )
    options = subject.options
    costs = runtime_words(costed(options.runtime, options.rates))
    how = f"calibration {options.rates}, {costs}, alpha {options.alpha}"
    said.append(f"Times are simulated ({how}), not measured.")
    return tuple(said)


# -- programs


def _lifted(
    program: Program, topology: Topology, options: CostOptions
) -> tuple[SchedulePredictor | None, tuple[str, ...]]:
    """What ``program`` moves as a schedule on the links of ``topology``, or a note why there is none."""
    from hetesynth.programs.lifting.buffers import shape
    from hetesynth.programs.lifting.lift import lift
    from hetesynth.search.collectives import collective

    try:
        size = shape(program)
        goal = collective(program.collective, program.ranks, size.chunks_per_rank, program.root)
        room = sum(len(b.instructions) for gpu in program.gpus for b in gpu.thread_blocks) + 1
        arcs = tuple(Arc(link.src, link.dst, room) for link in topology.links)
        graph = Problem(topology.ranks, topology.ranks, (), arcs, (), goal)
        lifted = lift(program, goal, size.pieces, graph, options.policy.lifting)
        return SchedulePredictor(topology, lifted.problem, lifted.schedule, options), (
            "Steps are those in which the transfers of the program depend on each other; the times of wires and "
            "links are those of a schedule with these steps, not of the program.",
        )
    except (HetesynthError, ValueError) as error:
        return None, (f"The program is not shown as steps: {error}.",)
