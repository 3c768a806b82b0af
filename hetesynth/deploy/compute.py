"""A job to its result: the schedules and programs of one cell, with their times beside the limit and the library.

In: a ``Job``. Out: a ``CellResult``. A pure function: no clock, no path, no environment decides what comes out, so
that a result from the cache, from another process or from another machine is the same bytes. Cells of one cluster,
collective and target that differ in their sizes come out of one search.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetesynth.deploy.folder.programs import ProgramFile, program_at, program_file
from hetesynth.deploy.job import Job, unpickled
from hetesynth.deploy.manifest.values import Cell
from hetesynth.deploy.provenance import provenance, with_provenance
from hetesynth.deploy.result import CellResult, as_kept
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.atlas import Range, atlas
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, contents_predictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.time_verdict import Timed, bounds_of, time_verdict
from hetesynth.errors import InternalError
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.model.collective import ROOTED
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.search import Ending, Progress, no_progress


@dataclass(frozen=True, slots=True)
class Part:
    """A schedule with its programs, for sizes of a cell. ``label``: the candidate that it is of."""

    extent: SizeRange | int
    synthesis: Synthesis
    label: str | None

    def files(self, cell: Cell) -> dict[str, bytes]:
        """By the names that they have in a folder, without the target's, which the folder has."""
        stem, files = replace(cell, extent=self.extent).stem, {}
        for suffix, data in self.synthesis.files.items():
            inplace = ".inplace" if ".inplace" in suffix else ""
            ending = suffix if suffix == SCHEDULE_SUFFIX else f"{inplace}.{suffix.rpartition('.')[2]}"
            files[f"{stem}{ending}"] = data
        return files


def compute(job: Job, progress: Progress = no_progress) -> CellResult:
    """Make the cell. Raises HetesynthError where there is no schedule or no program that fits, KeyboardInterrupt
    after Ctrl-C: what is there by then depends on the moment."""
    cell, topology = job.cell, unpickled(job.topology)
    request = cell_request(cell, topology)
    if job.ranges:
        parts = [
            Part(entry.extent, entry.synthesis, label)
            for entry, label in _searched(job, request, progress)
            if entry.asked == cell.extent
        ]
    else:
        synthesis = synthesize(request, progress)
        _demand_repeatable(cell, synthesis.ending, synthesis.cut_short, synthesis.decided_by_clock)
        choice = synthesis.choice
        parts = [Part(cell.extent, synthesis, None if choice is None else choice.label)]
    files = {name: data for part in parts for name, data in part.files(cell).items()}
    files = with_provenance(job, files)
    return CellResult(job.key, files, as_kept(result_record(job, topology, parts, files)))


_latest: list[tuple[tuple[object, ...], list[tuple[Range, str]]]] = []
"""The last search, which the other cells of it ask for next."""


def _searched(job: Job, request: Request, progress: Progress) -> list[tuple[Range, str]]:
    """The ranges of the search that ``job`` is part of, each with the label of its candidate."""
    if not _latest or _latest[0][0] != job.search:
        _latest.clear()
        sizes = sorted({size for one in job.ranges for size in one.searched})
        result = atlas(request, sizes, progress, job.ranges)
        clock = result.compilation.budget.clock_decisions.told()
        _demand_repeatable(job.cell, result.pool.ending, result.cut_short, clock)
        labels = [result.pool.candidates[entry.member].label for entry in result.ranges]
        _latest.append((job.search, list(zip(result.ranges, labels, strict=True))))
    return _latest[0][1]


def _demand_repeatable(cell: Cell, ending: Ending, cut_short: bool, clock: tuple[str, ...]) -> None:
    """KeyboardInterrupt after Ctrl-C, InternalError where the clock decided: there is no limit of time."""
    if ending == "interrupt":
        raise KeyboardInterrupt
    if cut_short or clock:
        places = ", ".join(clock) or "the search was cut short"
        raise InternalError(f"{cell.name}: the clock decided, though there is no limit of time: {places}")


def cell_request(cell: Cell, topology: Topology) -> Request:
    """What is asked of the compiler for ``cell``."""
    options, extent = cell.options, cell.extent
    ranged = isinstance(extent, SizeRange)
    return Request(
        topology=topology,
        collective=cell.collective,
        chunks=1 if isinstance(extent, SizeRange) else extent,
        chunks_stated=not ranged,
        root=options.root,
        strategy=options.strategy,
        budget=Budget(None, options.seed, effort=options.effort),
        chunking=options.chunking,
        exclusion=options.exclusion,
        targets=(target(cell.target),),
        single_root=options.single_root,
        runtime=NCCL_TABLES if options.runtime_costs else None,
        objective="time",
    )


def calls(cell: Cell, ranks: int) -> tuple[int, int]:
    """minBytes and maxBytes of the programs of ``cell``, both included, as runtimes count; 0: no limit."""
    return cell.extent.calls(cell.collective, ranks) if isinstance(cell.extent, SizeRange) else (0, 0)


def result_record(job: Job, topology: Topology, parts: Sequence[Part], files: dict[str, bytes]) -> dict[str, Any]:
    """What is known of ``files``, which ``parts`` gave for ``job``. Figures of schedules are of the one with most
    steps; where there is none, the library is quicker at all sizes of the cell."""
    cell, runtime = job.cell, target(job.cell.target)
    syntheses = [part.synthesis for part in parts]
    if isinstance(cell.extent, SizeRange):
        sizes: tuple[int, ...] = cell.extent.sizes
    else:
        sizes = tuple(one.time_optimality.size for one in syntheses)
    roots = [one.problem.collective.root for one in syntheses] or [root_of(cell)]
    programs = [
        program_file(name, data, runtime, roots[0]) for name, data in files.items() if not _is_schedule(name)
    ]
    # of the schedules that are written, which may be others than those that were searched for by their steps
    written = [
        read_schedule_json(data, name).schedule.makespan for name, data in files.items() if _is_schedule(name)
    ]
    steps = written or [one.by_steps.solution.certificate.steps for one in syntheses]
    most, longest = max(zip(steps, syntheses, strict=True), key=lambda pair: pair[0], default=(0, None))
    bound = None if longest is None else longest.by_steps.solution.certificate.bound.steps
    warnings = {str(warned.plain()): warned.plain() for one in syntheses for warned in one.warnings}
    options = CostOptions.of(cell_request(cell, topology))
    return {
        "cell": cell.name,
        "cluster": cell.cluster,
        "collective": cell.collective,
        "target": cell.target,
        "extent": cell.extent_text,
        "calls": list(calls(cell, topology.ranks)),
        "topology_sha256": job.topology_sha256,
        "ranks": topology.ranks,
        "root": roots[0],
        "candidate": "; ".join(dict.fromkeys(part.label for part in parts if part.label)) or None,
        "strategy": ", ".join(dict.fromkeys(one.by_steps.strategy for one in syntheses)),
        "chunks": max((one.by_steps.chunks for one in syntheses), default=0),
        "steps": most,
        "lower_bound": bound,
        "proven_optimal": most == bound,
        "channels": max((p.figures.channels for one in syntheses for p in one.programs.values()), default=0),
        "sizes": size_rows(files, programs, topology, cell, sizes, options),
        "warnings": list(warnings.values()),
        "programs": [program.plain() for program in programs],
        "options": provenance(job)["options"],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "versions": dict(job.versions),
    }


def _is_schedule(name: str) -> bool:
    return name.endswith(SCHEDULE_SUFFIX)


def root_of(cell: Cell) -> Rank | None:
    """The rank that a rooted collective begins or ends at."""
    return (cell.options.root or 0) if cell.collective in ROOTED else None


def size_rows(
    files: Mapping[str, bytes], programs: Sequence[ProgramFile], topology: Topology, cell: Cell,
    sizes: Sequence[int], options: CostOptions,
) -> list[dict[str, Any]]:  # fmt: skip
    """What calls of ``sizes`` take, as records say it: by the program of the cell that runs, read from its file,
    beside the limit and the library; no time where the call is left to the library."""
    runtime, root = target(cell.target), root_of(cell)
    bounds = bounds_of(topology, cell.collective, root, options)
    timed: Timed = "plan" if runtime.format == "mscclpp-json" else "program"
    predictors, rows = {}, []
    for size in sizes:
        name = program_at(
            programs, runtime_bytes(cell.collective, topology.ranks, size), calls(cell, topology.ranks)
        )
        seconds = None
        if name is not None:
            if name not in predictors:
                predictors[name] = contents_predictor(files[name], cell.name, runtime, topology, options)
            predictor = predictors[name]
            if predictor is None:
                raise InternalError(f"{cell.name}: there is no program in its file")
            seconds = predictor.predict(size).seconds
        verdict = time_verdict(topology, root, bounds, size, seconds, options, timed)
        rows.append({"size": size, "program": name, **verdict.figures()})
    return rows
