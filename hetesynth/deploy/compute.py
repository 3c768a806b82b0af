"""A job to its result: the schedules and programs of one cell, with their times beside limit and library.

A pure function: no clock, no path, no environment decides what comes out, so that a result from the cache, from
another process or from another machine is the same bytes.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from hetesynth.deploy.cache import CellResult, as_kept
from hetesynth.deploy.folder.cells import ProgramFile, program_at, program_file
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.values import Cell
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.atlas import Range, atlas
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import AnyPredictor, CostOptions, contents_predictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.time_verdict import Timed, time_verdict
from hetesynth.errors import InternalError
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.search.search import Ending, Progress, no_progress

FIELD = "provenance"
PLAN_FIELD = "hetesynth"
_HEADER = re.compile(rb'^ "header": (\{.*\}),$', re.MULTILINE)
_NAME = re.compile(rb'^ "name": (".*"),$', re.MULTILINE)
_END = b"\n}\n"


def provenance(job: Job) -> dict[str, Any]:
    """Return the statement of origin for the files of ``job``, the same for the same job."""
    cell = job.cell
    return {
        "cell": cell.name,
        "key": job.key,
        "topology_sha256": job.topology_sha256,
        "options": json.loads(json.dumps(asdict(cell.options), default=str)),
        "versions": dict(job.versions),
    }


def with_provenance(job: Job, files: dict[str, bytes]) -> dict[str, bytes]:
    """Return ``files`` with their origin stated in each: in MSCCL XML in a comment behind its root, in schedules
    in the header, in plans in a field that their runtime does not look at. Nothing else changes but the name of a
    plan, by which its runtime tells plans apart."""
    values, stating = provenance(job), {}
    stated = json.dumps(values, sort_keys=True)
    for name, data in files.items():
        if name.endswith(SCHEDULE_SUFFIX):
            line = _HEADER.search(data)
            if line is None:
                raise InternalError("a schedule without a header")
            header = json.dumps({**json.loads(line[1]), FIELD: values}, sort_keys=True)
            stating[name] = data[: line.start(1)] + header.encode() + data[line.end(1) :]
        elif name.endswith(".xml"):
            # readers skip it: its first word has no `=`, and no `--` ends it early
            said = {key: v if isinstance(v, str) else json.dumps(v, sort_keys=True) for key, v in values.items()}
            text = "\n".join(map(" ".join, said.items())).replace("--", "-%2D")
            comment = f"<!-- {FIELD}: where this file comes from\n{text}\n-->\n"
            stating[name] = data + comment.encode("ascii", "replace")
        else:
            line = _NAME.search(data)
            if line is None or not data.endswith(_END):
                raise InternalError("a plan of another form")
            title = json.dumps(plan_name(job.cell.cluster, name)).encode()
            field = f",\n {json.dumps(PLAN_FIELD)}: {stated}".encode()
            stating[name] = data[: line.start(1)] + title + data[line.end(1) : -len(_END)] + field + _END
    return stating


def plan_name(cluster: str, name: str) -> str:
    """Return the name of the plan in the file ``name``, which no other plan of the cluster has."""
    return f"{cluster}-{name.removesuffix('.json').replace('.inplace', '-inplace')}"


Part = tuple[Cell, Synthesis, str]
"""A cell for some of its sizes, its schedule with programs, and the label of its candidate (empty: none)."""


def _files_of(cell: Cell, synthesis: Synthesis) -> Iterator[tuple[str, bytes]]:
    """Yield the files by their names in a folder, without the target's name, which the folder has."""
    for suffix, data in synthesis.files.items():
        inplace = ".inplace" if ".inplace" in suffix else ""
        ending = suffix if suffix == SCHEDULE_SUFFIX else f"{inplace}.{suffix.rpartition('.')[2]}"
        yield f"{cell.stem}{ending}", data


_latest: list[tuple[tuple[object, ...], list[tuple[Range, str]]]] = []
"""The key and the results of the last search, for which the other cells of the search ask next."""


def compute(job: Job, progress: Progress = no_progress) -> CellResult:
    """Return the result of ``job``, made now. Raises HetesynthError where no schedule or program fits, and
    KeyboardInterrupt after Ctrl-C: a result cut short would depend on the moment."""
    cell, topology = job.cell, job.cluster
    request = cell_request(cell, topology)
    if job.ranges:
        if not _latest or _latest[0][0] != job.search:
            _latest.clear()
            sizes = sorted({size for one in job.ranges for size in one.searched})
            result = atlas(request, sizes, progress, job.ranges)
            clock = result.compilation.budget.clock_decisions.told()
            _demand_repeatable(cell, result.pool.ending, result.cut_short, clock)
            labels = [result.pool.candidates[entry.member].label for entry in result.ranges]
            _latest.append((job.search, list(zip(result.ranges, labels, strict=True))))
        ours = ((entry, label) for entry, label in _latest[0][1] if entry.asked == cell.extent)
        parts = [(replace(cell, extent=entry.extent), entry.synthesis, label) for entry, label in ours]
    else:
        synthesis = synthesize(request, progress)
        _demand_repeatable(cell, synthesis.ending, synthesis.cut_short, synthesis.decided_by_clock)
        choice = synthesis.choice
        parts = [(cell, synthesis, "" if choice is None else choice.label)]
    files = with_provenance(job, dict(chain.from_iterable(_files_of(part, of) for part, of, _ in parts)))
    return CellResult(job.key, files, as_kept(result_record(job, topology, parts, files)))


def _demand_repeatable(cell: Cell, ending: Ending, cut_short: bool, clock: tuple[str, ...]) -> None:
    """Raise KeyboardInterrupt after Ctrl-C, InternalError if the clock decided without a time limit."""
    if ending == "interrupt":
        raise KeyboardInterrupt
    if cut_short or clock:
        places = ", ".join(clock) or "the search was cut short"
        raise InternalError(f"{cell.name}: the clock decided, though there is no limit of time: {places}")


def cell_request(cell: Cell, topology: Topology) -> Request:
    """Return the request to the compiler for ``cell``."""
    options, extent = cell.options, cell.extent
    return Request(
        topology=topology,
        collective=cell.collective,
        chunks=1 if isinstance(extent, SizeRange) else extent,
        chunks_stated=isinstance(extent, int),
        root=options.root,
        strategy=options.strategy,
        budget=Budget(None, options.seed, effort=options.effort),
        chunking=options.chunking,
        exclusion=options.exclusion,
        targets=(target(cell.target),),
        single_root=options.single_root,
        runtime=NCCL_TABLES if options.runtime_costs else None,
        objective="time",
        always=False,
    )


def calls(cell: Cell, ranks: int) -> tuple[int, int]:
    """Return minBytes and maxBytes of the programs of ``cell``, both included, as runtimes count; 0: no limit."""
    return cell.extent.calls(cell.collective, ranks) if isinstance(cell.extent, SizeRange) else (0, 0)


def result_record(job: Job, topology: Topology, parts: Sequence[Part], files: dict[str, bytes]) -> dict[str, Any]:
    """Return the record of ``files``, which ``parts`` gave for ``job``. Figures of schedules are of the one with
    most steps; without a schedule the library is quicker at all sizes of the cell."""
    syntheses = [synthesis for _, synthesis, _ in parts]
    stated = record_of_files(job, topology, files, tuple(one.time_optimality.size for one in syntheses))
    # a schedule that is written may be another than was searched for by its steps
    steps = written_steps(files) or [one.by_steps.solution.certificate.steps for one in syntheses]
    most, longest = max(zip(steps, syntheses, strict=True), key=lambda pair: pair[0], default=(0, None))
    bound = None if longest is None else longest.by_steps.solution.certificate.bound.steps
    warnings = {str(asdict(warned)): asdict(warned) for one in syntheses for warned in one.warnings}
    return {
        **stated,
        "candidate": "; ".join(dict.fromkeys(label for *_, label in parts if label)) or None,
        "strategy": ", ".join(dict.fromkeys(one.by_steps.strategy for one in syntheses)),
        "chunks": max((one.by_steps.chunks for one in syntheses), default=0),
        "steps": most,
        "lower_bound": bound,
        "proven_optimal": most == bound,
        "channels": max((p.figures.channels for one in syntheses for p in one.programs.values()), default=0),
        "warnings": list(warnings.values()),
    }


def written_steps(files: Mapping[str, bytes]) -> list[int]:
    """The steps of each schedule among ``files``."""
    schedules = ((name, data) for name, data in files.items() if name.endswith(SCHEDULE_SUFFIX))
    return [read_schedule_json(data, name).schedule.makespan for name, data in schedules]


def record_of_files(
    job: Job, topology: Topology, files: Mapping[str, bytes], sizes: tuple[int, ...]
) -> dict[str, Any]:
    """The fields of a record that follow from ``job`` and ``files``. ``sizes``: of a cell without a range."""
    cell, runtime = job.cell, target(job.cell.target)
    asked = cell.extent.sizes if isinstance(cell.extent, SizeRange) else sizes
    programs = [
        program_file(name, data, runtime, cell.root)
        for name, data in files.items()
        if not name.endswith(SCHEDULE_SUFFIX)
    ]
    return {
        "cell": cell.name,
        "cluster": cell.cluster,
        "collective": cell.collective,
        "target": cell.target,
        "extent": cell.extent_text,
        "calls": list(calls(cell, topology.ranks)),
        "topology_sha256": job.topology_sha256,
        "ranks": topology.ranks,
        "root": cell.root,
        "sizes": size_rows(files, programs, topology, cell, asked),
        "programs": [asdict(program) for program in programs],
        "options": provenance(job)["options"],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "versions": dict(job.versions),
    }


def size_rows(
    files: Mapping[str, bytes],
    programs: Sequence[ProgramFile],
    topology: Topology,
    cell: Cell,
    sizes: Sequence[int],
) -> list[dict[str, Any]]:
    """Return for each of ``sizes`` the times of a call as records state them: of the cell's program that runs,
    read from its file, beside the limit and the library; no time where the call is left to the library."""
    runtime, root = target(cell.target), cell.root
    options = CostOptions.of(cell_request(cell, topology))
    timed: Timed = runtime.format.kind
    predictors: dict[str, list[AnyPredictor]] = {}
    rows = []
    for size in sizes:
        counted = runtime_bytes(cell.collective, topology.ranks, size)
        name = program_at(programs, counted, calls(cell, topology.ranks))
        times: tuple[float | None, float | None] = (None, None)
        if name is not None:
            if name not in predictors:
                predictor = contents_predictor(files[name], cell.name, runtime, topology, options)
                if predictor is None:
                    raise InternalError(f"{cell.name}: there is no program in its file")
                predictors[name] = [predictor, predictor.repriced(topology, options.line_rate)]
            estimated, at_line_rate = (predictor.timeline(size).makespan for predictor in predictors[name])
            times = estimated, at_line_rate
        verdict = time_verdict(topology, cell.collective, root, size, times, options, timed, target=runtime)
        rows.append({"size": size, "program": name, **verdict.figures()})
    return rows
