"""What single threads push to a channel: counted orders against all orders, and plans whose threads run apart."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.plan_chaos import outcome

from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import load_plan
from hetesynth.judge.mscclpp.state import orders
from hetesynth.model.plan import ChannelType, PlanBlock, PlanOp, PlanOperation

FIXTURES = Path(__file__).parent / "fixtures" / "plans"
Event = tuple[int, str]
"""(thread, operation)."""


def defects() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return (Path(given) if given else Path(__file__).parents[3] / "shared" / "data") / "defects"


def arrivals(events: list[Event]) -> Iterator[list[int]]:
    """Every order, as positions in ``events``, in which each thread's events stay in theirs."""

    def extend(taken: list[int]) -> Iterator[list[int]]:
        if len(taken) == len(events):
            yield taken
        for thread in {t for t, _ in events}:
            left = [i for i, (t, _) in enumerate(events) if t == thread and i not in taken]
            if left:
                yield from extend([*taken, left[0]])

    yield from extend([])


def pushed(events: list[Event], kind: ChannelType) -> PlanBlock:
    """A block that does so on channel 0: thread i handles entry i, so entries before it name another channel."""
    operations = []
    for thread, op in events:
        operations.append(PlanOperation(op, kind, (*[1] * thread, 0)))  # type: ignore[arg-type]
    return PlanBlock(0, tuple(operations), memory_channels=(0, 1), port_channels=(0, 1))


OPS: dict[ChannelType, list[PlanOp]] = {
    "port": ["put", "signal", "rlxsignal", "pws"],
    "memory": ["signal", "rlxsignal"],
}


@pytest.mark.parametrize("kind", OPS)
def test_what_signals_cover_is_what_holds_in_all_orders(kind: ChannelType) -> None:
    rng = random.Random(7)
    for _ in range(150):
        events = [(rng.randrange(3), rng.choice(OPS[kind])) for _ in range(rng.randint(1, 6))]
        order = orders(pushed(events, kind)).get((1, kind, 0))
        puts = [i for i, (_, op) in enumerate(events) if op in ("put", "pws")]
        latest = dict.fromkeys(puts, 0)
        relaxed = 0
        for found in arrivals(events):
            signals, strong = 0, False
            for i in found:
                if events[i][1] in ("put", "pws"):
                    latest[i] = max(latest[i], signals)
                if events[i][1] != "put":
                    signals += 1
                    strong = strong or kind == "port" or events[i][1] != "rlxsignal"
                    relaxed = relaxed if strong else max(relaxed, signals)
        assert order is not None
        assert order.covers == tuple(latest[i] + 1 for i in puts), events
        assert order.relaxed == relaxed, events


@pytest.mark.parametrize("name", ["flush_by_another_thread", "signal_by_another_thread"])
def test_a_put_by_one_thread_and_its_flush_or_signal_by_another(name: str) -> None:
    read = load_plan(FIXTURES / f"{name}.json")
    found = plan_violations(read, root=0)
    assert {v.kind for v in found} == {"race"}
    assert any("a nop must stand between" in v.message for v in found)
    assert "wrong" in {outcome(read, 0, seed) for seed in range(60)}


EXPECTED = {
    "emitted_flush_lane_fig10_alltoall_inplace": False,
    "emitted_signal_lane_gather.c4": False,
    "lane_A_signal_by_same_thread_as_put": False,
    "lane_B_signal_by_other_thread": False,
    "lane_C_as_A_with_nop_before_flush": True,
}


@pytest.mark.skipif(not defects().is_dir(), reason="no conformance data")
@pytest.mark.parametrize("name", EXPECTED)
def test_plans_of_earlier_versions(name: str) -> None:
    assert (plan_violations(load_plan(defects() / f"{name}.json")) == []) == EXPECTED[name]
