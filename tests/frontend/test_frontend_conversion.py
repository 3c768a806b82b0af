"""``topo convert``: the same cluster in the block form, or as JSON."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire
from hetesynth.topology.convert import to_block, topology_document
from hetesynth.topology.language import load_topology, parse_topology
from hetesynth.topology.language.source import read_source

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
PAPER = [EXAMPLES / "fig10" / "topo.dsl", *sorted(EXAMPLES.glob("*/paper.dsl"))]


def said(topology: Topology) -> object:
    links = [(k.src, k.dst, k.kind, k.bandwidth, k.lanes, k.latency) for k in topology.links]
    return sorted(links), topology.models, topology.chunk_bytes, topology.reduce_bandwidth


@pytest.mark.parametrize("path", PAPER, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_block_form_says_what_the_paper_form_does_and_keeps_comments(path: Path) -> None:
    text = to_block(read_source(path))
    assert said(parse_topology(text)) == said(load_topology(path))
    comments = [line.strip() for line in path.read_text().splitlines() if line.strip().startswith("#")]
    assert "define" not in text.replace("defined", "") and all(comment in text for comment in comments)


def test_a_file_in_the_block_form_is_laid_out() -> None:
    path = EXAMPLES / "v100_4p8" / "topo.dsl"
    assert to_block(read_source(path)) == path.read_text()


@pytest.mark.parametrize("name", ["fig10", "v100_4p8", "two_dc_50km", "ndv2_x4"])
def test_json_holds_everything(name: str) -> None:
    """The cluster can be built from the document alone."""
    topology = load_topology(EXAMPLES / name / "topo.dsl")
    document = json.loads(json.dumps(topology_document(topology)))

    def fraction(text: str | None) -> Fraction | None:
        return None if text is None else Fraction(text)

    def exact(fields: dict[str, object]) -> dict[str, object]:
        numbers = {k: fraction(v) for k, v in fields.items() if k in ("bandwidth", "latency")}  # type: ignore[arg-type]
        lists = {k: tuple(v) for k, v in fields.items() if isinstance(v, list)}
        return {**fields, **numbers, **lists}

    kinds = {"vertices": Vertex, "wires": Wire, "links": Link, "groups": SharedGroup}
    lists = {key: tuple(kind(**exact(each)) for each in document[key]) for key, kind in kinds.items()}
    rest = {k: v for k, v in document.items() if k not in kinds and k not in ("format", "version")}
    for name_ in ("reduce_bandwidth", "copy_bandwidth"):
        rest[name_] = tuple(fraction(text) for text in rest[name_])
    rest |= {key: tuple(rest[key]) for key in ("notes", "measured", "numbers")}
    assert Topology(**rest, **lists) == topology
