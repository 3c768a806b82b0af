"""The sentence of a verdict: rounded so that it promises nothing that is not there, and short."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetesynth.engine.choice.choice import CandidateSpecs, choose
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.request import Request
from hetesynth.engine.rival import Rival
from hetesynth.engine.time_verdict import MOST_CHARACTERS, TimeVerdict, bounds_of, verdict_line
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.topology.language import load_topology

NCCL = Rival("NCCL", "ring, 24 channels, Simple", 1.796e-3, 0.9, 1.2)
USUAL = TimeVerdict(
    "program", 192_000_000, 1.425e-3, 1.3e-3, 1.2839e-3, None, None, NCCL, useful=(2**24, 2**34), ranged=True
)


def test_the_whole_sentence() -> None:
    assert USUAL.line == "192 MB: est. 1.43 ms, 1.3 x NCCL (1.1 to 1.5), 98 % of proved limit, from 16 MiB"
    between = replace(USUAL, useful=(2**10, 2**26), switch_reduces=True)
    assert between.line.endswith(", 98 % of limit without NVLS, for 1 KiB to 64 MiB")
    mixed = replace(USUAL, rival=replace(NCCL, unchecked="unchecked on mixed servers"))
    assert " x NCCL (1.1 to 1.5, unchecked on mixed servers), " in mixed.line


@pytest.mark.parametrize(("limit", "percent"), [(1.3e-3, "100 %"), (1.2999e-3, "99 %"), (1.28e-3, "98 %")])
def test_only_the_limit_itself_is_100_percent(limit: float, percent: str) -> None:
    """At line rate both: what the estimate takes at the rates that runs reach does not count."""
    assert f", {percent} of proved limit" in replace(USUAL, limit=limit, seconds=9.0).line


@pytest.mark.parametrize(
    ("seconds", "factor", "slower"),
    [
        (1.425e-3, "1.0 x", False),
        (1.424e-3, "0.9993 x", False),
        (1.405e-3, "0.99 x", True),
        (1.2e-3, "0.84 x", True),
        (2.9e-3, "2.0 x", False),
    ],
)
def test_a_quicker_library_shows(seconds: float, factor: str, slower: bool) -> None:
    verdict = replace(USUAL, rival=replace(NCCL, seconds=seconds))
    assert f", {factor} NCCL (" in verdict.line
    assert verdict.slower_than_library is verdict.figures()["slower_than_library"] is slower


def test_no_use_no_library_and_no_time() -> None:
    assert replace(USUAL, useful=None).line.endswith(", NCCL wins at all sizes")
    assert replace(USUAL, useful=None, ranged=False).line.endswith(" % of proved limit")
    none = replace(USUAL, rival="mixed vendors have no library")
    assert none.line == "192 MB: est. 1.43 ms, 98 % of proved limit, no factor: mixed vendors have no library"
    assert none.figures()["factor_over_library"] is None
    assert none.figures()["no_library"] == "mixed vendors have no library"
    untimed = replace(USUAL, seconds=None, line_seconds=None, rival="runtime costs are left out")
    assert untimed.line.startswith("192 MB: not simulated, proved limit 1.28 ms")
    assert untimed.figures()["program_us"] is None and untimed.figures()["percent_of_limit"] is None


def test_what_the_sentence_leaves_out_is_explained() -> None:
    lines = replace(USUAL, target_limit=1.29e-3, tree_limit=1.3e-3).explanation
    assert lines[0] == "limit: 1.28 ms, proved at line rate; program there 1.3 ms"
    assert lines[1] == "limit of programs for the target: 1.29 ms (99 %)"
    assert lines[2] == "limit of trees: 1.3 ms (100 %)"
    assert lines[3].startswith("NCCL (ring, 24 channels, Simple): 1.8 ms by its formula; ")


@given(
    size=st.integers(1, 2**40),
    seconds=st.floats(1e-6, 99.0),
    least=st.floats(1e-9, 1.0),
    low=st.integers(10, 34),
    switch=st.booleans(),
    unchecked=st.sampled_from(["", "unchecked on mixed servers", "unchecked on this machine kind"]),
)
def test_no_sentence_is_longer_than_110_characters(
    size: int, seconds: float, least: float, low: int, switch: bool, unchecked: str
) -> None:
    rival = Rival("NCCL", "", least * seconds, 0.4, 4.5, unchecked)
    useful = (2**low, 2**33 + 2**32) if low < 33 else None
    verdict = TimeVerdict(
        "program", size, seconds, seconds, seconds / 3, None, None, rival, switch, useful, ranged=True
    )
    assert len(verdict.line) <= MOST_CHARACTERS
    assert len(verdict_line([verdict, replace(verdict, size=2 * size)])) <= MOST_CHARACTERS


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
    assert ranked.seconds >= bounds_of(topology, name, None, CostOptions()).seconds(10**9) * (1 - 1e-12)
