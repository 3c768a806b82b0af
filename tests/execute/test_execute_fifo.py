"""The interpreter of programs: right in any order, bounded FIFOs, loops, and mutants that must be caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from execute_cases import (
    any_order,
    at,
    block,
    changed,
    exchange,
    gather_and_sum,
    gpu,
    job_of,
    ring_allreduce,
    run,
    step,
    whole,
    with_steps,
)  # fmt: skip
from hypothesis import given, settings
from hypothesis import strategies as st

from hetesynth.errors import HetesynthError
from hetesynth.execute.inprocess import run_in_process
from hetesynth.execute.job import RunOptions, program_job
from hetesynth.execute.players import CREDIT, MESSAGE, Loops, Packet
from hetesynth.model.program import Instruction, Program, ThreadBlock


@settings(deadline=None, max_examples=40)
@given(
    n=st.integers(2, 6), count=st.integers(1, 3), seed=st.integers(0, 10**6), in_place=st.booleans(),
    message=st.integers(4, 5000), slots=st.integers(4, 6), reduction=st.sampled_from(["sum", "max", "min"]),
    dtype=st.sampled_from(["float32", "int32"]),
)  # fmt: skip
def test_a_right_program_is_right_in_any_order_and_however_it_is_cut(
    n: int, count: int, seed: int, in_place: bool, message: int, slots: int, reduction: str, dtype: str
) -> None:
    runs = run(
        ring_allreduce(n, count, in_place), any_order(seed), size=n * count * 24, message_bytes=message,
        slots=slots, reduction=reduction, dtype=dtype, seed=seed,
    )  # fmt: skip
    assert [(r.ending, r.wrong, r.diagnosis) for r in runs] == [("done", 0, ())]
    assert runs[0].checked == n * (n * count * 24) * (1 if in_place else 2)


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10**6), message=st.sampled_from([4, 12, 4096]))
def test_dependences_are_awaited_in_any_order_and_every_pass(seed: int, message: int) -> None:
    (result,) = run(gather_and_sum(5), any_order(seed), size=48, message_bytes=message)
    assert result.correct


def test_without_its_dependence_some_order_reads_scratch_too_early() -> None:
    """The dependence is what makes it right: dropped, some order adds the poison in scratch."""
    broken = changed(gather_and_sum(3), 0, 0, 1, depends=None)
    results = [run(broken, any_order(seed))[0] for seed in range(20)]
    assert any(result.wrong for result in results)
    assert all(result.ending == "done" for result in results)


def test_loops_cover_every_element_once() -> None:
    for chunk in (1, 7, 64):
        for message in (1, 3, 7, 64, 1000):
            loops = Loops(chunk, message, 2)
            covered = [k for part in loops.slices for k in range(chunk)[part]]
            assert covered == list(range(chunk))
            assert all(part.stop - part.start <= message for part in loops.slices)
            assert loops.packed == max(1, min(71, message // chunk))


def test_a_broadcast_packs_less_than_another_collective() -> None:
    """Chunks of 256 KiB: two in a message of a Simple broadcast or reduce, eight elsewhere; equal slices."""
    made = ring_allreduce(2, 4)
    for name, packed in (("allreduce", 8), ("broadcast", 2), ("reduce", 2)):
        asked = replace(made, collective=name, root=0)  # type: ignore[arg-type]
        size = made.chunks_per_loop * (256 << 10)
        loops = program_job(asked, RunOptions(size=size)).loops
        assert (loops.packed, loops.message) == (packed, (2 << 20) // 4)
        assert program_job(asked, RunOptions(size=size, message_bytes=1 << 20)).loops.packed == 4


def test_as_many_messages_under_way_as_slots_and_no_more() -> None:
    """Sending three before receiving any: stalls with two slots, runs with three."""
    assert run(exchange(3), slots=3)[0].correct
    (result,) = run(exchange(3))
    assert result.ending == "stall"
    assert "rank 0 thread block 0 step 2 (`s`) waits for rank 1 to take one of 2 messages" in result.diagnosis[0]
    assert run(exchange(2))[0].correct


def test_a_step_of_many_chunks_fills_slots_when_messages_are_small() -> None:
    """One message of three chunks fits a slot; three messages do not fit two."""
    many = exchange(3)
    for rank in range(2):
        steps = many.gpus[rank].thread_blocks[0].instructions
        joined = (replace(steps[0], count=3), replace(steps[3], count=3))
        many = with_steps(many, rank, 0, joined)
    assert run(many, size=6 * 40)[0].correct
    assert run(many, size=6 * 40, message_bytes=40)[0].ending == "stall"


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10**6), slots=st.integers(3, 5))
def test_slots_bound_what_is_under_way(seed: int, slots: int) -> None:
    job, parts = job_of(ring_allreduce(4, 2), slots=slots, size=8 * 16, message_bytes=8)
    under_way: dict[tuple[int, int], int] = {}
    most = 0
    make = type(job).player

    class Watched(type(job)):  # type: ignore[misc]
        def player(self, part, memory, send, choose=None):  # type: ignore[no-untyped-def]
            def spy(packet: Packet) -> None:
                nonlocal most
                pair = (part.rank, packet.peer) if packet.kind == MESSAGE else (packet.peer, part.rank)
                under_way[pair] = under_way.get(pair, 0) + (1 if packet.kind == MESSAGE else -1)
                assert packet.kind in (MESSAGE, CREDIT)
                most = max(most, under_way[pair])
                send(packet)

            return make(self, part, memory, spy, choose)

    watched = Watched(job.reference, job.numbers, job.loops, job.aliasings, job.repeat, job.timeout)
    assert next(iter(run_in_process(watched, parts, any_order(seed)))).correct
    assert 1 <= most <= slots
    assert not any(under_way.values())


def _dropped(program: Program, rank: int, index: int) -> Program:
    steps = program.gpus[rank].thread_blocks[0].instructions
    return with_steps(program, rank, 0, steps[:index] + steps[index + 1 :])


@pytest.mark.parametrize("rank", range(3))
@pytest.mark.parametrize("index", range(5))
def test_every_dropped_instruction_is_caught(rank: int, index: int) -> None:
    (result,) = run(_dropped(ring_allreduce(3, 2), rank, index))
    assert not result.correct
    assert result.diagnosis or result.first


@pytest.mark.parametrize(
    ("index", "side"), [(0, "src"), (1, "src"), (2, "src"), (2, "dst"), (3, "dst"), (4, "dst")]
)
def test_every_shifted_offset_is_caught(index: int, side: str) -> None:
    good = ring_allreduce(3)
    steps = good.gpus[1].thread_blocks[0].instructions
    old = getattr(steps[index], side)
    (result,) = run(changed(good, 1, 0, index, **{side: replace(old, offset=(old.offset + 1) % 3)}))
    assert result.ending == "done" and result.wrong > 0
    assert result.first[0].found != result.first[0].expected


def alone(only: ThreadBlock) -> Program:
    return whole("allreduce", 1, gpu(0, 1, 1, 0, only))


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (changed(ring_allreduce(3), 1, 0, 2, dst=at("o7")), "rank 1 thread block 0 step 2 (`rrcs`): o[7]"),
        (changed(ring_allreduce(3, 2), 1, 0, 0, count=1), "not 2 chunks"),
        (alone(block(0, None, None, step("s", "i0", "o0"))), "no rank to send to"),
        (alone(block(0, 9, 9, step("r", "i0", "o0"))), "no rank to receive from"),
    ],
)  # fmt: skip
def test_what_no_runtime_survives_is_a_fault(program: Program, words: str) -> None:
    (result,) = run(program)
    assert result.ending == "fault"
    assert words in result.diagnosis[0]


def test_an_unknown_dependence_is_a_stall_that_names_it() -> None:
    (result,) = run(changed(gather_and_sum(3), 0, 0, 1, depends=(8, 4)))
    assert result.ending == "stall"
    assert result.diagnosis == ("rank 0 thread block 0 step 1 (`re`) waits for step 4 of thread block 8",)


def test_a_message_that_nobody_takes_is_a_stall_that_names_it() -> None:
    steps: tuple[Instruction, ...] = gather_and_sum(3).gpus[2].thread_blocks[0].instructions
    (result,) = run(with_steps(gather_and_sum(3), 2, 0, steps * 2))
    assert result.diagnosis == ("rank 2 sent 1 message on channel 0 that rank 0 never took",)


def test_writing_the_input_out_of_place_is_wrong() -> None:
    program = gather_and_sum(3)
    steps = program.gpus[1].thread_blocks[0].instructions
    spoils = (*steps, Instruction("cpy", at("s0"), at("i0"), 1))
    spoilt = with_steps(
        replace(program, gpus=tuple(replace(g, scratch_chunks=2) for g in program.gpus)), 1, 0, spoils
    )
    (result,) = run(spoilt)
    assert {w.buffer for w in result.first} == {"input"}


def test_both_aliasings_run_when_both_are_claimed() -> None:
    both = replace(ring_allreduce(3), in_place=True)
    assert [r.in_place for r in run(both, repeat=2)] == [False, False, True, True]


def test_sizes_that_do_not_divide_are_refused_with_those_that_do() -> None:
    with pytest.raises(HetesynthError) as caught:
        job_of(ring_allreduce(3, 2), size=1000)
    assert "984 or 1008" in caught.value.help
    with pytest.raises(HetesynthError, match="no whole number") as caught:
        job_of(ring_allreduce(3, 2), size=7)
    assert "24" in caught.value.help


def test_memory_roots_and_collectives_are_checked() -> None:
    with pytest.raises(HetesynthError, match="GiB"):
        job_of(replace(ring_allreduce(3), gpus=(gpu(0, 3, 3, 10**8), gpu(1, 3, 3, 0), gpu(2, 3, 3, 0))))
    with pytest.raises(HetesynthError, match="root"):
        job_of(replace(gather_and_sum(3), root=None))
    with pytest.raises(HetesynthError, match="root 3 is no rank"):
        job_of(gather_and_sum(3), root=3)
    with pytest.raises(HetesynthError, match="custom"):
        job_of(replace(gather_and_sum(3), collective="custom"))  # type: ignore[arg-type]
