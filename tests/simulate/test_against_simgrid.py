"""The simulator against SimGrid, an independent one. Skipped where no Python has it (Debian: python3-simgrid)."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.fluid_reference import graph_of
from support.random_transfers import random_tasks

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.runtime_costs import NCCL_TABLES, RuntimeCosts
from hetesynth.model.timeline import TransferGraph
from hetesynth.simulate.engine import simulate

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
JUDGE = Path(__file__).resolve().parents[1] / "support" / "simgrid_judge.py"


@cache
def python_with_simgrid() -> str | None:
    """A Python that can import simgrid: ours, or the distribution's."""
    for python in (sys.executable, "/usr/bin/python3", shutil.which("python3")):
        if python and Path(python).exists():
            done = subprocess.run([python, "-c", "import simgrid"], capture_output=True, check=False)
            if done.returncode == 0:
                return python
    return None


def simgrid_ends(graphs: list[TransferGraph]) -> list[list[float]]:
    """When SimGrid lets each task of each graph end; whole bytes only."""
    python = python_with_simgrid()
    if python is None:
        pytest.skip("no Python here can import simgrid (Debian: apt-get install python3-simgrid)")
    done = subprocess.run(
        [python, str(JUDGE)], input=json.dumps([_plain(g) for g in graphs]), capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[list[float]] = json.loads(done.stdout)
    return found


def _plain(graph: TransferGraph) -> dict[str, Any]:
    uses = np.split(graph.uses, graph.uses_start[1:-1])
    size = graph.size
    lagging: list[Any] = []  # a lag is a task between the two, which only takes time
    before = graph.waits.copy()
    for place, lag in enumerate([] if graph.lags is None else graph.lags.tolist()):
        if lag:
            before[place] = graph.tasks + len(lagging)
            lagging.append([[], [int(graph.waits[place])], lag, 0, 0.0])
    waits = np.split(before, graph.waits_start[1:-1])
    assert (size == np.round(size)).all(), "SimGrid sends whole bytes"
    return {
        "rates": graph.rate.tolist(),
        "tasks": [
            [uses[i].tolist(), waits[i].tolist(), float(graph.delay[i]), int(size[i]), float(graph.after[i])]
            for i in range(graph.tasks)
        ]
        + lagging,
    }


def assert_agreement(graphs: list[TransferGraph]) -> None:
    for graph, judged in zip(graphs, simgrid_ends(graphs), strict=True):
        assert simulate(graph).end == pytest.approx(judged[: graph.tasks], rel=1e-6, abs=1e-13)


def test_random_transfers() -> None:
    assert_agreement([graph_of(*random_tasks(seed, 24)) for seed in range(60)])


def our_programs(
    clusters: tuple[str, ...], collectives: tuple[str, ...], unit: int, runtime: RuntimeCosts | None = None
) -> list[TransferGraph]:
    """What we emit for these clusters and collectives, in and out of place, with ``unit`` bytes a chunk."""
    graphs: list[TransferGraph] = []
    for name in clusters:
        for coll in collectives:
            request = Request(EXAMPLES / name / "topo.dsl", coll, strategy="greedy")  # type: ignore[arg-type]
            made = synthesize(request)
            for suffix in sorted(suffix for suffix in made.files if suffix.endswith(".xml")):
                program = read_program(made.files[suffix], suffix).program
                assert program is not None
                clock = ProgramPredictor(made.topology, program, CostOptions(runtime=runtime))
                graphs.append(clock.tasks(unit * program.chunks_per_loop).tasks.graph(1.0))
    return graphs


def test_programs_of_ours() -> None:
    """A shared bus and a NIC, reductions; several slices, so that FIFOs and loops matter."""
    assert_agreement(our_programs(("fig10",), ("allreduce", "allgather"), 3 * 2**20))


def test_thread_blocks_as_resources() -> None:
    """Programs whose thread blocks are slower than some wires and faster than others, by NCCL's copy rates."""
    graphs = our_programs(("h20_4x3", "fig10"), ("allgather", "allreduce"), 3 * 2**20, NCCL_TABLES)
    for graph in graphs:
        blocks = [i for i, name in enumerate(graph.names) if name.startswith("thread block ")]
        assert blocks and set(blocks) <= set(graph.uses.tolist())
    assert_agreement(graphs)
