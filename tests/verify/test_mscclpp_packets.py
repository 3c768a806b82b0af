"""Plans of packets and of pipelines: what waits for what, what a later run may overwrite, what has no room."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import read_plan_json

Op = dict[str, Any]
Change = Callable[[dict[str, Any]], Any]


def own(buffer: str, index: int) -> Op:
    return {"type": buffer, "index": index, "size": 1}


def far(index: int, buffer_id: int = 0) -> Op:
    return {"buffer_id": buffer_id, "index": index, "size": 1}


def op(name: str, src: list[Op], dst: list[Op], **fields: Any) -> Op:
    return {"name": name, "src_buff": src, "dst_buff": dst, **fields}


def plan(rank_ops: Callable[[int], list[Op]], **fields: Any) -> dict[str, Any]:
    """An allreduce in place of two ranks with memory channels both ways, each of two chunks."""
    gpus = [
        {
            "id": rank,
            "input_chunks": 2,
            "output_chunks": 2,
            "scratch_chunks": 4,
            "channels": [{"channel_type": "memory", "connected_to": [1 - rank]}],
            "remote_buffers": [
                {"rank": 1 - rank, "type": kind, "access_channel_types": ["memory"]} for kind in ("s", "i")
            ],
            "semaphores": [],
            "threadblocks": [
                {
                    "id": 0,
                    "ops": rank_ops(rank),
                    "channels": [{"channel_type": "memory", "channel_ids": [0]}],
                    "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": [0, 1]}],
                }
            ],
        }
        for rank in range(2)
    ]
    head = {"name": "p", "collective": "allreduce", "protocol": "LL", "inplace": True, "gpus": gpus}
    return head | {"use_double_scratch_buffer": True} | fields


def exchanged(rank: int) -> list[Op]:
    """Each sends the half that the other adds up, adds up its own, sends the sum and copies the other's out."""
    return [
        op("ppkt", [own("i", 1 - rank)], [far(rank)], channel_type="memory"),
        op("respkt", [own("i", rank), own("s", 1 - rank)], [own("i", rank), far(2 + rank)], channel_type="memory"),
        op("upkt", [own("s", 3 - rank)], [own("i", 1 - rank)]),
    ]


def found(values: dict[str, Any]) -> set[str]:
    read = read_plan_json(json.dumps(values).encode(), packets=True)
    return {
        violation.rule or violation.kind
        for violation in plan_violations(read, root=0 if read.collective == "broadcast" else None)
    }


def operations(values: dict[str, Any], rank: int = 0) -> list[Op]:
    ops: list[Op] = values["gpus"][rank]["threadblocks"][0]["ops"]
    return ops


def test_an_allreduce_of_packets_is_right_with_one_scratch_buffer_and_with_two() -> None:
    assert not found(plan(exchanged))
    assert not found(plan(exchanged, use_double_scratch_buffer=False))


CHANGES: dict[str, tuple[Change, str]] = {
    "nobody sends what is waited for": (lambda p: operations(p).pop(0), "HX901"),
    "the sum is not sent": (
        lambda p: operations(p)[1].update(name="repkt", dst_buff=[own("i", 0)]) or operations(p)[1],
        "HX901",
    ),
    "another chunk is added": (lambda p: operations(p)[1]["src_buff"][0].update(index=1), "HX913"),
    "what is copied out lands elsewhere": (lambda p: operations(p)[2]["dst_buff"][0].update(index=0), "HX915"),
    "the input is overwritten before it is sent": (
        lambda p: operations(p).insert(0, op("copy", [own("i", 0)], [own("i", 1)])),
        "HX903",
    ),
    "a packet is written twice": (lambda p: operations(p).append(operations(p)[0]), "HX903"),
    "scratch has room for data alone": (lambda p: p.update(protocol="Simple"), "HX856"),
    "scratch holds data too": (lambda p: operations(p).append(op("copy", [own("i", 0)], [own("s", 0)])), "HX856"),
    "packets go to an input": (lambda p: operations(p)[0]["dst_buff"][0].update(buffer_id=1), "HX856"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_wrong_with_packets_is_found(name: str) -> None:
    change, rule = CHANGES[name]
    values = plan(exchanged)
    change(values)
    assert rule in found(values)


def sent_only(rank: int) -> list[Op]:
    """Rank 0 sends its input; rank 1 hears it and never answers."""
    if rank == 0:
        return [op("ppkt", [own("i", 0)], [far(0)], channel_type="memory")]
    return [op("upkt", [own("s", 0)], [own("o", 0)])]


@pytest.mark.parametrize("double", [True, False])
def test_who_is_never_heard_from_may_be_overrun(double: bool) -> None:
    values = plan(sent_only, collective="broadcast", inplace=False, use_double_scratch_buffer=double)
    for gpu in values["gpus"]:
        gpu |= {"input_chunks": 1, "output_chunks": 1}
    operations(values).append(op("copy", [own("i", 0)], [own("o", 0)]))
    assert found(values) == {"HX910"}
    heard = op("ppkt", [own("i", 0)], [far(3)], channel_type="memory")  # rank 1 says that it runs, or has read
    operations(values, 1).append(op("rppkt", [own("s", 0)], [far(3)], channel_type="memory"))
    operations(values).append(op("upkt", [own("s", 3)], [own("s", 2)]) | {"dst_buff": [own("o", 0)]})
    operations(values).pop(1)
    assert found(values) == set()
    operations(values, 1)[-1] = heard
    assert ("HX910" in found(values)) != double


def in_pipeline(rank: int) -> list[Op]:
    """Both put one half into the other's scratch, piece by piece, and add it."""
    signal, wait = ({"name": name, "channel_type": "memory", "channel_ids": [0]} for name in ("signal", "wait"))
    nop = {"name": "nop"}
    turn = [
        op("put", [own("i", 0)], [far(0)], channel_type="memory"),
        nop,
        signal,
        wait,
        nop,
        op("re", [own("i", 0), own("s", 0)], [own("i", 0)]),
        nop,
    ]
    whole = {"name": "pipeline", "iter_context": {"unit_size": 65536, "num_chunks": 1}, "ops": turn}
    return [signal, wait, nop, whole, signal, wait, nop]


def test_the_turns_of_a_pipeline_take_one_piece_after_another() -> None:
    values = plan(in_pipeline, protocol="Simple")
    for gpu in values["gpus"]:
        gpu |= {"input_chunks": 1, "output_chunks": 1}
    assert not found(values)
    operations(values)[3]["ops"].pop(2)  # a signal for each turn
    assert "HX901" in found(values)


def test_packets_are_judged_alone_and_pipelines_of_other_slices_are_not() -> None:
    with pytest.raises(HetesynthError, match="judged alone"):
        read_plan_json(json.dumps(plan(exchanged)).encode())
    values = plan(in_pipeline, protocol="Simple")
    operations(values)[3]["iter_context"]["num_chunks"] = 2
    with pytest.raises(HetesynthError, match="another size"):
        found(values)
