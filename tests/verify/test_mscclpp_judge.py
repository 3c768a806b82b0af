"""The judge of MSCCL++ plans on plans written by hand: one defect each, found as what it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from plan_builders import NOP, block, exchange, gpu, local, on, pair, plan
from support.plan_chaos import outcome

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.model.plan import ChannelType, Plan, PlanBlock, PlanOperation, RemoteBuffer, RemoteSlice


def kinds(p: Plan) -> set[str]:
    return {v.kind for v in plan_violations(p)}


@pytest.mark.parametrize("kind", ["memory", "port"])
def test_a_good_exchange(kind: ChannelType) -> None:
    good = pair(exchange(0, kind), kind)
    assert plan_violations(good) == []
    assert {outcome(good, None, seed) for seed in range(20)} == {"right"}


OPENING = [on("rlxsignal"), on("rlxwait"), NOP]


def test_in_place_a_peers_input_is_not_where_the_own_one_is() -> None:
    """Read as the peer's input, the block of an allgather is the wrong chunk; as its output, the right one."""

    def part(rank: int, buffer: int, index: int) -> PlanBlock:
        get = PlanOperation("get", "memory", (0,), (RemoteSlice(buffer, index, 1),), (local("o", 1 - rank),))
        operations = [*OPENING, get, NOP, on("signal"), on("wait")]
        return PlanBlock(0, tuple(operations), memory_channels=(0,), memory_buffers=(0, 1))

    def both(buffer: int) -> Plan:
        made = []
        for rank in (0, 1):
            index = 1 - rank if buffer else 0
            remote = tuple(RemoteBuffer(1 - rank, b, ("memory",)) for b in ("i", "o"))  # type: ignore[arg-type]
            made.append(replace(gpu(rank, part(rank, buffer, index)), remote_buffers=remote))
        return plan(*made, in_place=True)

    assert plan_violations(both(1)) == []
    assert {outcome(both(1), None, seed) for seed in range(9)} == {"right"}
    assert kinds(both(0)) - {"wrong-data"} <= {"race", "undefined-data"} and kinds(both(0))


def test_reading_peers_while_they_add_is_a_race() -> None:
    rre = PlanOperation("rre", "memory", (), (local("i", 0), RemoteSlice(0, 0, 1)), (local("o", 0),))
    operations = [*OPENING, rre, NOP, on("signal"), on("wait")]
    made = plan(gpu(0, block(0, operations), i=1, o=1), gpu(1, block(0, operations), i=1, o=1), name="allreduce")
    assert kinds(made) >= {"race"}
    inputs = tuple(replace(g, remote_buffers=(RemoteBuffer(1 - g.rank, "i", ("memory",)),) * 2) for g in made.gpus)
    assert kinds(replace(made, gpus=inputs)) == set()


def test_what_is_not_known_is_said() -> None:
    base = pair(exchange(0))
    with pytest.raises(HetesynthError, match="'sendrecv'") as caught:
        plan_violations(replace(base, collective="sendrecv"))
    assert (caught.value.code, caught.value.exit_code) == ("HS531", 3)
    stuck = pair(exchange(0)[1:])
    huge = replace(stuck, gpus=tuple(replace(g, input_chunks=2**30, output_chunks=2**31) for g in stuck.gpus))
    with pytest.raises(HetesynthError, match="too large") as caught:
        plan_violations(huge)
    assert (caught.value.code, caught.value.exit_code) == ("HS532", 3)


def test_a_plan_that_is_right_for_no_root() -> None:
    silent = plan(*(gpu(r, block(0, [NOP]), o=1) for r in (0, 1)), name="broadcast")
    assert [v.rule for v in plan_violations(silent)][:1] == ["HX863"]
