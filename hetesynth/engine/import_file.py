"""Import of files that others made: MSCCL XML -> Program, or a table -> judge -> lifting -> Schedule -> judge ->
schedule JSON and programs for other targets, each judged. A schedule JSON enters in the middle."""

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal

from hetesynth import __version__
from hetesynth.engine.artifacts import ANY, FileTimes, demand_clean, file_times, header_of, judged, where_useful
from hetesynth.engine.bounds import recheck_bound
from hetesynth.engine.formats import (
    FORMATS,
    SCHEDULE_SUFFIX,
    Emitted,
    FileKind,
    contents,
    demand_algorithm,
    demand_collective,
    demand_one_run,
    guessed_root,
    kind_of,
    refused,
    variants,
)
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.program_warnings import Warned, demand_single_root, program_warnings
from hetesynth.engine.schedule_replay import asked_collective, foreign_link
from hetesynth.engine.time_verdict import implied_size
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.schedule_json import JsonValue, ScheduleDocument, read_schedule_json, write_schedule_json
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import Certificate
from hetesynth.model.collective import ROOTED, Collective
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import MAX_PROGRAM_NAME, Target
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation
from hetesynth.policy import DEFAULT, Policy
from hetesynth.programs.lifting.dataflow import shape
from hetesynth.programs.lifting.lift import Lifted, lift, lift_schedule
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.solve import bounds_of
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import TopologySource

MAX_FILE_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The user's request. ``topology``: the cluster to lay the transfers on. No ``targets``: no programs."""

    path: Path
    topology: TopologySource | None = None
    root: Rank | None = None
    single_root: bool = False
    chunking: ChunkingOptions = field(default_factory=ChunkingOptions)
    targets: tuple[Target, ...] = ()
    policy: Policy = DEFAULT
    always: bool = True


@dataclass(frozen=True)
class Imported:
    """A verified schedule and verified programs, ready to be written. ``lifted``: how the schedule was made; None
    when the file held it as it is. ``certificate``: None without a topology. ``files``: suffix -> contents."""

    request: ImportRequest
    kind: Literal["program", "schedule", "table"]
    name: str
    problem: Problem
    schedule: Schedule
    lifted: Lifted | None
    chunking: Chunking | None
    certificate: Certificate | None
    programs: dict[str, Emitted]
    files: dict[str, bytes]
    withheld: tuple[str, ...] = ()  # targets whose files would be slower than the library at all sizes

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """The warnings of programs that hang, of calls that run a program wrongly, and of programs withheld."""
        models = () if self.chunking is None else self.chunking.topology.models
        goal, targets = self.problem.collective, self.request.targets
        slower = "the library is expected to be quicker at all sizes: no program is written"
        lost = (Warned(self.withheld, slower, "--always writes it"),) if self.withheld else ()
        return lost + program_warnings(self.programs.values(), targets, models, goal, every=False)

    def write(self, stem: Path) -> list[Path]:
        """Write all files, all or none; return their paths, programs first. HS707: one is the imported file."""
        from hetesynth.files.atomic import write_all

        paths = {stem.with_name(stem.name + suffix): data for suffix, data in self.files.items()}
        for path in paths:
            if os.path.exists(path) and path.samefile(self.request.path):
                message = f"{path} is the file that is imported"
                raise HetesynthError(message, code="HS707", help="choose another name with -o")
        write_all(paths)
        return list(paths)


def import_file(request: ImportRequest) -> Imported:
    """Read, judge and lift a file, and judge the result. HetesynthError HS702 (exit 1): a judge refuses the file;
    HS520, HS542: it is no schedule and no program; HS701, HS703-HS706: it cannot be said as a schedule here."""
    demand_one_run(request.path)
    data = contents(request.path, MAX_FILE_BYTES, "give an MSCCL XML, a schedule JSON or a table")
    if len(data) > MAX_FILE_BYTES:
        size = MAX_FILE_BYTES // 2**20
        message = f"{request.path} is larger than {size} MiB"
        raise HetesynthError(message, code="HS541", help="is it the right file?")
    chunking = None if request.topology is None else chunk(load_topology(request.topology), request.chunking)
    kind = kind_of(data, request.path)
    if kind in NOT_IMPORTED:
        why, help_ = NOT_IMPORTED[kind]
        raise HetesynthError(f"{request.path} is {why}", code="HS520", help=help_)
    imported = IMPORTERS[kind](request, data, chunking)
    for target in request.targets:
        demand_collective(target, imported.problem.collective.name)
    demand_single_root(request.targets, imported.problem.collective.name, promised=request.single_root)
    demand_clean(schedule_violations(imported.problem, imported.schedule), "imported schedule")
    if chunking is not None:  # only on a topology do the capacities mean anything
        bound = bounds_of(imported.problem, request.policy)[0]
        wrong = recheck_bound(imported.problem, bound).violations
        if wrong or bound.steps > imported.schedule.makespan:
            raise InternalError(f"the bound of {bound.steps} steps is wrong: {bound.proof}")
        imported = replace(imported, certificate=Certificate(imported.schedule.makespan, bound))
    programs: dict[str, Emitted] = {}
    times: dict[str, FileTimes] = {}
    for target, in_place, suffix in variants(request.targets, imported.problem.collective.name):
        servers = () if chunking is None else chunking.topology.servers
        options = LoweringOptions(imported.name, in_place, target=target, servers=servers)
        goal = imported.problem.collective
        if chunking is None or not target.format.program:
            program = FORMATS[target.format].emit(imported.problem, imported.schedule, options)
        else:
            size, costs = implied_size(imported.problem, chunking.chunk_bytes), CostOptions(policy=request.policy)
            question = chunking.topology, imported.problem, imported.schedule, size, options, costs
            program = Lowering(*question).emitted()
        if chunking is not None and not request.always:
            size, costs = implied_size(imported.problem, chunking.chunk_bytes), CostOptions(runtime=NCCL_TABLES)
            if target.name not in times:
                times[target.name] = file_times(chunking.topology, goal, program, size, costs)
            program = where_useful(program, goal, ANY, times[target.name])
        programs[suffix] = judged(program, imported.problem, options, suffix)
    header: dict[str, JsonValue] = {"generator": f"hetesynth {__version__}"}
    if chunking is not None and imported.certificate is not None:
        header = header_of(chunking, imported.certificate)
    header |= {"name": imported.name, "imported_from": request.path.name}
    lost = [name for name, one in times.items() if one.lost]
    files = {suffix: program.data for suffix, program in programs.items() if program.target.name not in lost}
    files[SCHEDULE_SUFFIX] = write_schedule_json(imported.problem, imported.schedule, header)
    return replace(imported, programs=programs, files=files, withheld=tuple(lost))


def read_schedule(data: bytes, filename: str = "<schedule>") -> tuple[ScheduleDocument, Problem, Schedule]:
    """Return a schedule JSON as written, and its problem and schedule on the links it uses, numbered from 0, each
    as wide as its busiest step; not judged."""
    document = read_schedule_json(data, filename)
    goal = asked_collective(document, filename)
    number = {index: i for i, (index, _, _) in enumerate(document.links)}
    schedule = Schedule.of(
        (replace(t, link=number[t.link]) for t in document.schedule.transfers), document.schedule.makespan
    )
    busiest, under_way = [1] * len(number), [0] * len(number)  # transfers that each link has at once
    starts_and_ends = (event for t in schedule.transfers for event in ((t.start, 1, t.link), (t.end, -1, t.link)))
    for _, change, link in sorted(starts_and_ends):  # ends before starts of the same tick
        under_way[link] += change
        busiest[link] = max(busiest[link], under_way[link])
    arcs = tuple(Arc(src, dst, busiest[i]) for i, (_, src, dst) in enumerate(document.links))
    problem = Problem(document.ranks, document.ranks, (), arcs, (), goal, document.exclusive_reduction)
    return document, problem, schedule


def _graph(request: ImportRequest, chunking: Chunking | None, goal: Collective) -> Problem | None:
    """Return the problem of ``goal`` on the topology, None without one. HetesynthError HS706: other ranks."""
    if chunking is None:
        return None
    if chunking.topology.ranks != goal.ranks:
        message = f"{request.path} is for {goal.ranks} GPUs, the topology has {chunking.topology.ranks}"
        raise HetesynthError(message, code="HS706", help="give the cluster that the file was made for")
    return chunking.problem(goal)


def _of_program(request: ImportRequest, data: bytes, chunking: Chunking | None) -> Imported:
    """Return the program, judged and lifted; a root that is not stated is one for which the program is right."""
    from hetesynth.judge.msccl.judge import program_violations
    from hetesynth.judge.msccl.reader import read_program

    read = read_program(data, str(request.path))
    demand_algorithm(read, request.path)
    program, judge = read.program, partial(program_violations, read)
    if program is None:
        raise _refused(request, judge())
    rooted, root = program.collective in ROOTED, None
    if rooted:
        stated = program.root if request.root is None else request.root
        root = guessed_root(program, judge) if stated is None else stated
    violations = judge(root=root)
    if violations or (rooted and root is None):
        raise _refused(request, violations)
    size = shape(program)
    goal = collective(program.collective, program.ranks, size.chunks_per_rank, root)
    lifted = lift(program, goal, size.pieces, _graph(request, chunking, goal))
    title = _title(program.name or request.path.stem)
    return Imported(request, "program", title, lifted.problem, lifted.schedule, lifted, chunking, None, {}, {})


def _of_table(request: ImportRequest, data: bytes, chunking: Chunking | None) -> Imported:
    """Return the table, judged, as a schedule of a step per round, mapped to the links of the topology."""
    from hetesynth.judge.tables.judge import table_violations
    from hetesynth.judge.tables.reader import read_table
    from hetesynth.programs.lifting.table import lift_table

    table = read_table(data, str(request.path))
    violations = table_violations(table, root=request.root)
    if violations:
        raise _refused(request, violations)
    problem, schedule = lift_table(table)
    on, lifted = _graph(request, chunking, problem.collective), None
    if on is not None:
        lifted = lift_schedule(problem, schedule, on)
        problem, schedule = lifted.problem, lifted.schedule
    title = _title(table.name or request.path.stem)
    return Imported(request, "table", title, problem, schedule, lifted, chunking, None, {}, {})


def _refused(request: ImportRequest, violations: Sequence[Violation]) -> HetesynthError:
    way_out = f"`hetesynth verify {request.path}` lists what is wrong"
    return refused(request.path, ": not imported, for it is wrong", violations, "HS702", way_out)


def _of_schedule(request: ImportRequest, data: bytes, chunking: Chunking | None) -> Imported:
    """Return the schedule, judged: as it is where its links are the topology's, else mapped to these."""
    document, problem, schedule = read_schedule(data, str(request.path))
    violations = schedule_violations(problem, schedule)
    if violations:
        raise _refused(request, violations)
    stem = request.path.name.removesuffix(".json").removesuffix(".schedule")
    title = _title(str(document.header.get("name") or stem))
    imported = Imported(request, "schedule", title, problem, schedule, None, chunking, None, programs={}, files={})
    on = _graph(request, chunking, problem.collective)
    if on is None:
        return imported
    on = replace(on, exclusive_reduction=problem.exclusive_reduction)
    if foreign_link(document, on.arcs) is None and not schedule_violations(on, document.schedule):
        return replace(imported, problem=on, schedule=document.schedule)
    lifted = lift_schedule(problem, schedule, on)
    return replace(imported, problem=lifted.problem, schedule=lifted.schedule, lifted=lifted)


IMPORTERS: dict[FileKind, Callable[[ImportRequest, bytes, Chunking | None], Imported]] = {
    "program": _of_program,
    "schedule": _of_schedule,
    "table": _of_table,
}
NOT_IMPORTED: dict[FileKind, tuple[str, str]] = {
    "plan": (
        "an MSCCL++ plan, which cannot be turned back into a schedule",
        "`hetesynth verify`, `run` and `simulate` take plans; import takes MSCCL XML, schedule JSON and tables",
    )
}
"""What such a file is and why it ends here, and the way out."""


def _title(text: str) -> str:
    """Return ``text`` as a name that every reader takes."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", text)[: MAX_PROGRAM_NAME - len("_inplace")] or "imported"
