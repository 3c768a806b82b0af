"""Executing a program with real bytes: read, judge, run on every rank, report. Where no MPI launcher started this
process, it starts one rank per GPU and waits; where one did, it is a rank itself, and only rank 0 has a report."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from hetesynth.engine.formats import format_of, guessed_root, read_moves, refused
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.execute.backends import BACKENDS
from hetesynth.execute.job import Job, Part, RunOptions, job_of
from hetesynth.execute.launch import RESULT_DIRECTORY, RESULT_FILE, STARTED_FILE, launch, launched
from hetesynth.execute.outcome import Run, WrongBytes
from hetesynth.execute.tables import table_job
from hetesynth.model.plan import Plan
from hetesynth.model.program import Program
from hetesynth.model.table import Table

MAX_LOCAL_RANKS = 512


@dataclass(frozen=True, slots=True)
class RunRequest:
    """A file to run. ``unchecked``: run it even if the judge refuses it. ``backend``: one of ``BACKENDS``; None:
    MPI, and for tables this process."""

    path: Path
    options: RunOptions = field(default_factory=RunOptions)
    unchecked: bool = False
    backend: str | None = None


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a run. ``size``: bytes of the larger buffer. ``chunk``: bytes of a chunk. ``passes``: loops
    over the buffer."""

    file: str
    collective: str
    ranks: int
    root: int | None
    dtype: str
    reduction: str | None
    size: int
    chunk: int
    passes: int
    backend: str
    runs: tuple[Run, ...]

    @property
    def correct(self) -> bool:
        """True if there are runs and each of them ended with every byte right."""
        return bool(self.runs) and all(run.correct for run in self.runs)


def run_file(request: RunRequest) -> RunReport | None:
    """Run the file and return the report; None in a rank for which rank 0, or whoever launched it, reports."""
    kind = format_of(request.path)
    if request.backend is None:
        request = replace(request, backend="inprocess" if kind.table else "mpi")
    backend = BACKENDS[request.backend or "mpi"]
    if kind.kind not in backend.files and request.path.is_file():
        able = " or ".join(name for name, one in BACKENDS.items() if kind.kind in one.files)
        message = f"--backend {request.backend} runs no {kind.words.removeprefix('a ').removeprefix('an ')}"
        raise HetesynthError(message, code="HS894", help=f"use --backend {able}")
    if kind.table:
        return _run_table(request, backend.run_table)
    if backend.run:
        run: Callable[[Job, Sequence[Part]], Iterator[Run]] = _function(backend.run)
        job, parts = prepare(request)
        _memory_fits(job, parts)
        return _report(request, job, list(run(job, parts)))
    if launched(os.environ):
        return _as_rank(request)
    job, parts = prepare(request)
    if job.ranks > MAX_LOCAL_RANKS:
        message = f"{job.ranks} ranks are too many processes for one machine"
        help_text = "start it under an MPI launcher across machines, or use --backend inprocess"
        raise HetesynthError(message, code="HS813", help=help_text)
    _memory_fits(job, parts)
    chosen = request.options
    values = {
        "--op": chosen.reduction,
        "--dtype": chosen.dtype,
        "--size": chosen.size,
        "--pass-size": chosen.message_bytes,
        "--slots": chosen.slots,
        "--root": job.reference.root,
        "--repeat": chosen.repeat,
        "--seed": chosen.seed,
        "--timeout": chosen.timeout,
    }
    # a rank is this command again; the judge has spoken, and the root is known
    command = [sys.executable, "-m", "hetesynth", "run", str(request.path.absolute()), "--unchecked"]
    command += [text for name, value in values.items() if value is not None for text in (name, str(value))]
    plain = json.loads(launch(command, job.ranks))  # the report of rank 0, or its error
    if "error" in plain:
        error = plain["error"]
        message = error["message"]
        raise HetesynthError(message, code=error["code"], help=error["help"], exit_code=error["exit_code"])
    runs = tuple(
        Run(**{**run, "first": tuple(WrongBytes(**w) for w in run["first"]), "diagnosis": tuple(run["diagnosis"])})
        for run in plain["runs"]
    )
    return RunReport(**{**plain, "runs": runs, "file": str(request.path)})


def prepare(request: RunRequest) -> tuple[Job, list[Part]]:
    """Return the job of an XML or a plan, judged. HetesynthError HS542: no MSCCL XML, HS809: it is refused."""
    subject, options = _judged(request)
    if isinstance(subject, Table):
        raise InternalError("a table is run by its executor")
    return job_of(subject, options, BACKENDS[request.backend or "mpi"].target)


def _judged(request: RunRequest) -> tuple[Program | Plan | Table, RunOptions]:
    """Return the program, plan or table that the judge passed, and the options with its root."""
    options, (subject, judge) = request.options, read_moves(request.path)
    if subject is not None and options.root is None and (isinstance(subject, Plan) or subject.root is None):
        options = replace(options, root=guessed_root(subject, judge))
    violations = () if request.unchecked and subject is not None else judge(root=options.root)
    if subject is None or violations:
        way_out = f"hetesynth verify {request.path} says more; --unchecked runs it all the same"
        raise refused(request.path, " is refused", violations, "HS809", way_out)
    return subject, options


def _function(name: str) -> Any:
    """Return the function ``name``, as module:function. HetesynthError HS820: its library is not installed."""
    module, _, function = name.partition(":")
    try:
        return getattr(import_module(module), function)
    except ModuleNotFoundError as error:
        message = f"{error.name} is not installed"
        raise HetesynthError(message, code="HS820", help=f"pip install 'hetesynth[{error.name}]'") from error


def _run_table(request: RunRequest, name: str) -> RunReport:
    """Return the report of a table run by the executor ``name``. HetesynthError HS809: refused by the judge."""
    table, options = _judged(request)
    if not isinstance(table, Table):
        raise InternalError("what begins as a table is none")
    job, parts = table_job(table, options)
    _memory_fits(job, parts)
    return _report(request, job, _function(name)(table, options))


def _memory_fits(job: Job, parts: Sequence[Part]) -> None:
    need = sum(job.memory_bytes(part) for part in parts)
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if need > available // 2:
        message = f"all ranks together need {need / 2**30:.1f} GiB; this machine has {available / 2**30:.1f}"
        raise HetesynthError(message, code="HS804", help="use a smaller --size")


def _as_rank(request: RunRequest) -> RunReport | None:
    """Run as a rank, which this process is; the report of rank 0 goes to whoever launched it, or is returned."""
    from hetesynth.execute.mpi import run_over_mpi

    name = os.environ.get(RESULT_DIRECTORY)
    directory = Path(name) if name else None  # where the process that launched this one waits; None: nobody does
    jobs: list[Job] = []

    def leave(plain: dict[str, object]) -> None:
        if directory is not None:  # whole, or not at all
            draft = directory / f"{RESULT_FILE}.draft"
            draft.write_text(json.dumps(plain))
            draft.replace(directory / RESULT_FILE)

    def ready() -> tuple[Job, list[Part]]:
        job, parts = prepare(request)
        jobs.append(job)  # the report of rank 0 names it
        return job, parts

    def started() -> None:
        if directory is not None:
            (directory / STARTED_FILE).touch()

    try:
        first, runs = run_over_mpi(ready, started, lambda runs: leave(asdict(_report(request, jobs[0], runs))))
    except HetesynthError as error:
        if error.code != "HS800":
            names = ("message", "code", "help", "exit_code")
            leave({"error": {name: getattr(error, name) for name in names}})
        raise
    if directory is not None or not first:
        return None
    return _report(request, jobs[0], runs)


def _report(request: RunRequest, job: Job, runs: list[Run]) -> RunReport:
    numbers, reference = job.numbers, job.reference
    return RunReport(
        str(request.path),
        reference.name,
        job.ranks,
        reference.root,
        numbers.dtype,
        numbers.reduction if numbers.reduces else None,
        job.size,
        job.loops.chunk * numbers.item_bytes,
        len(job.loops.slices),
        request.backend or "mpi",
        tuple(runs),
    )
