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
