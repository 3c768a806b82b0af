"""What each statement of the block form means, as vertices, wires, links and groups."""

from __future__ import annotations

from fractions import Fraction as F
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetesynth.model.cost import costs
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.topology import Link, Topology
from hetesynth.topology.language import parse_topology
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


def test_a_nic_is_no_path_between_gpus_of_its_own_server() -> None:
    """Two GPUs on one NIC meet in the fabric, not in the NIC."""
    topology = parse_topology(
        """node n { gpus 2 nic nic0 { bandwidth 100 Gbps } attach gpu* -> nic0 }
        cluster c { instance a[0-1] = n fabric ib { join *.nic* } }"""
    )
    (link,) = between(topology, 0, 1)
    assert path_of(topology, link) == ["a0.gpu0", "a0.nic0", "ib", "a0.nic0", "a0.gpu1"]


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
