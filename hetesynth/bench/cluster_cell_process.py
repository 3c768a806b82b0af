"""One cell of the cluster table in a process of its own: the default command for a size, then the ring.

In: ``python -m hetesynth.bench.cluster_cell_process TOPOLOGY COLLECTIVE BYTES SECONDS``. Out: a line of JSON for
the command and one for the ring, each as soon as it is there, so that a killed process has told what it knew.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, cast

from hetesynth.commands.synth import synthesize
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.request import Request
from hetesynth.compile.ring_baseline import ring_baseline
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.problem import Budget


def measured(topology: Path, collective: CollectiveName, size: int, budget: float) -> dict[str, Any]:
    """What ``synth --size`` makes of the cluster in ``topology``; nothing is written."""
    request = Request(
        topology,
        collective,
        root=0 if collective in ROOTED else None,
        budget=Budget(budget, effort=1.0),
        single_root=True,
        size=size,
    )
    started = time.monotonic()
    try:
        synthesis = synthesize(request)
    except HetesynthError as error:
        return {"error": f"{error.code}: {error.message}", "wall": time.monotonic() - started}
    return {
        "wall": time.monotonic() - started,
        "gpus": synthesis.topology.ranks,
        "program": synthesis.program_seconds,
        "limit": synthesis.time_optimality.bound_seconds,
        "candidate": "" if synthesis.choice is None else synthesis.choice.label,
    }


def library(topology: Path, collective: CollectiveName, size: int) -> dict[str, Any]:
    """What NCCL's rings take, or direct sends."""
    started = time.monotonic()
    cluster, root = load_topology(topology), 0 if collective in ROOTED else None
    baseline = ring_baseline(cluster, collective, root, size, CostOptions())
    if isinstance(baseline, str):
        return {"error": baseline, "wall": time.monotonic() - started}
    return {"wall": time.monotonic() - started, "program": baseline.seconds, "candidate": baseline.label}


def main(arguments: list[str]) -> None:
    """Measure and print both."""
    topology, collective, size, budget = arguments
    name = cast("CollectiveName", collective)
    _print(measured(Path(topology), name, int(size), float(budget)))
    _print(library(Path(topology), name, int(size)))


def _print(entry: dict[str, Any]) -> None:
    """One line, at once."""
    sys.stdout.write(json.dumps(entry) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
