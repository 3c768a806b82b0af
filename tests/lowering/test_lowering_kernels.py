"""The kernels of lowering as machine code make the same programs as interpreted."""

from __future__ import annotations

import pytest

from hetesynth import machine_code
from hetesynth.model.collective import CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.target import TARGETS
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import Message
from hetesynth.programs.msccl.lower import LoweringOptions, lowered_as
from hetesynth.programs.msccl.placement import Placer
from hetesynth.programs.msccl.thread_blocks import BlockPlan
from hetesynth.search.collectives import collective

RANKS = 4
MSCCL = TARGETS["msccl"]


def ring(name: CollectiveName, in_place: bool) -> Program:
    """Messages of one chunk, each in a tick of its own: chunk k goes around from rank k on, sums first."""
    goal = collective(name, RANKS, 2 if name == "allgather" else RANKS)
    hops = (RANKS - 1) * (2 if name == "allreduce" else 1)
    messages: list[Message] = []
    for hop in range(hops):
        for k in range(len(goal.chunks)):
            src = ((goal.chunks[k].block[0] if name == "allgather" else k) + hop) % RANKS
            tick, adds = len(messages), name == "allreduce" and hop < RANKS - 1
            messages.append(Message(tick, src, (src + 1) % RANKS, k % 2, tick, tick + 1, 0, (k,), adds))
    layout, slots = Layout(goal, in_place), MSCCL.slots("Simple")
    placement = Placer(layout, messages, MSCCL).run()
    plans = [BlockPlan(rank, {}, partners={}) for rank in range(RANKS)]
    draft = ordered(grouped(placement, messages, "forward", MSCCL, slots, plans))
    return lowered_as(layout, draft, LoweringOptions("ring", in_place, target=MSCCL)).program


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_machine_code_makes_the_same_program(
    name: CollectiveName, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []
    compiled = machine_code.machine_code

    def noted(kernel: machine_code.Kernel) -> machine_code.Kernel:
        entered.append(kernel.__name__)
        return compiled(kernel)

    monkeypatch.setattr(machine_code, "machine_code", noted)
    monkeypatch.setattr(machine_code, "pays", lambda kernel, seconds: False)
    interpreted = ring(name, in_place)
    assert not entered
    monkeypatch.setattr(machine_code, "pays", lambda kernel, seconds: True)
    assert ring(name, in_place) == interpreted
    assert entered == ["place", "waits", "implied"]
