"""The report of a result: what its page, its picture and its trace show; report/ only draws."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.predictors import (
    CostOptions,
    PlanPredictor,
    ProgramPredictor,
    SchedulePredictor,
    TablePredictor,
    first_predictor,
    sizes_between,
)
from hetesynth.engine.rival import Rival
from hetesynth.engine.simulate import file_predictor
from hetesynth.engine.time_verdict import Bounds, bounds_of, rival_at
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.cost import costed
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import RECEIVES, SENDS, BufferSlice, Program, ThreadBlock
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.words import counted, runtime_words, size_text
from hetesynth.report.contents import BlockRow, Curve, ProgramRun, Report, Role, ScheduleRun, StepRow
from hetesynth.search.collectives import collective
from hetesynth.simulate.plan import Cell, PlanTask
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import TopologySource


def library_curve(
    topology: Topology, goal: Collective, sizes: tuple[int, ...], options: CostOptions
) -> tuple[list[Curve], tuple[str, ...]]:
    """Return the curve of what the library is expected to take, or a note why that is not known."""
    rivals = [rival_at(topology, goal.name, goal.root, size, options) for size in sizes]
    timed = [rival for rival in rivals if isinstance(rival, Rival)]
    if len(timed) < len(rivals):
        why = next(rival for rival in rivals if isinstance(rival, str))
        return [], (f"The library is not shown: {why}.",)
    return [Curve(f"{timed[0].library}, expected", "baseline", tuple(rival.seconds for rival in timed))], ()


ROUTES = (
    "Steps show the routes of the chunks, which the program follows in pieces; times of thread blocks are the "
    "program's, those of wires and links are of a schedule with these steps."
)
SMALLEST, LARGEST = 1_000, 4_000_000_000
MAX_TRANSFERS = 200_000  # of a schedule that is drawn


def report_of_synthesis(synthesis: Synthesis) -> Report:
    """Return the report of ``synthesis``, for the size it was made for or that its chunks make. HetesynthError
    HS573: too large."""
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
    if isinstance(program, TablePredictor):  # has no thread blocks
        program = None
    notes = tuple(f"WARNING: {warned.message}; {warned.help}." for warned in synthesis.warnings)
    notes += () if synthesis.advice is None else (f"{synthesis.advice}.",)
    notes += (ROUTES if program is not None else "No program was made: thread blocks are not shown.",)
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
    """Return the report of a schedule JSON, an MSCCL XML with the messages of ``target``, or an MSCCL++ plan, for
    ``shown`` bytes, by default the largest of ``sizes`` up to 256 MB. ``title``: by default the file's name."""
    from hetesynth.programs.lifting.dataflow import shape
    from hetesynth.programs.lifting.lift import lift, lift_schedule
    from hetesynth.programs.lifting.table import lift_table

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
    elif isinstance(predictor, TablePredictor):
        problem, moved = lift_table(predictor.table)
        room = max(1, len(moved.transfers))
        arcs = tuple(Arc(link.src, link.dst, room) for link in cluster.links)
        on = Problem(cluster.ranks, cluster.ranks, (), arcs, (), problem.collective)
        lifted = lift_schedule(problem, moved, on)
        schedule = SchedulePredictor(cluster, lifted.problem, lifted.schedule, options)
        notes = ("Steps are the rounds of the table; times are those of a schedule with these steps.",)
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
    """Return the page (or the picture, where its name ends in .svg), the trace, or both. HetesynthError HS572: no
    steps to draw."""
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
    """Write the page and the trace, both or none, and return their paths."""
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
    """Return ``draft`` with what ran, with its curves, and with the facts and notes that these give."""
    count = 0 if schedule is None else len(schedule.schedule.transfers)
    if count > MAX_TRANSFERS:
        message = f"there are too many transfers for a report: {count:,}, at most {MAX_TRANSFERS:,}"
        way_out = "what --report and --trace would show is not written; everything else is"
        raise HetesynthError(message, code="HS573", help=way_out)
    goal, size, sizes, topology = draft.collective, draft.size, draft.sizes, draft.topology
    bounds: Bounds | None = None
    compared: list[Curve] = []
    notes = list(draft.notes)
    if goal is not None:
        bounds = bounds_of(topology, goal.name, goal.root, options.line_rate)
        compared, missing = library_curve(topology, goal, sizes, options)
        notes += missing
    shown: dict[Role, SchedulePredictor | ProgramPredictor | PlanPredictor] = {}
    run: ScheduleRun | None = None
    ran: ProgramRun | None = None
    if schedule is not None:
        run = ScheduleRun(schedule.problem, schedule.schedule, schedule.timeline(size), capacities)
        if program is None:  # else it is drawn, and the times are the program's
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
    if bounds is not None:
        curves.append(Curve("proved limit", "bound", tuple(map(bounds.seconds, sizes))))
        optimality = bounds.optimality(size, None)
        costs = runtime_words(costed(options.runtime, options.rates))
        certificate += [
            f"No schedule, however fine its chunks, moves {size_text(size)} in less than "
            f"{bounds.seconds(size) * 1e6:,.1f} us at the rates that are stated: {optimality.proof}.",
            f"Times are estimates by simulation (rates: {options.rates}, {costs}), not measured.",
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


# -- what the thread blocks of a program or plan did

_PLACE = re.compile(r"gpu (\d+) thread block (\d+) step (\d+)")

Place = tuple[int, int, int]
Connection = tuple[int, int, int]


def chunks_moved(program: Program) -> dict[Place, tuple[int, ...]]:
    """Return the chunks by (GPU, thread block, step); a receive moves what the send it meets does."""
    from hetesynth.programs.lifting.dataflow import flow_of, shape

    sent: dict[Place, dict[int, None]] = defaultdict(dict)  # by rank, number of the thread block, and step
    try:
        size = shape(program)
        goal = collective(program.collective, program.ranks, size.chunks_per_rank, program.root)
        for arrival in flow_of(program, goal, size.pieces).arrivals:
            place = _PLACE.fullmatch(arrival.place)
            if place is not None:
                sent[int(place[1]), int(place[2]), int(place[3])][arrival.value.chunk] = None
    except (HetesynthError, ValueError):
        pass
    sends: dict[Connection, list[tuple[int, ...]]] = defaultdict(list)
    takes: dict[Connection, list[Place]] = defaultdict(list)
    by_place: dict[Place, tuple[int, ...]] = {}
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.thread_blocks):
            for step, x in enumerate(block.instructions):
                moved = tuple(sent.get((gpu.rank, block.id, step), ()))
                if x.op in SENDS and block.send_peer is not None:
                    by_place[g, b, step] = moved
                    sends[gpu.rank, block.send_peer, block.channel].append(moved)
                if x.op in RECEIVES and block.recv_peer is not None:
                    takes[block.recv_peer, gpu.rank, block.channel].append((g, b, step))
    for connection, places in takes.items():
        for where, moved in zip(places, sends[connection], strict=False):
            by_place[where] = tuple(dict.fromkeys((*moved, *by_place.get(where, ()))))
    return by_place


BUFFERS = {"i": "input", "o": "output", "s": "scratch"}


def program_run(predictor: ProgramPredictor, size: int) -> ProgramRun:
    """Return the run of the instructions of a program in MSCCL XML for a buffer of ``size`` bytes."""
    program, tasks, timeline = predictor.program, predictor.tasks(size), predictor.timeline(size)
    number: dict[tuple[int, int], int] = {}
    rows: list[BlockRow] = []
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.thread_blocks):
            number[g, b] = len(rows)
            peers = _peers(block).replace("GPU ", "") or "local"
            label = f"{peers} ch {block.channel}" if program.channels > 1 else peers
            rows.append(BlockRow(gpu.rank, block.id, label))
    moved = chunks_moved(program)
    steps = []
    for p in tasks.places:
        block = program.gpus[p.gpu].thread_blocks[p.block]
        x = block.instructions[p.step]
        chunks = moved.get((p.gpu, p.block, p.step), ())
        src, dst = _slice(x.src), _slice(x.dst)
        steps.append(StepRow(number[p.gpu, p.block], p.step, x.op, _peers(block), src, dst, chunks))
    since = np.zeros(timeline.graph.tasks)  # when the thread block of each task got to it
    ends: dict[int, float] = {}
    for task, end in enumerate(timeline.end.tolist()):
        number_of_block = steps[task % len(steps)].block
        since[task] = ends.get(number_of_block, 0.0)
        ends[number_of_block] = end
    return ProgramRun(
        blocks=tuple(rows),
        steps=tuple(steps),
        timeline=timeline,
        since=since,
        simulated=tasks.simulated,
        loops=tasks.loops,
    )


def _peers(block: ThreadBlock) -> str:
    said = (("from", block.recv_peer), ("to", block.send_peer))
    return " ".join(f"{word} GPU {peer}" for word, peer in said if peer is not None)


def _slice(place: BufferSlice | None) -> str:
    return "" if place is None else f"{BUFFERS[place.buffer]}[{place.offset}]"


def plan_run(predictor: PlanPredictor, size: int) -> ProgramRun:
    """Return the run of the operations of a plan for a buffer of ``size`` bytes; their chunks are not followed."""
    plan, timeline = predictor.plan, predictor.timeline(size)
    number: dict[tuple[int, int], int] = {}
    rows: list[BlockRow] = []
    for g, gpu in enumerate(plan.gpus):
        for b, block in enumerate(gpu.blocks):
            number[g, b] = len(rows)
            near = [gpu.memory_peers[c] for c in block.memory_channels]
            far = [gpu.port_peers[c] for c in block.port_channels]
            said = [f"{kind} {_ranges(peers)}" for kind, peers in (("memory", near), ("port", far)) if peers]
            rows.append(BlockRow(gpu.rank, block.id, ", ".join(said) or "local"))
    places = predictor.tasks.places
    steps = []
    for p in places:
        op = plan.gpus[p.gpu].blocks[p.block].operations[p.step].op
        whom = ""
        if p.src is not None and p.dst is not None and p.src[0] != p.dst[0]:
            whom = f"to GPU {p.dst[0]}" if p.src[0] == p.gpu else f"from GPU {p.src[0]}"
        if p.peers:  # that it signals or waits for
            whom = f"{'from' if op in ('wait', 'rlxwait') else 'to'} GPU {_ranges(p.peers)}"
        src, dst = _cell(p.src, p), _cell(p.dst, p)
        steps.append(StepRow(number[p.gpu, p.block], p.step, op, whom, src, dst, ()))
    end = timeline.end
    since = np.asarray([max((end[i] for i in p.after), default=0.0) for p in places], dtype=np.float64)
    return ProgramRun(tuple(rows), tuple(steps), timeline, since)


def _ranges(ranks: Iterable[Rank]) -> str:
    """Return the ranks in words, such as ``1-3, 7``."""
    runs: list[list[Rank]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _cell(cell: Cell | None, place: PlanTask) -> str:
    if cell is None:
        return ""
    rank, buffer, index = cell
    span = f"{index}" if place.count == 1 else f"{index}..{index + place.count - 1}"
    return f"{BUFFERS[buffer]}[{span}]" + ("" if rank == place.gpu else " there")
