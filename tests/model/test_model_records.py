"""Links, schedules, resources and targets are what they say."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetesynth.judge.msccl.lint_readers import ANY, READERS
from hetesynth.model.problem import Arc, Problem, Resource, Segment
from hetesynth.model.schedule import Schedule, Transfer, hops
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Link, Wire
from hetesynth.model.words import microseconds, size_text
from hetesynth.programs.mscclpp.lower import RESIDENT_BLOCKS
from hetesynth.search.collectives import collective

GB, KIB = Fraction(10**9), 1024
XML = [target for target in TARGETS.values() if target.format.program]
LIMITS = ("max_steps", "max_thread_blocks", "max_channel", "max_peers_per_channel", "max_count", "max_offset")
RING = tuple(Arc(r, (r + 1) % 4, 1) for r in range(4))
RUNTIMES = {"rccl-6": 0, "rccl-5": 0, "portable": 0, "msccl-executor": 1, "msccl": 1}
BYTES = {"Simple": (2048 * KIB, 2048 * KIB), "LL": (16 * KIB, 32 * KIB), "LL128": (50_176, 576_000)}
OVERHEAD = {"Simple": (1, 1), "LL": (2, 2), "LL128": (Fraction(8, 7), Fraction(16, 15))}


def test_a_link_is_as_fast_as_its_slowest_wire_and_as_late_as_all() -> None:
    fast, free = Wire(0, 2, "fast", 4 * GB, 1, Fraction(1)), Wire(2, 3, "free", None, 1, Fraction(2))
    wires = [fast, free, Wire(3, 1, "slow", GB, 3, Fraction(4))]
    assert Link.over(0, 1, [0, 1, 2], wires) == Link(0, 1, "slow", (0, 1, 2), GB, 3, Fraction(7))


def test_schedules_in_any_order_are_equal() -> None:
    a, b = Transfer(0, 1, 0, 0), Transfer(1, 2, 0, 1, reduce=True)
    assert Schedule.of([b, a]) == Schedule.of([a, b]) and hash(Schedule.of([b, a])) == hash(Schedule.of([a, b]))
    assert Schedule.of([a], makespan=3).steps() == [[a], [], []]


@pytest.mark.parametrize(
    ("transfers", "most"),
    [
        ([], 0),
        ([Transfer(k, k + 1, 0, k) for k in range(3)], 3),
        ([Transfer(k, k + 1, k, k) for k in range(3)], 1),  # of three chunks, each its own
        ([Transfer(0, 3, 0, 0), Transfer(2, 3, 0, 1)], 1),  # what leaves before the other arrives
        ([Transfer(0, 2, 0, 0, True), Transfer(2, 3, 0, 1, True), Transfer(3, 4, 0, 2, True)], 3),
    ],
)
def test_hops(transfers: list[Transfer], most: int) -> None:
    assert hops(Schedule.of(transfers), RING) == most


def test_binding_resources_leave_out_what_another_implies() -> None:
    # two arcs in a group of 2: an arc of 2 is implied by the group, an arc of 1 is not
    arcs, group = (Arc(0, 1, 2), Arc(1, 0, 1)), Resource("g", (0, 1), 2)
    wide = Problem(2, 2, (), arcs, (group,), collective("allgather", 2))
    assert [r.arcs for r in wide.resources] == [(0, 1), (0,), (1,)]
    assert [r.arcs for r in wide.binding_resources] == [(0, 1), (1,)]


@pytest.mark.parametrize("asked", ["allgather", "broadcast"])
def test_the_kernel_moves_whatever_the_protocol_says_in_one_way(asked: str) -> None:
    target = TARGETS["nccl-device"]
    for protocol in ("Simple", "LL", "LL128"):
        fifo = target.fifo(protocol, asked)  # type: ignore[arg-type]
        assert (fifo.slots, fifo.slice_bytes, fifo.batch_bytes) == (8, 512 * KIB, 512 * KIB)
        assert fifo.overhead == 1 and fifo.proxy_agrees


@pytest.mark.parametrize("wire", [3, 4])
def test_a_wire_is_a_law_where_it_is_narrower_than_its_only_link(wire: int) -> None:
    segments = (Segment(0, 1, wire, "0->1"), Segment(1, 0, 4, "1->0"))
    arcs = (Arc(0, 1, 4, (0,)), Arc(1, 0, 4, (1,)))
    problem = Problem(2, 2, segments, arcs, (), collective("allgather", 2))
    assert [(r.name, r.capacity) for r in problem.resources[:-2]] == [("0->1", 3)] * (wire < 4)


@pytest.mark.parametrize("name", sorted(RUNTIMES))
@pytest.mark.parametrize("asked", ["allgather", "broadcast", "reduce"])
def test_a_message_carries_what_the_sources_say(name: str, asked: str) -> None:
    for protocol, slots in (("Simple", 2), ("LL", 8), ("LL128", 8)):
        fifo = TARGETS[name].fifo(protocol, asked)  # type: ignore[arg-type]
        short = protocol == "Simple" and asked != "allgather"
        assert fifo.slice_bytes == BYTES[protocol][RUNTIMES[name]]
        assert fifo.batch_bytes == (512 * KIB if short else fifo.slice_bytes)
        assert fifo.overhead == OVERHEAD[protocol][RUNTIMES[name]]
        assert fifo.slots == slots == TARGETS[name].slots(protocol)  # type: ignore[arg-type]
        assert fifo.proxy_agrees is not short


def test_limits_of_targets_are_within_each_other() -> None:
    portable = TARGETS["portable"]
    assert all(getattr(ANY, name) == max(getattr(target, name) for target in XML) for name in LIMITS)
    for target in XML:
        assert portable.ops <= target.ops <= ANY.ops
        for name in (*LIMITS, "resident_thread_blocks", "multiprocessors"):
            assert getattr(portable, name) <= getattr(target, name), (target.name, name)
    required = {attribute for target in XML for attribute in target.required_attributes}
    assert all(reader.required <= required for reader in READERS.values())
    assert all(target.resident_thread_blocks <= target.multiprocessors for target in TARGETS.values())
    assert TARGETS["mscclpp"].multiprocessors >= RESIDENT_BLOCKS


def test_times_have_no_exponent_and_sizes_the_unit_of_what_is_printed() -> None:
    assert [microseconds(us * 1e-6) for us in (1.5, 1_234.4, 9_999.4, 85_820)] == [
        "1.5 us", "1,234 us", "9,999 us", "85,820 us",
    ]  # fmt: skip
    assert [size_text(size) for size in (999, 999_940, 999_999, 1 << 20)] == ["999 B", "999.9 KB", "1 MB", "1 MiB"]
