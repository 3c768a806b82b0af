"""Edge lists: to the language and back, what is refused, and the examples as edge lists."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.edge_list import edge_document

ROOT = Path(__file__).resolve().parents[2]


def gpu(i: int, server: int = 0, model: str = "H20") -> dict[str, Any]:
    return {"id": i, "type": "gpu", "server": server, "model": model}


def link(
    src: object, dst: object, rate: float | None, count: int = 1, alpha: float | None = 0.7
) -> dict[str, Any]:
    return {"src": src, "dst": dst, "GBps": rate, "alpha_us": alpha, "kind": "nvlink", "count": count}


def both(
    a: object, b: object, rate: float | None, count: int = 1, alpha: float | None = 0.7
) -> list[dict[str, Any]]:
    return [link(a, b, rate, count, alpha), link(b, a, rate, count, alpha)]


def four() -> dict[str, Any]:
    """Two servers: links of several lanes, one direction alone, a pair with two links, a limit on some."""
    return {
        "name": "four",
        "source": "made up",
        "nodes": [gpu(0), gpu(1), gpu(2, 1, "V100"), gpu(3, 1, "V100")],
        "links": [
            *both(0, 1, 50, 2),
            *both(2, 3, 400, 18),
            *both(0, 2, 12.5, 1, None),
            link(1, 3, 8),
            *both(2, 3, 16),
        ],
        "groups": [{"name": "out", "kind": "nic", "GBps": 12.5, "edges": [[0, 2], [1, 3]]}],
    }


def with_switches() -> dict[str, Any]:
    """A switch in a server, NICs and the fabric that joins them."""
    nodes = [gpu(0), gpu(1), gpu(2, 1), gpu(3, 1), {"id": "sw", "type": "switch", "server": 0, "model": ""}]
    nodes += [{"id": f"nic{s}", "type": "nic", "server": s, "model": ""} for s in range(2)]
    nodes.append({"id": "net", "type": "switch", "server": -1, "model": ""})
    links = [*both(0, "sw", 450, 18), *both(1, "sw", 450, 18), *both(2, 3, 100)]
    for s in range(2):
        links += both(f"nic{s}", "net", 50, 1, 0)
        links += [k for g in range(2) for k in both(2 * s + g, f"nic{s}", 63, 1, None)]
    return {"name": "switches", "nodes": nodes, "links": links, "groups": []}


def import_of(tmp_path: Path, document: object) -> ImportedTopology:
    path = tmp_path / "list.json"
    path.write_text(json.dumps(document))
    return import_topology(ImportTopologyRequest((str(path),)))


def links_of(document: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    def exact(value: float | None) -> Fraction | None:
        return None if value is None else Fraction(str(value))

    return Counter(
        (k["src"], k["dst"], exact(k["GBps"]), exact(k["alpha_us"] or 0), k["count"]) for k in document["links"]
    )


def edges_of(document: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted((g["name"], g["GBps"], sorted(map(tuple, g["edges"]))) for g in document["groups"])


@pytest.mark.parametrize("make", [four, with_switches])
def test_a_list_comes_back_as_it_was(make: Any, tmp_path: Path) -> None:
    before = make()
    after = json.loads(json.dumps(edge_document(import_of(tmp_path, before).topology)))
    assert links_of(after) == links_of(before)
    assert edges_of(after) == edges_of(before)
    types = [(n["id"], n["type"], n["server"]) for n in before["nodes"]]
    assert sorted(map(str, ((n["id"], n["type"], n["server"]) for n in after["nodes"]))) == sorted(map(str, types))


def test_a_rate_that_its_lanes_do_not_divide_stays_exact(tmp_path: Path) -> None:
    topology = import_of(tmp_path, four()).topology
    fast = [k for k in topology.links if (k.src, k.dst) == (2, 3) and k.lanes == 18]
    assert [k.bandwidth for k in fast] == [Fraction(400 * 10**9, 18)]


def changed(**changes: Any) -> dict[str, Any]:
    return four() | changes


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(nodes=[]), "no node is of type gpu"),
        (changed(nodes=[gpu(0), gpu(1, 1), gpu(2)], links=[], groups=[]), "do not stand together"),
        (changed(links=[link(0, 9, 1)]), "does not join two nodes"),
        (changed(links=[link(0, 1, 0)]), "GBps is 0"),
        (changed(links=[link(0, 1, 1, 0)]), "count is no number from 1"),
        (changed(links=[link(0, 1, None)]), "a link without a rate"),
        (changed(links=[link(0, 1, 1, 1, -2)]), "alpha_us is -2"),
        (changed(links=7), "not lists of objects"),
        (changed(groups=[{"name": "g", "GBps": 1, "edges": []}]), "a group without"),
        (changed(groups=[{"name": "g", "GBps": 1, "edges": [[0, "sw"]]}]), "(in a group: two GPUs)"),
    ],
)
def test_a_wrong_list_is_refused(document: object, words: str, tmp_path: Path) -> None:
    with pytest.raises(HetesynthError) as caught:
        import_of(tmp_path, document)
    assert caught.value.code == "HS732" and words in caught.value.message and caught.value.help


def test_other_refusals(tmp_path: Path) -> None:
    apart = tmp_path / "apart"
    apart.write_text(json.dumps({"name": "apart", "nodes": [gpu(0), gpu(1)], "links": [], "groups": []}))
    for name in "ab":
        (tmp_path / name).write_text(json.dumps(four()))
    pair = (str(tmp_path / "a"), str(tmp_path / "b"))
    for files, code in (((str(apart),), "HS735"), (pair, "HS738"), (("no/such",), "HS737"), (("a*0",), "HS736")):
        with pytest.raises(HetesynthError) as caught:
            import_topology(ImportTopologyRequest(files))
        assert caught.value.code == code
