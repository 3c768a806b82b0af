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
from hetesynth.model.program import Instruction, Program, ThreadBlock


@settings(deadline=None, max_examples=20)
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


def test_without_its_dependence_some_order_reads_scratch_too_early() -> None:
    """The dependence is what makes it right: dropped, some order adds the poison in scratch."""
    broken = changed(gather_and_sum(3), 0, 0, 1, depends=None)
    results = [run(broken, any_order(seed))[0] for seed in range(20)]
    assert any(result.wrong for result in results)
    assert all(result.ending == "done" for result in results)


def test_as_many_messages_under_way_as_slots_and_no_more() -> None:
    """Sending three before receiving any: stalls with two slots, runs with three."""
    assert run(exchange(3), slots=3)[0].correct
    (result,) = run(exchange(3))
    assert result.ending == "stall"
    assert "rank 0 thread block 0 step 2 (`s`) waits for rank 1 to take one of 2 messages" in result.diagnosis[0]
    assert run(exchange(2))[0].correct


def _dropped(program: Program, rank: int, index: int) -> Program:
    steps = program.gpus[rank].thread_blocks[0].instructions
    return with_steps(program, rank, 0, steps[:index] + steps[index + 1 :])


@pytest.mark.parametrize("index", range(5))
def test_every_dropped_instruction_is_caught(index: int) -> None:
    (result,) = run(_dropped(ring_allreduce(3, 2), index % 3, index))
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


def test_memory_roots_and_collectives_are_checked() -> None:
    with pytest.raises(HetesynthError, match="GiB"):
        job_of(replace(ring_allreduce(3), gpus=(gpu(0, 3, 3, 10**8), gpu(1, 3, 3, 0), gpu(2, 3, 3, 0))))
    with pytest.raises(HetesynthError, match="root"):
        job_of(replace(gather_and_sum(3), root=None))
    with pytest.raises(HetesynthError, match="root 3 is no rank"):
        job_of(gather_and_sum(3), root=3)
    with pytest.raises(HetesynthError, match="custom"):
        job_of(replace(gather_and_sum(3), collective="custom"))  # type: ignore[arg-type]
