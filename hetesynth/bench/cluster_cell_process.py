"""One cell of the cluster table in a process of its own: the default command for a size, then the library.

In: ``python -m hetesynth.bench.cluster_cell_process TOPOLOGY COLLECTIVE BYTES SECONDS COSTS BLOCKS``, the last
two see ``Conditions``, 0 where there are none. Out: a line of JSON for the command and one for the library, each
as soon as it is there, so that a killed process has told what it knew.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hetesynth.autotune.choice import choose
from hetesynth.bench.cluster_cells import Conditions
from hetesynth.commands.synth import synthesize
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.request import Request
from hetesynth.compile.rival import library_rival
from hetesynth.compile.time_optimality import bounds_of
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS, Target


def measured(topology: Path, collective: CollectiveName, size: int, conditions: Conditions) -> dict[str, Any]:
    """What ``synth --size`` makes of the cluster in ``topology``; nothing is written."""
    request = Request(
        topology,
        collective,
        root=0 if collective in ROOTED else None,
        budget=Budget(conditions.budget, effort=1.0),
        targets=(_target(conditions.thread_blocks),),
        runtime=conditions.runtime,
        single_root=True,
        size=size,
    )
    started = time.monotonic()
    try:
        told = _written(request) if conditions.thread_blocks is None else _chosen(request, size)
    except HetesynthError as error:
        told = {"error": f"{error.code}: {error.message}"}
    return {"wall": time.monotonic() - started} | told


def _written(request: Request) -> dict[str, Any]:
    """What the command would write, judged."""
    synthesis = synthesize(request)
    return {
        "gpus": synthesis.topology.ranks,
        "program": synthesis.program_seconds,
        "limit": synthesis.time_optimality.bound_seconds,
        "candidate": "" if synthesis.choice is None else synthesis.choice.label,
    }


def _chosen(request: Request, size: int) -> dict[str, Any]:
    """What it would choose; its program is not judged, as no runtime takes one of more thread blocks."""
    topology = load_topology(request.topology)
    chosen = choose(topology, request, size)
    best = chosen.ranked[0]
    limit = chosen.run.bounds.seconds(size)
    return {"gpus": topology.ranks, "program": best.seconds, "limit": limit, "candidate": best.candidate.label}


def _target(thread_blocks: int | None) -> Target:
    """The portable one; with ``thread_blocks`` one with so many, and what else then limits them."""
    portable = TARGETS["portable"]
    if thread_blocks is None:
        return portable
    return replace(
        portable, max_thread_blocks=thread_blocks, resident_thread_blocks=thread_blocks,
        multiprocessors=max(portable.multiprocessors, thread_blocks),
        max_depended_block=max(portable.max_depended_block, thread_blocks - 1), max_nodes=10**6,
    )  # fmt: skip


def library(topology: Path, collective: CollectiveName, size: int, conditions: Conditions) -> dict[str, Any]:
    """What NCCL or RCCL takes."""
    started = time.monotonic()
    cluster, root = load_topology(topology), 0 if collective in ROOTED else None
    options = CostOptions(runtime=conditions.runtime)
    limit = bounds_of(cluster, collective, root, options).seconds(size)
    rival = library_rival(cluster, collective, root, size, options, limit)
    if isinstance(rival, str):
        return {"error": rival, "wall": time.monotonic() - started}
    return {"wall": time.monotonic() - started, "program": rival.seconds, "candidate": rival.name}


def main(arguments: list[str]) -> None:
    """Measure and print both."""
    topology, collective, size, budget, costs, blocks = arguments
    name = cast("CollectiveName", collective)
    conditions = Conditions(float(budget), costs != "0", int(blocks) or None)
    _print(measured(Path(topology), name, int(size), conditions))
    _print(library(Path(topology), name, int(size), conditions))


def _print(entry: dict[str, Any]) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
