"""The judge on the largest programs that fit the runtimes."""

from __future__ import annotations

import time

import pytest
from program_builders import block, program, step

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.program import GpuProgram, Program


def _rings(n: int, rings: int) -> Program:
    """In-place allgather on ``rings`` rings at once, two thread blocks each and a dependence for every hop."""
    gpus = []
    for r in range(n):
        blocks = []
        for h in range(rings):
            chunks = [((r - t) % n) * rings + h for t in range(n)]
            sends = [
                step("s", f"o{k}", f"o{k}", on=(2 * h + 1, t - 1) if t else None)
                for t, k in enumerate(chunks[: n - 1])
            ]
            gets = [step("r", f"o{k}", f"o{k}", flag=t < n - 2) for t, k in enumerate(chunks[1:])]
            blocks.append(block(2 * h, (r + 1) % n, None, *sends, channel=h))
            blocks.append(block(2 * h + 1, None, (r - 1) % n, *gets, channel=h))
        gpus.append(GpuProgram(r, rings, n * rings, 0, tuple(blocks)))
    return program("allgather", n * rings, gpus, in_place=True, channels=rings)


def test_twelve_ranks_take_a_moment() -> None:
    start = time.perf_counter()
    assert program_violations(_rings(12, 4)) == []
    assert time.perf_counter() - start < 1.0


@pytest.mark.slow
def test_sixty_four_gpus_with_sixty_two_full_thread_blocks() -> None:
    start = time.perf_counter()
    assert program_violations(_rings(64, 31)) == []
    assert time.perf_counter() - start < 30.0
