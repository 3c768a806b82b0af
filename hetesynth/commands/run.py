"""Executing a program with real bytes: read, judge, run on every rank, report.

In: a file and the user's wishes. Out: a Report. Where no MPI launcher started this process, it starts one rank
per GPU and waits; where one did, it is a rank itself, and only rank 0 has a report.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from hetesynth.errors import HetesynthError
from hetesynth.execute.files import leave_result, leave_start, result_directory
from hetesynth.execute.job import Job, Part, RunOptions, own_part, plan_job, program_job
from hetesynth.execute.launch import launch, launched
from hetesynth.execute.outcome import Run, WrongBytes
from hetesynth.model.collective import MAX_GUESSED_ROOTS, ROOTED
from hetesynth.model.verdict import Violation

MAX_LOCAL_RANKS = 512

Transport = Literal["mpi", "in-process"]


@dataclass(frozen=True, slots=True)
class Request:
    """``unchecked``: run what the judge refuses too. ``in_process``: no MPI, all ranks in this process."""

    path: Path
    wishes: RunOptions = field(default_factory=RunOptions)
    unchecked: bool = False
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """``size``: bytes of the larger buffer. ``chunk``: bytes. ``passes``: of the whole program over the buffer."""

    file: str
    collective: str
    ranks: int
    root: int | None
    dtype: str
    reduction: str | None
    size: int
    chunk: int
    passes: int
    transport: Transport
    runs: tuple[Run, ...]

    @property
    def correct(self) -> bool:
        """Whether every run ended with every byte right."""
        return bool(self.runs) and all(run.correct for run in self.runs)


def run_file(request: Request) -> Report | None:
    """Runs the file. None: this is a rank other than 0 and all went well or rank 0 says what did not.

    Raises HetesynthError: HS8xx, and what reading raises.
    """
    if request.in_process:
        return _in_process(request)
    if launched(os.environ):
        return _as_rank(request)
    job, parts = prepare(request)
    _fits_here(job, parts)
    report = _received(launch(_command(request, job), job.ranks))
    return replace(report, file=str(request.path))


def prepare(request: Request) -> tuple[Job, list[Part]]:
    """Reads and judges an XML or a plan. HetesynthError: HS542 no MSCCL XML, HS809 refused by the judge
    (exit code 1)."""
    from hetesynth.compile.formats import demand_algorithm, demand_one_run, format_of

    demand_one_run(request.path)
    if format_of(request.path) == "mscclpp-json":
        return _prepare_plan(request)
    from hetesynth.verify.msccl.judge import program_violations
    from hetesynth.verify.msccl.reader import load_program

    read = load_program(request.path)
    demand_algorithm(read, request.path)
    program, wishes = read.program, request.wishes
    if program is None:
        _refuse(request, program_violations(read))
        raise HetesynthError(f"{request.path} cannot be read as a program", code="HS809", exit_code=1)
    if program.collective in ROOTED and program.root is None and wishes.root is None:
        wishes = _with_root(wishes, program.ranks, lambda root: program_violations(read, root=root))
    if not request.unchecked:
        _refuse(request, program_violations(read, root=wishes.root))
    return program_job(program, wishes), [own_part(program, rank) for rank in range(program.ranks)]


def _prepare_plan(request: Request) -> tuple[Job, list[Part]]:
    from hetesynth.verify.mscclpp.judge import plan_violations
    from hetesynth.verify.mscclpp.reader import load_plan

    plan, wishes = load_plan(request.path), request.wishes
    if plan.collective in ROOTED and wishes.root is None:
        wishes = _with_root(wishes, plan.ranks, lambda root: plan_violations(plan, root=root))
    if not request.unchecked:
        _refuse(request, plan_violations(plan, root=wishes.root))
    return plan_job(plan, wishes), list(plan.gpus)


def _refuse(request: Request, violations: Sequence[Violation]) -> None:
    if violations:
        more = f" (and {len(violations) - 1} more)" if len(violations) > 1 else ""
        raise HetesynthError(
            f"{request.path} is refused: {violations[0].kind}: {violations[0].message}{more}",
            code="HS809",
            exit_code=1,
            help=f"hetesynth verify {request.path} says more; --unchecked runs it all the same",
        )


def _with_root(wishes: RunOptions, ranks: int, judge: Callable[[int], Sequence[Violation]]) -> RunOptions:
    """The root for which the program is right, where the file does not say; else none."""
    for root in range(min(ranks, MAX_GUESSED_ROOTS)):
        if not judge(root):
            return replace(wishes, root=root)
    return wishes


def _fits_here(job: Job, parts: Sequence[Part]) -> None:
    """All ranks as processes of this machine."""
    if job.ranks > MAX_LOCAL_RANKS:
        raise HetesynthError(
            f"{job.ranks} ranks are too many processes for one machine", code="HS813",
            help="start it under an MPI launcher across machines, or use --in-process",
        )  # fmt: skip
    _memory_fits(job, parts)


def _memory_fits(job: Job, parts: Sequence[Part]) -> None:
    need = sum(job.memory_bytes(part) for part in parts)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > available // 2:
        raise HetesynthError(
            f"all ranks together need {need / 2**30:.1f} GiB; this machine has {available / 2**30:.1f}",
            code="HS804", help="use a smaller --size",
        )  # fmt: skip


def _in_process(request: Request) -> Report:
    from hetesynth.execute.inprocess import run_in_process

    job, parts = prepare(request)
    _memory_fits(job, parts)
    return _report(request, job, "in-process", list(run_in_process(job, parts)))


def _as_rank(request: Request) -> Report | None:
    """As a rank, which this process is. What rank 0 has to say goes to whoever launched us, or is returned."""
    from hetesynth.execute.mpi import run_over_mpi

    directory = result_directory()
    jobs: list[Job] = []

    def ready() -> tuple[Job, list[Part]]:
        job, parts = prepare(request)
        jobs.append(job)
        return job, parts

    def finished(runs: list[Run]) -> None:
        if directory is not None:
            leave_result(directory, json.dumps(asdict(_report(request, jobs[0], "mpi", runs))))

    try:
        first, runs = run_over_mpi(
            ready, (lambda: leave_start(directory)) if directory else lambda: None, finished
        )
    except HetesynthError as error:
        if directory is not None and error.code != "HS800":
            leave_result(directory, json.dumps({"error": _plain_error(error)}))
        raise
    if directory is not None or not first:
        return None
    return _report(request, jobs[0], "mpi", runs)


def _plain_error(error: HetesynthError) -> dict[str, Any]:
    return {"message": error.message, "code": error.code, "help": error.help, "exit_code": error.exit_code}


def _received(text: str) -> Report:
    """The report of rank 0, or its error."""
    plain = json.loads(text)
    if "error" in plain:
        error = plain["error"]
        raise HetesynthError(
            error["message"], code=error["code"], help=error["help"], exit_code=error["exit_code"]
        )
    runs = tuple(
        Run(**{**run, "first": tuple(WrongBytes(**w) for w in run["first"]), "diagnosis": tuple(run["diagnosis"])})
        for run in plain["runs"]
    )
    return Report(**{**plain, "runs": runs})


def _report(request: Request, job: Job, transport: Transport, runs: list[Run]) -> Report:
    numbers, reference = job.numbers, job.reference
    return Report(
        file=str(request.path), collective=reference.name, ranks=job.ranks, root=reference.root,
        dtype=numbers.dtype, reduction=numbers.reduction if numbers.reduces else None, size=job.size,
        chunk=job.passes.chunk * numbers.item_bytes, passes=len(job.passes.slices), transport=transport,
        runs=tuple(runs),
    )  # fmt: skip


def _command(request: Request, job: Job) -> list[str]:
    """How a rank is started: this command again; the judge has spoken, and the root is known."""
    wishes = replace(request.wishes, root=job.reference.root)
    options: dict[str, object] = {
        "--op": wishes.reduction, "--dtype": wishes.dtype, "--size": wishes.size,
        "--pass-size": wishes.message_bytes, "--slots": wishes.slots, "--root": wishes.root,
        "--repeat": wishes.repeat, "--seed": wishes.seed, "--timeout": wishes.timeout,
    }  # fmt: skip
    arguments = [text for name, value in options.items() if value is not None for text in (name, str(value))]
    return [sys.executable, "-m", "hetesynth", "run", str(request.path.absolute()), "--unchecked", *arguments]
