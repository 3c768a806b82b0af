"""The line of a verdict: rounded so that it promises nothing that is not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.engine.choice.choice import CandidateSpecs, choose
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.request import Request
from hetesynth.engine.ring_baseline import ring_baseline
from hetesynth.engine.time_verdict import TimeVerdict, bounds_of
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.topology.language import load_topology, parse_topology

NCCL = "NCCL (ring, 24 channels, Simple)"
USUAL = TimeVerdict("program", 192_000_000, 1.425e-3, 1.3839e-3, 1.3839e-3, None, NCCL, 1.796e-3)


@pytest.mark.parametrize(("limit", "percent"), [(1.425e-3, "100 %"), (1.4249e-3, "99 %"), (1.4e-3, "98 %")])
def test_only_the_limit_itself_is_100_percent(limit: float, percent: str) -> None:
    assert f": {percent} of the proved limit" in replace(USUAL, limit=limit).line


@pytest.mark.parametrize(
    ("rings", "factor", "slower"),
    [
        (1.425e-3, "1.00 x", False),
        (1.424e-3, "0.9993 x", False),
        (1.405e-3, "0.99 x", True),
        (1.0e-3, "0.70 x", True),
    ],
)
def test_a_quicker_library_shows(rings: float, factor: str, slower: bool) -> None:
    verdict = replace(USUAL, rings=rings)
    assert f", {factor} NCCL (ring," in verdict.line
    assert verdict.slower_than_library is slower is (verdict.warning is not None)
    assert verdict.figures()["slower_than_library"] is slower


def test_trees_no_rings_and_no_time() -> None:
    trees = replace(USUAL, tree_limit=1.42e-3)
    assert "97 % of the proved limit (simulated), 99 % of that of trees, 1.26 x" in trees.line
    none = replace(USUAL, rings="there is no ring")
    assert none.line.endswith("not beside NCCL (ring, 24 channels, Simple): there is no ring")
    assert none.figures()["factor_over_library"] is None and none.figures()["no_library"] == "there is no ring"
    untimed = replace(USUAL, seconds=None)
    assert untimed.line == "program not simulated for 192 MB: limit 1,384 us (proved)"
    assert untimed.figures()["program_us"] is None and untimed.figures()["percent_of_limit"] is None


THREE = """
node n {
  gpus 3
  link gpu0 -> gpu1 { bandwidth 20 GB/s; latency 1 us }
  link gpu1 -> gpu2 { bandwidth 7 GB/s; latency 3 us }
  link gpu2 -> gpu0 { bandwidth 13 GB/s; latency 0.5 us }
}
cluster three {
  chunk 1 MB
  instance a = n
}
"""


@pytest.mark.parametrize("name", ["allgather", "alltoall"])
def test_extrapolated_loops_are_not_below_the_limit(tmp_path: Path, name: CollectiveName) -> None:
    """Loops of a one-way ring overlap for long: their mean is less than what the slowest link needs."""
    path = tmp_path / "topo.dsl"
    path.write_text(THREE)
    topology = load_topology(path)
    ranked = choose(CandidateSpecs(topology, Request(path, name, budget=Budget(effort=1.0)), 10**9)).ranked[0]
    assert ranked.seconds is not None
    assert ranked.seconds >= bounds_of(topology, name, None, CostOptions()).seconds(10**9)


def test_extrapolated_rings_are_not_below_the_limit() -> None:
    """The last byte over the slowest link is received after its latency."""
    topology = parse_topology(THREE)
    rings = ring_baseline(topology, "allgather", None, 10**9, CostOptions())
    assert not isinstance(rings, str)
    assert rings.seconds >= bounds_of(topology, "allgather", None, CostOptions()).seconds(10**9)
