"""The second judge on small programs: the good ones pass, and each kind of defect is found and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    part,
    program,
    ring_allgather,
    step,
    to_xml,
    with_step,
)

from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.program import GpuProgram, Program

GOOD = good_programs()


@pytest.mark.parametrize("name", sorted(GOOD))
def test_good_programs_pass(name: str) -> None:
    assert program_violations(GOOD[name]) == []
    assert program_violations(read_program(to_xml(GOOD[name]), name)) == []


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_portable_profile_minds_only_fused_receives(name: str) -> None:
    found = profile_violations(GOOD[name])
    fused = any(x.op.startswith("rr") or x.op == "rcs" for x in _steps(GOOD[name]))
    assert bool(found) == fused
    assert all(v.kind == "limit" and "ROCm 6.1" in v.message for v in found)


def _steps(p: Program) -> list:
    return [x for gpu in p.gpus for tb in gpu.thread_blocks for x in tb.instructions]


def _kinds(p: Program, **options: object) -> set[str]:
    return {v.kind for v in program_violations(p, **options)}  # type: ignore[arg-type]


def _drop(index: int) -> Callable:
    return lambda tb: replace(tb, instructions=tb.instructions[:index] + tb.instructions[index + 1 :])


RING = ring_allgather(4, False)
REDUCE = direct_allreduce(3, True)

STATIC: list[tuple[str, Program, str, str]] = [
    ("own peer", edited(RING, 0, 0, lambda tb: replace(tb, send_peer=0)), "connection", "own rank"),
    ("peer out of range", edited(RING, 0, 0, lambda tb: replace(tb, send_peer=9)), "connection", "no rank"),
    ("no send peer", edited(RING, 0, 0, lambda tb: replace(tb, send_peer=None)), "connection", "no send peer"),
    ("no recv peer", edited(RING, 0, 1, lambda tb: replace(tb, recv_peer=None)), "connection", "no recv peer"),
    ("unpaired", edited(RING, 0, 0, lambda tb: replace(tb, send_peer=2)), "connection", "unpaired"),
    ("channel", edited(RING, 0, 0, lambda tb: replace(tb, channel=1)), "connection", "nchannels"),
    ("duplicate", edited(RING, 0, 2, lambda tb: replace(tb, send_peer=1)), "connection", "duplicate"),
    ("fewer receives", edited(RING, 1, 1, _drop(2)), "connection", "sends 3 messages but receives 2"),
    ("count", with_step(RING, 1, 1, 2, count=2, dst=part("o2")), "connection", "cnt=1"),
    ("offset", with_step(RING, 0, 0, 1, src=part("o4")), "range", "o[4]"),
    ("offset and count", with_step(RING, 0, 2, 0, count=2), "range", "i[0..1]"),
    ("negative offset", with_step(RING, 0, 0, 0, src=part("i-1")), "range", "i[-1]"),
    ("no chunks", with_step(RING, 0, 2, 0, count=0), "range", "cnt=0"),
    ("missing gpu", replace(RING, gpus=RING.gpus[:3]), "missing-gpu", "gpu 3"),
    ("gpu twice", replace(RING, gpus=(*RING.gpus, RING.gpus[0])), "attribute", "twice"),
    ("thread block twice", edited(RING, 0, 2, lambda tb: replace(tb, id=1)), "attribute", "twice"),
    ("thread block gap", edited(RING, 0, 2, lambda tb: replace(tb, id=7)), "attribute", "gap"),
    ("size", replace(RING, chunks_per_loop=8), "attribute", "i_chunks=1"),
    ("divisibility", replace(RING, chunks_per_loop=5), "attribute", "no multiple"),
    ("missing target", with_step(RING, 0, 0, 1, depends=(9, 0)), "dependence", "thread block 9"),
    ("own block", with_step(RING, 0, 0, 1, depends=(0, 0)), "dependence", "own thread block"),
    ("missing step", with_step(RING, 0, 0, 1, depends=(1, 9)), "dependence", "step 9"),
    ("never published", with_step(RING, 0, 0, 1, depends=(1, 2)), "dependence", "never publishes"),
]


@pytest.mark.parametrize(("name", "bad", "kind", "words"), STATIC, ids=[row[0] for row in STATIC])
def test_static_defects_are_named(name: str, bad: Program, kind: str, words: str) -> None:
    found = program_violations(bad)
    assert any(v.kind == kind and words in v.message for v in found), found


def test_nops_carry_dependences_and_nothing_else() -> None:
    def before(tb, first):  # type: ignore[no-untyped-def]
        return replace(tb, instructions=(*first, *tb.instructions))

    fine = edited(RING, 0, 0, lambda tb: replace(tb, instructions=_nop_before_second(tb.instructions)))
    assert program_violations(fine) == []
    lone = edited(RING, 0, 0, lambda tb: before(tb, (replace(nop((1, 0)), depends=None),)))
    assert any("shifts the step numbers" in v.message for v in program_violations(lone))
    followed = edited(RING, 0, 0, lambda tb: before(tb, (nop((1, 0)),)))
    assert any("must carry the last one" in v.message for v in program_violations(followed))
    last = edited(RING, 0, 0, lambda tb: replace(tb, instructions=(*tb.instructions, nop((1, 0)))))
    assert any("stands last" in v.message for v in program_violations(last))


def _nop_before_second(steps: tuple) -> tuple:
    return (steps[0], nop((1, 0)), *steps[1:])


def test_merged_reductions_must_agree_on_the_count() -> None:
    sums = block(0, None, None, step("re", "s0", "i0", 1), step("re", "s2", "i0", 2))
    p = program("allreduce", 2, [GpuProgram(0, 2, 0, 4, (sums,))], in_place=True)
    assert any("merge" in v.message for v in program_violations(p))


def test_links_of_the_topology_are_honoured() -> None:
    ring = {(r, (r + 1) % 4) for r in range(4)}
    assert program_violations(RING, links=ring) == []
    found = program_violations(RING, links=ring - {(2, 3)})
    assert [(v.kind, "gpu 2 to gpu 3" in v.message) for v in found] == [("no-such-link", True)]


# -- execution


def test_a_read_of_what_nothing_wrote() -> None:
    found = program_violations(with_step(RING, 0, 0, 0, src=part("o3")))
    assert {v.kind for v in found} >= {"undefined-data"}


def test_a_missing_dependence_is_a_race() -> None:
    bad = with_step(RING, 0, 0, 1, depends=None)
    assert _kinds(bad) & {"race", "undefined-data"}
    bad = with_step(REDUCE, 0, 4, 1, depends=None)
    assert _kinds(bad) & {"race", "undefined-data"}


def test_a_race_is_found_whatever_order_is_executed() -> None:
    """Two thread blocks write one chunk; nothing else is wrong with the data."""
    p = direct_alltoall(2)
    twice = block(2, None, None, step("cpy", "i0", "o0"))
    gpu = replace(p.gpus[0], thread_blocks=(*p.gpus[0].thread_blocks, twice))
    found = program_violations(replace(p, gpus=(gpu, p.gpus[1])))
    assert [v.kind for v in found] == ["race"]
    assert "thread block" in found[0].message and found[0].rank == 0


def test_a_write_must_wait_for_the_readers() -> None:
    """In place: the received chunk lands on one that another thread block still sends."""
    blocks = [
        (
            block(0, 1 - r, None, step("s", f"i{1 - r}", "s0")),
            block(1, None, 1 - r, step("r", f"i{r}", "s0", flag=True)),
            block(2, None, None, step("cpy", "s0", f"i{1 - r}", on=(1, 0))),
        )
        for r in range(2)
    ]
    p = program("alltoall", 2, [GpuProgram(r, 2, 0, 1, blocks[r]) for r in range(2)], in_place=True)
    found = program_violations(p)
    assert {v.kind for v in found} == {"race"}


def test_messages_order_accesses_across_gpus() -> None:
    """The chunk comes back to the rank that sent it only after it was sent: no race, no local dependence."""
    assert program_violations(direct_allreduce(4, True)) == []


def test_a_contribution_added_twice() -> None:
    sums = direct_allreduce(2, True)
    bad = edited(
        sums, 0, 2, lambda tb: replace(tb, instructions=(tb.instructions[0], step("re", "s0", "i0", flag=True)))
    )
    bad = with_step(bad, 0, 0, 1, depends=(2, 1))
    assert any("added twice" in v.message for v in program_violations(bad))


def test_different_chunks_are_not_summed() -> None:
    bad = with_step(direct_allreduce(3, True), 0, 0, 0, src=part("i2"))
    assert any("different chunks" in v.message for v in program_violations(bad))


def test_wrong_data_names_what_is_there_and_what_should_be() -> None:
    p = with_step(direct_alltoall(3), 0, 0, 0, src=part("i2"))
    (found,) = program_violations(p)
    assert (found.kind, found.rank) == ("wrong-data", 1)
    assert "o[0] ends with input chunk 2 of rank 0, not input chunk 1 of rank 0" in found.message


def test_both_aliasings_are_executed() -> None:
    assert program_violations(replace(ring_allgather(4, False), in_place=True)) == []
    assert program_violations(replace(direct_alltoall(3), in_place=True)) == []
    split = direct_alltoall(2)
    for r in range(2):
        first = split.gpus[r].thread_blocks[0]
        send = replace(first, recv_peer=None, instructions=first.instructions[:1])
        get = replace(first, id=2, send_peer=None, instructions=first.instructions[1:])
        split = edited(split, r, 0, lambda tb, new=send: new)
        gpu = replace(split.gpus[r], thread_blocks=(*split.gpus[r].thread_blocks, get))
        split = replace(split, gpus=tuple(gpu if g.rank == r else g for g in split.gpus))
    assert program_violations(split) == []
    found = program_violations(replace(split, in_place=True))
    assert {v.kind for v in found} == {"race"}
    assert all(v.message.startswith("in place: ") for v in found)


def test_the_input_stays_as_it_is_out_of_place() -> None:
    p = replace(direct_allreduce(3, True), in_place=False, out_of_place=True)
    assert any("input buffer must stay" in v.message for v in program_violations(p))


def test_only_the_root_has_the_output_of_a_reduce() -> None:
    p = with_step(chain_reduce(3), 1, 0, 0, op="rrcs", dst=part("o0"))
    assert any("only the root" in v.message for v in program_violations(p))


# -- deadlock


def _crossed(count: int) -> Program:
    """Both ranks send ``count`` messages before they receive one."""
    gpus = []
    for r in range(2):
        steps = [step("s", f"i{k}", f"o{r * count + k}") for k in range(count)]
        steps += [step("r", f"i{k}", f"o{(1 - r) * count + k}") for k in range(count)]
        copy = block(1, None, None, step("cpy", "i0", f"o{r * count}", count))
        gpus.append(GpuProgram(r, count, 2 * count, 0, (block(0, 1 - r, 1 - r, *steps), copy)))
    return program("allgather", 2 * count, gpus)


def test_fifo_slots_decide_about_deadlock() -> None:
    assert program_violations(_crossed(2), slots=2) == []
    (found,) = program_violations(_crossed(2), slots=1)
    assert found.kind == "deadlock" and "circle" in found.message
    assert "gpu 0 thread block 0 step 1" in found.message and "gpu 1 thread block 0" in found.message
    assert [v.kind for v in program_violations(_crossed(3))] == ["deadlock"]
    assert program_violations(replace(_crossed(8), protocol="LL")) == []
    assert [v.kind for v in program_violations(replace(_crossed(9), protocol="LL"))] == ["deadlock"]


def test_receives_that_wait_for_each_other() -> None:
    p = _crossed(1)
    bad = replace(p, gpus=tuple(_reversed_first(g) for g in p.gpus))
    (found,) = program_violations(bad)
    assert found.kind == "deadlock" and "waits for a message" in found.message


def _reversed_first(gpu: GpuProgram) -> GpuProgram:
    first, *rest = gpu.thread_blocks
    return replace(gpu, thread_blocks=(replace(first, instructions=first.instructions[::-1]), *rest))


def test_dependences_in_a_circle() -> None:
    a = block(0, None, None, step("cpy", "i0", "s0", on=(1, 0), flag=True))
    b = block(1, None, None, step("cpy", "i0", "s1", on=(0, 0), flag=True))
    copy = block(2, None, None, step("cpy", "i0", "o0"))
    p = program("allreduce", 1, [GpuProgram(0, 1, 1, 2, (a, b, copy))])
    (found,) = program_violations(p)
    assert found.kind == "deadlock" and "waits for step 0 of gpu 0 thread block 1" in found.message


# -- what a dependence guarantees


def test_a_later_published_step_satisfies_a_wait_but_proves_no_more() -> None:
    """The wait on step 1 ends when step 2 publishes, so it covers steps 0 to 2; a wait on step 0 covers step 0."""

    def judged(on: int, first_flag: bool) -> list:
        writer = block(
            0, None, None,
            step("cpy", "i0", "s0", flag=first_flag), step("cpy", "i0", "s1"), step("cpy", "i0", "s2", flag=True),
        )  # fmt: skip
        reader = block(1, None, None, step("cpy", "s2", "o0", on=(0, on)))
        return program_violations(program("allreduce", 1, [GpuProgram(0, 1, 1, 3, (writer, reader))]))

    assert judged(2, False) == []
    assert judged(1, False) == []
    assert judged(0, False) == []
    assert {v.kind for v in judged(0, True)} <= {"race", "undefined-data"} and judged(0, True)


# -- roots


def test_the_root_is_stated_given_or_found() -> None:
    assert program_violations(chain_broadcast(3, root=None)) == []
    assert program_violations(chain_reduce(3, root=None)) == []
    assert any("root" in v.message for v in profile_violations(chain_broadcast(3, root=None)))
    assert program_violations(chain_broadcast(3), root=0) == []
    assert program_violations(chain_broadcast(3), root=1)
    assert program_violations(chain_broadcast(3), root=7)[0].kind == "attribute"
    wrong = with_step(chain_reduce(3, root=None), 2, 0, 0, op="nop", src=None, dst=None)
    assert program_violations(wrong)


# -- limits of the output


def test_findings_are_bounded() -> None:
    silent = replace(RING, gpus=tuple(replace(g, thread_blocks=()) for g in RING.gpus))
    assert len(program_violations(silent)) == 4
    assert len(program_violations(silent, max_findings=2)) == 2
    assert len(program_violations(replace(RING, ranks=4000, chunks_per_loop=4000))) <= 50


def test_limits_of_the_portable_profile() -> None:
    steps = [step("cpy", "i0", "o0") for _ in range(65)]
    p = program("allreduce", 1, [GpuProgram(0, 1, 1, 0, (block(0, None, None, *steps),))])
    assert program_violations(p) == []
    assert ["65 steps" in v.message for v in profile_violations(p)] == [True]
    blocks = [block(t, None, None, step("cpy", "i0", f"s{t}")) for t in range(64)]
    blocks.append(block(64, None, None, step("cpy", "i0", "o0"), channel=40))
    p = program("allreduce", 1, [GpuProgram(0, 1, 1, 65, tuple(blocks))], channels=41)
    words = ("nchannels=41", "65 thread blocks", "channel 40")
    found = profile_violations(p)
    assert all(any(w in v.message for v in found) for w in words)
    wide = program(
        "allreduce", 72, [GpuProgram(0, 72, 72, 0, (block(0, None, None, step("cpy", "i0", "o0", 72)),))]
    )
    assert [(v.kind, "cnt=72" in v.message) for v in program_violations(wide)] == [("limit", True)]


def test_a_copy_onto_itself_hurts_writers_only() -> None:
    """In place the own block's copy changes nothing, but it may undo a write that nothing orders with it."""
    assert program_violations(replace(ring_allgather(4, False), in_place=True)) == []
    copy = block(0, None, None, step("cpy", "i0", "o0"))
    write = block(1, None, None, step("cpy", "i1", "s0"), step("cpy", "s0", "i0"))
    p = program("allreduce", 2, [GpuProgram(0, 2, 2, 1, (copy, write))], in_place=True)
    assert "race" in {v.kind for v in program_violations(p)}
