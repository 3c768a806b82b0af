"""Random clusters of servers: every collective, with and without a size, ends with verified programs.

No error is an answer here: all ranks reach each other, and programs can hold so few transfers. The pipeline judges
what it makes, and raises an internal error where that does not verify.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest
from support.random_sources import random_source

from hetesynth.engine.compilation import compilation
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesized
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.topology.language import load_topology

SIZES = (None, 10**6, 64 * 10**6, 10**9)
SECONDS = 3.0
COLLECTIVES: tuple[CollectiveName, ...] = get_args(CollectiveName)


def check(folder: Path, seed: int, least: int, most: int, name: CollectiveName, size: int | None) -> None:
    topology = folder / "topo.dsl"
    topology.write_text(random_source(seed, least, most))
    made = synthesized(compilation(Request(topology, name, budget=Budget(SECONDS), size=size)))
    assert made.solution.bound.steps <= made.solution.schedule.makespan
    assert made.programs
    if size is not None:
        assert made.time_optimality.seconds >= made.time_optimality.bound.seconds(size) * 0.9999


def test_the_same_seed_makes_the_same_cluster(tmp_path: Path) -> None:
    assert random_source(7, 24, 64) == random_source(7, 24, 64) != random_source(8, 24, 64)
    for seed in range(20):
        path = tmp_path / f"{seed}.dsl"
        path.write_text(random_source(seed, 24, 64))
        assert 16 < load_topology(path).ranks <= 64


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(len(SIZES)))
@pytest.mark.parametrize("name", COLLECTIVES)
def test_programs_are_found(name: CollectiveName, seed: int, tmp_path: Path) -> None:
    for number, size in enumerate(SIZES):
        check(tmp_path, 100 * seed + 10 * number + COLLECTIVES.index(name), 24, 64, name, size)


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_a_small_cluster(name: CollectiveName, tmp_path: Path) -> None:
    check(tmp_path, 5, 8, 10, name, 10**6)
