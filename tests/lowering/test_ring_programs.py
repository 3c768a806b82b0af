"""Programs of rings in all their forms: the judge executes each, and refuses it with an instruction left out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.target import PORTABLE, TARGETS, Target
from hetesynth.programs.msccl.library_programs import ring_program
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.search.collectives import collective

FUSING = next(t for t in TARGETS.values() if t.format.program and "rrc" in t.ops)
ORDERS = ((0, 1, 2, 3, 4), (4, 2, 0, 3, 1))


def findings(program: Program, target: Target, root: int | None) -> list[str]:
    whole = replace(program, max_bytes=target.open_max_bytes)
    return [v.message for v in lint(read_program(write_msccl_xml(whole, target), "x"), target, root=root)]


@pytest.mark.parametrize("name", ["allgather", "allreduce", "reducescatter", "broadcast", "reduce"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("target", [PORTABLE, FUSING], ids=["plain", "fused"])
def test_the_judge_finds_nothing(name: CollectiveName, in_place: bool, target: Target) -> None:
    root = 1 if name in ("broadcast", "reduce") else None
    fused = "rrc" in target.ops
    program = ring_program("x", collective(name, 5, 4, root), ORDERS, in_place=in_place, fused=fused)
    assert findings(program, target, root) == []
    ops = {x.op for gpu in program.gpus for block in gpu.thread_blocks for x in block.instructions}
    adds = name in ("allreduce", "reducescatter", "reduce")
    assert ("rrc" in ops, "re" in ops) == (adds and fused, adds and not fused)
    broken = replace(program, gpus=(_without_last(program), *program.gpus[1:]))
    assert findings(broken, target, root)


def _without_last(program: Program):  # type: ignore[no-untyped-def]
    gpu = program.gpus[0]
    block = max(gpu.thread_blocks, key=lambda b: len(b.instructions))
    shorter = replace(block, instructions=block.instructions[:-1])
    return replace(gpu, thread_blocks=tuple(shorter if b is block else b for b in gpu.thread_blocks))


def test_channels_of_equal_orders_are_neighbours() -> None:
    """Channels of a GPU take turns over its NICs."""
    program = ring_program("x", collective("allgather", 5, 4, None), (*ORDERS[:2], *ORDERS[:2]))
    peers = {block.channel: block.send_peer for block in program.gpus[0].thread_blocks if block.send_peer}
    assert peers[0] == peers[1] != peers[2] == peers[3]
