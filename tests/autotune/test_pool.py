"""Pools: members stand by their programs; where tuning runs are; what is not simulated."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine.choice import candidates
from hetesynth.engine.choice import pool as pools
from hetesynth.engine.choice.pool import Pool, _timed, pool, sample_places, seconds_at
from hetesynth.engine.predictors import ProgramPredictor
from hetesynth.engine.request import Request
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.topology.language import load_topology

TOPOLOGY = Path(__file__).resolve().parents[2] / "examples" / "h20_4p8" / "topo.dsl"
TARGET = TARGETS["msccl-executor"]
SIZES = (1 << 20, 16 << 20, 256 << 20)


@pytest.fixture(scope="module")
def server_rings() -> Pool:
    """Server rings only: quick to find."""
    request = Request(TOPOLOGY, "allgather", strategy="server-rings", targets=(TARGET,))
    return pool(load_topology(TOPOLOGY), request, SIZES)


def test_members_stand_by_their_programs(server_rings: Pool) -> None:
    for i, member in enumerate(server_rings.members):
        c = member.candidate
        options = LoweringOptions("x", target=TARGET, servers=c.chunking.topology.servers)
        variants = [options, replace(options, fusion="none")]
        programs = [lower(c.problem, c.solution.schedule, variant) for variant in variants]
        if member.steady is not None:
            programs = [member.steady.lowered(c.problem, c.solution.schedule, options).program]
        predictors = [ProgramPredictor(c.chunking.topology, p, target=TARGET) for p in programs]
        assert member.made_for in SIZES
        for j, size in enumerate(SIZES):
            row, best = server_rings.seconds[i][j], server_rings.seconds[server_rings.best(j)][j]
            if math.isinf(row):
                assert member.seconds(size) > best, "left out though it is the quickest"
            else:
                assert row == member.seconds(size)
                assert row in [pytest.approx(p.timeline(size).makespan, rel=1e-9) for p in predictors]
            assert server_rings.schedule_at(i, size).seconds == seconds_at(c, size)


def test_tuning_runs_span_the_sizes() -> None:
    sizes = [1000 << k for k in range(13)]
    assert sample_places(sizes) == [0, 6, 12]
    assert sample_places((5,)) == [0]
    assert sample_places((1, 1000)) == [0, 1]


@pytest.mark.slow
def test_beside_the_library_there_are_tuning_runs_where_the_quickest_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The best of a size between two others, one for latency and one for bandwidth, is neither of theirs."""
    sizes = [1 << k for k in range(10, 31, 2)]
    monkeypatch.setattr(pools, "sample_places", lambda sizes: [0, len(sizes) - 1])
    monkeypatch.setattr(candidates, "CHUNK_COUNTS", (1, 2))
    request = Request(TOPOLOGY, "allgather", targets=(TARGET,), runtime=NCCL_TABLES)
    topology = load_topology(TOPOLOGY)
    alone, beside = (pool(topology, request, sizes, beside_library=said) for said in (False, True))
    assert {m.made_for for m in alone.members} == {1 << 10, 1 << 30}
    assert {m.made_for for m in beside.members} == {1 << 10, 1 << 20, 1 << 30}
    assert min(row[5] for row in beside.seconds) < min(row[5] for row in alone.seconds)
    assert set(alone.library) == {math.inf} and all(0 < s < math.inf for s in beside.library)


def test_a_member_that_is_behind_is_not_simulated_on_and_one_that_is_not_is() -> None:
    """Members whose seconds are stated; they count how often they are asked."""

    class Stated:
        def __init__(self, made_for: int, latency: float, per_byte: float) -> None:
            self.made_for, self.latency, self.per_byte = made_for, latency, per_byte
            self.asked: list[int] = []

        def seconds(self, size: int) -> float:
            self.asked.append(size)
            return self.latency + self.per_byte * size

    sizes = [1 << k for k in range(20)]
    quick, behind, wide = Stated(1, 1.0, 1.0), Stated(1 << 19, 1e5, 0.1), Stated(1, 0.5, 5.0)
    members: Any = [quick, behind, wide]
    rows: list[list[float]] = []
    _timed(sizes, math.inf, members, rows)
    best = [min(m.latency + m.per_byte * size for m in members) for size in sizes]
    assert [min(row[j] for row in rows) for j in range(len(sizes))] == best
    assert quick.asked == sizes and min(behind.asked) == 1 << 16 and wide.asked == [1]
