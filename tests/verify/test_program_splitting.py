"""Messages that split: the judge against a simulator of its own, for every size of message."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from program_builders import block, program, step

from hetesynth.judge.msccl.judge import large_message_violations, program_violations
from hetesynth.judge.msccl.rules import BY_ID
from hetesynth.model.program import GpuProgram, Program

Steps = list[tuple[bool, int]]
"""(sends, chunks) in the order of one thread block."""


def _finishes(gpus: list[Steps], largest: int, slots: int) -> bool:
    """A ring in which GPU g sends to g+1, messages of at most ``largest`` chunks: whether all get to the end."""
    parts = [[sends for sends, count in steps for _ in range(-(-count // largest))] for steps in gpus]
    n, done, queued = len(gpus), [0] * len(gpus), [0] * len(gpus)
    moved = True
    while moved:
        moved = False
        for g in range(n):
            while done[g] < len(parts[g]):
                sends = parts[g][done[g]]
                if (sends and queued[g] >= slots) or (not sends and not queued[g - 1]):
                    break
                queued[g if sends else g - 1] += 1 if sends else -1
                done[g] += 1
                moved = True
    return all(done[g] == len(parts[g]) for g in range(n))


def _ring(gpus: list[Steps]) -> Program:
    built = []
    for r, steps in enumerate(gpus):
        instructions, at = [], 0
        for sends, count in steps:
            instructions.append(step("s", "i0", "s0", count) if sends else step("r", "i0", f"s{at}", count))
            at += 0 if sends else count
        peers = ((r + 1) % len(gpus), (r - 1) % len(gpus))
        built.append(GpuProgram(r, 8, 8, 64, (block(0, *peers, *instructions),)))
    return program("custom", 8, built)


@st.composite
def rings(draw: st.DrawFn) -> list[Steps]:
    n = draw(st.integers(2, 4))
    counts = [draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)) for _ in range(n)]
    gpus = []
    for g in range(n):
        order = draw(st.permutations([True] * len(counts[g]) + [False] * len(counts[g - 1])))
        out, into = iter(counts[g]), iter(counts[g - 1])
        gpus.append([(sends, next(out if sends else into)) for sends in order])
    return gpus


def _hangs(found: list[str]) -> bool:
    return "deadlock" in found or "split-deadlock" in found


@settings(max_examples=120, deadline=None)
@given(rings(), st.integers(1, 3))
def test_messages_of_every_length_and_single_chunks_tell_for_all(gpus: list[Steps], slots: int) -> None:
    finishes = {k: _finishes(gpus, k, slots) for k in (1, 2, 3, 4, 5, 6)}
    assert sorted(finishes.values()) == list(finishes.values()), "shorter messages hang where longer ones do"
    ring = _ring(gpus)
    whole = [BY_ID[v.rule or ""].name for v in program_violations(ring, slots=slots)]
    parts = [BY_ID[v.rule or ""].name for v in large_message_violations(ring, slots=slots)]
    assert _hangs(whole) != finishes[6]
    assert (_hangs(whole) or _hangs(parts)) != finishes[1]
    for k in range(2, 6):
        some = [BY_ID[v.rule or ""].name for v in large_message_violations(ring, slots=slots, split=k)]
        assert (_hangs(whole) or _hangs(some)) != finishes[k]
