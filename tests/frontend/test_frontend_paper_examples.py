"""What is written in both forms is the same cluster: hardware, links, capacities, problem and steps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Topology, Vertex
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.solve import bounds_of
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/paper.dsl"))
SIX = ("4p8", "4x2p8", "4x3", "4x3p8", "8x2p4", "4x2p8x2")


def nameless(topology: Topology) -> Topology:
    """``topology`` without what its two forms may call differently: parts and servers, numbered instead."""
    servers = {server: str(i) for i, server in enumerate(dict.fromkeys(topology.servers))}
    vertices = tuple(
        Vertex(str(i), "switch" if v.kind == "bus" else v.kind, servers.get(v.server, ""), v.model)
        for i, v in enumerate(topology.vertices)
    )
    return replace(topology, vertices=vertices, notes=())


def problem_of(topology: Topology, goal: str) -> Problem:
    problem = chunk(topology).problem(collective(goal, topology.ranks, 1, None))
    segments = tuple(replace(segment, name="") for segment in problem.segments)
    return replace(problem, segments=segments)


def same(left: Topology, right: Topology) -> None:
    left, right = nameless(left), nameless(right)
    assert left == right
    assert chunk(left).links == chunk(right).links and chunk(left).tau_ref == chunk(right).tau_ref
    for goal in ("allgather", "allreduce"):
        assert problem_of(left, goal) == problem_of(right, goal)


def block(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def paper(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "paper.dsl")


def test_the_six_clusters_and_the_scenarios_are_there() -> None:
    clusters = {f"{gpu}_{name}" for gpu in ("h20", "v100") for name in SIX}
    failed = {f"v100_fail_{which}" for which in ("one4", "one8", "both", "each4")}
    assert clusters | failed | {"v100_4p8_slow18G"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_are_the_same_cluster(name: str) -> None:
    assert paper(name).name == block(name).name == name
    same(paper(name), block(name))


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("(450,1)", "(451,1)"),
        ("(50,1)", "(50,2)"),
        ("1.3 us", "1.4 us"),
        ("(6,7) >->", "(5,6,7) >->"),
        ("1200", "1201"),
        ("port => 0.7", "port => 0.8"),
    ],
)
def test_another_figure_is_another_cluster(text: str, replaced: str) -> None:
    source = (EXAMPLES / "h20_4p8" / "paper.dsl").read_text()
    assert text in source
    other = replace(parse_topology(source.replace(text, replaced, 1)), name="h20_4p8")
    assert nameless(other) != nameless(block("h20_4p8"))


def test_several_failures() -> None:
    """Appendix E: a GPU of each server, and a GPU of each server of four."""
    base = (EXAMPLES / "v100_4x2p8" / "paper.dsl").read_text().split("define node3")
    blocks = (EXAMPLES / "v100_4x2p8" / "topo.dsl").read_text()
    one = parse_topology(blocks.replace("fabric", "disable a1.gpu3, b.gpu7\n  fabric"))
    text = f"{base[0]}define failure = {{gpu => (3)}}\ndefine node3{base[1]}"
    both = text.replace("define internode", "define failure = {gpu => (7)}\ndefine internode")
    assert one.ranks == 14
    same(replace(parse_topology(both), name=one.name), one)
    each = parse_topology(blocks.replace("fabric", "disable a*.gpu3\n  fabric"))
    fours = text.replace("define node2", "define failure = {gpu => (3)}\ndefine node2")
    same(replace(parse_topology(fours), name=each.name), each)


@pytest.mark.parametrize("name", ["h20_4x3", "v100_4p8", "v100_fail_one8"])
def test_both_forms_take_the_same_steps(name: str) -> None:
    bounds = [bounds_of(problem_of(topology, "allgather"))[0] for topology in (block(name), paper(name))]
    assert bounds[0].steps == bounds[1].steps > 0
