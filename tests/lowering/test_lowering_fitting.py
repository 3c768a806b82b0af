"""Limits: what the lowering does to meet them, and what it says when it cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.lowering_cases import case

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import PORTABLE, TARGETS
from hetesynth.programs.msccl import lower as lower_module
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower, lower_with_notes
from hetesynth.programs.summary import program_summary
from hetesynth.search.collectives import collective


def direct(ranks: int, chunks: int, name: str = "allgather") -> tuple[Problem, Schedule]:
    """Everything at once over a link for every pair."""
    pairs = [(u, v) for u in range(ranks) for v in range(ranks) if u != v]
    wanted = collective(name, ranks, chunks)  # type: ignore[arg-type]
    problem = Problem(ranks, ranks, (), tuple(Arc(u, v, chunks) for u, v in pairs), (), wanted)
    transfers = [
        Transfer(0, 1, k, pairs.index((u, v)))
        for k, (pre, post) in enumerate(zip(wanted.pre, wanted.post, strict=True))
        for u in pre
        for v in post - pre
    ]
    return problem, Schedule.of(transfers)


def one_by_one(chunks: int) -> tuple[Problem, Schedule]:
    """A broadcast over one link of one chunk a step."""
    problem = Problem(2, 2, (), (Arc(0, 1, 1),), (), collective("broadcast", 2, chunks))
    return problem, Schedule.of(Transfer(k, k + 1, k, 0) for k in range(chunks))


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every program counts as a large one."""
    monkeypatch.setattr(lower_module, "LARGE", 0)


def fitted(problem: Problem, schedule: Schedule, in_place: bool = False, **limits: int) -> Lowered:
    target = replace(PORTABLE, **limits)  # type: ignore[arg-type]
    options = LoweringOptions("fit", in_place, target=target)
    return lower_with_notes(problem, schedule, options)


def refusal(problem: Problem, schedule: Schedule, **limits: int) -> HetesynthError:
    with pytest.raises(HetesynthError) as caught:
        fitted(problem, schedule, **limits)
    assert caught.value.exit_code == 2 and caught.value.help
    return caught.value


def counts(program: Program) -> set[int]:
    return {x.count for gpu in program.gpus for tb in gpu.thread_blocks for x in tb.instructions if x.op == "s"}


def test_fewer_channels_when_thread_blocks_run_out() -> None:
    lowered = fitted(*direct(6, 4), max_thread_blocks=12)
    summary = program_summary(lowered.program)
    assert summary.max_thread_blocks <= 12 and summary.max_channels_per_link == 2
    assert any("fewer channels" in note for note in lowered.notes)
    assert not program_violations(lowered.program)


def test_copies_move_in_with_the_others_when_one_block_is_missing() -> None:
    lowered = fitted(*direct(6, 1), max_thread_blocks=5)
    assert program_summary(lowered.program).max_thread_blocks == 5
    assert any("own blocks" in note for note in lowered.notes)
    assert not program_violations(lowered.program)


@pytest.mark.parametrize("in_place", [False, True])
def test_more_channels_when_steps_run_out(in_place: bool) -> None:
    lowered = fitted(*one_by_one(130), in_place=in_place)
    summary = program_summary(lowered.program)
    assert (summary.max_steps, summary.max_channels_per_link) == (44, 3)
    assert any("more channels" in note for note in lowered.notes)
    assert not program_violations(lowered.program)


@pytest.mark.parametrize("in_place", [False, True])
def test_neighbours_travel_together_when_both_run_out(in_place: bool) -> None:
    lowered = fitted(*direct(6, 12), in_place=in_place, max_thread_blocks=6, max_steps=8)
    summary = program_summary(lowered.program)
    assert summary.max_thread_blocks <= 6 and summary.max_steps <= 8
    assert max(counts(lowered.program)) > 2
    assert not program_violations(lowered.program)


def split_into_single_chunks(program: Program) -> Program:
    """What a runtime does with large chunks: a message of cnt chunks is cnt messages of one."""
    gpus = []
    for gpu in program.gpus:
        blocks = []
        for tb in gpu.thread_blocks:
            steps = []
            for x in tb.instructions:
                for i in range(max(1, x.count)):
                    src, dst = (p and replace(p, offset=p.offset + i) for p in (x.src, x.dst))
                    steps.append(replace(x, src=src, dst=dst, count=min(1, x.count)))
            blocks.append(replace(tb, instructions=tuple(steps)))
        gpus.append(replace(gpu, thread_blocks=tuple(blocks)))
    return replace(program, gpus=tuple(gpus))


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_long_messages_do_not_fill_the_fifo_and_deadlock(name: str) -> None:
    """A send of 12 large chunks ends only while its receive runs: two ranks must not both send first."""
    lowered = fitted(*direct(4, 12, name), max_thread_blocks=4, max_steps=8)
    assert max(counts(lowered.program)) > 2
    summary = program_summary(lowered.program)
    assert summary.dependences == 0, "so steps can be renumbered"
    assert not program_violations(split_into_single_chunks(lowered.program), slots=2)


def test_more_peers_than_a_channel_takes() -> None:
    problem, schedule = direct(12, 1, "alltoall")
    lowered = fitted(problem, schedule, max_peers_per_channel=4)
    assert program_summary(lowered.program).channels >= 3
    for gpu in lowered.program.gpus:
        for channel in range(lowered.program.channels):
            here = [tb for tb in gpu.thread_blocks if tb.channel == channel]
            assert sum(tb.send_peer is not None for tb in here) <= 4
            assert sum(tb.recv_peer is not None for tb in here) <= 4
    assert not program_violations(lowered.program)


def test_too_many_thread_blocks() -> None:
    error = refusal(*direct(8, 1), max_thread_blocks=3)
    assert error.code == "HS501"
    assert "rank 0 needs 7 thread blocks" in error.message and "allows 3" in error.message


def test_too_few_channels() -> None:
    error = refusal(*direct(4, 1), max_channel=1, max_peers_per_channel=1)
    assert error.code == "HS503" and "ranks 0 and 3" in error.message and "than 2" in error.message


def test_too_many_elements() -> None:
    error = refusal(*one_by_one(60), max_nodes=50)
    assert error.code == "HS504" and "elements" in error.message


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gather", LoweringOptions("x", in_place=True)),
        ("allgather", LoweringOptions("x", min_bytes=2, max_bytes=1)),
        ("allgather", LoweringOptions("x", min_bytes=-1)),
    ],
)
def test_options_that_make_no_sense(name: str, options: LoweringOptions) -> None:
    with pytest.raises(HetesynthError) as caught:
        lower(*case("pair", name), options)
    assert caught.value.code == "HS505"


def test_a_schedule_that_sends_what_is_not_there() -> None:
    problem, schedule = case("line3", "allgather")
    early = Schedule.of(replace(t, start=0, end=1) for t in schedule.transfers)
    with pytest.raises(HetesynthError) as caught:
        lower(problem, early, LoweringOptions("x"))
    assert caught.value.code == "HS507"


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce"])
def test_a_crowded_gpu_of_a_large_program_has_its_transfers_dealt_out(name: str) -> None:
    if name == "allreduce":
        problem, schedule = case("full4", name, 4)
        most = 5
    else:
        problem, schedule = direct(6, 6, name)
        most = 12
    lowered = fitted(problem, schedule, max_thread_blocks=most, max_steps=40)
    summary = program_summary(lowered.program)
    assert summary.max_thread_blocks <= most and summary.max_steps <= 40
    assert any("dealt out" in note for note in lowered.notes)
    assert not program_violations(lowered.program)


def test_targets_with_the_same_limits_share_a_lowering_and_errors_name_their_target() -> None:
    problem, schedule = direct(6, 4)
    made = {name: lower(problem, schedule, LoweringOptions("x", target=TARGETS[name])) for name in TARGETS}
    assert made["portable"].gpus is not made["rccl-6"].gpus and made["portable"].gpus == made["rccl-6"].gpus
    fresh = lower(problem, replace(schedule), LoweringOptions("x", target=TARGETS["rccl-6"]))
    assert fresh == made["rccl-6"]
    short = {"max_steps": 1, "max_channel": 3}
    for name in ("portable", "rccl-6"):
        with pytest.raises(HetesynthError) as caught:
            lower(*one_by_one(64), LoweringOptions("x", target=replace(TARGETS[name], **short)))
        assert name in caught.value.message
