"""The library is what its own formulas choose, and a file is for the sizes at which it is no slower."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.rival import SIZES, Rival, library_rival, useful_sizes
from hetesynth.engine.time_verdict import bounds_of, rival_at
from hetesynth.library.machine import library_of, machine_of
from hetesynth.library.times import chosen
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = CostOptions(runtime=NCCL_TABLES)


@cache
def topology(name: str) -> Topology:
    measured = EXAMPLES / "measured" / f"{name}.dsl"
    return load_topology(measured if measured.exists() else EXAMPLES / name / "topo.dsl")


@pytest.mark.parametrize("size", [64 << 10, 1 << 20, 1 << 30])
@pytest.mark.parametrize("coll", ["allreduce", "allgather", "alltoall", "broadcast"])
@pytest.mark.parametrize("name", ["h20_4p8", "h100x8", "h100x8_2"])
def test_it_is_what_the_formulas_choose(name: str, coll: CollectiveName, size: int) -> None:
    machine = machine_of(topology(name))
    assert machine is not None
    rival = rival_at(topology(name), coll, 0 if coll in ROOTED else None, size, OPTIONS)
    time = chosen(machine, coll, size)
    assert isinstance(rival, Rival)
    assert (rival.seconds, rival.how) == (time.expected, time.label)
    assert rival.low <= 1 <= rival.high


def test_two_nodes_with_nvls_are_told_the_truth() -> None:
    """Five published runs of 8 GiB take 33.2 to 34.7 ms."""
    rival = rival_at(topology("h100x8_2"), "allreduce", None, 8 << 30, OPTIONS)
    assert isinstance(rival, Rival)
    assert rival.how.startswith("NVLSTree") and 33.2e-3 <= rival.seconds <= 34.7e-3


def test_a_formula_below_the_limit_at_line_rate_has_not_seen_a_part_of_the_fabric() -> None:
    on = topology("h20_4p8")
    limit = bounds_of(on, "allgather", None, OPTIONS.line_rate).seconds(1 << 30)
    slow = library_rival(on, "allgather", 1 << 30, 100 * limit)
    assert isinstance(slow, Rival)
    assert (slow.seconds, slow.unchecked) == (100 * limit, "unchecked on this fabric")


def test_no_factor_without_a_library_or_its_costs() -> None:
    text = 'node {0} {{ gpus 2; model "{1}"; link gpu0 <-> gpu1 {{ bandwidth 50 GB/s }}'
    text += " nic nic0 {{ bandwidth 200 Gbps }}"
    text = "\n".join(
        f"{text.format(n, m)} attach gpu[0-1] -> nic0 }}" for n, m in (("a", "H100"), ("b", "MI300X"))
    )
    mixed = parse_topology(f"{text}\ncluster c {{ instance x = a instance y = b fabric f {{ join *.nic* }} }}")
    assert library_of(mixed) is None
    assert rival_at(mixed, "allgather", None, 1 << 20, OPTIONS) == "mixed vendors have no library"
    costless = rival_at(topology("h20_4p8"), "allgather", None, 1 << 20, CostOptions())
    assert costless == "runtime costs are left out"


@given(won=st.lists(st.booleans(), min_size=len(SIZES), max_size=len(SIZES)), size=st.sampled_from(SIZES))
def test_the_span_holds_won_sizes_only_and_is_the_nearest(won: list[bool], size: int) -> None:
    times = dict(zip(SIZES, won, strict=True))
    span = useful_sizes(lambda n: 1.0 if times[n] else 2.0, lambda _: 1.5, size, SizeRange(0, None, ""))
    if span is None:
        assert not any(won)
        return
    first, last = map(SIZES.index, span)
    assert all(won[first : last + 1])
    assert (first == 0 or not won[first - 1]) and (last == len(won) - 1 or not won[last + 1])
    place = SIZES.index(size)
    distance = max(first - place, place - last, 0)
    assert not any(won[max(0, place - distance + 1) : place + distance])


def test_a_range_is_looked_at_its_own_ends_too() -> None:
    extent = SizeRange(3_000_000, 5_000_000, "3MB..5MB")
    assert useful_sizes(lambda n: n / 4e6, lambda _: 1.0, 3_500_000, extent) == (3_000_000, 3_500_000)
    assert useful_sizes(lambda _: 2.0, lambda _: 1.0, 4_000_000, extent) is None


def test_a_range_reaches_to_the_size_that_was_asked_for() -> None:
    extent = SizeRange(1 << 10, 1 << 34, "1KB..16GB")
    assert useful_sizes(lambda n: n / 1e9, lambda _: 1.0, 10**9, extent) == (1 << 10, 10**9)
    for size, span in ((500, (500, 1 << 34)), (1 << 35, (1 << 10, 1 << 35))):
        assert useful_sizes(lambda _: 1.0, lambda _: 1.0, size, SizeRange(0, None, "")) == span
