"""Communication sketches: TACCL's own for NDv2 and DGX-2 (microsoft/taccl, taccl/examples/sketch), kept by every
transfer; what is refused, and what is said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.solving import solve

from hetesynth import api
from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.files.sketch_json import MAX_BYTES, read_sketch_json
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.sketch import Sketch
from hetesynth.policy import DEFAULT
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.registry import strategy
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.symmetry import symmetric

Captured = pytest.CaptureFixture[str]

NDV2_X2 = "import dgx1\ncluster ndv2_x2 { instance a[0-1] = ndv2 fabric ib { join a*.nic*; latency 1.3 us } }"
DGX2_X2 = "import dgx2\ncluster dgx2_x2 { instance a[0-1] = dgx2 fabric ib { join a*.nic*; latency 2.6 us } }"


def of_ndv2(connection: object) -> dict[str, Any]:
    return {
        "nnodes": 2,
        "intranode_sketch": {"strategy": "none"},
        "internode_sketch": {"strategy": "relay", "internode_conn": connection},
        "symmetry_offsets": [[8, 16]],
        "hyperparameters": {"input_chunkup": 1},
    }


def of_dgx2(preferred: str, relay: dict[str, Any], chunks: int) -> dict[str, Any]:
    switch = {"strategy": "switch", "switches": [[*range(16)]], "switch_hyperedge_strategy": [preferred]}
    return {
        "nnodes": 2,
        "intranode_sketch": switch,
        "internode_sketch": {"strategy": "relay", **relay},
        "symmetry_offsets": [[2, 16], [16, 32]],
        "hyperparameters": {"input_chunkup": chunks},
    }


ODD = range(1, 16, 2)
RELAYED = {
    "internode_conn": {str(i): [i - 1] for i in ODD},
    "gpus_to_sender_rev_map": {str(i): [i - 1, i] for i in ODD},
    "enforce_ordering": True,
}
DIRECT = {"internode_conn": "direct-map", "gpus_to_sender_rev_map": {str(i): [i] for i in range(16)}}
TACCL: dict[str, tuple[str, dict[str, Any], set[tuple[int, int]]]] = {
    "sk1-ndv2-n2": (NDV2_X2, of_ndv2({"0": [1]}), {(0, 1)}),
    "sk2-ndv2-n2": (NDV2_X2, of_ndv2("fully-connected"), {(i, j) for i in range(8) for j in range(8)}),
    "sk3-ndv2-n2": (NDV2_X2, of_ndv2("direct-map"), {(i, i) for i in range(8)}),
    "sk1-dgx2-n2": (DGX2_X2, of_dgx2("uc-min", RELAYED, 2), {(i, i - 1) for i in ODD}),
    "sk2-dgx2-n2": (DGX2_X2, of_dgx2("uc-max", DIRECT, 1), {(i, i) for i in range(16)}),
}
"""By name: a cluster, the values of the file, which GPU may send to which of the other server."""


def written(folder: Path, document: object) -> Path:
    path = folder / "sketch.json"
    path.write_text(json.dumps(document))
    return path


def sketch(document: object) -> Sketch:
    return read_sketch_json(json.dumps(document).encode(), "sketch.json")


@pytest.mark.parametrize("name", TACCL)
@pytest.mark.parametrize("goal", ["allgather", "alltoall", "allreduce"])
def test_every_transfer_keeps_the_sketches(name: str, goal: Any, tmp_path: Path, capsys: Captured) -> None:
    text, document, pairs = TACCL[name]
    (tmp_path / "topo.dsl").write_text(text)
    options: Any = {"sketch": written(tmp_path, document), "schedule_only": True, "objective": "steps"}
    made = api.synthesize(tmp_path / "topo.dsl", goal, **options)
    links, goals, half = made.topology.links, made.problem.collective, made.topology.ranks // 2
    assert made.chunks == document["hyperparameters"]["input_chunkup"]
    numbers = {(c.block, c.part): c.index for c in goals.chunks}
    there = Counter()
    crossing = set()
    for t in made.solution.schedule.transfers:
        src, dst = links[t.link].src, links[t.link].dst
        there[t.start, t.end, t.chunk, src, dst] += 1
        if src // half != dst // half:
            crossing.add((src % half, dst % half))
            home = goals.chunks[t.chunk].block[0]
            if name == "sk1-dgx2-n2" and goal != "allreduce" and home // half == src // half:
                assert src % half == home % half // 2 * 2 + 1, "its neighbour of odd number relays it"
    assert crossing <= pairs
    for offset, size in document["symmetry_offsets"]:

        def moved(rank: int, offset: int = offset, size: int = size) -> int:
            return rank // size * size + (rank + offset) % size

        def like(k: int, moved: Callable[[int], int] = moved) -> int:
            return numbers[tuple(map(moved, goals.chunks[k].block)), goals.chunks[k].part]

        assert there == Counter({(s, e, like(k), moved(a), moved(b)): n for (s, e, k, a, b), n in there.items()})
    made.write(tmp_path / "made")
    file = str(tmp_path / "made.schedule.json")
    assert run(["verify", file, "--topo", str(tmp_path / "topo.dsl")]) == 0, capsys.readouterr().err


def test_programs_for_a_size_keep_the_links_and_the_symmetry(tmp_path: Path) -> None:
    (tmp_path / "topo.dsl").write_text(NDV2_X2)
    document = of_ndv2({"0": [3], "3": [0]})
    for offsets in ([], [[8, 16]]):
        path = written(tmp_path, document | {"symmetry_offsets": offsets})
        made = api.synthesize(tmp_path / "topo.dsl", "allreduce", size="16MB", sketch=path)
        assert not any("sketch" in warned.message for warned in made.warnings)
        assert made.programs
        for program in made.programs.values():
            peers = {
                (int(gpu.get("id", "")) % 8, int(block.get("send", "")) % 8)
                for gpu in ElementTree.fromstring(program.data)
                for block in gpu
                if int(block.get("send", "")) >= 0
                and int(gpu.get("id", "")) // 8 != int(block.get("send", "")) // 8
            }
            assert peers
            assert peers <= {(0, 3), (3, 0)}


def dgx2(goal: Any, chunks: int = 1) -> Problem:
    topology = api.parse(DGX2_X2)
    return chunk(topology).problem(collective(goal, topology.ranks, chunks))


def test_symmetry_finds_fewer_steps_where_chunks_are_many() -> None:
    given, topology = sketch(of_dgx2("uc-min", RELAYED, 2)), api.parse(DGX2_X2)
    part = topology.part(given.links(topology))
    problem = chunk(part).problem(collective("alltoall", 32, 2))
    plain = solve(problem, "greedy")
    repeated = Solver(symmetric(strategy("greedy"), given), Budget(), schedule_violations).solve(problem)
    assert isinstance(repeated, Solution)
    assert repeated.schedule.makespan == repeated.bound.steps < plain.schedule.makespan
    assert not list(given.breaches(part, problem.collective, repeated.schedule))
    said = list(given.breaches(part, problem.collective, plain.schedule))
    assert len(said) == 3, "both symmetries and the relay map"
    assert "transfers have no like" in said[0]
    assert "another GPU than its relay map says" in said[2]


@pytest.mark.parametrize(
    ("offsets", "goal", "why"),
    [
        ([[2, 16], [16, 32]], "broadcast", "broadcast with root 0 is not symmetric"),
        ([[1, 2], [1, 4]], "allgather", "leave a rank in its place"),
        ([[3, 16]], "allgather", "NIC has no image"),
        ([[4, 16]], "allgather", None),
    ],
)
def test_what_symmetries_a_problem_has(offsets: list[list[int]], goal: Any, why: str | None) -> None:
    given = sketch(of_dgx2("uc-min", RELAYED, 1) | {"symmetry_offsets": offsets})
    refusal = symmetric(strategy("greedy"), given).refuses(dgx2(goal), DEFAULT)
    assert refusal == why or (why is not None and refusal is not None and why in refusal)


def test_a_symmetry_that_the_cluster_lacks_is_refused() -> None:
    text = DGX2_X2.replace("a[0-1] = dgx2", "a[0-1] = dgx2 { set nic0 { bandwidth 20 Gbps } }")
    problem = chunk(api.parse(text)).problem(collective("allgather", 32))
    given = sketch(of_dgx2("uc-min", RELAYED, 1))
    assert "NIC has no image" in str(symmetric(strategy("greedy"), given).refuses(problem, DEFAULT))
    assert symmetric(strategy("greedy"), replace(given, offsets=((16, 32),))).refuses(problem, DEFAULT) is None


SWITCH = {"strategy": "switch", "switches": [[0]]}
BROKEN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no field": (lambda _: {"symetry_offsets": []}, "no field of a sketch"),
    "topology": (lambda _: {"gpus_per_node": 8}, "`hetesynth topo import` reads"),
    "no object": (lambda _: [], "sketch is not an object"),
    "other strategy": (lambda d: d | {"intranode_sketch": {"strategy": "relay_switch"}}, "TACCL reads switch"),
    "no policy": (
        lambda d: d | {"intranode_sketch": SWITCH | {"switch_hyperedge_strategy": []}},
        "not a list of 1",
    ),
    "other relay": (lambda d: d | {"internode_sketch": {"strategy": "ring"}}, "TACCL reads relay"),
    "no GPU": (lambda _: of_ndv2({"zero": [1]}), "'zero' is not the number of a GPU"),
    "other connection": (lambda _: of_ndv2("all"), "neither an object nor fully-connected nor direct-map"),
    "half a pair": (lambda d: d | {"symmetry_offsets": [[8]]}, "16 pairs of an offset and a size"),
    "no chunks": (lambda d: d | {"hyperparameters": {"input_chunkup": 0}}, "from 1 to 4096"),
    "relay map of the paper": (
        lambda d: d | {"internode_sketch": {**d["internode_sketch"], "chunk_to_relay_map": [2, 1]}},
        "write gpus_to_sender_rev_map",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_no_sketch(case: str) -> None:
    change, why = BROKEN[case]
    with pytest.raises(HetesynthError) as refused:
        sketch(change(of_ndv2({"0": [1]})))
    assert refused.value.code == "HS627"
    assert why in refused.value.message


def test_a_field_that_is_not_known_is_a_warning() -> None:
    """In the whole and in its parts, whose other fields count."""
    plain = of_ndv2({"0": [1]})
    for where, known in (("sketch", plain), ("internode_sketch", plain["internode_sketch"])):
        given = plain | {"symetry_offsets": []} if where == "sketch" else plain | {where: known | {"colour": 1}}
        (warning,) = sketch(given).unused
        assert warning.startswith(f"{where} has no field")
        assert replace(sketch(given), unused=()) == sketch(plain)
    assert "did you mean `symmetry_offsets`?" in sketch(plain | {"symetry_offsets": []}).unused[0]


def test_a_sketch_has_limits() -> None:
    with pytest.raises(HetesynthError, match="more than"):
        read_sketch_json(b" " * (MAX_BYTES + 1), "sketch.json")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"nnodes": 3}, "it is for 3 servers, and here are 2"),
        ({"internode_sketch": {"strategy": "relay", "internode_conn": {"8": [1]}}}, "it names GPU 8"),
        ({"symmetry_offsets": [[1, 3]]}, "does not divide 16 ranks"),
    ],
)
def test_a_sketch_of_another_cluster(change: dict[str, Any], why: str) -> None:
    with pytest.raises(HetesynthError) as refused:
        sketch(of_ndv2({"0": [1]}) | change).links(api.parse(NDV2_X2))
    assert refused.value.code == "HS628"
    assert why in refused.value.message


def test_a_sketch_says_something_of_every_link_between_servers() -> None:
    silent = {"intranode_sketch": {"strategy": "none"}}
    with pytest.raises(HetesynthError, match="no internode_sketch"):
        sketch(silent).links(api.parse(NDV2_X2))
    one = api.parse("import dgx1\ncluster one { instance a = ndv2 }")
    assert sketch(silent).links(one) == list(range(len(one.links)))
    rate = "{ bandwidth 1 GB/s; latency 1 us }"
    paired = f"link a0.gpu1 -> a1.gpu2 {rate} link a1.gpu1 -> a0.gpu2 {rate}"
    apart = api.parse(f"import dgx1\ncluster two {{ instance a[0-1] = dgx1 {{ disable nic* }} {paired} }}")
    with pytest.raises(HetesynthError, match="no link leads from GPU 0 to GPU 1"):
        sketch(of_ndv2({"0": [1]})).links(apart)


def test_what_is_not_used_is_said(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "topo.dsl").write_text(DGX2_X2)
    document = TACCL["sk1-dgx2-n2"][1]
    document = document | {"hyperparameters": {"input_chunkup": 1, "input_size": "1M"}}
    document["internode_sketch"] = {**document["internode_sketch"], "beta_split": {"1": 1}}
    path = str(written(tmp_path, document))
    command = ["synth", str(tmp_path / "topo.dsl"), "--coll", "allreduce", "--sketch", path, "--schedule-only"]
    assert run([*command, "-o", str(tmp_path / "made"), "--explain"]) == 0
    shown = capsys.readouterr().out
    for said in ("switches and uc-min", "enforce_ordering", "beta_split", "input_size", "sums do not follow"):
        assert said in shown


def test_a_size_says_why_a_symmetry_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, of_dgx2("uc-min", DIRECT, 1) | {"symmetry_offsets": [[3, 16]]})
    with pytest.raises(HetesynthError, match="NIC has no image") as refused:
        api.synthesize(api.parse(DGX2_X2), "allgather", size="1MB", sketch=path)
    assert refused.value.code == "HS610"


def test_a_sketch_is_not_for_comparisons(tmp_path: Path) -> None:
    path = written(tmp_path, of_ndv2({"0": [1]}))
    with pytest.raises(HetesynthError, match="a sketch is not for them") as refused:
        api.compare(api.parse(NDV2_X2), "allgather", sketch=path)
    assert refused.value.code == "HS629"
    with pytest.raises(HetesynthError) as unread:
        api.synthesize(api.parse(NDV2_X2), "allgather", sketch=tmp_path / "none.json")
    assert unread.value.code == "HS540"
