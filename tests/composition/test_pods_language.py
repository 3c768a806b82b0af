"""Pods in the language: what they mean is what the same servers mean without them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.pods import SMALL, cluster, pods_of, server

from hetesynth.topology.language import load_topology, parse_topology

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", ["4p8 of two rates", "slow NIC", "racks"])
def test_pods_and_the_flat_cluster_are_the_same_hardware(name: str) -> None:
    flat, pods = parse_topology(SMALL[name]), pods_of(SMALL[name])
    assert pods.vertices == flat.vertices and pods.wires == flat.wires
    assert pods.ranks == flat.ranks and pods.chunk_bytes == flat.chunk_bytes
    for pod in pods.pods:
        kind = pods.types[pod.type]
        inside = {
            (link.src - pod.first_rank, link.dst - pod.first_rank, link.latency, link.bandwidth * link.lanes)
            for link in flat.links
            if all(pod.first_rank <= rank < pod.first_rank + kind.ranks for rank in (link.src, link.dst))
        }
        assert inside == {(x.src, x.dst, x.latency, x.bandwidth * x.lanes) for x in kind.links}
        names = [pods.vertices[v].name for v in pod.vertices]
        assert names == [f"{pod.name}.{vertex.name}" for vertex in kind.vertices]


def test_pods_with_the_same_hardware_are_of_one_type() -> None:
    assert len(pods_of(SMALL["4x2"]).types) == 1
    assert len(pods_of(SMALL["4p8"]).types) == 2
    changed = cluster("instance a[0-2] = s instance b = s { set sw { bandwidth 90 GB/s } }", server("s", 2, 2))
    assert [pod.type for pod in pods_of(changed).pods] == [0, 0, 0, 1]
    broken = cluster("instance a[0-2] = s disable a1.gpu0", server("s", 4, 2))
    assert [pod.type for pod in pods_of(broken).pods] == [0, 1, 0]
    assert [pod.first_rank for pod in pods_of(broken).pods] == [0, 4, 7]


def test_a_pod_is_the_servers_that_it_holds() -> None:
    """The same cluster with pods and without: names differ, links do not."""
    box = server("s", 2, 2)
    grouped = parse_topology(SMALL["racks"])
    plain = parse_topology(
        cluster(
            "instance a[0-5] = s",
            box,
            between="".join(
                f"fabric l{i} {{ join a[{2 * i}-{2 * i + 1}].nic*; latency 1 us }}\n" for i in range(3)
            )
            + "switch spine { ports l[0-2]; bandwidth 40 GB/s; latency 1 us }",
        )
    )
    assert [(x.src, x.dst, x.bandwidth, x.latency) for x in grouped.links] == [
        (x.src, x.dst, x.bandwidth, x.latency) for x in plain.links
    ]
    assert grouped.servers[:3] == ("r0.a0", "r0.a0", "r0.a1")


def test_the_example_of_the_reference_is_the_example() -> None:
    reference = (ROOT / "dsl" / "reference.md").read_text()
    section = reference.split("### 2.8 Pods")[1].split("## 3.")[0]
    text = "\n".join(re.findall(r"^    (.*)$", section.split("**Every")[0], re.MULTILINE))
    written, example = parse_topology(text), load_topology(ROOT / "examples" / "h20_pods" / "topo.dsl")
    assert written.links == example.links and written.servers == example.servers
