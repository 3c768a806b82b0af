"""Limits of targets, exactly reached and exceeded by one: all that is found, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from program_builders import block, chain_broadcast, program, ring_allgather, star, step, to_xml

from hetesynth.judge.msccl.lint_readers import ANY, contradictions, limits
from hetesynth.judge.msccl.linter import call_warnings, metadata, network_violations
from hetesynth.judge.msccl.reader import ReadResult, read_program
from hetesynth.judge.rules import BY_ID, ProgramFindings
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.target import TARGETS

COPY, SEND, RECEIVE = step("cpy", "i0", "o0"), step("s", "i0", "o0"), step("r", "i0", "o0")
RING = ring_allgather(4, False)
RCCL, EXECUTOR, RESEARCH, PORTABLE = (TARGETS[n] for n in ("rccl-6", "msccl-executor", "msccl", "portable"))


def named(findings: ProgramFindings) -> list[str]:
    """Each rule with its thread block and step."""
    return [f"{BY_ID[v.rule or ''].name} {v.thread_block}.{v.step}" for v in findings.violations]


def found(p: Program, target: Any = RCCL, numbers: Any = {}, sms: Any = None, later: Any = None) -> list[str]:  # noqa: B006
    findings = ProgramFindings(p, {})
    limits(findings, target, numbers, sms, later)
    return named(findings)


def blocks(*all_: ThreadBlock, **options: Any) -> Program:
    return program("custom", 1, [GpuProgram(0, 1, 1, 1, all_)], **options)


def steps(*instructions: Instruction, channel: int = 0) -> Program:
    return blocks(block(0, 1, 1, *instructions, channel=channel))


def sized(number: int, count: int = 1, last: int | None = None) -> Program:
    """So many thread blocks of ``count`` steps, the last one of ``last``."""
    lengths = [count] * (number - 1) + [count if last is None else last]
    return blocks(*(block(k, None, None, *[COPY] * length) for k, length in enumerate(lengths)))


@pytest.mark.parametrize(
    ("last", "later", "limit"),
    [(62, {}, False), (63, {}, True), (60, {None: 1, 0: 1, 1: 9}, False), (60, {None: 2, 0: 1}, True)],
)
def test_nodes(last: int, later: dict[int | None, int], limit: bool) -> None:
    """Of the file, its one GPU, 63 thread blocks and their steps."""
    assert found(sized(63, 64, last), later=later) == ["node-limit None.None"] * limit


def test_thread_blocks() -> None:
    assert found(sized(64)) == found(sized(1024), EXECUTOR) == found(sized(64), sms=64) == []
    assert found(sized(65)) == found(sized(65), PORTABLE) == ["thread-block-limit None.None"]
    assert found(sized(1025), EXECUTOR) == ["thread-block-limit None.None", "child-limit None.None"]
    assert found(sized(64), sms=63) == ["co-residency None.None"]


def directed(word: str, active: Sequence[bool], channel: int = 0) -> list[ThreadBlock]:
    """Thread blocks that send (or receive), or only have a peer to; each copies too."""
    peers, op = ((1, None), SEND) if word == "send" else ((None, 1), RECEIVE)
    return [block(k, *peers, COPY, *[op] * used, channel=channel) for k, used in enumerate(active)]


@pytest.mark.parametrize("word", ["send", "receive"])
def test_peers_of_a_channel(word: str) -> None:
    other = "receive" if word == "send" else "send"
    both = [*directed(word, [True] * 32), *directed(other, [True] * 20), *directed(word, [True] * 12, 1)]
    assert found(blocks(*both)) == []
    assert found(blocks(*directed(word, [True] * 35))) == ["peer-limit 32.None"]
    mixed = blocks(*directed(word, [False] * 33 + [True, False]))
    for target, idle in ((RCCL, "idle-peer-crash"), (RESEARCH, "idle-peer-overflow"), (ANY, "idle-peer-overflow")):
        assert found(mixed, target) == [f"{idle} 32.None", "peer-limit 33.None"]


def test_steps() -> None:
    assert found(sized(1, 64)) == found(sized(1, 256), RESEARCH) == found(sized(1, 256), ANY) == []
    assert found(sized(1, 65)) == ["step-number 0.64"] and found(sized(1, 257), ANY) == ["step-number 0.256"]
    assert found(sized(1, 2), numbers={(0, 0, 1): 63}) == []
    assert found(sized(1, 2), numbers={(0, 0, 1): 64}) == ["step-number 0.1"]
    assert found(sized(1, 2), numbers={(0, 0, 0): -1}) == ["step-number 0.0"]
    assert found(sized(1, 2), numbers={(0, 1, 0): 64, (1, 0, 0): 64}) == []
    zeros = {(0, 0, s): 0 for s in range(1025)}
    assert found(sized(1, 64), numbers=zeros) == []
    assert found(sized(1, 65), numbers=zeros) == found(sized(1, 1024), numbers=zeros) == ["step-limit 0.None"]
    assert found(sized(1, 1025), numbers=zeros) == ["step-limit 0.None", "child-limit 0.None"]


@pytest.mark.parametrize(
    ("instructions", "rule"),
    [
        ((COPY,), "channel-crash"),
        ((), "channel-crash"),
        ((COPY, SEND), "channel-past-table"),
        ((COPY, RECEIVE), "channel-past-table"),
        ((step("rrs", "i0", "o0"), COPY), "channel-past-table"),
    ],
)
def test_the_channel_behind_the_last(instructions: tuple[Instruction, ...], rule: str) -> None:
    for channel, target, rules in (
        (31, EXECUTOR, []),
        (32, EXECUTOR, [rule]),
        (33, EXECUTOR, ["channel-limit"]),
        (32, RESEARCH, ["channel-overflow"]),
        (33, RESEARCH, ["channel-limit"]),
        (128, ANY, ["channel-limit"]),
    ):
        assert found(steps(*instructions, channel=channel), target) == [f"{name} 0.None" for name in rules]


def test_numbers_of_steps() -> None:
    fits = (
        step("cpy", "i32767", "o32767", 71, on=(127, 128)),
        Instruction("nop", None, None, 99, (127, 0), False),
    )
    assert found(steps(*fits)) == []
    for broken, rule in (
        (step("cpy", "i0", "o0", 72), "count-limit"),
        (step("cpy", "i32768", "o0"), "offset-limit"),
        (step("cpy", "i0", "o32768"), "offset-limit"),
        (step("cpy", "i0", "o0", on=(128, 0)), "depid-limit"),
        (Instruction("nop", None, None, 0, (128, 0), False), "depid-limit"),
    ):
        assert found(steps(broken)) == [f"{rule} 0.0"]
    assert found(steps(Instruction("cpy", None, None, 1, None, False))) == []
    fused = steps(COPY, *[step("rrs", "i0", "o0"), step("rrc", "i0", "o0")] * 2)
    assert found(fused) == ["op-refused 0.1", "op-refused 0.2"] and found(fused, EXECUTOR) == []


def test_peers_and_sizes_that_some_readers_hold_against_the_file() -> None:
    for peer, coll, sizes, texts in (
        (3, "allgather", (1, 4), []),
        (4, "allgather", (1, 4), ["peer-refused", "peer-refused"]),
        (None, "allgather", (0, 0), []),
        (None, "allgather", (4, 1), ["chunk-consistency", "chunk-consistency"]),
        (None, "reducescatter", (4, 1), []),
        (None, "reducescatter", (1, 4), ["chunk-consistency", "chunk-consistency"]),
        (None, "allreduce", (1, 4), ["chunk-consistency"]),
        (None, "gather", (1, 9), []),
    ):
        gpu = GpuProgram(0, *sizes, 0, (block(0, peer, peer),))
        for target, names in ((RESEARCH, texts), (RCCL, [])):
            findings = ProgramFindings(replace(RING, collective=coll, gpus=(gpu,)), {})
            contradictions(findings, target)
            assert [line.split()[0] for line in named(findings)] == names, (peer, coll)


ROOT = {"name": "a", "coll": "allgather", "minBytes": "0", "outofplace": "1", "maxBytes": "0"}


def told(target: Any, attributes: dict[str, str] = {}, **changes: Any) -> list[str]:  # noqa: B006
    p = replace(RING, **changes)
    read = ReadResult(p, (), algo={**ROOT, "coll": p.collective, **attributes}, algo_line=1)
    return [f"{BY_ID[v.rule or ''].name}: {v.message}" for v in metadata(read, target)]


def test_what_never_runs() -> None:
    uncalled = "never-selected: no call of Azure's MSCCL executor for NCCL reaches MSCCL as gather"
    uncalled += ": the file never runs there"
    assert told(EXECUTOR, collective="gather") == [uncalled] and told(RCCL, collective="gather") == []
    ignored = "in-place-ignored: the MSCCL research runtime has no alltoall in place"
    ignored += " and runs this file for calls out of place"
    for inside, outside, expected in ((True, False, [ignored]), (True, True, []), (False, True, [])):
        flags = {"in_place": inside, "out_of_place": outside, "max_bytes": 9}
        assert told(RESEARCH, collective="alltoall", **flags) == expected
        assert told(RCCL, collective="alltoall", **flags) == []
    neither = "never-selected: neither inplace nor outofplace is 1: no runtime can ever select this file"
    assert told(RCCL, in_place=False, out_of_place=False) == [neither]
    nowhere = {"in_place": False, "out_of_place": False, "max_bytes": 9}
    assert told(RESEARCH, collective="alltoall", **nowhere) == [neither]


def test_the_proxy_of_a_broadcast_over_nics() -> None:
    ring = replace(RING, collective="broadcast")
    for servers, crosses in (
        (None, True),
        (("a", "a", "a", "a"), False),
        (("a", "a", "b", "b"), True),
        (("a", "b"), True),
        (("a",), False),
    ):
        names = [BY_ID[v.rule or ""].name for v in network_violations(ring, [RCCL], servers)]
        assert names == ["network-steps"] * crosses, servers
    assert network_violations(RING, [RCCL]) == [] and len(network_violations(ring, [])) == 1


def test_calls_with_another_root() -> None:
    other = "it is for {}, but runs for every {} whatever its root: others get wrong data"
    for p, target, expected in (
        (chain_broadcast(3, root=None), RCCL, [other.format("one root", "broadcast")]),
        (chain_broadcast(3, root=0), RCCL, [other.format("root 0", "broadcast")]),
        (chain_broadcast(3, root=0), TARGETS["mscclpp"], []),
        (star("gather", 3), EXECUTOR, []),
        (star("gather", 3), RCCL, [other.format("root 0", "gather")]),
        (RING, RCCL, []),
    ):
        read = read_program(to_xml(p), "x")
        assert [v.message for v in call_warnings(read, target)] == expected
    assert call_warnings(read_program(b"", "x"), RCCL) == []
