"""The first judge: good schedules pass, and every kind of violation has a case that shows it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.graphs import full, line, problem, ring, star
from support.replay import accepts

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer

T = Transfer


def kinds(wanted: Problem, moves: list[Transfer], makespan: int | None = None) -> set[str]:
    schedule = Schedule.of(moves, makespan)
    found = schedule_violations(wanted, schedule)
    assert (not found) == accepts(wanted, schedule), found
    return {v.kind for v in found}


# ring(3, both=False): arc r goes from r to r+1
RING = ring(3, both=False)
ALLGATHER = [T(0, 1, 0, 0), T(0, 1, 1, 1), T(0, 1, 2, 2), T(1, 2, 0, 1), T(1, 2, 1, 2), T(1, 2, 2, 0)]
# chunk k travels k+1, k+2, and ends at k, adding on the way
REDUCESCATTER = [T(t, t + 1, k, (k + 1 + t) % 3, True) for k in range(3) for t in range(2)]
ALLREDUCE = REDUCESCATTER + [T(t + 2, t + 3, k, (k + t) % 3) for k in range(3) for t in range(2)]
# line(3): arcs 0->1, 1->0, 1->2, 2->1
LINE = line(3)


@pytest.mark.parametrize(
    ("wanted", "moves"),
    [
        (problem(RING, "allgather"), ALLGATHER),
        (problem(RING, "reducescatter"), REDUCESCATTER),
        (problem(RING, "allreduce"), ALLREDUCE),
        (problem(RING, "allreduce", exclusive=True), ALLREDUCE),
        (problem(LINE, "broadcast"), [T(0, 1, 0, 0), T(1, 2, 0, 2)]),
        (problem(LINE, "reduce"), [T(0, 1, 0, 3, True), T(1, 2, 0, 1, True)]),
        (problem(LINE, "gather"), [T(0, 1, 1, 1), T(0, 1, 2, 3), T(1, 2, 2, 1)]),
        (problem(LINE, "scatter"), [T(0, 1, 2, 0), T(1, 2, 1, 0), T(1, 2, 2, 2)]),
    ],
)
def test_good_schedules_pass(wanted: Problem, moves: list[Transfer]) -> None:
    assert kinds(wanted, moves) == set()


@pytest.mark.parametrize("link", [3, 6, 1000, -1])
def test_no_such_link(link: int) -> None:
    assert kinds(problem(RING, "allgather"), [*ALLGATHER, T(0, 1, 0, link)]) == {"no-such-link"}


@pytest.mark.parametrize("chunk", [3, -1])
def test_no_such_chunk(chunk: int) -> None:
    assert kinds(problem(RING, "allgather"), [*ALLGATHER, T(0, 1, chunk, 0)]) == {"no-such-chunk"}


def test_wrong_tick_even_when_the_type_was_bypassed() -> None:
    schedule = Schedule.of(ALLGATHER)
    object.__setattr__(schedule, "makespan", 1)
    assert "wrong-tick" in {v.kind for v in schedule_violations(problem(RING, "allgather"), schedule)}


def test_not_held() -> None:
    early = [replace(t, start=0, end=1) if t == T(1, 2, 0, 1) else t for t in ALLGATHER]
    found = schedule_violations(problem(ring(3, 2, both=False), "allgather"), Schedule.of(early))
    assert {(v.kind, v.step, v.rank, v.chunk) for v in found if v.kind == "not-held"} == {("not-held", 0, 1, 0)}


def test_already_held_is_the_owner_and_received_twice_is_anyone_else() -> None:
    two = ring(3, 2, both=False)
    assert kinds(problem(two, "allgather"), [*ALLGATHER, T(2, 3, 0, 2)]) == {"already-held"}
    assert kinds(problem(two, "allgather"), [*ALLGATHER, T(2, 3, 0, 0)]) == {"received-twice"}


def test_nothing_that_is_added_changes_nothing() -> None:
    """Rank 0 adds a chunk that it does not hold to one that rank 1 has: only the first is wrong."""
    wanted = problem(ring(3, 2, both=False), "allgather")
    assert kinds(wanted, [*ALLGATHER, T(0, 1, 1, 0, True)]) == {"not-held"}


def test_contribution_twice() -> None:
    wanted = problem(line(2), "reduce")
    assert kinds(wanted, [T(0, 1, 0, 1, True)]) == set()
    assert kinds(wanted, [T(0, 1, 0, 1, True), T(1, 2, 0, 1, True)]) == {"contribution-twice"}


def test_overloaded_link_wire_and_group() -> None:
    assert kinds(problem(line(2), "allgather", 2), [T(0, 1, k, k // 2) for k in range(4)]) == {"overloaded"}
    hub = star(3)
    wanted = problem(hub, "broadcast")
    # arcs 0->1 and 0->2 share the wire 0->switch
    assert kinds(wanted, [T(0, 1, 0, 0), T(0, 1, 0, 1)]) == {"overloaded"}
    assert kinds(wanted, [T(0, 1, 0, 0), T(1, 2, 0, 1)]) == set()
    grouped = full(3)
    grouped.groups.append(Resource("bus", (0, 1), 1))
    found = schedule_violations(problem(grouped, "broadcast"), Schedule.of([T(0, 1, 0, 0), T(0, 1, 0, 1)]))
    assert [(v.kind, v.resource) for v in found] == [("overloaded", "bus")]


def test_long_transfers_load_every_tick_they_last() -> None:
    wanted = problem(line(2), "allgather", 2)
    moves = [T(0, 3, 0, 0), T(2, 3, 1, 0), T(0, 1, 2, 1), T(1, 2, 3, 1)]
    found = schedule_violations(wanted, Schedule.of(moves))
    assert [(v.kind, v.step) for v in found] == [("overloaded", 2)]


def test_not_delivered_says_what_is_missing() -> None:
    [found] = schedule_violations(problem(line(2), "reduce"), Schedule.of([], 1))
    assert (found.kind, found.rank, found.chunk) == ("not-delivered", 0, 0) and "1 of 2" in found.message
    [found] = schedule_violations(problem(LINE, "reduce"), Schedule.of([], 1))
    assert "2 of 3" in found.message
    [found] = schedule_violations(problem(line(2), "broadcast"), Schedule.of([], 1))
    assert found.message == "after step 1: rank 1 lacks 1 of 1 contributions to chunk 0"
    assert kinds(problem(LINE, "broadcast"), [T(0, 1, 0, 2)]) == {"not-held", "not-delivered"}
    partial = [T(0, 1, 0, 3, True), T(0, 1, 0, 1, True)]  # 2 adds to 1 while 1 sends its own to 0
    assert kinds(problem(LINE, "reduce"), partial) == {"not-delivered"}


# full(3): links 0->1, 0->2, 1->0, 1->2, 2->0, 2->1
@pytest.mark.parametrize(
    ("name", "moves", "messages"),
    [
        ("broadcast", [T(0, 1, 0, 0), T(1, 2, 0, 1)], []),
        ("broadcast", [T(1, 2, 0, 0), T(1, 2, 0, 1)], ["step 1: rank 0 sends chunk 0 to 2 peers at once (eq. 8)"]),
        ("reduce", [T(1, 2, 0, 2, True), T(1, 2, 0, 4, True)],
         ["step 1: rank 0 adds 2 values to chunk 0 at once (eq. 8)"]),
        ("reduce", [T(1, 2, 0, 4, True), T(1, 2, 0, 2)],
         ["step 1: rank 0 copies over chunk 0 while another value of it arrives",
          "after step 2: rank 0 lacks 1 of 3 contributions to chunk 0"]),
    ],
)  # fmt: skip
def test_violations_say_what_and_when(name: CollectiveName, moves: list[Transfer], messages: list[str]) -> None:
    found = schedule_violations(problem(full(3), name, exclusive=True), Schedule.of(moves))
    assert [v.message for v in found] == messages
    assert all(f"step {v.step}: " in f"{v.message}: " for v in found)


def test_rounds_are_the_ticks_and_no_transfer_takes_several() -> None:
    """One way round of three: what arrives in the first of a step's two rounds goes on in the next step."""
    wanted = problem(ring(3, both=False), "broadcast")

    def said(moves: list[Transfer], makespan: int, rounds: tuple[int, ...]) -> list[str]:
        return [v.message for v in schedule_violations(wanted, Schedule.of(moves, makespan, rounds))]

    there, on = T(0, 1, 0, 0), T(2, 3, 0, 1)
    assert said([there, on], 3, (2, 1)) == []
    assert said([there, on], 3, (1, 1, 1)) == []
    assert said([there, on], 3, (3,))[0] == "step 0: rank 1 sends chunk 0 before it holds it"
    for rounds in ((2, 2), (1, 1), (4, -1), (3, 0)):
        assert said([there, on], 3, rounds) == ["its rounds are not the 3 ticks"]
    assert said([T(0, 2, 0, 0), on], 3, (2, 1)) == ["chunk 0: takes more than a round"]
