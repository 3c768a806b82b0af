"""TE-CCL's written schedules take, simulated, as long as the epochs that are proved to be the fewest."""

from __future__ import annotations

from fractions import Fraction
from math import inf
from pathlib import Path

import pytest

from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import costs
from hetesynth.model.problem import Budget
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.collectives import DUAL, collective, invert
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.timed.earliest_arrival import Rates
from hetesynth.search.timed.te_ccl import Epochs, epoch_seconds, fewest_epochs, te_ccl_strategy
from hetesynth.topology.language import load_topology

BYTES, US = 1000, Fraction(1, 10**6)


def joined(*pairs: tuple[int, int, str]) -> str:
    return "; ".join(f"link gpu{u} <-> gpu{v} {{ bandwidth {rate} }}" for u, v, rate in pairs)


HUB = "gpus 6; " + joined(*((0, i, "1 GB/s") for i in range(1, 6)))
NODES = {
    "hub": HUB,
    "hub, two rates": "gpus 6; " + joined(*((0, i, f"{1 + i // 3} GB/s") for i in range(1, 6))),
    "switch": "gpus 4; switch s { ports gpu[0-3]; bandwidth 1 GB/s }",
    "switch, lanes": "gpus 4; switch s { ports gpu[0-3]; bandwidth 1 GB/s x 3 }",
    "late hub": HUB.replace(" }", "; latency 2 us }"),
    "path": "gpus 4; " + joined((0, 1, "2 GB/s"), (1, 2, "1 GB/s"), (2, 3, "2 GB/s")),
    "ring": "gpus 5; " + joined(*((i, (i + 1) % 5, "1 GB/s") for i in range(5))),
    "odd lanes": "gpus 3; " + joined((0, 1, "1 GB/s x 3"), (1, 2, "1 GB/s x 2")),
}
GOALS: tuple[tuple[CollectiveName, int | None], ...] = (
    ("broadcast", 0), ("broadcast", 1), ("scatter", 1), ("reduce", 1), ("alltoall", None),
)  # fmt: skip


def times(
    node: str, name: CollectiveName, chunks: int, root: int | None, step: Fraction | None, folder: Path
) -> tuple[float, float]:
    """Seconds as simulated, and as proved: of the fewest epochs that any length of epochs gives."""
    file = folder / "c.dsl"
    file.write_text(f"node box {{ {NODES[node]} }}\ncluster c {{ instance a = box }}\n")
    topology = load_topology(file)
    wanted = chunk(topology, ChunkingOptions(BYTES, step or "slowest")).problem(
        collective(name, topology.ranks, chunks, root)
    )
    prices = costs(topology)
    rates = Rates(prices.link_alpha, prices.link_resources, prices.resource_rate, float(BYTES), topology.servers)
    tables = CopyProblem(invert(wanted)[0] if name in DUAL else wanted)
    proved = []
    for tau in epoch_seconds(tables, rates.link_times(tables)):
        found = fewest_epochs(Epochs(tables, rates.link_times(tables), tau), 8, lambda: inf)
        proved += [found.epochs * tau] if found.fewest else []
    written = Solver(te_ccl_strategy(rates), Budget(), schedule_violations).solve(wanted)
    assert isinstance(written, Solution)
    size = BYTES * chunks * (topology.ranks if root is None else 1)
    size *= topology.ranks if name in ("scatter", "gather") else 1
    predictor = SchedulePredictor(topology, wanted, written.schedule, CostOptions(runtime=None))
    return predictor.timeline(size).makespan, min(proved)


@pytest.mark.parametrize("step", [None, 3 * US], ids=["usual steps", "steps for several chunks"])
@pytest.mark.parametrize(("name", "root"), GOALS)
@pytest.mark.parametrize("node", NODES)
def test_written_times_are_those_proved(
    node: str, name: CollectiveName, root: int | None, step: Fraction | None, tmp_path: Path
) -> None:
    for chunks in (1, 3) if name == "broadcast" else (2,):
        simulated, proved = times(node, name, chunks, root, step, tmp_path)
        if node == "odd lanes":  # no epoch divides both links' seconds
            assert simulated <= proved * (1 + 1e-9)
        else:
            assert simulated == pytest.approx(proved, rel=1e-9)


def test_a_star_of_six_takes_four_microseconds(tmp_path: Path) -> None:
    simulated, proved = times("hub", "broadcast", 3, 1, 3 * US, tmp_path)
    assert (simulated, proved) == (pytest.approx(4e-6), pytest.approx(4e-6))
