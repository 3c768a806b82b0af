"""Section 2 of dsl/reference.md: its examples mean what is said beside them; parameters, expressions, loops."""

from __future__ import annotations

import re
from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Link, Topology
from hetesynth.topology.language import parse_topology

ROOT = Path(__file__).resolve().parents[2]
SECTION = (ROOT / "dsl" / "reference.md").read_text().split("## 2. Block form")[1].split("## 3. Paper form")[0]
BLOCKS = [
    "\n".join(line[4:] for line in block.splitlines())
    for block in re.findall(r"(?:^    .*\n(?:\n(?=    ))?)+", SECTION, re.MULTILINE)
    if "cluster" in block
]
GB = 10**9


def example(name: str) -> Topology:
    """The example of section 2 whose cluster has this name."""
    (text,) = [block for block in BLOCKS if f"cluster {name} {{" in block]
    return parse_topology(text)


def rate(topology: Topology, src: str, dst: str) -> F:
    """GB/s from ``src`` to ``dst`` over all links together."""
    return sum((F(k.bandwidth * k.lanes, GB) for k in links(topology, src, dst)), F(0))


def links(topology: Topology, src: str, dst: str) -> list[Link]:
    names = [v.name for v in topology.vertices]
    return [k for k in topology.links if (k.src, k.dst) == (names.index(src), names.index(dst))]


def path(topology: Topology, src: str, dst: str) -> list[str]:
    (link,) = links(topology, src, dst)
    return [topology.vertices[topology.wires[i].dst].name for i in link.wires]


def body(node: str, cluster: str = "", parameters: str = "", arguments: str = "") -> Topology:
    text = f"node n{parameters} {{\n{node}\n}}\ncluster c {{ instance a = n{arguments}\n{cluster} }}"
    return parse_topology(text)


@pytest.mark.parametrize("text", BLOCKS, ids=[re.findall(r"cluster (\w+)", b)[-1] for b in BLOCKS])
def test_each_example_is_read(text: str) -> None:
    assert parse_topology(text).ranks > 1


def test_two_centres() -> None:
    topology = example("two_centres")
    wan = [i for i, wire in enumerate(topology.wires) if wire.kind == "wan"]
    crossing = {(k.src // 8, k.dst // 8) for k in topology.links for i in k.wires if i == wan[0]}
    assert len(wan) == 2 and crossing == {(0, 1)}
    assert sum(wan[0] in k.wires for k in topology.links) == 64
    (far,) = links(topology, "a0.gpu0", "b1.gpu3")
    assert far.latency == F(502, 10**6) and far.bandwidth == 10 * GB
    assert path(topology, "a0.gpu0", "b1.gpu3") == [
        "a0.p0", "a0.nic0", "east", "r0", "r1", "west", "b1.nic1", "b1.p1", "b1.gpu3"
    ]  # fmt: skip
    assert path(topology, "a0.gpu0", "a0.gpu3") == ["a0.p0", "a0.cpu0", "a0.cpu1", "a0.p1", "a0.gpu3"]
    assert rate(topology, "a0.gpu0", "a0.gpu3") == 20
    into = [w for w in topology.wires if topology.vertices[w.dst].name == "a0.nic0"]
    assert sorted(w.bandwidth for w in into if w.bandwidth) == [F("12.5") * GB, 24 * GB]
    kinds = {v.name: (v.kind, v.host, v.capabilities) for v in topology.vertices}
    assert kinds["r0"] == ("router", "", ("multicast",)) and kinds["a1.p0"] == ("pcie", "east02", ())
    assert kinds["b0.cpu1"][0] == "cpu" and topology.vertices[0].host == "east01"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 GB/s + 2 GB/s * 3", 7),
        ("(1 GB/s + 2 GB/s) * 3", 9),
        ("10 GB/s - 2 GB/s - 3 GB/s", 5),
        ("12 GB/s / 2 / 3", 2),
        ("r / 3", F(10, 3)),
        ("- - r", 10),
        ("r * (r / 5 GB/s)", 20),
        ("min(r, 3 GB/s, 4 GB/s) + max(r, 3 GB/s)", 13),
        ("r * (7 % 4)", 30),
        ("r * ((0 - 1) % 4)", 30),
        ("80 Gbps + # and\n 0.5 GB/s // more\n", F(21, 2)),
        ("n*r/n", 10),
        ("8 GB/s/n", 2),
    ],
)
def test_expressions(expression: str, value: F) -> None:
    topology = body(
        f"gpus 2\nlink gpu0 <-> gpu1 {{ bandwidth ({expression}) }}", parameters="(n = 4, r = 10 GB/s)"
    )
    assert topology.links[0].bandwidth == value * GB


def test_expressions_stand_for_every_number() -> None:
    topology = body(
        """gpus (n) except (n - 1)
        link gpu0 <-> gpu1 { bandwidth (k * 1 GB/s) x (k); latency (k * 1 us) }
        switch s { port gpu[0-(n-2)] (2 GB/s) x (k); }
        reduce (k * 1 GB/s)
        shared g (3 * 1 GB/s) { gpu0 -> gpu[(n-3)-(n-2)] }
        nic nic0 { bandwidth 1 GB/s } attach gpu0 -> nic0""",
        "chunk (4 * 1 MB) instance b = n x (1 + 1)\n"
        "wan a.nic0 <-> b0.nic0 { bandwidth 1 GB/s; length (2 * 1 km) }\n"
        "link b0.gpu0 <-> b1.gpu0 { bandwidth 1 GB/s }",
        parameters="(n = 4, k = (n / 2))",
    )
    assert topology.ranks == 9 and topology.chunk_bytes == 4_000_000
    assert (topology.links[0].bandwidth, topology.links[0].lanes) == (2 * GB, 2)
    assert topology.links[0].latency == F(2, 10**6) and topology.reduce_bandwidth[0] == 2 * GB
    assert links(topology, "a.gpu0", "b0.gpu0")[0].latency == F(10, 10**6)
    assert topology.groups[0].bandwidth == 3 * GB and len(topology.groups[0].links) == 2


def test_loops_go_through_words_and_numbers() -> None:
    topology = parse_topology(
        """node n { gpus 2 link gpu0 <-> gpu1 { bandwidth 1 GB/s } nic nic[0-1] { bandwidth 1 GB/s }
                    attach gpu[0-1] -> nic[0-1] }
        cluster c {
          for i in 0, 2-3, (2*2) { instance s[i] = n {
            for k in 0-1 { set nic[k] { bandwidth ((i + k + 1) * 1 GB/s) } } } }
          for s in s0, s[2-3], s4 { switch x_[s] { ports [s].gpu[*]; bandwidth 2 GB/s } }
          fabric f { join *.nic* } }"""
    )
    assert [v.name for v in topology.vertices if v.kind == "switch"] == ["x_s0", "x_s2", "x_s3", "x_s4"]
    assert rate(topology, "s2.gpu1", "s3.gpu1") == 4 and rate(topology, "s0.gpu0", "s4.gpu0") == 1


def test_directions() -> None:
    topology = body(
        """gpus 3
        link gpu0 <-> gpu1 { send 1 GB/s; receive 2 GB/s x 3 }
        switch s { ports gpu1, gpu2; send 3 GB/s; receive 4 GB/s }""",
        "set a.s { receive 2 GB/s }",
    )
    assert rate(topology, "a.gpu0", "a.gpu1") == 1 and rate(topology, "a.gpu1", "a.gpu0") == 6
    up, down = (w for w in topology.wires if {w.src, w.dst} == {1, 3})
    assert (up.bandwidth, down.bandwidth) == (3 * GB, 2 * GB)
    two = body("gpus 2\nbus b { members gpu0 <-> gpu1; send 1 GB/s; receive 2 GB/s; latency 1 us }")
    assert (rate(two, "a.gpu0", "a.gpu1"), rate(two, "a.gpu1", "a.gpu0")) == (1, 2)
    assert two.links[1].latency == F(1, 10**6)


def test_a_wrong_type_of_many_servers_is_told_once() -> None:
    text = """node n { gpus 2 for i in 0-300 { link gpu0 <-> gpu[(i+2)] { bandwidth 1 GB/s } } }
    cluster c { instance a[0-100] = n }"""
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    codes = [finding.code for finding in caught.value.diagnostics]
    assert codes.count("HS201") == 1 and {*codes} <= {"HS201", "HS208"}
