"""What each statement of the block form means, as vertices, wires, links and groups."""

from __future__ import annotations

import math
from fractions import Fraction as F
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetesynth.model.cost import costs
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.topology import Link, Topology
from hetesynth.topology.language import load_topology, parse_topology, unreachable_pairs
from hetesynth.topology.language.units import UNITS

ROOT = Path(__file__).resolve().parents[2]
GB = 10**9
US = F(1, 10**6)


def server(body: str, cluster: str = "", gpus: int = 2) -> Topology:
    return parse_topology(f"node n {{ gpus {gpus}\n{body} }}\ncluster c {{ instance a = n\n{cluster} }}")


def between(topology: Topology, u: int, v: int) -> list[Link]:
    return [link for link in topology.links if (link.src, link.dst) == (u, v)]


def path_of(topology: Topology, link: Link) -> list[str]:
    """The names of the vertices along a link."""
    ends = [topology.wires[link.wires[0]].src] + [topology.wires[wire].dst for wire in link.wires]
    return [topology.vertices[v].name for v in ends]


def test_h20_capacities_of_equation_1_are_nine_and_one() -> None:
    topology = load_topology(ROOT / "examples" / "h20_4p8" / "topo.dsl")
    assert topology.chunk_bytes == 16 * 10**6

    def tau(link: Link) -> F:
        return link.latency + topology.chunk_bytes / link.bandwidth  # type: ignore[operator]

    taus = {link.kind: tau(link) for link in topology.links}
    assert set(taus) == {"nvlink", "net"}
    assert math.ceil(taus["net"] / taus["nvlink"]) == 9
    assert {k.lanes for k in topology.links} == {1}


def test_order_of_ranks_names_and_servers() -> None:
    topology = load_topology(ROOT / "examples" / "h20_8x2p4" / "topo.dsl")
    names = [v.name for v in topology.vertices[: topology.ranks]]
    assert names == [f"{s}.gpu{i}" for s, n in (("b0", 8), ("b1", 8), ("a", 4)) for i in range(n)]
    assert topology.vertices[0].model == "H20"
    assert set(topology.reduce_bandwidth) == {F(1200 * GB)}


def test_link_has_two_directions_or_one() -> None:
    both = server("link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; latency 0.7 us; kind nvlink }")
    assert [(k.src, k.dst, k.bandwidth, k.lanes, k.latency, k.kind) for k in both.links] == [
        (0, 1, 25 * GB, 2, 7 * US / 10, "nvlink"),
        (1, 0, 25 * GB, 2, 7 * US / 10, "nvlink"),
    ]
    one = server("link gpu0 -> gpu1 { bandwidth 25 GB/s }")
    assert [(k.src, k.dst) for k in one.links] == [(0, 1)]
    assert unreachable_pairs(one) == ((1, 0),)
    assert unreachable_pairs(both) == ()


def test_two_links_of_a_pair_stay_two_and_hide_the_switch() -> None:
    topology = server(
        "link gpu0 <-> gpu1 { bandwidth 25 GB/s } link gpu0 <-> gpu1 { bandwidth 10 GB/s; kind pcie }"
        "switch s { ports gpu[0-2]; bandwidth 5 GB/s }",
        gpus=3,
    )
    assert [k.bandwidth for k in between(topology, 0, 1)] == [25 * GB, 10 * GB]
    assert [k.bandwidth for k in between(topology, 0, 2)] == [5 * GB]


def test_pairing_of_links_and_meshes() -> None:
    ring = server("link gpu[0-3] <-> gpu[1-3,0] { bandwidth 1 GB/s }", gpus=4)
    assert sorted((k.src, k.dst) for k in ring.links if k.src < k.dst) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    star = server("link gpu0 <-> gpu[1-3] { bandwidth 1 GB/s }", gpus=4)
    assert {(k.src, k.dst) for k in star.links if k.src < k.dst} == {(0, 1), (0, 2), (0, 3)}
    mesh = server("mesh gpu* { bandwidth 1 GB/s }", gpus=4)
    assert len(mesh.links) == 12


def test_switch_latency_counts_once_and_each_port_limits() -> None:
    topology = server("switch s { ports gpu[0-1]; bandwidth 450 GB/s x 2; latency 0.7 us }")
    (link,) = between(topology, 0, 1)
    assert path_of(topology, link) == ["a.gpu0", "a.s", "a.gpu1"]
    assert (link.latency, link.bandwidth, link.lanes) == (7 * US / 10, 450 * GB, 2)


def test_tree_of_switches() -> None:
    topology = server(
        "switch low[0-1] { ports gpu0; bandwidth 16 GB/s; latency 1 us }"
        "switch other { ports gpu1; bandwidth 16 GB/s; latency 2 us }"
        "switch root { ports low0, other; bandwidth 8 GB/s; latency 4 us }"
    )
    (link,) = between(topology, 0, 1)
    assert path_of(topology, link) == ["a.gpu0", "a.low0", "a.root", "a.other", "a.gpu1"]
    assert (link.latency, link.bandwidth) == (7 * US, 8 * GB)


TWO = """node n {{ gpus 2
  switch s {{ ports gpu*; bandwidth 100 GB/s }}
  nic nic[0-1] {{ bandwidth 100 Gbps }}
  {attach}
}}
cluster c {{ instance a[0-1] = n
  fabric ib {{ join *.nic*; latency 1 us {extra} }}
}}"""


def test_gpus_with_two_nics_get_two_links_not_four() -> None:
    topology = parse_topology(TWO.format(attach="attach gpu0 -> nic[0-1] attach gpu1 -> nic[0-1]", extra=""))
    paths = [path_of(topology, link) for link in between(topology, 0, 2)]
    assert paths == [
        ["a0.gpu0", "a0.nic0", "ib", "a1.nic0", "a1.gpu0"],
        ["a0.gpu0", "a0.nic1", "ib", "a1.nic1", "a1.gpu0"],
    ]
    assert [path_of(topology, k) for k in between(topology, 0, 1)] == [["a0.gpu0", "a0.s", "a0.gpu1"]]


def test_unequal_numbers_of_nics_pair_round_robin() -> None:
    topology = parse_topology(TWO.format(attach="attach gpu0 -> nic[0-1] attach gpu1 -> nic1", extra=""))
    paths = [path_of(topology, link)[1:4] for link in between(topology, 0, 3)]
    assert paths == [["a0.nic0", "ib", "a1.nic1"], ["a0.nic1", "ib", "a1.nic1"]]
    assert [path_of(topology, k)[1:4] for k in between(topology, 1, 2)] == [
        ["a0.nic1", "ib", "a1.nic0"],
        ["a0.nic1", "ib", "a1.nic1"],
    ]


def test_fabric_with_a_core_is_one_pipe_for_all() -> None:
    attach = "attach gpu0 -> nic0 attach gpu1 -> nic1"
    topology = parse_topology(TWO.format(attach=attach, extra="bandwidth 20 GB/s"))
    cores = {k.wires[2] for k in topology.links if len(k.wires) > 2}
    assert len(cores) == 1
    (core,) = cores
    assert topology.wires[core].bandwidth == 20 * GB
    assert topology.wire_name(core) == "ib.in->ib.out"


def test_rails_join_like_with_like() -> None:
    topology = parse_topology(
        """node n { gpus 2
          nic nic[0-1] { bandwidth 100 Gbps } attach gpu[0-1] -> nic[0-1]
          mesh gpu* { bandwidth 25 GB/s } }
        cluster c { instance a[0-1] = n
          fabric rail0 { join *.nic0 } fabric rail1 { join *.nic1 } }"""
    )
    assert {(k.src, k.dst) for k in topology.links if k.kind == "net"} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert unreachable_pairs(topology) == ()


def test_a_nic_is_no_path_between_gpus_of_its_own_server() -> None:
    """Two GPUs on one NIC meet in the fabric, not in the NIC."""
    topology = parse_topology(
        """node n { gpus 2 nic nic0 { bandwidth 100 Gbps } attach gpu* -> nic0 }
        cluster c { instance a[0-1] = n fabric ib { join *.nic* } }"""
    )
    (link,) = between(topology, 0, 1)
    assert path_of(topology, link) == ["a0.gpu0", "a0.nic0", "ib", "a0.nic0", "a0.gpu1"]


def test_servers_are_not_left_while_there_is_a_path_inside() -> None:
    """A long path inside the server beats the shorter one over the fabric."""
    topology = parse_topology(
        """node n { gpus 2
          switch s[0-1] { ports gpu0; bandwidth 16 GB/s } switch t0 { ports gpu1, s0; bandwidth 16 GB/s }
          switch u { ports gpu1; bandwidth 9 GB/s }
          nic nic[0-1] { bandwidth 800 Gbps } attach gpu[0-1] -> nic[0-1] }
        cluster c { instance a[0-1] = n fabric ib { join *.nic* } }"""
    )
    (link,) = between(topology, 0, 1)
    assert path_of(topology, link) == ["a0.gpu0", "a0.s0", "a0.t0", "a0.gpu1"]


def test_bus_with_one_side_is_one_medium() -> None:
    topology = server("bus b { members gpu[0-2]; bandwidth 16 GB/s; latency 2 us }", gpus=3)
    pipes = {w for k in topology.links for w in k.wires if topology.wires[w].bandwidth is not None}
    assert len(topology.links) == 6 and len(pipes) == 1
    assert {(k.bandwidth, k.latency) for k in topology.links} == {(F(16 * GB), 2 * US)}


def test_bus_with_two_sides_is_a_pipe_each_way_and_nothing_inside_a_side() -> None:
    topology = server(
        "bus b { members gpu[0-1] <-> gpu[2-3]; bandwidth 16 GB/s } mesh gpu[0-1] { bandwidth 50 GB/s }", gpus=4
    )
    pipes: dict[int, set[tuple[int, int]]] = {}
    for link in topology.links:
        for wire in link.wires:
            if len(link.wires) > 1 and topology.wires[wire].bandwidth is not None:
                pipes.setdefault(wire, set()).add((link.src, link.dst))
    forth = {(u, v) for u in (0, 1) for v in (2, 3)}
    assert sorted(pipes.values(), key=sorted) == [forth, {(v, u) for u, v in forth}]
    assert not between(topology, 2, 3)


def test_explicit_group_limits_links_together() -> None:
    topology = server("mesh gpu* { bandwidth 25 GB/s } shared upi 48 GB/s x 2 { gpu[0-1] <-> gpu[2-3] }", gpus=4)
    assert [(g.name, g.bandwidth, g.lanes, len(g.links)) for g in topology.groups] == [
        ("a.upi.fwd", 48 * GB, 2, 4),
        ("a.upi.rev", 48 * GB, 2, 4),
    ]
    assert {topology.links[i].src for i in topology.groups[0].links} == {0, 1}


def test_failed_hardware_is_left_out() -> None:
    except_ = parse_topology(
        "node n { gpus 4 except 1 mesh gpu* { bandwidth 1 GB/s } } cluster c { instance a = n }"
    )
    disabled = server("mesh gpu* { bandwidth 1 GB/s }", "disable a.gpu1", gpus=4)
    for topology in (except_, disabled):
        assert [v.name for v in topology.vertices] == ["a.gpu0", "a.gpu2", "a.gpu3"]
        assert len(topology.links) == 6
        assert topology.notes == ("a.gpu1 is disabled",)


def test_overrides_of_an_instance_and_of_the_cluster() -> None:
    text = (
        "import h20 cluster c {"
        " instance slow = h20x4 { set nic* { bandwidth 18 Gbps }; reduce 600 GB/s; disable gpu3 }"
        ' instance fast = h20x4 { set gpu0 { model "H20e"; reduce 1 TB/s } }'
        " fabric ib { join *.nic* } set fast.nic0 { bandwidth 800 Gbps; latency 3 us } }"
    )
    topology = parse_topology(text)
    assert topology.ranks == 7
    rates = {topology.wire_name(i): w.bandwidth for i, w in enumerate(topology.wires)}
    assert rates["slow.nic0->ib"] == F(18 * GB, 8)
    assert rates["fast.nic0->ib"] == 100 * GB and rates["fast.nic1->ib"] == 50 * GB
    assert topology.reduce_bandwidth[:4] == (600 * GB, 600 * GB, 600 * GB, 1000 * GB)
    assert topology.vertices[3].model == "H20e"
    assert "slow.gpu3" not in {v.name for v in topology.vertices}


def test_counts_and_ranges_of_instances_are_the_same() -> None:
    body = "cluster c {{ instance {} fabric ib {{ join *.nic* }} }}"
    counted = parse_topology("import h20 " + body.format("b = h20x8 x 3"))
    ranged = parse_topology("import h20 " + body.format("b[0-2] = h20x8"))
    assert counted == ranged


def test_cluster_wide_switch_and_links() -> None:
    topology = parse_topology(
        """node n { gpus 2 }
        cluster c { instance a[0-1] = n
          switch nvl { ports *.gpu*; bandwidth 900 GB/s }
          link a0.gpu0 <-> a1.gpu0 { bandwidth 1 GB/s } }"""
    )
    assert len(topology.links) == 12
    assert [k.bandwidth for k in between(topology, 0, 2)] == [GB]


def test_two_tiers_of_fabric() -> None:
    topology = parse_topology(
        """import h20
        cluster c { instance a[0-3] = h20x4
          fabric leaf0 { join a[0-1].nic* }
          fabric leaf1 { join a[2-3].nic* }
          link leaf0 <-> leaf1 { bandwidth 100 GB/s; latency 5 us } }"""
    )
    (far,) = between(topology, 0, 15)
    assert path_of(topology, far) == ["a0.gpu0", "a0.nic0", "leaf0", "leaf1", "a3.nic3", "a3.gpu3"]
    assert far.latency == 5 * US and far.bandwidth == 50 * GB
    trunk = [i for i in range(len(topology.wires)) if topology.wire_name(i) == "leaf0->leaf1"]
    assert sum(trunk[0] in k.wires for k in topology.links) == 64


@pytest.mark.parametrize("unit", sorted(unit for unit in UNITS if UNITS[unit][0] != "length"))
def test_every_unit_is_exact(unit: str) -> None:
    dimension, factor = UNITS[unit]
    rate, time, size = (
        (f"3.7 {unit}", "1 us", "1 MB") if dimension == "bandwidth" else
        ("1 GB/s", f"3.7 {unit}", "1 MB") if dimension == "time" else ("1 GB/s", "1 us", f"3 {unit}")
    )  # fmt: skip
    topology = server(f"link gpu0 <-> gpu1 {{ bandwidth {rate}; latency {time} }}", f"chunk {size}")
    got = {
        "bandwidth": topology.links[0].bandwidth,
        "time": topology.links[0].latency,
        "size": topology.chunk_bytes,
    }
    assert got[dimension] == F(3 if dimension == "size" else "3.7") * factor


def test_units_by_hand() -> None:
    assert UNITS["Gbps"][1] == F(10**9, 8) == UNITS["Gb/s"][1]
    assert UNITS["GiB/s"][1] == 2**30
    assert UNITS["Mbps"][1] == 125_000
    assert UNITS["ns"][1] == F(1, 10**9)


def test_comments_and_semicolons_are_free() -> None:
    text = "# a\nnode n { gpus 2; ; // b }\n link gpu0<->gpu1{bandwidth 1GB/s;};; }\n;cluster c{instance a=n}"
    assert parse_topology(text).ranks == 2


def test_same_text_same_topology_and_names_do_not_clash() -> None:
    path = ROOT / "examples" / "v100_4p8" / "topo.dsl"
    assert load_topology(path) == load_topology(str(path)) == parse_topology(path.read_text(), str(path))
    with pytest.raises(SourceError, match="already declared"):
        server("switch gpu0 { ports gpu1; bandwidth 1 GB/s }")


def test_relative_import(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "mine.dsl").write_text("import h20\nnode mine { gpus 2 mesh gpu* { bandwidth 1 GB/s } }\n")
    (tmp_path / "topo.dsl").write_text('import h20\nimport "lib/mine.dsl"\ncluster c { instance a = mine }\n')
    assert load_topology(tmp_path / "topo.dsl").ranks == 2


@given(st.integers(2, 7), st.integers(2, 3), st.integers(1, 4))
def test_every_pair_has_a_path_over_wires_that_exist(gpus: int, servers: int, nics: int) -> None:
    nics = min(nics, gpus)
    attach = "\n".join(f"attach gpu{i} -> nic{i % nics}" for i in range(gpus))
    topology = parse_topology(
        f"""node n {{ gpus {gpus} switch s {{ ports gpu*; bandwidth 9 GB/s }}
          nic nic[0-{nics - 1}] {{ bandwidth 1 GB/s }} {attach} }}
        cluster c {{ instance a[0-{servers - 1}] = n fabric ib {{ join *.nic* }} }}"""
    )
    pairs = [(k.src, k.dst) for k in topology.links]
    assert pairs == sorted(pairs)
    assert len(pairs) == topology.ranks * (topology.ranks - 1)
    for link in topology.links:
        same = topology.vertices[link.src].server == topology.vertices[link.dst].server
        assert (link.bandwidth, len(link.wires)) == ((9 * GB, 2) if same else (GB, 4))


def test_a_copy_rate_is_stated_of_a_type_an_instance_or_a_gpu() -> None:
    text = """
    node n { gpus 2; model "H20"; copy 30 GB/s; switch s { ports gpu*; bandwidth 450 GB/s } }
    cluster c {
      instance a = n { copy 20 GB/s }
      instance b = n
      link a.gpu0 <-> b.gpu0 { bandwidth 1 GB/s }
      set b.gpu1 { copy 10 GB/s }
    }
    """
    topology = parse_topology(text)
    assert topology.copy_bandwidth == (20 * GB, 20 * GB, 30 * GB, 10 * GB)
    prices = costs(topology, runtime=NCCL_TABLES)
    assert [prices.copy_rate(rank, "Simple") for rank in range(4)] == [20e9, 20e9, 30e9, 10e9]
    assert prices.copy_rate(3, "LL") == 5e9
    assert costs(topology).copy_rate(3, "Simple") is None
