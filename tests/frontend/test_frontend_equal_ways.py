"""Equally short ways through a network: how many links a pair of GPUs has, and how evenly spines are used."""

from __future__ import annotations

from collections import Counter

import pytest

from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology

SERVER = """
node n {
  gpus 4
  switch sw { ports gpu[0-3]; bandwidth 450 GB/s }
  nic nic[0-3] { bandwidth 50 GB/s }
  attach gpu[0-3] -> nic[0-3]
}
"""


def clos(leaves: int, spines: int, servers: int = 2, gpus: str = SERVER) -> Topology:
    """``servers`` below each leaf, every leaf joined to every spine."""
    text = f"instance a[0-{leaves * servers - 1}] = n\n"
    for leaf in range(leaves):
        text += f"fabric leaf{leaf} {{ join a[{leaf * servers}-{(leaf + 1) * servers - 1}].nic* }}\n"
    text += f"switch spine[0-{spines - 1}] {{ ports leaf[0-{leaves - 1}]; bandwidth 100 GB/s }}"
    return parse_topology(f"{gpus}\ncluster c {{\n{text}\n}}")


def spines_used(topology: Topology) -> tuple[Counter[str], Counter[tuple[int, int]]]:
    """Links over each spine, and links of each pair that crosses one."""
    use: Counter[str] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for link in topology.links:
        names = [topology.vertices[topology.wires[wire].dst].name for wire in link.wires]
        crossed = [name for name in names if name.startswith("spine")]
        use.update(crossed)
        pairs.update([(link.src, link.dst)] if crossed else [])
    return use, pairs


@pytest.mark.parametrize("spines", [1, 2, 3, 4, 5, 6, 8])
def test_a_pair_has_up_to_four_ways_and_spines_are_used_evenly(spines: int) -> None:
    topology = clos(4, spines)
    use, pairs = spines_used(topology)
    assert len(use) == spines
    assert set(pairs.values()) == {min(spines, 4)}
    assert len(pairs) == 32 * 24
    assert max(use.values()) <= 1.1 * min(use.values())


def test_links_of_one_pair_are_different_ways() -> None:
    topology = clos(2, 8)
    ways = {(link.src, link.dst, link.wires) for link in topology.links}
    assert len(ways) == len(topology.links)


def test_a_gpu_with_many_nics_has_one_way_a_nic() -> None:
    server = "node n { gpus 1\nnic nic[0-3] { bandwidth 50 GB/s }\nattach gpu0 -> nic* }"
    use, pairs = spines_used(clos(2, 4, servers=1, gpus=server))
    assert set(pairs.values()) == {4}
    assert use == dict.fromkeys([f"spine{i}" for i in range(4)], 2)


def test_parallel_uplinks_are_ways_of_their_own() -> None:
    uplinks = "link leaf0 <-> leaf1 { bandwidth 100 GB/s }\n" * 2
    text = (
        f"instance a[0-3] = n\nfabric leaf0 {{ join a[0-1].nic* }}\nfabric leaf1 {{ join a[2-3].nic* }}\n{uplinks}"
    )
    topology = parse_topology(f"{SERVER}\ncluster c {{ {text} }}")
    between = [link for link in topology.links if (link.src, link.dst) == (0, 15)]
    assert len(between) == 2
    assert len(set(between[0].wires) - set(between[1].wires)) == 1


@pytest.mark.slow
def test_past_256_gpus_a_pair_has_fewer_ways_in_rotation() -> None:
    use, pairs = spines_used(clos(8, 4, servers=17))
    assert set(pairs.values()) == {1}
    assert len(set(use.values())) == 1
