"""Pools: members stand by their programs, at sizes in between too; sample_sizes; what was not timed is weighed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.autotune import candidates as ways
from hetesynth.autotune import pool as pools
from hetesynth.autotune.pool import Pool, pool, sample_sizes, seconds_at
from hetesynth.autotune.program_ranking import LOSS
from hetesynth.compile.predictors import ProgramPredictor
from hetesynth.compile.request import Request
from hetesynth.frontend import load_topology
from hetesynth.lowering.msccl.lower import LoweringOptions, lower
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS

TOPOLOGY = Path(__file__).resolve().parents[2] / "examples" / "h20_4p8" / "topo.dsl"
TARGET = TARGETS["msccl-executor"]
SIZES = (1 << 20, 16 << 20, 256 << 20)


@pytest.fixture(scope="module")
def given() -> Pool:
    """Rails only, with few chunks: quick to find."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "CHUNKS", (1, 2))
        request = Request(TOPOLOGY, "allgather", strategy="server-rings", targets=(TARGET,))
        return pool(load_topology(TOPOLOGY), request, SIZES, programs=True)


def test_members_stand_by_their_programs(given: Pool) -> None:
    for i, member in enumerate(given.members):
        c = member.candidate
        options = LoweringOptions(
            "x", profile=TARGET, servers=c.chunking.topology.servers, throttling=member.throttling
        )
        ways = [options, replace(options, passes=replace(options.passes, fuse=False))]
        clocks = [
            ProgramPredictor(c.chunking.topology, lower(c.problem, c.solution.schedule, way), target=TARGET)
            for way in ways
        ]
        known = [j for j in range(len(SIZES)) if given.program_seconds(i, j) is not None]
        timed = [given.program_seconds(i, j) for j in known]
        lines = [[clock.timeline(SIZES[j]).makespan for j in known] for clock in clocks]
        assert timed in [pytest.approx(line, rel=1e-9) for line in lines]  # one program at all sizes
        for j, size in enumerate(SIZES):
            if j in known:
                assert (
                    given.seconds[i][j]
                    == pytest.approx(given.program_seconds(i, j))
                    == pytest.approx(member.seconds(size))
                )
            assert given.time_optimality(i, j).seconds == seconds_at(c, size)
    assert any(given.program_seconds(given.best(j), j) for j in range(len(SIZES)))


def test_between_two_sizes_a_program_loses_something_in_between(given: Pool) -> None:
    member = given.members[given.best(1)]
    between = member.loss(4 << 20)
    assert min(member.loss(1 << 20), member.loss(16 << 20)) <= between
    assert between <= max(member.loss(1 << 20), member.loss(16 << 20))
    assert member.loss(SIZES[-1] * 64) == member.loss(SIZES[-1])


def test_programs_that_are_not_timed_are_taken_to_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "MAX_TRANSFERS", 0)
    monkeypatch.setattr(ways, "CHUNKS", (1,))
    request = Request(TOPOLOGY, "allgather", strategy="server-rings", targets=(TARGET,))
    found = pool(load_topology(TOPOLOGY), request, SIZES, programs=True)
    assert found.program_seconds(0, 0) is None
    assert found.seconds[0][0] == pytest.approx(LOSS * found.members[0].schedule[0])
    plain = pool(load_topology(TOPOLOGY), request, SIZES)
    assert plain.seconds[0] == plain.members[0].schedule


def test_the_budget_does_not_leave_a_member_untimed() -> None:
    request = Request(
        TOPOLOGY, "allgather", chunks=2, chunks_stated=True, strategy="server-rings", targets=(TARGET,)
    )
    found = pool(load_topology(TOPOLOGY), replace(request, budget=Budget(0.01)), SIZES, programs=True)
    assert found.program_seconds(0, 0) is not None
    assert all(math.isfinite(s) for s in found.seconds[0])


def test_anchors_span_the_sizes() -> None:
    assert sample_sizes((1, 2, 4, 8, 16, 32, 64)) == [1, 4, 16, 64]
    assert sample_sizes((5,)) == [5]
