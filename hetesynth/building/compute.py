"""A job to its result: the schedule and programs of one cell, with their times beside the limit and the library.

In: a ``Job``. Out: a ``CellResult``. A pure function: no clock, no path, no environment decides what comes out, so
that a result from the cache, from another process or from another machine is the same bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from hetesynth.building.job import Job, unpickled
from hetesynth.building.provenance import provenance, with_provenance
from hetesynth.building.result import CellResult, as_kept
from hetesynth.commands.synth import synthesize
from hetesynth.compile.artifacts import Synthesis
from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.compile.plan_predictor import contents_predictor
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.request import Request
from hetesynth.compile.time_optimality import bounds_of
from hetesynth.compile.time_verdict import Timed, TimeVerdict, time_verdict
from hetesynth.deployment.programs import program_file
from hetesynth.errors import InternalError
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.frontend import GivenTopology
from hetesynth.manifest.values import Cell, SizeRange
from hetesynth.model.collective import ROOTED
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import Target, target
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Progress, no_progress


def compute(job: Job, progress: Progress = no_progress) -> CellResult:
    """Make the cell. Raises HetesynthError where there is no schedule or no program that fits, KeyboardInterrupt
    after Ctrl-C: what is there by then depends on the moment."""
    cell, topology = job.cell, unpickled(job.topology)
    synthesis = synthesize(cell_request(cell, topology), progress)
    _demand_repeatable(cell, synthesis)
    stem = cell.stem
    files = with_provenance(job, {f"{stem}{_suffix(suffix)}": data for suffix, data in synthesis.files.items()})
    return CellResult(job.key, files, as_kept(result_record(job, topology, synthesis, files)))


def _demand_repeatable(cell: Cell, synthesis: Synthesis) -> None:
    """KeyboardInterrupt after Ctrl-C, InternalError where the clock decided: there is no limit of time."""
    if synthesis.ending == "interrupt":
        raise KeyboardInterrupt
    if synthesis.cut_short or synthesis.decided_by_clock:
        places = ", ".join(synthesis.decided_by_clock) or "the search was cut short"
        raise InternalError(f"{cell.name}: the clock decided, though there is no limit of time: {places}")


def cell_request(cell: Cell, topology: Topology) -> Request:
    """What is asked of the compiler for ``cell``."""
    options, extent = cell.options, cell.extent
    ranged = isinstance(extent, SizeRange)
    return Request(
        topology=GivenTopology(topology.name, topology),
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
        size=extent.tuned if isinstance(extent, SizeRange) else None,
        calls=calls(cell, topology.ranks),
        runtime=NCCL_TABLES if options.runtime_costs else None,
        objective="time",
    )


def calls(cell: Cell, ranks: int) -> tuple[int, int]:
    """minBytes and maxBytes of the programs of ``cell``, both included, as runtimes count; 0: no limit.

    The upper one is odd: no buffer of whole elements has just that size, so readers that exclude the limit and
    readers that include it agree.
    """
    if not isinstance(cell.extent, SizeRange):
        return 0, 0
    low, high = cell.extent.low, cell.extent.high
    least = runtime_bytes(cell.collective, ranks, low)
    if high is None:
        return least, 0
    most = runtime_bytes(cell.collective, ranks, high)
    return least, most | 1 if cell.extent.closed else (most - 1) | 1 if most % 2 == 0 else most - 2


def _suffix(suffix: str) -> str:
    """Without the target's name, which the folder has."""
    if suffix == SCHEDULE_SUFFIX:
        return suffix
    inplace = ".inplace" if ".inplace" in suffix else ""
    return f"{inplace}.{suffix.rpartition('.')[2]}"


def result_record(job: Job, topology: Topology, synthesis: Synthesis, files: dict[str, bytes]) -> dict[str, Any]:
    """What is known of ``files``, which ``synthesis`` gave for ``job``."""
    cell, runtime = job.cell, target(job.cell.target)
    sizes = cell.extent.sizes if isinstance(cell.extent, SizeRange) else (synthesis.time_optimality.size,)
    program = next(data for suffix, data in synthesis.programs.items() if not data.in_place).data
    verdicts = measured(program, runtime, topology, cell, sizes, CostOptions.of(synthesis.request))
    certificate, model = synthesis.by_steps.solution.certificate, synthesis.by_steps
    root = synthesis.problem.collective.root
    programs = {name: data for name, data in files.items() if not name.endswith(SCHEDULE_SUFFIX)}
    # of the schedule that is written, which may be another than the one that was searched for by its steps
    steps = min(
        (read_schedule_json(data, name).schedule.makespan for name, data in files.items() if name not in programs),
        default=certificate.steps,
    )
    return {
        "cell": cell.name,
        "cluster": cell.cluster,
        "collective": cell.collective,
        "target": cell.target,
        "extent": cell.extent_text,
        "calls": list(calls(cell, topology.ranks)),
        "topology_sha256": job.topology_sha256,
        "ranks": topology.ranks,
        "root": root,
        "candidate": None if synthesis.choice is None else synthesis.choice.label,
        "strategy": model.strategy,
        "chunks": model.chunks,
        "steps": steps,
        "lower_bound": certificate.bound.steps,
        "proven_optimal": steps == certificate.bound.steps,
        "channels": max(p.figures.channels for p in synthesis.programs.values()),
        "sizes": [{"size": v.size, **v.figures()} for v in verdicts],
        "warnings": [warned.plain() for warned in synthesis.warnings],
        "programs": [program_file(name, data, runtime, root).plain() for name, data in programs.items()],
        "options": provenance(job)["options"],
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        "versions": dict(job.versions),
    }


def measured(
    data: bytes, runtime: Target, topology: Topology, cell: Cell, sizes: Sequence[int], options: CostOptions
) -> list[TimeVerdict]:
    """The times of a program, read from its file, at ``sizes``, beside the limit and the library."""
    root = (cell.options.root or 0) if cell.collective in ROOTED else None
    bounds = bounds_of(topology, cell.collective, root, options)
    predictor = contents_predictor(data, cell.name, runtime, topology, options)
    if predictor is None:
        raise InternalError(f"{cell.name}: there is no program in its file")
    timed: Timed = "plan" if runtime.format == "mscclpp-json" else "program"
    return [
        time_verdict(topology, root, bounds, size, predictor.predict(size).seconds, options, timed)
        for size in sizes
    ]
