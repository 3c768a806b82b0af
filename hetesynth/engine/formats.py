"""Schedule -> file: one row of ``FORMATS`` per file format; and the kind of a file that somebody gave."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.regular_files import open_regular
from hetesynth.model.collective import MAX_GUESSED_ROOTS, ROOTED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAN_JSON, TABLE_JSON, TARGETS, XML, FileFormat, Target
from hetesynth.model.verdict import Violation

if TYPE_CHECKING:
    from hetesynth.judge.msccl.reader import ReadResult
    from hetesynth.model.plan import Plan
    from hetesynth.model.program import Program
    from hetesynth.model.table import Table
    from hetesynth.model.topology import Rank
    from hetesynth.programs.msccl.lower import Lowered, LoweringOptions
    from hetesynth.programs.summary import ProgramSummary

FileKind = Literal["program", "schedule", "plan", "table"]
"""MSCCL XML, a schedule JSON, an MSCCL++ plan, a table."""
HEAD = 1024  # bytes of a file that show which format it has


@dataclass(frozen=True)
class Emitted:
    """A file in memory. ``notes``: what was done to meet limits. ``carries``: the largest call in bytes that the
    file can be used for, None for no limit. ``over_nics``: what goes wrong where messages pass NICs."""

    target: Target
    in_place: bool
    data: bytes
    figures: ProgramSummary
    notes: tuple[str, ...] = ()
    carries: int | None = None
    over_nics: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """The functions that make files of one format and that judge them, by separate code: ``judge`` takes bytes, a
    name for messages, the problem they solve, the target and the server of each rank (none: not known)."""

    emit: Callable[[Problem, Schedule, LoweringOptions], Emitted]
    judge: Callable[[bytes, str, Problem, Target, Sequence[str]], list[Violation]]


def _emit_xml(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Emitted:
    from hetesynth.programs.msccl.lower import lower_with_notes

    return xml_of(lower_with_notes(problem, schedule, options), options)


def xml_of(lowered: Lowered, options: LoweringOptions) -> Emitted:
    """Return the file that holds a program in MSCCL XML."""
    from hetesynth.judge.msccl.linter import network_violations
    from hetesynth.programs.msccl.xml_writer import write_msccl_xml
    from hetesynth.programs.summary import program_summary

    violations = network_violations(lowered.program, [options.target], options.servers) if options.servers else []
    return Emitted(
        options.target,
        options.in_place,
        write_msccl_xml(lowered.program, options.target),
        program_summary(lowered.program),
        lowered.notes,
        over_nics=violations[0].message if violations else "",
    )


def _judge_xml(
    data: bytes, name: str, problem: Problem, target: Target, servers: Sequence[str]
) -> list[Violation]:
    """Return the violations that the second judge finds in the bytes as a runtime would read them."""
    from hetesynth.judge.msccl.judge import profile_violations
    from hetesynth.judge.msccl.linter import lint
    from hetesynth.judge.msccl.reader import read_program

    read = read_program(data, f"{name}.xml")
    links = {(arc.src, arc.dst) for arc in problem.arcs}
    violations = lint(read, target, links=links, root=problem.collective.root)
    return [*violations, *profile_violations(read)] if target.name == "portable" else violations


def _emit_plan(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Emitted:
    from hetesynth.programs.mscclpp.lower import lower_plan

    return plan_of(lower_plan(problem, schedule, options, servers_of(problem, options)), options)


def servers_of(problem: Problem, options: LoweringOptions) -> Sequence[str]:
    """Return the server of each rank; the same for all where none are known."""
    return options.servers or ("",) * problem.ranks


def plan_of(plan: Plan, options: LoweringOptions) -> Emitted:
    """Return the file that holds a plan."""
    from hetesynth.programs.mscclpp.json_writer import write_plan_json
    from hetesynth.programs.mscclpp.lower import largest_call
    from hetesynth.programs.summary import program_summary

    notes = () if options.servers else ("no servers are known: all ranks are taken to share memory",)
    carries = largest_call(plan.collective, plan.gpus)
    figures = program_summary(plan)
    return Emitted(options.target, options.in_place, write_plan_json(plan), figures, notes, carries=carries)


def _judge_plan(
    data: bytes, name: str, problem: Problem, target: Target, servers: Sequence[str]
) -> list[Violation]:
    from hetesynth.judge.mscclpp.judge import open_range_violations, plan_violations
    from hetesynth.judge.mscclpp.reader import read_plan_json

    links = {(arc.src, arc.dst) for arc in problem.arcs}
    plan = read_plan_json(data, f"{name}.json")
    root = problem.collective.root
    violations = plan_violations(plan, root=root, links=links, servers=servers or None, sms=target.multiprocessors)
    return [*violations, *open_range_violations(plan)]


def _emit_table(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Emitted:
    from hetesynth.programs.tables.lower import lower_table

    return table_of(lower_table(problem, schedule, options), options)


def table_of(table: Table, options: LoweringOptions) -> Emitted:
    """Return the file that holds a table."""
    from hetesynth.programs.summary import table_summary
    from hetesynth.programs.tables.writer import write_table

    return Emitted(options.target, False, write_table(table), table_summary(table))


def _judge_table(
    data: bytes, name: str, problem: Problem, target: Target, servers: Sequence[str]
) -> list[Violation]:
    from hetesynth.judge.tables.judge import table_violations
    from hetesynth.judge.tables.reader import read_table

    links = {(arc.src, arc.dst) for arc in problem.arcs}
    return table_violations(read_table(data, f"{name}.json"), links=links, root=problem.collective.root)


def restated(program: Emitted, before: int, least: int, most: int) -> Emitted:
    """Return ``program``, which is for calls of up to ``before`` bytes (0: no limit), for calls of ``least`` to
    ``most`` bytes, as the runtime counts them, both included."""
    target, largest = program.target, program.carries
    if target.format.program:
        keys, first, last = ("minBytes", "maxBytes"), rb'="(\d+)"', most + (not target.max_bytes_inclusive)
    else:
        keys, first, last = ("min_bytes", "max_bytes"), rb'": (\d+)', most
    if target.format.plan:
        keys = "min_message_size", "max_message_size"
    data = program.data
    for key, number in zip(keys, (least, last), strict=True):
        stated = re.search(key.encode() + first, data)
        if stated is None:
            raise InternalError(f"a file for {target.name} without {key}")
        if largest is not None and key == "max_message_size":  # messages of a rank are a multiple of the call
            number = min(most, largest) * int(stated[1]) // min(before or largest, largest)
        data = data[: stated.start(1)] + str(number).encode() + data[stated.end(1) :]
    return replace(program, data=data)


FORMATS: dict[FileFormat, Backend] = {
    XML: Backend(_emit_xml, _judge_xml),
    PLAN_JSON: Backend(_emit_plan, _judge_plan),
    TABLE_JSON: Backend(_emit_table, _judge_table),
}


def contents(path: Path, most: int, way_out: str) -> bytes:
    """Return the first ``most`` + 1 bytes of the regular file at ``path``. HetesynthError HS540: it is none."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")
        with open_regular(path) as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS540", help=way_out) from error


def format_of(path: Path) -> FileFormat:
    """Return the format of the file at ``path``, told by how it begins or, failing that, by its extension."""
    return _format(head_of(path), path)


def head_of(path: Path) -> bytes:
    """Return how a file begins; nothing of a file that cannot be read: its reader says why."""
    with suppress(OSError, ValueError):
        if path.is_file():
            with open_regular(path) as stream:
                return stream.read(HEAD)
    return b""


def kind_of(data: bytes, path: Path) -> FileKind:
    """Return the kind of file that ``data``, the contents of ``path``, is meant to be. JSON that is nothing else
    is meant to be a schedule."""
    kind = _format(data[:HEAD], path).kind
    if kind != "plan":
        return kind
    return "plan" if b'"gpus"' in data and b'"hetesynth-schedule"' not in data else "schedule"


def _format(head: bytes, path: Path) -> FileFormat:
    first = head.lstrip()[:1]
    if first in (b"{", b"["):
        return TABLE_JSON if b'"hetesynth-table"' in head else PLAN_JSON
    return PLAN_JSON if first != b"<" and path.suffix.lower() == ".json" else XML


def demand_one_run(path: Path) -> None:
    """Raise HetesynthError HS543 if the run that wrote ``path`` was killed between its renames. Called before a
    file is read that belongs to others: beside it there may be files of an older run."""
    from hetesynth.files import atomic, folders

    try:
        cut = atomic.cut_off(path)
        older = None if cut is not None or path.exists() else folders.cut_off(path)
    except (OSError, ValueError, RuntimeError):
        return  # the reader says why
    again = "run the command that wrote them again"
    if cut is not None:
        others = [e.target.name for e in cut.entries if e.target.name != path.name] or [path.name]
        raise HetesynthError(
            f"{path} and {', '.join(others)} are not of one run: a run was cut off while it wrote them, or they "
            "were changed since",
            code="HS543",
            help=f"{again}; to use them as they are, remove {cut.path}",
            exit_code=1,
        )
    if older is not None:
        message = f"{path} is gone: a run was cut off while it replaced the folder"
        way_out = f"{again}; the older folder is {older}"
        raise HetesynthError(message, code="HS543", help=way_out, exit_code=1)


def demand_algorithm(read: ReadResult, path: Path) -> None:
    """Raise HetesynthError HS542 if ``path`` holds no MSCCL XML; what is wrong with one is for the judge."""
    if read.algo_line is None:
        why = read.violations[0].message if read.violations else "there is no <algo> element"
        message = f"{path} is no MSCCL XML: {why}"
        raise HetesynthError(message, code="HS542", help="give an MSCCL XML, or JSON in a file named .json")


Judge = Callable[..., Sequence[Violation]]  # its parameters: those of the judge of the file's kind, by name


def read_moves(path: Path) -> tuple[Program | Plan | Table | None, Judge]:
    """Return the program, plan or table in ``path``, None where an MSCCL XML has no program, and its judge.
    HetesynthError HS542: the file holds none of these."""
    demand_one_run(path)
    kind = format_of(path)
    if kind.table:
        from hetesynth.judge.tables.judge import table_violations
        from hetesynth.judge.tables.reader import load_table

        table = load_table(path)
        return table, partial(table_violations, table)
    if kind.plan:
        from hetesynth.judge.mscclpp.judge import plan_violations
        from hetesynth.judge.mscclpp.reader import load_plan

        plan = load_plan(path)
        return plan, partial(plan_violations, plan)
    from hetesynth.judge.msccl.judge import program_violations
    from hetesynth.judge.msccl.reader import load_program

    read = load_program(path)
    demand_algorithm(read, path)
    return read.program, partial(program_violations, read)


def guessed_root(subject: Program | Plan | Table, judge: Judge) -> Rank | None:
    """Return the first root, of a few, with which ``judge`` passes a rooted ``subject``; None: there is none."""
    guesses = range(min(subject.ranks, MAX_GUESSED_ROOTS) if subject.collective in ROOTED else 0)
    return next((root for root in guesses if not judge(root=root, max_findings=1)), None)


def refused(path: Path, what: str, violations: Sequence[Violation], code: str, way_out: str) -> HetesynthError:
    """Return the error, with exit code 1, for a file that is not used because of what its judge says."""
    line = f":{violations[0].line}" if violations and violations[0].line is not None else ""
    why = f"{violations[0].kind}: {violations[0].message}" if violations else "there is no program in it"
    more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
    return HetesynthError(f"{path}{line}{what}: {why}{more}", code=code, help=way_out, exit_code=1)


def forms(target: Target, collective: CollectiveName) -> tuple[bool, ...]:
    """Return the forms (in place or not) of ``collective`` that programs for ``target`` have, out of place first.
    A table is for both."""
    from hetesynth.programs.layout import in_place_supported

    both = in_place_supported(collective) and collective not in target.out_of_place_only
    return (False, True) if both and not target.format.table else (False,)


def demand_collective(target: Target, collective: CollectiveName) -> None:
    """Raise HetesynthError HS513 if ``target`` does not know ``collective``, naming the targets that do."""
    if collective not in target.collectives:
        others = ", ".join(t.name for t in TARGETS.values() if collective in t.collectives)
        message = f"target {target.name} ({target.runtime}) has no {collective}"
        raise HetesynthError(message, code="HS513", help=f"targets with a {collective}: {others}")


SCHEDULE_SUFFIX = ".schedule.json"


def suffixes(request: Request) -> list[str]:
    """Return the ends, after the common part, of the names of all files that ``request`` makes, programs first."""
    programs = [] if request.schedule_only else [s for _, _, s in variants(request.targets, request.collective)]
    return [*programs, SCHEDULE_SUFFIX]


def variants(targets: tuple[Target, ...], collective: CollectiveName) -> Iterator[tuple[Target, bool, str]]:
    """Yield (target, in place, suffix) of every program that the collective can have."""
    for target in targets:
        for in_place in forms(target, collective):
            yield target, in_place, target.suffix(in_place=in_place, several=len(targets) > 1)
