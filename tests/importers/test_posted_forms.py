"""Tables of ns-3 and SimAI, TACCL topologies, topograph models, several topologies in topology.yaml: 20 of each.

The files are written here from a plan, as the formats' own sources write and read them; what is expected is
counted from the plan, never with the readers.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from importers.test_importers_conformance import DATA
from importers.test_networks import imported, nics_of, uplinks
from importers.tool_outputs import NS3, SIMAI, SLURM_SEVERAL, SLURM_YAML, TACCL_MATRICES, TACCL_NDV2, TOPOGRAPH

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.reading import Source, format_of

GIGA = 10**9
SEEDS = range(20)
Cable = tuple[str, str, Fraction, Fraction]  # two ends, bytes per second each way, seconds

# as ns-3's DataRate and Time write them
RATES = {
    "400Gbps": 50 * GIGA, "0.1Tbps": 12_500_000_000, "200000Mbps": 25 * GIGA, "25GB/s": 25 * GIGA,
    "4e2Gb/s": 50 * GIGA, "8Gib/s": 2**30, "1600Gbps": 200 * GIGA, "100000000kbps": 12_500_000_000,
    "2GiB/s": 2**31, "8000000000bps": GIGA,
}  # fmt: skip
DELAYS = {
    "0.0005ms": Fraction(1, 2_000_000), "25ns": Fraction(25, GIGA), "1us": Fraction(1, 10**6),
    "0.000025ms": Fraction(25, GIGA),
    "500000ps": Fraction(1, 2_000_000), "0ns": Fraction(0),
    "0.000002s": Fraction(2, 10**6), "1.5us": Fraction(3, 2 * 10**6),
}  # fmt: skip


def cables(topology: Topology) -> Counter[Cable]:
    """Every wire once for both ways: GPUs by rank, switches by their names."""
    names = [f"{i}" if i < topology.ranks else vertex.name for i, vertex in enumerate(topology.vertices)]
    found = Counter(
        (names[w.src], names[w.dst], (w.bandwidth or Fraction(0)) * w.lanes, w.latency) for w in topology.wires
    )
    back = Counter({(b, a, rate, delay): n for (a, b, rate, delay), n in found.items()})
    assert found == back, "a cable carries as much each way"
    return Counter({cable: n for cable, n in found.items() if cable[0] < cable[1]})


def planned(rng: random.Random, seed: int) -> tuple[list[int], list[str], list[tuple[int, int, str, str]]]:
    """Hosts, switches, and links: one switch, a ring, or leaves below spines, with any numbers."""
    count, shape = rng.randrange(3, 9), seed % 3
    switches = (1, 0, rng.randrange(2, 4) + rng.randrange(1, 3))[shape]
    numbers = list(range(count + switches))
    rng.shuffle(numbers)
    hosts, forward = sorted(numbers[:count]), numbers[count:]
    ends: list[tuple[int, int]] = []
    if shape == 0:
        ends = [(host, forward[0]) for host in hosts]
    elif shape == 1:
        ends = [(hosts[i - 1], hosts[i]) for i in range(count)]
    else:
        leaves, spines = forward[:2], forward[2:]
        ends = [(host, leaves[i % 2]) for i, host in enumerate(hosts)]
        ends += [(spine, leaf) for leaf in leaves for spine in spines]
    links = [(*rng.choice((pair, pair[::-1])), rng.choice([*RATES]), rng.choice([*DELAYS])) for pair in ends]
    return hosts, [str(one) for one in forward], links


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_ns3(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    hosts, forward, links = planned(rng, seed)
    lines = [f"{len(hosts) + len(forward)} {len(forward)} {len(links)}", " ".join(forward)]
    lines += [f"{a} {b} {rate} {delay} {rng.choice(('0', '0.0', '0.001'))}" for a, b, rate, delay in links]
    read = imported(tmp_path, {"topo.txt": rng.choice(("\n", "\r\n")).join([*lines, ""])})
    name = {host: f"{rank}" for rank, host in enumerate(hosts)} | {int(s): f"switch{s}" for s in forward}
    expected: Counter[Cable] = Counter()
    for a, b, rate, delay in links:
        one, other = sorted((name[a], name[b]))
        expected[one, other, Fraction(RATES[rate]), DELAYS[delay]] += 1
    assert read.formats == ("ns3",)
    assert read.topology.ranks == len(hosts) and cables(read.topology) == expected
    assert len({vertex.server for vertex in read.topology.vertices[: len(hosts)]}) == len(hosts)


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_of_simai(seed: int, tmp_path: Path) -> None:
    """Servers of some GPUs with NVSwitches, a switch for each number of GPU or one for all, two planes or one."""
    rng = random.Random(seed)
    servers, size, inner, planes = (
        rng.randrange(1, 4),
        rng.choice((2, 4)),
        rng.randrange(1, 3),
        rng.randrange(1, 3),
    )
    rails, spines = rng.choice((1, size)), rng.randrange(1, 3)
    model = rng.choice(("H100", "A100", "H800", "NONE"))
    gpus = servers * size
    first = gpus + servers * inner
    leaf = [[first + plane * rails + rail for rail in range(rails)] for plane in range(planes)]
    spine = [first + planes * rails + i for i in range(spines)]
    nvlink, net = rng.choice([*RATES]), rng.choice([*RATES])
    rows, expected = [], Counter[Cable]()
    for gpu in range(gpus):
        server = gpu // size
        for i in range(inner):
            rows.append(f"{gpu} {gpus + server * inner + i} {nvlink} 0.000025ms 0")
            expected[f"{gpu}", f"n{server}.nvswitch{i}", Fraction(RATES[nvlink]), DELAYS["25ns"]] += 1
        for plane in leaf:
            rows.append(f"{gpu} {plane[gpu % rails]} {net} 0.0005ms 0")
            expected[f"{gpu}", f"switch{plane[gpu % rails]}", Fraction(RATES[net]), DELAYS["0.0005ms"]] += 1
    for low in (switch for plane in leaf for switch in plane):
        for high in spine:
            rows.append(f"{low} {high} {net} 0.0005ms 0")
            ends = sorted((f"switch{low}", f"switch{high}"))
            expected[ends[0], ends[1], Fraction(RATES[net]), DELAYS["0.0005ms"]] += 1
    nodes = spine[-1] + 1
    header = f"{nodes} {size} {servers * inner} {nodes - first} {len(rows)} {model}"
    text = "\n".join([header, " ".join(map(str, range(gpus, nodes))) + " ", *rows, ""])
    read = imported(tmp_path, {"topo": text})
    assert read.topology.ranks == gpus and cables(read.topology) == expected
    own = read.topology.vertices[:gpus]
    assert [v.server for v in own] == [f"n{gpu // size}" for gpu in range(gpus)]
    assert {v.model for v in own} == {"" if model == "NONE" else model}
    assert read.topology.measured == ("nvlink",), "what a simulator carries takes no share again"


# the seconds of one of TACCL's figures, and the bytes of a chunk, where a MB is 10^6 bytes
SIZES = {"1MB": (Fraction(1, 10**6), Fraction(10**6)), "32KB": (Fraction(1, 10**7), Fraction(31250)),
         "1KB": (Fraction(1, 10**8), Fraction(10**6, 1024)),
         "": (Fraction(1, 10**6), Fraction(10**6))}  # fmt: skip
# NDv2 by hand: GPU, its peers over two NVLinks, over one
NDV2 = {0: ("14", "23"), 1: ("03", "25"), 2: ("36", "01"), 3: ("12", "07"),
        4: ("05", "67"), 5: ("47", "16"), 6: ("27", "45"), 7: ("56", "34")}  # fmt: skip


def direct(topology: Topology) -> dict[tuple[int, int], tuple[int, int, Fraction]]:
    """Between GPUs: lanes, all bytes per second, seconds."""
    return {
        (w.src, w.dst): (w.lanes, round((w.bandwidth or 0) * w.lanes), w.latency)
        for w in topology.wires
        if max(w.src, w.dst) < topology.ranks
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_topologies_of_taccl(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    size, servers, form = [*SIZES][seed % 4], 1 + seed % 3, ("switch", "ndv2", "matrices")[seed // 4 % 3]
    second, chunk = SIZES[size]
    gpus = 8 if form == "ndv2" else rng.choice((2, 4, 6))
    nics = rng.choice([n for n in range(1, gpus + 1) if gpus % n == 0])
    alpha, far_alpha, far = rng.choice((0.3, 3, 30)), rng.choice((2.6, 26)), rng.choice((105, 32.8, 10.25))
    facts: dict[str, Any] = {"name": f"mine_{size}", "gpus_per_node": gpus, "nics_per_node": nics, "alpha": alpha}
    facts |= {"remote_alpha": far_alpha, "remote_beta": far, "remote_invbw": far + 2, "colour": "blue"}
    betas = [rng.choice((8, 23, 4.5)), rng.choice((46, 14.38))]

    def rate(beta: float, lanes: int = 1) -> int:
        return round(lanes * chunk / (Fraction(str(beta)) * second))

    expected: dict[tuple[int, int], tuple[int, int, Fraction]] = {}
    latency = Fraction(str(alpha)) * second
    if form == "matrices":
        counts = [[0 if a == b else rng.choice((0, 1, 2)) for a in range(gpus)] for b in range(gpus)]
        for gpu in range(gpus):  # a ring, so that all are joined
            counts[gpu][gpu - 1] = counts[gpu - 1][gpu] = counts[gpu][gpu - 1] or 1
        figures = [[rng.choice(betas) if n else 0 for n in row] for row in counts]
        facts |= {"links": counts, "betas": figures, "invbws": figures}
        for dst in range(gpus):
            for src in range(gpus):
                if lanes := counts[dst][src]:
                    expected[src, dst] = (lanes, rate(figures[dst][src], lanes), latency)
    else:
        facts |= {"node_betas_list": betas[: 1 + (form == "ndv2")], "node_invbws_list": betas}
        for gpu, (double, single) in NDV2.items() if form == "ndv2" else ():
            expected |= {(gpu, int(peer)): (2, rate(betas[0]), latency) for peer in double}
            expected |= {(gpu, int(peer)): (1, rate(betas[1]), latency) for peer in single}
    (tmp_path / "topo.json").write_text(json.dumps(facts, indent=1))
    text = facts_of(tmp_path, f"topo.json*{servers}")
    topology = text.topology
    assert topology.ranks == servers * gpus and text.formats == ("taccl",)
    found = direct(topology)
    for server in range(servers):
        base = server * gpus
        own = {(a - base, b - base): q for (a, b), q in found.items() if base <= a < base + gpus}
        assert {pair: (q[0], q[2]) for pair, q in own.items()} == {p: (q[0], q[2]) for p, q in expected.items()}
        assert all(abs(q[1] - expected[pair][1]) <= 2 * q[0] for pair, q in own.items()), "9 digits of GB/s"
    by_pair = {(link.src, link.dst): link for link in topology.links}
    if form == "switch":
        assert len([pair for pair in by_pair if pair[0] < gpus > pair[1]]) == gpus * (gpus - 1)
        assert abs(round(by_pair[0, 1].bandwidth) - rate(betas[0])) <= 1 and by_pair[0, 1].latency == latency
    outside = [w for w in topology.wires if topology.vertices[w.src].kind == "nic" and w.dst >= topology.ranks]
    outside = [w for w in outside if topology.vertices[w.dst].kind == "fabric"]
    assert len(outside) == (servers * nics if servers > 1 else 0)
    assert all(abs(round(w.bandwidth or 0) - rate(far)) <= 1 for w in outside)
    if servers > 1:
        assert by_pair[0, gpus].latency == Fraction(str(far_alpha)) * second
    assert any("colour" in remark.text for remark in text.remarks)


def facts_of(folder: Path, argument: str) -> Any:
    from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology

    return import_topology(ImportTopologyRequest((str(folder / argument),)))


@pytest.mark.parametrize("seed", SEEDS)
def test_models_of_topograph(seed: int, tmp_path: Path) -> None:
    """Leaves with hosts below one switch, or below two and a third: 200 GB/s a host go up. Three generations."""
    rng = random.Random(seed)
    leaves = {f"leaf-{i}": rng.randrange(1, 4) for i in range(rng.randrange(2, 5))}
    hosts: dict[str, list[str]] = {}
    texts: dict[str, list[object]] = {}
    for number, (leaf, count) in enumerate(leaves.items(), 1):
        hosts[leaf] = [f"srv{number}{i:02}" for i in range(1, count + 1)]
        listed = [f"srv{number}[01-{count:02}]"] if seed % 2 and count > 1 else hosts[leaf]
        texts[leaf] = [*listed]
    above = {leaf: ("core", "spine-0", "spine-1")[seed % 2 and 1 + i % 2] for i, leaf in enumerate(leaves)}
    below: dict[str, list[str]] = {}
    for leaf, switch in above.items():
        below.setdefault(switch, []).append(leaf)
    if seed % 2:
        below["core"] = ["spine-0", "spine-1"]
    domain = "accelerator.topology.test/domain"
    if seed // 4 % 2:  # lists, blocks by their names
        document: dict[str, Any] = {
            "topology": "topology/tree",
            "switches": [{"name": s, "switches": names} for s, names in below.items()]
            + [{"name": leaf, "capacity_blocks": [f"cb-{leaf}"], "metadata": {"group": leaf}} for leaf in leaves],
            "capacity_blocks": [
                {"name": f"cb-{leaf}", "type": "H100", "nvlink": f"nv-{leaf}", "nodes": texts[leaf]}
                for leaf in leaves
            ],
        }
    else:  # maps, leaves without a description of their own
        document = {
            "switches": {s: {"switches": names, "labels": {"zone": "z"}} for s, names in below.items()},
            "blocks": [
                {"switch": leaf, "nodes": texts[leaf], "annotations": {domain: f"nv-{leaf}"}} for leaf in leaves
            ]
            + [{"nodes": ["cpu-[01-02]"]}],
            "later": {"unknown": 1},
        }
    read = imported(tmp_path, {"model.yaml": yaml_of(document, rng)}, node_type="h20x4")
    assert {m.host for m in read.machines} == {host for own in hosts.values() for host in own}
    assert read.topology.ranks == 4 * sum(leaves.values()) and read.formats == ("topograph",)
    expected = {}
    for leaf, switch in above.items():
        expected[leaf, switch] = 200 * GIGA * leaves[leaf]
    for spine in below["core"] if seed % 2 else ():
        expected[spine, "core"] = 200 * GIGA * sum(leaves[leaf] for leaf in below[spine])
    up = {(a.replace("_", "-"), b.replace("_", "-")): rate for (a, b), rate in uplinks(read.topology).items()}
    assert up == expected | {(b, a): rate for (a, b), rate in expected.items()}
    for leaf, own in hosts.items():
        assert nics_of(read.topology, leaf.replace("-", "_")) == [f"{h}.nic{k}" for h in own for k in range(4)]
    texts_of = " ".join(remark.text for remark in read.remarks)
    assert "nv-leaf-0" in texts_of and ("cpu-01, cpu-02" in texts_of) == ("blocks" in document)


def yaml_of(value: object, rng: random.Random) -> str:
    """YAML in flow style for some, for others with a key a line."""
    import yaml

    return yaml.safe_dump(value, default_flow_style=None if rng.random() < 0.5 else False, sort_keys=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_one_of_several_topologies_of_slurm(seed: int, tmp_path: Path) -> None:
    """Neighbours of a ring or a torus are those whose coordinates differ by one, around, on one axis."""
    rng = random.Random(seed)
    sides = (
        (rng.randrange(1, 17), 1, 1)
        if seed % 2
        else (rng.randrange(1, 5), rng.randrange(1, 4), rng.randrange(1, 3))
    )
    cells = [(x, y, z) for z in range(sides[2]) for y in range(sides[1]) for x in range(sides[0])]
    host = {cell: f"n{i:02}" for i, cell in enumerate(cells)}
    last = len(cells) - 1
    if seed % 2:
        chosen: dict[str, Any] = {"ring": {"rings": [{"ring": "mine", "nodes": f"n[00-{last:02}]"}]}}
        chosen["ring"]["rings"].append({"ring": "other", "nodes": "m[0-3]"})
    else:
        x, y, z = sides
        torus: dict[str, Any] = {"name": "mine", "dims": {"x": x, "y": y, "z": z}, "placements": []}
        if seed % 4 and z == 2:  # two regions, one above the other
            torus["regions"] = [
                {"anchor": {"x": 0, "y": 0, "z": level}, "dims": {"x": x, "y": y, "z": 1},
                 "nodes": f"n[{level * x * y:02}-{(level + 1) * x * y - 1:02}]"} for level in (1, 0)
            ]  # fmt: skip
        else:
            torus["nodes"] = f"n[00-{last:02}]"
        chosen = {"torus3d": {"toruses": [torus]}}
    tree = {"switches": [{"switch": "s", "nodes": "t[0-1]"}]}
    document = [{"topology": "a", "cluster_default": True, "tree": tree}, {"topology": "b", **chosen}]
    document += [{"topology": "c", "flat": True}]
    files = {"topology.yaml": yaml_of(document, rng)}
    name = rng.choice(("mine", "b/mine"))
    read = imported(tmp_path, files, node_type="h20x4", topology=name, hosts="n*", uplink=Fraction(25 * GIGA))
    assert {m.host for m in read.machines} == set(host.values())
    expected = set()
    for one, other in combinations(cells, 2):
        apart = [(a - b) % side for a, b, side in zip(one, other, sides, strict=True)]
        steps = [step in (1, side - 1) for step, side in zip(apart, sides, strict=True) if step]
        if steps == [True]:
            expected |= {(f"at_{host[one]}", f"at_{host[other]}"), (f"at_{host[other]}", f"at_{host[one]}")}
    assert uplinks(read.topology) == dict.fromkeys(expected, 25 * GIGA)
    assert imported(tmp_path, files, node_type="h20x4").topology.ranks == 8, "the default"
    if 1 < len(cells) < 9:  # what the NICs of a host carry, over the neighbours of one
        read = imported(tmp_path, files, node_type="h20x4", topology="mine")
        neighbours = max(Counter(a for a, _ in expected).values())
        assert {round(rate) for rate in uplinks(read.topology).values()} == {
            round(Fraction(200 * GIGA, neighbours))
        }


def test_which_topology_is_meant_is_asked(tmp_path: Path) -> None:
    files = {"topology.yaml": SLURM_SEVERAL.replace("cluster_default: true", "cluster_default: false")}
    for name in ("", "round", "none"):
        with pytest.raises(HetesynthError) as caught:
            imported(tmp_path, files, node_type="h20x4", topology=name)
        assert caught.value.code == "HS733" and "--topology" in (caught.value.help or "")
        assert "tree, round/r0, round/r1, cube/pod" in caught.value.message
    # cells without a host have no cable: four in a row of two by two, and no way around
    read = imported(tmp_path, files, node_type="h20x4", topology="cube")
    assert {frozenset(pair) for pair in uplinks(read.topology)} == {
        frozenset({f"at_n{a}", f"at_n{b}"}) for a, b in ((0, 1), (2, 3), (0, 2), (1, 3))
    }
    # hosts that are left out pass on what goes through them
    read = imported(tmp_path, files, node_type="h20x4", topology="r0", hosts="n0,n2", uplink=Fraction(GIGA))
    assert read.topology.ranks == 8 and len(uplinks(read.topology)) == 8


@pytest.mark.parametrize(
    ("text", "format_name", "said"),
    [
        (NS3.replace("4 2 400Gbps", "4 2 400G"), "ns3", "line 5"),
        (NS3.replace("4 2 400Gbps", "4 9 400Gbps"), "ns3", "line 5"),
        (NS3.replace("4 2 400Gbps", "2 2 400Gbps"), "ns3", "line 5"),
        (NS3.replace("4 2 400Gbps", "4 2 0Gbps"), "ns3", "line 5"),
        (NS3.replace("0.0005ms 0\n4 2", "soon 0\n4 2"), "ns3", "line 4"),
        (NS3.replace("5 1 5", "5 1 9"), "ns3", "states 9 links, and 5 follow"),
        (NS3.replace("5 1 5", "5 1 5 6"), "ns3", "line 1"),
        (NS3.replace("5 1 5", "5 2 5"), "ns3", "line 3"),
        (NS3.replace("5 1 5", "900000 1 5"), "ns3", "more than"),
        (SIMAI.replace("4 5 6 7", "4 5 6 6"), "ns3", "line 2"),
        (TACCL_NDV2.replace("[23, 46]", "[23, 46, 47]"), "taccl", "node_betas_list"),
        (TACCL_NDV2.replace('"alpha": 0.3', '"alpha": -1'), "taccl", "alpha"),
        (TACCL_NDV2.replace('"alpha": 0.3,', ""), "taccl", "alpha is None"),
        (TACCL_NDV2.replace("0.3,", "0.3,,"), "taccl", "line 1"),
        (TACCL_MATRICES.replace("[0, 40]", "[0, 0]", 1), "taccl", "betas[0][1]"),
        (TACCL_MATRICES.replace("[1, 0]", "[1]"), "taccl", "links"),
        (TOPOGRAPH.replace("switch: S3", "switch: S9"), "topograph", "S9"),
        (TOPOGRAPH.replace("n[6-8]", "n[2-3]"), "topograph", "twice"),
        (TOPOGRAPH.replace("[S2, S3]", "[S2, {S3: 1}]"), "topograph", "S3"),
        (TOPOGRAPH.replace("[S2, S3]", "[S2, S3, S1]"), "topograph", "below itself"),
        ("blocks:\n- {name: a, nodes: [n0]}\n- {name: a, nodes: [n1]}\n", "topograph", "a is there twice"),
        ("blocks:\n" + "- nodes: ['n[0-9]m[0-9]k[0-999]']\n" * 2, "topograph", "more than 100000"),
        (TOPOGRAPH + "  bad\n", "topograph", "line"),
        (SLURM_SEVERAL.replace("n[0-3]", "n[0-2]"), "slurm-yaml", "pod"),
        (SLURM_SEVERAL.replace("x: 3", "x: 2"), "slurm-yaml", "pod"),
        (SLURM_SEVERAL.replace("y: 2, z: 1}\n      regions", "y: 0, z: 1}\n      regions"), "slurm-yaml", "pod"),
    ],
)
def test_what_is_wrong_is_named_with_a_way_out(text: str, format_name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_text(text)
    with pytest.raises(HetesynthError) as caught:
        imported(tmp_path, {"f": text}, node_type="h20x4", topology="cube" if format_name == "slurm-yaml" else "")
    assert caught.value.code == "HS732" and said in caught.value.message and caught.value.help, (
        caught.value.message
    )
    if "line 1" not in said:
        assert format_of(Source("f", text.encode())) == format_name


@pytest.mark.parametrize(
    ("text", "format_name"),
    [
        (NS3, "ns3"),
        (SIMAI, "ns3"),
        ("8 0 8\n\n0 1 25Gbps 0.005ms 0\n", "ns3"),
        ("9000 8000 9\n" + " ".join(map(str, range(1000, 9000))), "ns3"),
        (TACCL_NDV2, "taccl"),
        (TACCL_MATRICES, "taccl"),
        ('{"nodes": [], "links": []}', "edges"),
        (TOPOGRAPH, "topograph"),
        ("blocks:\n- nodes: [a, b]\n", "topograph"),
        (SLURM_YAML, "slurm-yaml"),
        (SLURM_SEVERAL, "slurm-yaml"),
    ],
)
def test_formats_are_told_apart(text: str, format_name: str) -> None:
    assert format_of(Source("f", text.encode())) == format_name


def test_a_whole_cluster_stands_for_one(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(NS3)
    with pytest.raises(HetesynthError) as caught:
        facts_of(tmp_path, "t.txt*2")
    assert caught.value.code == "HS738"
    assert any("0.01" in line for line in NS3.splitlines())
    read = imported(
        tmp_path,
        {"t.txt": NS3 + "1 2 1Gbps 1ns 0\n", "u": ""} | {} if False else {"t.txt": NS3 + "1 2 1Gbps 1ns 0\n"},
    )
    assert [r.text for r in read.remarks if r.severity == "warning"] == [
        "line 8 and what follows is not read: the first line states no more links"
    ]


@pytest.mark.parametrize(
    ("text", "flags", "gpus"),
    [
        (NS3, (), 4),
        (SIMAI, (), 4),
        (TACCL_NDV2, (), 8),
        (TOPOGRAPH.replace("n[6-8]", "n6"), ("--node-type", "h20x4"), 16),
        (SLURM_SEVERAL, ("--node-type", "h20x4", "--topology", "r1"), 12),
    ],
)
def test_a_schedule_is_made_for_each(
    text: str, flags: tuple[str, ...], gpus: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f").write_text(text)
    assert run(["topo", "import", str(tmp_path / "f"), *flags, "-o", str(tmp_path / "a.dsl")]) == 0
    assert f"{gpus} GPUs" in capsys.readouterr().err
    out = str(tmp_path / "a")
    assert run(["synth", str(tmp_path / "a.dsl"), "--coll", "allgather", "--schedule-only", "-o", out]) == 0
    assert "schedule replayed, bound rechecked" in capsys.readouterr().out


POSTED = DATA / "reports4"


@pytest.mark.skipif(not POSTED.is_dir(), reason="the files that users posted are not here")
def test_what_users_posted(tmp_path: Path) -> None:
    read = facts_of(POSTED, "astra__ns3_8_nodes_1_switch.txt")
    rate, delay = Fraction(50 * GIGA), Fraction(5, 10**7)
    assert cables(read.topology) == Counter({(f"{gpu}", "switch8", rate, delay): 1 for gpu in range(8)})
    text = (POSTED / "k8s__topograph-small-tree.yaml").read_text()
    read = imported(tmp_path, {"m.yaml": text}, node_type="h20x4", oversubscription=Fraction(2))
    assert [m.host for m in read.machines] == ["I21", "I22", "I25", "I34", "I35", "I36"]
    assert uplinks(read.topology) == dict.fromkeys(
        [("S2", "S1"), ("S1", "S2"), ("S3", "S1"), ("S1", "S3")], Fraction(300 * GIGA)
    )
    read = facts_of(POSTED, "sketch__topo-ndv2-1MB.json*2")
    assert {pair: round(q[1] / GIGA, 4) for pair, q in direct(read.topology).items() if pair[0] < 8} == {
        (gpu, int(peer)): rate
        for gpu, peers in NDV2.items()
        for rate, own in zip((43.4783, 21.7391), peers, strict=True)
        for peer in own
    }
    nets = {round(float(w.bandwidth) / GIGA, 4) for w in read.topology.wires if w.kind == "net" and w.bandwidth}
    assert nets == {9.5238}
