"""Prints docs/benchmarks_engine.md: seconds of the optimal packing alone, its proof and the judge of that.

``PYTHONPATH=tests python tests/benchmarks/packing_engine.py > docs/benchmarks_engine.md`` takes ten minutes;
``--gpus 24 64`` selects sizes. Seconds are of the processor, of one core, so other work counts little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

from support.large_clusters import KINDS, large_cluster

from benchmarks.machine import load, machine
from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.packing import price_bounds
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.network import Network
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SHOWN = ("h20_4p8", "v100_4x2p8x2", "dgx2_x2", "mesh_8x8_hetero", "h20_64")
GPUS = (24, 64, 96, 128, 192, 256)
GOALS = ((24, 1.0), (64, 5.0), (256, 60.0))  # most GPUs, most seconds
NAMES: tuple[CollectiveName, ...] = ("allgather", "allreduce")
GAP = 1e-3
GB = 1e9
Result = TypeVar("Result")

TEXT = """# Benchmarks of the packing engine

Written by `PYTHONPATH=tests python tests/benchmarks/packing_engine.py`. The optimal fractional packing of trees
(`search/packing/` in [architecture.md](architecture.md)) alone: no chunks, no programs. Past the examples,
clusters whose servers differ (`tests/support/large_clusters.py`): **NICs** of 100, 200 and 400 Gbit/s, some
degraded, on one fabric or on one **rail** for each NIC of a server; **measured** rates, every NIC its own;
servers of 4, 8 and 16 GPUs (**mixed**); **meshes** with slow links instead of NVSwitches; leaves under a
**spine**; **PCIe** trees with two NICs; stated **limits** of servers; meshes, measured rates, a spine and limits
together (**all**); a **grid** of links of unequal rates.

- **alike**: orbits of ranks; as many as GPUs where no two stand alike.
- **us for 1 GB**: of the packing. **gap**: between the packing and the rechecked bound, at most 0.1 %.
- **seconds**: until the packing is proved to be within 0.1 %. **bound s**: until prices in whole numbers prove it,
  with a packing of their own (gap 0.0001 %). **judge s**: to recheck the proof without symmetry, in whole numbers.
- **met**: proved, and in 1 s up to 24 GPUs, 5 s up to 64, 60 s up to 256.
"""


def main() -> None:
    """The page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, nargs="*", default=GPUS)
    sizes = parser.parse_args().gpus
    before = load()
    print(TEXT)
    print(
        "| cluster | GPUs | alike | collective | us for 1 GB | gap | trees | seconds | bound s | judge s | met |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for cluster, topology in clusters(sizes):
        for name in NAMES:
            print(row(cluster, topology, name), flush=True)
    print("\n## Measured on\n\n| | |\n|---|---|")
    facts = machine() | {"highspy": version("highspy"), "load before and after": f"{before}, {load()}"}
    for what, value in facts.items():
        print(f"| {what} | {value} |")


def clusters(sizes: list[int]) -> Iterator[tuple[str, Topology]]:
    """Name and topology, smaller ones first."""
    for name in SHOWN:
        yield name, load_topology(EXAMPLES / name / "topo.dsl")
    for gpus in sizes:
        for kind in KINDS:
            yield kind, parse_topology(large_cluster(kind, gpus, 1))


def row(cluster: str, topology: Topology, name: CollectiveName) -> str:
    """A line of the table."""
    (alike, packing), seconds = timed(
        lambda: optimal_packing(Network.of(topology), name, None, topology.servers, DEFAULT.packing, no_deadline())
    )
    bounds, bound_seconds = timed(lambda: price_bounds(topology, name, None, DEFAULT))
    wrong, judge_seconds = timed(
        lambda: [w for bound in bounds for w in time_bound_violations(topology, name, None, bound)]
    )
    least = max(float(bound.seconds_per_byte) for bound in bounds)
    gap = 1.0 - least / packing.seconds
    most = next(limit for gpus, limit in GOALS if topology.ranks <= gpus)
    missed = [w for w, yes in (("proof", wrong or gap > GAP), ("seconds", seconds > most)) if yes]
    cells = [
        cluster, topology.ranks, len(alike.representatives), name, f"{packing.seconds * GB * 1e6:,.1f}",
        f"{max(gap, 0.0):.4%}", (packing.weights > DEFAULT.packing.least_weight).sum(), f"{seconds:.2f}",
        f"{bound_seconds:.2f}", f"{judge_seconds:.2f}", f"no: {', '.join(missed)}" if missed else "yes",
    ]  # fmt: skip
    return f"| {' | '.join(map(str, cells))} |"


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result and the seconds of the processor."""
    begin = time.process_time()
    return work(), time.process_time() - begin


if __name__ == "__main__":
    main()
