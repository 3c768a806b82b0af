"""What the judges say of programs that are odd in one stated way: whole verdicts, in words.

The table in ``golden`` is read by people: after a change on purpose ``pytest --update-golden`` writes it anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from program_builders import (
    block,
    chain_broadcast,
    chain_reduce,
    direct_allreduce,
    direct_alltoall,
    edited,
    good_programs,
    nop,
    program,
    ring_allgather,
    star,
    step,
    to_xml,
    with_step,
)

from hetesynth.judge.msccl import judge
from hetesynth.judge.msccl.judge import large_message_violations, profile_violations, program_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.rules import BY_ID
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.verdict import Violation

TABLES = Path(__file__).parent / "golden"
RING = ring_allgather(4, False)


@dataclass(frozen=True)
class Row:
    """A program and how it is judged. ``split``: the chunks of a message."""

    program: Program
    options: dict[str, Any] = field(default_factory=dict)
    split: int = 1


def said(judge: str, violations: Iterable[Violation]) -> Iterable[str]:
    """Each in words: its rule, its place in numbers, and what it says."""
    for v in violations:
        yield f"  {judge}{BY_ID[v.rule or ''].name} {v.rank}.{v.thread_block}.{v.step}: {v.message}\n"


def verdict(row: Row) -> str:
    p, options = row.program, row.options
    kept = {name: options[name] for name in ("slots", "root") if name in options}
    return "".join(
        (
            *said("", program_violations(p, **options)),
            *said("large messages: ", large_message_violations(p, split=row.split, **kept)),
            *said("profile: ", profile_violations(p)),
        )
    )


def alone(*blocks: ThreadBlock, chunks: int = 4, coll: str = "custom", **options: Any) -> Row:
    """One GPU with these thread blocks; ``custom``: nothing is said of its final data."""
    gpu = GpuProgram(0, chunks, chunks, chunks, blocks)
    return Row(program(coll, chunks, [gpu], **options))


def steps(*instructions: Instruction, chunks: int = 4, **options: Any) -> Row:
    return alone(block(0, None, None, *instructions), chunks=chunks, **options)


def pair(first: list[ThreadBlock], second: list[ThreadBlock], *, slots: int | None = None, **options: Any) -> Row:
    """Two GPUs with these thread blocks."""
    gpus = [GpuProgram(r, 8, 8, 8, tuple(blocks)) for r, blocks in enumerate((first, second))]
    channels = 1 + max(b.channel for b in (*first, *second))
    return Row(program("custom", 8, gpus, channels=channels, **options), {"slots": slots})


def gpu0(p: Program, **changes: Any) -> Row:
    return Row(replace(p, gpus=(replace(p.gpus[0], **changes), *p.gpus[1:])))


def block0(p: Program, **changes: Any) -> Row:
    return Row(edited(p, 0, 0, lambda tb: replace(tb, **changes)))


def step0(p: Program, **changes: Any) -> Row:
    return Row(with_step(p, 0, 0, 0, **changes))


RE = step("re", "s0", "i0")
RE2 = step("re", "s2", "i0", 2)
NO_SOURCE, NO_TARGET = replace(RE, src=None), replace(RE2, src=None)
EMPTY = replace(RING, gpus=tuple(replace(g, thread_blocks=()) for g in RING.gpus))

CHECKS = {
    "a gpu whose id is the number of ranks": gpu0(RING, rank=4),
    "a gpu twice": Row(replace(RING, gpus=(*RING.gpus, RING.gpus[0]))),
    "two gpus missing": Row(replace(RING, gpus=RING.gpus[1:3])),
    "chunks that cannot be shared out": Row(replace(RING, chunks_per_loop=5)),
    "another input": gpu0(RING, input_chunks=2),
    "another output": gpu0(RING, output_chunks=5),
    "buffers not used": gpu0(direct_allreduce(2, True), output_chunks=0),
    "a broadcast that declares nothing": gpu0(chain_broadcast(3), input_chunks=0),
    "a broadcast that declares too much": gpu0(chain_broadcast(3), output_chunks=2),
    "a gather that declares something else": gpu0(star("gather", 3), output_chunks=2),
    "a scatter of shares that do not fit": Row(replace(star("scatter", 3), chunks_per_loop=4)),
    "custom, with buffers of any size": Row(replace(direct_alltoall(2), collective="custom", chunks_per_loop=1)),
    "a block twice": Row(edited(RING, 0, 1, lambda tb: replace(tb, id=0))),
    "a block number too high": Row(edited(RING, 0, 2, lambda tb: replace(tb, id=3))),
    "a peer that is the number of ranks": block0(RING, send_peer=4),
    "its own peer": block0(RING, send_peer=0),
    "a channel too high": block0(RING, channel=1),
    "a negative channel without a peer": Row(edited(RING, 0, 2, lambda tb: replace(tb, channel=-1))),
    "no send peer": block0(RING, send_peer=None),
    "no recv peer": Row(edited(RING, 0, 1, lambda tb: replace(tb, recv_peer=None))),
    "no chunks": step0(RING, count=0),
    "fewer than none": step0(RING, count=-1),
    "up to the last chunk": steps(step("cpy", "i2", "s2", 2)),
    "one chunk further": steps(step("cpy", "i3", "s2", 2), step("cpy", "i2", "s3", 2)),
    "just behind the last chunk": steps(step("cpy", "i4", "s4")),
    "further before the first": steps(step("cpy", "i-2", "s-2")),
    "no buffers": steps(replace(step("cpy", "i0", "s0"), src=None, dst=None)),
    "merged reductions of two counts": steps(step("cpy", "i0", "s0", 4), RE, RE2),
    "merged reductions of one count": steps(step("cpy", "i0", "s0", 4), RE, RE),
    "a later step waited for before an earlier one": alone(
        block(0, None, None, step("cpy", "i0", "o0", flag=True), step("cpy", "i1", "o1", flag=True)),
        block(
            1,
            None,
            None,
            step("cpy", "i2", "o2", on=(0, 1)),
            step("cpy", "i3", "o3", on=(0, 0)),
            step("cpy", "o1", "s0"),
        ),
    ),
    "a wait for a block that is not there": step0(RING, depends=(3, 0)),
    "a wait for its own block": step0(RING, depends=(0, 0)),
    "a wait for the step behind the last": step0(RING, depends=(1, 3)),
    "a wait for the last step, which publishes nothing": step0(RING, depends=(1, 2)),
    "a nop before a wait": Row(
        edited(
            RING,
            0,
            0,
            lambda tb: replace(tb, instructions=(tb.instructions[0], nop((1, 0)), *tb.instructions[1:])),
        )
    ),
    "a nop before no wait": Row(
        edited(RING, 0, 0, lambda tb: replace(tb, instructions=(nop((1, 0)), *tb.instructions)))
    ),
    "a nop of no wait": Row(
        edited(
            RING, 0, 0, lambda tb: replace(tb, instructions=(replace(nop((1, 0)), depends=None), *tb.instructions))
        )
    ),
    "a nop last": Row(edited(RING, 0, 0, lambda tb: replace(tb, instructions=(*tb.instructions, nop((1, 0)))))),
    "no one receives": Row(edited(RING, 1, 1, lambda tb: replace(tb, recv_peer=None, instructions=()))),
    "no one sends": Row(edited(RING, 0, 0, lambda tb: replace(tb, send_peer=None, instructions=()))),
    "a message more": Row(
        edited(RING, 0, 0, lambda tb: replace(tb, instructions=(*tb.instructions, tb.instructions[0])))
    ),
    "a message less": Row(edited(RING, 0, 0, lambda tb: replace(tb, instructions=tb.instructions[:-1]))),
    "messages of two counts": pair(
        [block(0, 1, None, step("s", "i0", "o0", 2), step("s", "i0", "o0", 3))],
        [block(0, None, 0, step("r", "i0", "o0", 3), step("r", "i0", "o0", 2))],
    ),
    "two blocks send to one": Row(edited(RING, 0, 2, lambda tb: replace(tb, send_peer=1))),
    "two blocks receive from one": Row(edited(RING, 0, 2, lambda tb: replace(tb, recv_peer=3))),
    "a link that is not there": Row(RING, {"links": {(0, 1), (1, 2), (2, 3)}}),
    "a peer nobody uses": block0(replace(direct_alltoall(2)), instructions=()),
    "a step too much for every runtime": steps(*[step("cpy", "i0", "s0")] * 257),
    "no more blocks than multiprocessors": Row(RING, {"sms": 3}),
    "more blocks than multiprocessors": Row(RING, {"sms": 2}),
    "few findings": Row(EMPTY, {"max_findings": 2}),
}


def slot_order(writes: bool) -> Row:
    """A slot of a connection is free again once its message is received: with one slot, the second send of block 0
    knows of the first receive, and so does whoever it tells."""
    sends = block(0, 1, None, step("s", "i0", "i0"), step("s", "i1", "i1", flag=True))
    tells = block(1, 1, None, step("s", "i2", "i2", on=(0, 1)), channel=1)
    gets = block(0, None, 0, step("r", "i0", "s0"), step("cpy", "i0", "s5"), step("r", "i1", "s1"))
    told = block(1, None, 0, step("r", "i2", "s2"), step("cpy", "i3", "s5" if writes else "s0"), channel=1)
    return pair([sends, tells], [gets, told], slots=1)


def message_order(late: bool) -> Row:
    """A message tells what its sender knew when it sent it, not what it learns later."""
    writes = block(0, None, None, step("cpy", "i0", "s0", flag=True))
    first = block(1, None, None, step("cpy", "i1", "s1", flag=True))
    sends = [step("cpy", "i2", "s2", on=(1, 0)), step("s", "i0", "i0"), step("cpy", "i3", "s3", on=(0, 0))]
    if not late:
        sends = [sends[0], sends[2], sends[1]]
    back = block(3, None, 1, step("r", "i0", "s4"), step("cpy", "i0", "s0"), channel=1)
    return pair(
        [writes, first, block(2, 1, None, *sends), back],
        [
            block(1, None, 0, step("r", "i0", "s0", flag=True)),
            block(0, 0, None, step("s", "i1", "i1", on=(1, 0)), channel=1),
        ],
    )


def circle(blocks: int) -> Row:
    """So many thread blocks wait for each other."""
    ring = [
        block(k, None, None, step("cpy", f"i{k}", f"s{k}", on=((k + 1) % blocks, 0), flag=True))
        for k in range(blocks)
    ]
    return alone(*ring, chunks=8)


def crossed(count: int, slots: int) -> Row:
    """Both send so many chunks, one by one, before they receive."""
    move = [step("s", f"i{k}", f"o{k}") for k in range(count)] + [
        step("r", f"i{k}", f"o{k}") for k in range(count)
    ]
    return pair([block(0, 1, 1, *move)], [block(0, 0, 0, *move)], slots=slots)


def wide(count: int, split: int, protocol: Any = "Simple") -> Row:
    """Both send so many chunks in one message before they receive."""
    move = [step("s", "i0", "o0", count), step("r", "i0", "o0", count)]
    row = pair([block(0, 1, 1, *move)], [block(0, 0, 0, *move)], protocol=protocol)
    return Row(row.program, {}, split)


def split_race(split: int) -> Row:
    """What comes back is written where it was read from, one chunk further. In one message all was sent before."""
    sends = block(0, 1, None, step("cpy", "i0", "s0", 3), step("s", "s0", "s1", 3))
    gets = block(1, None, 1, step("r", "s0", "s1", 3))
    row = pair([sends, gets], [block(0, 0, 0, step("rcs", "s0", "s1", 3))])
    return Row(row.program, row.options, split)


WRONG = direct_allreduce(2, False)
NOTHING = replace(WRONG, gpus=tuple(replace(g, thread_blocks=()) for g in WRONG.gpus))

RUNS = {
    **{f"good: {name}": Row(p) for name, p in good_programs().items()},
    "a slot tells of a receive": slot_order(False),
    "a slot does not tell of what follows": slot_order(True),
    "a message tells of what went before": message_order(False),
    "a message does not tell of what follows": message_order(True),
    "four blocks in a circle": circle(4),
    "seven blocks in a circle": circle(7),
    "two circles and one who waits": alone(
        block(0, None, None, step("cpy", "i0", "s0", on=(1, 0), flag=True)),
        block(1, None, None, step("cpy", "i1", "s1", on=(2, 0), flag=True)),
        block(2, None, None, step("cpy", "i2", "s2", on=(1, 0), flag=True)),
    ),
    "two messages and two slots": crossed(2, 2),
    "two messages and one slot": crossed(2, 1),
    "three messages and two slots": crossed(3, 2),
    "receives before sends": pair(
        [block(0, 1, 1, step("r", "i0", "o0"), step("s", "i1", "o1"))],
        [block(0, 0, 0, step("r", "i1", "o1"), step("s", "i0", "o0"))],
    ),
    "a long message in two": wide(4, 2),
    "a long message in three": wide(5, 2),
    "nine in LL": wide(8, 1, "LL"),
    "what comes back in one message": split_race(3),
    "what comes back in three messages": split_race(1),
    "a long message of which the end is read": pair(
        [block(0, 1, None, step("s", "i0", "s0", 3))],
        [block(0, None, 0, step("r", "i0", "s0", 3), step("cpy", "s2", "o2"))],
    ),
    "four messages and one slot": pair(
        [block(0, 1, None, *[step("s", "i0", "s0")] * 4)],
        [block(0, None, 0, *[step("r", "i0", "s0")] * 4)],
        slots=1,
    ),
    "a copy onto itself beside one who reads": alone(
        block(0, None, None, step("cpy", "i0", "o0")), block(1, None, None, step("cpy", "o0", "s0")), in_place=True
    ),
    "copies that overlap by one": steps(step("cpy", "i1", "i2", 2), in_place=True),
    "a copy onto itself": steps(step("cpy", "i1", "o1", 2), in_place=True),
    "a reduction that overlaps": steps(step("re", "i1", "i2", 2), in_place=True),
    "a read of nothing": steps(step("cpy", "s1", "s2"), step("cpy", "s2", "s3")),
    "two who write": alone(
        block(0, None, None, step("cpy", "i0", "s0")),
        block(1, None, None, step("cpy", "i1", "s1"), step("cpy", "i1", "s0")),
    ),
    "one who reads and one who writes": alone(
        block(0, None, None, step("cpy", "i0", "s0"), step("cpy", "i0", "s1")),
        block(1, None, None, step("cpy", "i1", "s1"), step("cpy", "i1", "i0")),
        in_place=True,
    ),
    "a contribution twice": steps(step("re", "i0", "i0"), in_place=True),
    "different chunks": steps(step("re", "i0", "i1"), in_place=True),
    "nothing is done": Row(NOTHING),
    "one chunk is wrong": Row(with_step(direct_alltoall(3), 0, 0, 0, src=step("s", "i2", "o0").src)),
    "two chunks are wrong": steps(
        step("cpy", "i1", "o0"), step("cpy", "i0", "o1"), step("cpy", "i2", "o2", 2), coll="allreduce"
    ),
    "spoilt data": steps(step("cpy", "s0", "o0"), step("cpy", "i1", "o1", 3), coll="allreduce"),
    "right in both forms": Row(replace(direct_alltoall(2), in_place=True)),
    "wrong in both forms": Row(replace(NOTHING, in_place=True)),
    "wrong in place only": alone(
        block(0, None, None, step("cpy", "i0", "o0"), step("cpy", "i0", "o1", 3)), coll="custom", both=True
    ),
    "in neither form": Row(replace(WRONG, out_of_place=False)),
    "the input is written": Row(
        replace(direct_allreduce(2, True), in_place=False, out_of_place=True, collective="custom")
    ),
    "the input is written, and read too early": Row(
        with_step(replace(direct_allreduce(2, True), in_place=False, out_of_place=True), 0, 0, 1, depends=None)
    ),
    "a buffer of the root": Row(with_step(chain_reduce(3), 1, 0, 0, op="rrcs", dst=step("r", "i0", "o0").dst)),
    "a broadcast without its root": Row(chain_broadcast(3, root=None)),
    "a reduce without its root": Row(chain_reduce(3, root=None)),
    "a gather without its root": Row(replace(star("gather", 3), root=None)),
    "a broadcast of another root": Row(chain_broadcast(3, root=2)),
    "a broadcast told the root": Row(chain_broadcast(3, root=2), {"root": 0}),
    "a root that is the number of ranks": Row(chain_broadcast(3), {"root": 3}),
    "a broadcast of no root at all": Row(
        replace(
            chain_broadcast(2, root=None),
            gpus=tuple(replace(g, thread_blocks=()) for g in chain_broadcast(2).gpus),
        )
    ),
}


def rooted(count: int, root: int | None, told: int | None = None) -> Row:
    """A reduce to rank 1 of ``count`` chunks in one message, and as many back: it hangs once they are split."""
    gpus = [
        GpuProgram(r, count, count, count, (block(0, 1 - r, 1 - r, step("s", "i0", "i0", count), get),))
        for r, get in enumerate((step("r", "i0", "s0", count), step("rrc", "i0", "o0", count)))
    ]
    return Row(program("reduce", count, gpus, root=root), {"root": told})


REDUCING = [step("re", f"s{k % 4}", "i0") for k in range(17)]
ADVICE = {
    "channels nobody uses": Row(replace(RING, channels=2)),
    "channels everybody uses": Row(
        replace(
            edited(edited(RING, 0, 0, lambda tb: replace(tb, channel=1)), 1, 1, lambda tb: replace(tb, channel=1)),
            channels=2,
        )
    ),
    "channels without thread blocks": Row(EMPTY),
    "a connection nobody uses": Row(edited(RING, 0, 2, lambda tb: replace(tb, send_peer=2))),
    "waits for a later step": step0(with_step(RING, 0, 1, 0, has_dependents=False), depends=(1, 0)),
    "not mirrored": Row(with_step(RING, 1, 1, 0, src=step("r", "i3", "o0").src)),
    "mirrored behind a copy": pair(
        [block(0, 1, None, step("cpy", "i5", "s5"), step("s", "i0", "o0"))],
        [block(0, None, 0, step("cpy", "i6", "s6"), step("r", "i0", "o0"))],
    ),
    "sixteen reductions": steps(*REDUCING[:16], in_place=True),
    "seventeen reductions": steps(*REDUCING, in_place=True),
    "seventeen reductions, one that waits": alone(
        block(0, None, None, RE, replace(RE, depends=(1, 0)), *REDUCING[:15]),
        block(1, None, None, step("cpy", "i3", "o3", flag=True)),
        in_place=True,
    ),
    "a copy, then sixteen reductions": steps(step("cpy", "i1", "i2"), *REDUCING[:16], in_place=True),
    "copies of many chunks": steps(step("cpy", "i0", "s0", 4)),
    "split, and a defect seen without running": Row(
        replace(wide(4, 1).program, gpus=(wide(4, 1).program.gpus[0], replace(wide(4, 1).program.gpus[1], rank=5)))
    ),
    "split, and a race already": pair(
        [
            block(0, 1, 1, step("s", "i0", "o0", 3), step("r", "i0", "o0", 3)),
            block(1, None, None, step("cpy", "i5", "o0")),
        ],
        [block(0, 0, 0, step("s", "i0", "o0", 3), step("r", "i0", "o0", 3))],
    ),
    "split, of a stated root": rooted(3, 1),
    "split, of a root to be found": rooted(3, None),
    "split, of a root that is told": rooted(3, 0, 1),
    "split, in both forms": Row(replace(wide(4, 1).program, in_place=True)),
    **{f"limit: {n} steps": steps(*[step("cpy", "i0", "s0")] * n) for n in (64, 65)},
    **{f"limit: {n} chunks a step": steps(step("cpy", "i0", "s0", n), chunks=72) for n in (71, 72)},
}


FILES = {
    "a step": ('<step s="0" type="s" srcbuf="i" srcoff="0"', '<step s="0" type="s" srcbuf="i" srcoff="7"'),
    "a later step": ('<step s="2" type="r" srcbuf="o" srcoff="1"', '<step s="2" type="r" srcbuf="o" srcoff="2"'),
    "a block": ('<tb id="0" send="1"', '<tb id="0" send="0"'),
    "a gpu": ('<gpu id="1" i_chunks="1"', '<gpu id="1" i_chunks="3"'),
    "a race": (' depid="1" deps="0"', ' depid="-1" deps="-1"'),
    "a number of a step": ('s="2"', 's="256"'),
    "a number of a step, for some": ('s="2"', 's="64"'),
    "nothing that can be read": ('<step s="2"', "<step"),
    "an operation": ('type="s"', 'type="rrs"'),
    "reductions": (
        "</tb>",
        '<step s="3" type="re" srcbuf="s" srcoff="0" dstbuf="o" dstoff="0" cnt="1"'
        ' depid="1" deps="1" hasdep="0"/>\n' * 2 + "</tb>",
    ),
}


def test_what_is_said_of_files_names_the_line(golden: Callable[[Path, bytes], None]) -> None:
    lines = []
    for name, (old, new) in FILES.items():
        read = read_program(to_xml(RING).decode().replace(old, new, 1).encode(), "x")
        for judge_ in (program_violations, large_message_violations, profile_violations):
            lines += [f"{name}: {judge_.__name__}: line {v.line}: {v.message}\n" for v in judge_(read)]
    golden(TABLES / "msccl_files.txt", "".join(lines).encode())


@pytest.mark.parametrize(("name", "rows"), [("checks", CHECKS), ("runs", RUNS), ("advice", ADVICE)])
def test_what_is_said_of_odd_programs(
    name: str, rows: dict[str, Row], golden: Callable[[Path, bytes], None]
) -> None:
    golden(TABLES / f"msccl_{name}.txt", "".join(f"{k}\n{verdict(row)}" for k, row in rows.items()).encode())


@pytest.mark.parametrize(
    ("blocks", "work", "judged"), [(3, 12, True), (2, 12, False), (3, 11, False), (4, 13, True)]
)
def test_programs_too_large_to_be_executed(
    blocks: int, work: int, judged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three thread blocks that move 4 chunks, a nop counted as one."""
    row = wide(2, 1).program
    third = block(1, None, None, nop((0, 0)), step("cpy", "i0", "s0", on=(0, 0)))
    moved = edited(row, 0, 0, lambda tb: replace(tb, instructions=(step("s", "i0", "o0", flag=True),)))
    moved = edited(moved, 1, 0, lambda tb: replace(tb, instructions=(step("r", "i0", "o0"),)))
    gpu = replace(moved.gpus[0], thread_blocks=(*moved.gpus[0].thread_blocks, third))
    p = replace(moved, gpus=(gpu, moved.gpus[1]))
    monkeypatch.setattr(judge, "MAX_BLOCKS", blocks)
    monkeypatch.setattr(judge, "MAX_WORK", work)
    text = "3 thread blocks that move 4 chunks are more than is executed here: nothing is known of it"
    assert [v.message for v in program_violations(p)] == ([] if judged else [text])


@pytest.mark.parametrize(
    ("most", "work", "found"), [(2, 100, True), (1, 100, False), (9, 10, True), (9, 9, False), (9, 4, False)]
)
def test_roots_that_are_tried(most: int, work: int, found: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reduce of four steps that is right for the rank that sends as much as the other: it comes second."""
    p = rooted(1, None).program
    monkeypatch.setattr(judge, "MAX_GUESSED_ROOTS", most)
    monkeypatch.setattr(judge, "MAX_GUESSED_WORK", work)
    names = [BY_ID[v.rule or ""].name for v in program_violations(p)]
    assert names == ([] if found else ["no-right-root", "root-only-buffer"])
