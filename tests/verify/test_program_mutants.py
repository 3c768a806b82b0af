"""Mutants of good programs: whatever some order of execution turns wrong, the judge must reject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from program_builders import edited, good_programs, survives, with_step

from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.program import BufferSlice, Program, ThreadBlock

GOOD = good_programs()
ORDERS = 5
MUTATED_GPUS = 2  # the others are alike up to the numbers


def _moved(at: BufferSlice | None, by: int) -> BufferSlice | None:
    return None if at is None else BufferSlice(at.buffer, at.offset + by)


def mutants(p: Program) -> Iterator[tuple[str, Program]]:
    """Every single edit of the thread blocks and steps of the first GPUs."""
    for g, gpu in enumerate(p.gpus[:MUTATED_GPUS]):
        for t, tb in enumerate(gpu.thread_blocks):
            where = f"gpu {g} block {t}"
            for peer in range(p.ranks):
                if tb.send_peer not in (None, peer):
                    yield f"{where} sends to {peer}", edited(p, g, t, lambda b, q=peer: replace(b, send_peer=q))
                if tb.recv_peer not in (None, peer):
                    yield (
                        f"{where} receives from {peer}",
                        edited(p, g, t, lambda b, q=peer: replace(b, recv_peer=q)),
                    )
            if tb.send_peer is not None or tb.recv_peer is not None:
                moved = edited(p, g, t, lambda b: replace(b, channel=1))
                yield f"{where} on channel 1", replace(moved, channels=2)
            for s in range(len(tb.instructions)):
                yield from _step_mutants(p, g, t, s, f"{where} step {s}")


def _step_mutants(p: Program, g: int, t: int, s: int, where: str) -> Iterator[tuple[str, Program]]:
    x = p.gpus[g].thread_blocks[t].instructions[s]
    yield f"{where} dropped", edited(p, g, t, lambda b: _spliced(b, s, s + 1, ()))
    yield f"{where} twice", edited(p, g, t, lambda b: _spliced(b, s, s, (x,)))
    if s + 1 < len(p.gpus[g].thread_blocks[t].instructions):
        after = p.gpus[g].thread_blocks[t].instructions[s + 1]
        yield f"{where} swapped", edited(p, g, t, lambda b: _spliced(b, s, s + 2, (after, x)))
    for by in (-1, 1):
        yield f"{where} src {by:+}", with_step(p, g, t, s, src=_moved(x.src, by))
        yield f"{where} dst {by:+}", with_step(p, g, t, s, dst=_moved(x.dst, by))
    for buffer in ("i", "o", "s"):
        if x.src is not None and x.src.buffer != buffer:
            yield f"{where} src in {buffer}", with_step(p, g, t, s, src=BufferSlice(buffer, x.src.offset))  # type: ignore[arg-type]
        if x.dst is not None and x.dst.buffer != buffer:
            yield f"{where} dst in {buffer}", with_step(p, g, t, s, dst=BufferSlice(buffer, x.dst.offset))  # type: ignore[arg-type]
    if x.depends is not None:
        yield f"{where} without dependence", with_step(p, g, t, s, depends=None)
        yield f"{where} earlier dependence", with_step(p, g, t, s, depends=(x.depends[0], x.depends[1] - 1))
        yield f"{where} other dependence", with_step(p, g, t, s, depends=(x.depends[0] + 1, x.depends[1]))
    if x.has_dependents:
        yield f"{where} without hasdep", with_step(p, g, t, s, has_dependents=False)
    yield f"{where} as copy", with_step(p, g, t, s, op="cpy" if x.op == "re" else "re")


def _spliced(b: ThreadBlock, start: int, end: int, new: tuple) -> ThreadBlock:
    return replace(b, instructions=(*b.instructions[:start], *new, *b.instructions[end:]))


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_judge_rejects_every_mutant_that_some_order_turns_wrong(name: str) -> None:
    p = GOOD[name]
    missed, total, rejected = [], 0, 0
    for what, mutant in mutants(p):
        total += 1
        if program_violations(mutant):
            rejected += 1
        elif not all(survives(mutant, p.in_place, seed) for seed in range(ORDERS)):
            missed.append(what)
    assert missed == []
    assert rejected >= total // 2, f"{rejected} of {total} mutants rejected"


@pytest.mark.parametrize("name", sorted(GOOD))
def test_dropped_and_doubled_instructions_never_pass(name: str) -> None:
    p = GOOD[name]
    for what, mutant in mutants(p):
        if what.endswith("dropped") or (what.endswith("twice") and not _idempotent(p, what)):
            assert program_violations(mutant), what


def _idempotent(p: Program, what: str) -> bool:
    """A copy done twice in a row changes nothing."""
    words = what.split()
    g, t, s = int(words[1]), int(words[3]), int(words[5])
    return p.gpus[g].thread_blocks[t].instructions[s].op == "cpy"
