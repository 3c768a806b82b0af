"""Plans of packets and of pipelines: what waits for what, what a later run may overwrite, what has no room."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
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


def found(values: dict[str, Any], turns: int = 2) -> set[str]:
    read = read_plan_json(json.dumps(values).encode(), packets=True, turns=turns)
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
    "a packet is written twice": (lambda p: operations(p).append(operations(p)[0]), "HX910"),
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
    operations(values, 1).append({"name": "nop"})
    operations(values, 1).append(op("rppkt", [own("s", 0)], [far(3)], channel_type="memory"))
    operations(values).append(op("upkt", [own("s", 3)], [own("s", 2)]) | {"dst_buff": [own("o", 0)]})
    operations(values).pop(1)
    assert found(values) == set()


def in_pipeline(rank: int) -> list[Op]:
    """Both put all into the other's scratch, piece by piece, and add it."""
    signal, wait = ({"name": name, "channel_type": "memory", "channel_ids": [0]} for name in ("signal", "wait"))
    nop = {"name": "nop"}
    turn = [
        op("put", [own("i", 0) | {"size": 2}], [far(0) | {"size": 2}], channel_type="memory"),
        nop,
        signal,
        wait,
        nop,
        op("re", [own(k, 0) | {"size": 2} for k in "is"], [own("i", 0) | {"size": 2}]),
        nop,
    ]
    whole = {"name": "pipeline", "iter_context": {"unit_size": 131072, "num_chunks": 2}, "ops": turn}
    return [signal, wait, nop, whole, signal, wait, nop]


def test_the_turns_of_a_pipeline_take_one_piece_after_another() -> None:
    values = plan(in_pipeline, protocol="Simple", use_double_scratch_buffer=False)
    assert not found(values) and not found(values, turns=3)
    whole = operations(values)[3]
    first, second = deepcopy(whole["ops"]), deepcopy(whole["ops"])
    for turn, chunk in ((first, 0), (second, 1)):
        for part in (part for x in turn for part in (*x.get("src_buff", ()), *x.get("dst_buff", ()))):
            part |= {"index": chunk, "size": 1}
    operations(values)[3:4] = [*first, *second]  # as two turns, which is not what the size of a message says
    assert not found(values) and "HX901" in found(values, turns=3)
    whole["ops"].pop(2)  # a signal for each turn
    operations(values)[3:17] = [whole]
    assert "HX901" in found(values)


def test_peers_touch_data_in_the_first_half_of_a_double_scratch_buffer() -> None:
    assert found(plan(in_pipeline, protocol="Simple")) == {"HX857"}


def test_the_answer_to_one_packet_says_nothing_of_another_read() -> None:
    """Rank 0 sends its chunk twice; the answer, made of the first packet, may not overwrite it."""

    def twice(rank: int) -> list[Op]:
        if rank:
            return [
                op("respkt", [own("i", 0), own("s", 0)], [own("i", 0), far(2)], channel_type="memory"),
                op("upkt", [own("s", 1)], [own("i", 1)]),
            ]
        return [op("ppkt", [own("i", 0)], [far(k)], channel_type="memory") for k in (0, 1)]

    values = plan(twice)
    blocks = values["gpus"][0]["threadblocks"]
    blocks.append(deepcopy(blocks[0]) | {"id": 1, "ops": [op("upkt", [own("s", 2)], [own("i", 0)])]})
    assert "HX902" in found(values)
    operations(values).pop()
    operations(values, 1).pop()
    assert "HX902" not in found(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: x["iter_context"].update(unit_size=65536), "unit_size of 65536"),
        (lambda x: x["iter_context"].update(unit_size=200008), "unit_size of 200008"),
        (lambda x: x["iter_context"].update(num_chunks=1), "another size"),
        (lambda x: x["ops"][0].update(tbg_info={"tb_id": 0, "tbg_size": 2}), "groups"),
        (lambda x: x["iter_context"].update(unit_size=262144), "units that differ"),
    ],
)
def test_pipelines_of_which_nothing_is_known(change: Change, words: str) -> None:
    values = plan(in_pipeline, protocol="Simple", use_double_scratch_buffer=False)
    change(operations(values)[3])
    with pytest.raises(HetesynthError, match=words):
        found(values)


def test_packets_are_judged_alone() -> None:
    with pytest.raises(HetesynthError, match="judged alone"):
        read_plan_json(json.dumps(plan(exchanged)).encode())
