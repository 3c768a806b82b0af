"""Prints docs/benchmarks_engine.md: seconds of the optimal packing alone, its proof and the judge of that.

``PYTHONPATH=tests python tests/benchmarks/packing_engine.py > docs/benchmarks_engine.md`` takes ten minutes;
``--gpus 24 64`` selects sizes. Seconds are of the processor, of one core, so other work counts little.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import TypeVar

from support.large_clusters import KINDS, large_cluster

from benchmarks.machine import load, machine
from benchmarks.tables import csv_text, markdown
from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import no_deadline
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.packing import price_bounds
from hetesynth.search.packing.column_generation import optimal_packing
from hetesynth.search.packing.network import Network
from hetesynth.topology.language import load_topology, parse_topology

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLES = DOCS.parent / "examples"
SHOWN = ("h20_4p8", "v100_4x2p8x2", "dgx2_x2", "mesh_8x8_hetero", "h20_64")
GPUS = (24, 64, 96, 128, 192, 256)
GOALS = ((24, 1.0), (64, 5.0), (256, 60.0))  # most GPUs, most seconds
NAMES: tuple[CollectiveName, ...] = ("allgather", "allreduce")
GAP = 1e-3
GB = 1e9
Result = TypeVar("Result")

HEAD = [
    "cluster", "GPUs", "alike", "collective", "us_for_1_GB", "gap", "trees", "seconds", "bound_s", "judge_s",
    "met",
]  # fmt: skip
TEXT = """# Benchmarks of the packing engine

How long the optimal fractional packing of trees takes (`search/packing/` in [architecture.md](architecture.md))
alone, without chunks and programs. Written by `PYTHONPATH=tests python tests/benchmarks/packing_engine.py`.

{summary}

Goals are met where the packing is proved to be within 0.1 % of the optimum, in 1 s up to 24 GPUs, 5 s up to 64,
60 s up to 256. Clusters: five examples, and from `tests/support/large_clusters.py` clusters whose servers differ
in NICs, rails, measured rates, sizes, slow links, a spine, PCIe trees, stated limits, and all of these together,
and grids of unequal links.

Every packing is a row of [data/benchmarks_engine.csv](data/benchmarks_engine.csv): `alike`, orbits of ranks (as
many as GPUs where no two are alike); `us_for_1_GB` of the packing and its `gap` to the rechecked bound; processor
`seconds` until it is proved, `bound_s` until prices in whole numbers prove it, `judge_s` to recheck that proof.

Measured on: {facts}.
"""


def main() -> None:
    """Measure, and write the table and the page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, nargs="*", default=GPUS)
    sizes, before = parser.parse_args().gpus, load()
    rows = [row(cluster, topology, name) for cluster, topology in clusters(sizes) for name in NAMES]
    (DOCS / "data" / "benchmarks_engine.csv").write_text(csv_text(HEAD, rows))
    facts = machine() | {"highspy": version("highspy"), "load before and after": f"{before} and {load()}"}
    said = ", ".join(f"{what} {value}" for what, value in facts.items())
    (DOCS / "benchmarks_engine.md").write_text(TEXT.format(summary=summary(rows), facts=said))


def summary(rows: Sequence[Sequence[str]]) -> str:
    """Packings, goals met and seconds, by the number of GPUs."""
    lines, least = [], 0
    for most, goal in GOALS:
        some = [row for row in rows if least < int(row[1]) <= most]
        met, seconds = sum(row[10] == "yes" for row in some), [float(row[7]) for row in some]
        lines.append(
            (
                f"up to {most}",
                f"{met} of {len(some)}",
                f"{goal:g}",
                f"{median(seconds):.2f}",
                f"{max(seconds):.2f}",
            )
        )
        least = most
    return markdown(("GPUs", "goals met", "seconds asked", "median", "longest"), lines)


def clusters(sizes: list[int]) -> Iterator[tuple[str, Topology]]:
    """Name and topology, smaller ones first."""
    for name in SHOWN:
        yield name, load_topology(EXAMPLES / name / "topo.dsl")
    for gpus in sizes:
        for kind in KINDS:
            yield kind, parse_topology(large_cluster(kind, gpus, 1))


def row(cluster: str, topology: Topology, name: CollectiveName) -> list[str]:
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
        f"{max(gap, 0.0):.4%}", (packing.weights > 1e-9).sum(), f"{seconds:.2f}",
        f"{bound_seconds:.2f}", f"{judge_seconds:.2f}", f"no: {', '.join(missed)}" if missed else "yes",
    ]  # fmt: skip
    return list(map(str, cells))


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result and the seconds of the processor."""
    begin = time.process_time()
    return work(), time.process_time() - begin


if __name__ == "__main__":
    main()
