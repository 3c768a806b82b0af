"""Pools: members stand by their programs, at sizes in between too; sample_sizes; what was not timed is weighed."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.autotune.pool import Pool, pool, sample_sizes, seconds_at
from hetesynth.compile.predictors import ProgramPredictor
from hetesynth.compile.request import Request
from hetesynth.frontend import load_topology
from hetesynth.lowering.msccl.lower import LoweringOptions, lower
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT, Policy

TOPOLOGY = Path(__file__).resolve().parents[2] / "examples" / "h20_4p8" / "topo.dsl"
TARGET = TARGETS["msccl-executor"]
SIZES = (1 << 20, 16 << 20, 256 << 20)


def policy(**thresholds: object) -> Policy:
    return replace(DEFAULT, autotune=replace(DEFAULT.autotune, **thresholds))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def server_rings() -> Pool:
    """Server rings only, with few chunks: quick to find."""
    few = policy(chunk_counts=(1, 2))
    request = Request(TOPOLOGY, "allgather", strategy="server-rings", targets=(TARGET,), policy=few)
    return pool(load_topology(TOPOLOGY), request, SIZES, programs=True)


def program_seconds(members: Pool, i: int, j: int) -> float | None:
    """What the program of member i takes at size j, where it was timed."""
    loss = (members.members[i].losses or {}).get(members.sizes[j])
    return None if loss is None else loss * members.members[i].schedule[j]


def test_members_stand_by_their_programs(server_rings: Pool) -> None:
    for i, member in enumerate(server_rings.members):
        c = member.candidate
        options = LoweringOptions(
            "x", target=TARGET, servers=c.chunking.topology.servers, throttling=member.throttling
        )
        variants = [options, replace(options, optimizations=replace(options.optimizations, fuse=False))]
        programs = [lower(c.problem, c.solution.schedule, variant) for variant in variants]
        if member.steady is not None:
            programs = [member.steady.lowered(c.problem, c.solution.schedule, options).program]
        predictors = [ProgramPredictor(c.chunking.topology, p, target=TARGET) for p in programs]
        timed_at = [j for j in range(len(SIZES)) if program_seconds(server_rings, i, j) is not None]
        timed = [program_seconds(server_rings, i, j) for j in timed_at]
        times = [[predictor.timeline(SIZES[j]).makespan for j in timed_at] for predictor in predictors]
        assert timed in [pytest.approx(line, rel=1e-9) for line in times]  # one program at all sizes
        for j, size in enumerate(SIZES):
            if j in timed_at:
                assert (
                    server_rings.seconds[i][j]
                    == pytest.approx(program_seconds(server_rings, i, j))
                    == pytest.approx(member.seconds(size))
                )
            assert server_rings.time_optimality(i, j).seconds == seconds_at(c, size)
    assert any(program_seconds(server_rings, server_rings.best(j), j) for j in range(len(SIZES)))


def test_between_two_sizes_a_program_loses_something_in_between(server_rings: Pool) -> None:
    member = server_rings.members[server_rings.best(1)]
    between = member.loss(4 << 20)
    assert min(member.loss(1 << 20), member.loss(16 << 20)) <= between
    assert between <= max(member.loss(1 << 20), member.loss(16 << 20))
    assert member.loss(SIZES[-1] * 64) == member.loss(SIZES[-1])


def test_programs_that_are_not_timed_are_taken_to_lose() -> None:
    none = policy(max_program_transfers=0, chunk_counts=(1,))
    request = Request(TOPOLOGY, "allgather", strategy="server-rings", targets=(TARGET,), policy=none)
    members = pool(load_topology(TOPOLOGY), request, SIZES, programs=True)
    assert program_seconds(members, 0, 0) is None
    assert members.seconds[0][0] == pytest.approx(DEFAULT.autotune.untimed_loss * members.members[0].schedule[0])
    plain = pool(load_topology(TOPOLOGY), request, SIZES)
    assert plain.seconds[0] == plain.members[0].schedule


def test_the_budget_does_not_leave_a_member_untimed() -> None:
    request = Request(
        TOPOLOGY, "allgather", chunks=2, chunks_stated=True, strategy="server-rings", targets=(TARGET,)
    )
    members = pool(load_topology(TOPOLOGY), replace(request, budget=Budget(0.01)), SIZES, programs=True)
    assert program_seconds(members, 0, 0) is not None
    assert all(math.isfinite(s) for s in members.seconds[0])


def test_tuning_runs_span_the_sizes() -> None:
    assert sample_sizes((1, 2, 4, 8, 16, 32, 64), DEFAULT.autotune) == [1, 4, 16, 64]
    assert sample_sizes((5,), DEFAULT.autotune) == [5]
