"""One link for a thread block while a GPU has enough of them (HeteCCL 3.1); where it has not, the links share that
keep a thread block busy least. One chunk over several channels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.lowering_cases import GRAPHS, case

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import SENDS, Program, ThreadBlock
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE, Target
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower_with_notes
from hetesynth.search.collectives import collective


def two_links(block: ThreadBlock) -> bool:
    return block.send_peer is not None and block.recv_peer is not None


def links(program: Program, rank: int) -> int:
    """Connections of a rank, each direction and channel one."""
    blocks = program.gpus[rank].thread_blocks
    return sum((b.send_peer is not None) + (b.recv_peer is not None) for b in blocks)


def copy_blocks(program: Program, rank: int) -> int:
    return sum(b.send_peer is None and b.recv_peer is None for b in program.gpus[rank].thread_blocks)


def lowered(problem: Problem, schedule: Schedule, target: Target = PORTABLE, **options: object) -> Lowered:
    return lower_with_notes(problem, schedule, LoweringOptions("x", target=target, **options))  # type: ignore[arg-type]


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([g for g in GRAPHS if g != "one"]), st.sampled_from(COLLECTIVE_NAMES), st.integers(1, 3))
def test_no_block_serves_two_links_while_there_are_enough(graph: str, name: str, chunks: int) -> None:
    root = 1 if name in ("broadcast", "reduce", "gather", "scatter") else None
    program = lowered(*case(graph, name, chunks, root)).program
    for gpu in program.gpus:
        assert links(program, gpu.rank) + copy_blocks(program, gpu.rank) <= PORTABLE.thread_blocks
        assert not any(map(two_links, gpu.thread_blocks))
    assert not program_violations(program)


@pytest.mark.parametrize("limit", [9, 10, 12, 14, 15, 16])
def test_as_many_share_as_the_limit_asks_for(limit: int) -> None:
    """Eight ranks with seven links in each direction and a thread block for copies."""
    pairs = [(u, v) for u in range(8) for v in range(8) if u != v]
    problem = Problem(8, 8, (), tuple(Arc(u, v, 1) for u, v in pairs), (), collective("allgather", 8, 1))
    schedule = Schedule.of(Transfer(0, 1, u, pairs.index((u, v))) for u, v in pairs)
    program = lowered(problem, schedule, replace(PORTABLE, max_thread_blocks=limit)).program
    for gpu in program.gpus:
        assert len(gpu.thread_blocks) == min(15, limit)
        assert sum(map(two_links, gpu.thread_blocks)) == max(0, 15 - limit)
    assert not program_violations(program)


def test_the_lightest_share_with_the_heaviest_of_the_lightest() -> None:
    """Two pairs of a hub share: none is busier than the lightest receive with the second lightest send."""
    problem, schedule = case("star5", "allgather", 1)
    seconds = {(p, 0): float(p) for p in range(1, 5)} | {(0, p): float(p) for p in range(1, 5)}
    target = replace(PORTABLE, max_thread_blocks=7)
    program = lowered(problem, schedule, target, chunk_seconds=seconds).program
    shared = {(b.recv_peer, b.send_peer) for b in program.gpus[0].thread_blocks if two_links(b)}
    assert shared == {(1, 2), (2, 1)} and not program_violations(program)


def carried(program: Program, rank: int, peer: int) -> dict[int, list[int]]:
    """By channel the number of chunks of each message to a peer."""
    blocks = [b for b in program.gpus[rank].thread_blocks if b.send_peer == peer]
    return {b.channel: [x.count for x in b.instructions if x.op in SENDS] for b in blocks}
