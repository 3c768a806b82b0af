"""The case list holds everything that the benchmark promises, with the goals as promised."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.cases import Case, Goal, all_cases, chosen
from benchmarks.clusters import source
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
PAPER = ["h20_4p8", "h20_4x2p8", "h20_4x3", "h20_4x3p8", "h20_8x2p4", "h20_4x2p8x2"]
SCALE = {
    "h20_16": 1, "h20_32": 2, "h20_48": 3, "h20_64": 5,
    "h20_8x4": 2, "h20_8x6": 3, "h20_8x8": 5, "h20_4x4p8x6": 5,
}  # fmt: skip
V100 = [
    "v100_4p8", "v100_4x2p8", "v100_4x3", "v100_4x3p8", "v100_8x2p4", "v100_4x2p8x2", "v100_fail_one4",
    "v100_fail_one8", "v100_4p8_slow18G", "v100_4p8_sharednic", "v100_4p8_all100", "v100_4p8_slow18G_sharednic",
]  # fmt: skip


def only(cluster: str, collective: str, chunks: int, section: str | None = None) -> Case:
    found = [
        case
        for case in all_cases()
        if (case.cluster, case.collective, case.chunks) == (cluster, collective, chunks)
        and (case.section == section if section else case.section not in ("growth", "cold"))
    ]
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize("cluster", PAPER)
@pytest.mark.parametrize("collective", ["allgather", "reducescatter"])
def test_the_papers_clusters(cluster: str, collective: str) -> None:
    assert only(cluster, collective, 1).goal == Goal(2, 0)
    assert only(cluster, collective, 2).goal == Goal(5, 0)
    assert only(cluster, collective, 4).goal == Goal(10, 1)


@pytest.mark.parametrize("cluster", SCALE)
def test_the_scale_points(cluster: str) -> None:
    assert only(cluster, "allgather", 1).goal == Goal(SCALE[cluster], 0)
    assert only(cluster, "reducescatter", 1).goal == Goal(SCALE[cluster], 0)
    assert only(cluster, "allgather", 4).goal == Goal(30, 1, 2)


@pytest.mark.parametrize("cluster", V100)
def test_the_v100_clusters(cluster: str) -> None:
    assert only(cluster, "allgather", 1).goal == Goal(10)
    assert only(cluster, "reducescatter", 1).goal == Goal(10)


@pytest.mark.parametrize(
    ("cluster", "seconds"), [("h20_8x32", 10), ("h20_8x128", 90), ("torus_32x32", 90), ("mesh_32x32", 90)]
)
def test_the_large_clusters(cluster: str, seconds: float) -> None:
    case = only(cluster, "allgather", 1, "large")
    assert case.goal == Goal(seconds, percent=3, megabytes=8000)
    assert case.schedule_only


@pytest.mark.parametrize("cluster", [*PAPER, *SCALE, *V100])
def test_the_other_collectives(cluster: str) -> None:
    assert only(cluster, "allreduce", 1).goal == Goal(10)
    assert only(cluster, "alltoall", 1).goal == Goal(10, percent=5)
    assert only(cluster, "broadcast", 1).goal == Goal(10, percent=5)


def test_growth_goes_from_16_to_1024_with_one_shape() -> None:
    growth = [case for case in all_cases() if case.section == "growth"]
    assert [case.ranks for case in growth] == [16, 32, 64, 128, 256, 512, 1024]
    assert all(case.schedule_only and case.goal is None for case in growth)


def test_programs_are_made_up_to_64_gpus() -> None:
    assert all(case.schedule_only == (case.ranks > 64) for case in all_cases() if case.section != "growth")


def test_no_budget_reaches_its_goal() -> None:
    assert all(case.goal is None or 0 < case.budget < case.goal.seconds for case in all_cases())


def test_the_quick_selection_fits_two_minutes_if_goals_are_met_in_half_the_time() -> None:
    quick = chosen(quick=True, patterns=())
    assert {case.section for case in quick} == {case.section for case in all_cases()} - {"large"}
    assert sum(case.limit for case in quick) / 2 < 120


def test_patterns_select_by_name() -> None:
    assert [case.cluster for case in chosen(quick=False, patterns=("paper: h20_4P8 allgather c=1",))] == [
        "h20_4p8"
    ]
    assert {case.section for case in chosen(quick=False, patterns=("large", "cold"))} == {"large", "cold"}
    assert chosen(quick=False, patterns=("nothing of this name",)) == []


@pytest.mark.parametrize("case", [c for c in all_cases() if c.ranks <= 64], ids=lambda case: case.name)
def test_every_cluster_exists_with_its_ranks(case: Case, tmp_path: Path) -> None:
    seen = _RANKS.get(case.cluster)
    if seen is None:
        seen = _RANKS[case.cluster] = ranks(case.cluster, tmp_path)
    assert seen == case.ranks


_RANKS: dict[str, int] = {}


def ranks(cluster: str, folder: Path) -> int:
    path = ROOT / "examples" / cluster / "topo.dsl"
    if not path.is_file():
        path = folder / f"{cluster}.dsl"
        path.write_text(source(cluster) or "")
    topology = load_topology(path)
    assert topology.name == cluster
    return topology.ranks


@pytest.mark.parametrize(("name", "degree"), [("torus_4x5", {4}), ("mesh_4x5", {2, 3, 4})])
def test_grids_have_the_links_of_a_grid(name: str, degree: set[int], tmp_path: Path) -> None:
    path = tmp_path / "grid.dsl"
    path.write_text(source(name) or "")
    topology = load_topology(path)
    pairs = {(link.src, link.dst) for link in topology.links}
    assert topology.ranks == 20 and len(pairs) == len(topology.links)
    assert {len([1 for u, _ in pairs if u == rank]) for rank in range(20)} == degree
    for u, v in pairs:
        rows, columns = abs(u // 5 - v // 5), abs(u % 5 - v % 5)
        assert (v, u) in pairs
        assert (rows, columns) in {(0, 1), (1, 0)} or (
            name.startswith("torus") and (rows, columns) in {(0, 4), (3, 0)}
        )


def test_large_clusters_have_their_text() -> None:
    for case in all_cases():
        if case.ranks > 64:
            assert f"cluster {case.cluster} " in (source(case.cluster) or "")
    assert "b[0-127] = h20x8" in (source("h20_8x128") or "")
    assert source("h20_4x4p8x6") is None and source("h20_4x9") is None and source("torus_1x5") is None


@pytest.mark.parametrize(
    ("goal", "bound", "most"),
    [
        (Goal(1, 0), 7, 7),
        (Goal(1, 1), 7, 8),
        (Goal(1, 1, 2), 25, 26),
        (Goal(1, 1, 2), 100, 102),
        (Goal(1, percent=3), 63, 64),
        (Goal(1, percent=5), 19, 19),
        (Goal(1), 7, None),
    ],
)
def test_goals_in_steps(goal: Goal, bound: int, most: int | None) -> None:
    assert goal.allowed(bound) == most
