"""What a schedule can and cannot say: order, values kept apart, capacities, chunks that do not divide."""

from __future__ import annotations

from dataclasses import replace

import pytest
from verify.program_builders import block, program, step

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.model.program import GpuProgram, Program
from hetesynth.programs.lifting.dataflow import Shape, shape
from hetesynth.programs.lifting.lift import Lifted, lift
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.collectives import collective


def lifted(p: Program, on: Problem | None = None) -> Lifted:
    assert program_violations(p) == []
    size = shape(p)
    made = lift(p, collective(p.collective, p.ranks, size.chunks_per_rank, p.root), size.pieces, on)
    assert schedule_violations(made.problem, made.schedule) == []
    return made


def exchange() -> Program:
    """Two ranks send each other their only chunk and add."""
    gpus = [
        GpuProgram(
            r, 1, 1, 1,
            (block(0, 1 - r, 1 - r, step("s", "i0", "s0"), step("r", "i0", "s0"), step("cpy", "i0", "o0"),
                   step("re", "s0", "o0")),),
        )
        for r in range(2)
    ]  # fmt: skip
    return program("allreduce", 1, gpus)


def two_way_line() -> Program:
    """Allreduce on 0 - 1 - 2: rank 1 sends 0+1 to the right and 1+2 to the left, two sums that share its input."""
    ends = [
        GpuProgram(
            r, 1, 1, 1,
            (block(0, 1, 1, step("s", "i0", f"s{r // 2}"), step("r", f"s{2 + r // 2}", "s0"),
                   step("cpy", "i0", "o0"), step("re", "s0", "o0")),),
        )
        for r in (0, 2)
    ]  # fmt: skip
    middle = GpuProgram(
        1, 1, 1, 4,
        (
            block(0, 0, 0, step("r", "i0", "s0", flag=True), step("cpy", "i0", "s2"),
                  step("re", "s1", "s2", on=(1, 0)), step("s", "s2", "s0")),
            block(1, 2, 2, step("r", "i0", "s1", flag=True), step("cpy", "i0", "s3"),
                  step("re", "s0", "s3", on=(0, 0)), step("s", "s3", "s0"), step("cpy", "s3", "o0"),
                  step("re", "s1", "o0")),
        ),
    )  # fmt: skip
    return program("allreduce", 1, [ends[0], middle, ends[1]])


def late_input() -> Program:
    """An exchange where rank 0 sends its input only after it has added what arrived."""
    first = GpuProgram(
        0, 1, 1, 1,
        (block(0, 1, 1, step("r", "i0", "s0"), step("cpy", "i0", "o0"), step("re", "s0", "o0"),
               step("s", "i0", "s0")),),
    )  # fmt: skip
    second = GpuProgram(
        1, 1, 1, 1,
        (block(0, 0, 0, step("s", "i0", "s0"), step("r", "i0", "s0"), step("cpy", "i0", "o0"),
               step("re", "s0", "o0")),),
    )  # fmt: skip
    return program("allreduce", 1, [first, second])


def test_an_input_sent_late_leaves_before_what_arrives_is_added() -> None:
    """The program takes two steps, for rank 0 adds first; as a schedule both inputs cross in one."""
    made = lifted(late_input())
    assert made.schedule.makespan == 1
    assert all(t.reduce for t in made.schedule.transfers)


def test_two_sums_that_share_a_contribution_are_refused_by_place() -> None:
    with pytest.raises(HetesynthError) as caught:
        lifted(two_way_line())
    error = caught.value
    assert error.code == "HS703" and error.exit_code == 1
    assert "gpu 1 keeps two values of chunk 0 apart" in error.message
    assert "gpu 1 thread block 0 step 3" in error.message or "gpu 1 thread block 1 step 3" in error.message


def test_chunks_that_do_not_divide_among_the_ranks_are_cut() -> None:
    """One chunk on two ranks is two chunks of the model; emitted again, both judges agree."""
    assert shape(exchange()) == Shape(chunks_per_rank=1, pieces=2)
    assert shape(replace(exchange(), chunks_per_loop=6)) == Shape(3)
    made = lifted(exchange())
    assert (made.pieces, made.schedule.makespan, len(made.schedule.transfers)) == (2, 1, 4)
    again = lower(made.problem, made.schedule, LoweringOptions("x"))
    assert again.chunks_per_loop == 2 and program_violations(again) == []


def pair(shared: int) -> Problem:
    """Two ranks on one medium that carries ``shared`` chunks a step, both directions together."""
    arcs = (Arc(0, 1, 4), Arc(1, 0, 4))
    return Problem(2, 2, (), arcs, (Resource("medium", (0, 1), shared),), collective("allreduce", 2, 1))


def test_what_must_go_together_and_does_not_fit_is_refused() -> None:
    with pytest.raises(HetesynthError) as caught:
        lifted(exchange(), pair(1))
    assert caught.value.code == "HS705" and "2 transfers" in caught.value.message


def test_a_pair_without_a_link_is_named() -> None:
    one_way = Problem(2, 2, (), (Arc(0, 1, 1),), (), collective("allreduce", 2, 1))
    with pytest.raises(HetesynthError) as caught:
        lifted(exchange(), one_way)
    assert caught.value.code == "HS704"
    assert "gpu 1 thread block 0 step 0 sends to rank 0" in caught.value.message


def test_what_comes_twice_is_left_out_and_relays_are_counted() -> None:
    """Scatter 0 -> 1 -> 2 through scratch of 1, which also gets rank 2's chunk a second time."""
    root = GpuProgram(
        0, 3, 1, 0,
        (block(0, 1, None, step("s", "i1", "o0"), step("s", "i2", "s0"), step("s", "i2", "s1")),
         block(1, None, None, step("cpy", "i0", "o0"))),
    )  # fmt: skip
    relay = GpuProgram(
        1, 0, 1, 2,
        (block(0, 2, 0, step("r", "i1", "o0"), step("r", "i2", "s0"), step("r", "i2", "s1"),
               step("s", "s1", "o0")),),
    )  # fmt: skip
    end = GpuProgram(2, 0, 1, 0, (block(0, None, 1, step("r", "s1", "o0")),))
    made = lifted(program("scatter", 1, [root, relay, end], root=0))
    assert (made.arrivals, made.dropped) == (4, 1)
    assert len(made.schedule.transfers) == 3


@pytest.mark.parametrize("name", ["custom", "alltoallv"])
def test_collectives_without_a_result_are_refused(name: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        shape(replace(exchange(), collective=name))  # type: ignore[arg-type]
    assert caught.value.code == "HS701"


def test_wrong_programs_are_refused_even_when_nobody_judged_them() -> None:
    """The pipeline judges first; lifting alone still never invents data."""
    good = exchange()
    stuck = replace(good, gpus=(good.gpus[0], replace(good.gpus[1], thread_blocks=())))
    empty = replace(good, gpus=tuple(replace(gpu, thread_blocks=()) for gpu in good.gpus))
    for wrong in (stuck, empty):
        assert program_violations(wrong) != []
        with pytest.raises(HetesynthError) as caught:
            lift(wrong, collective("allreduce", 2, 1), 2)
        assert caught.value.code == "HS702"
