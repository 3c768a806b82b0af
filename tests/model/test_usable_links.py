"""Which of parallel links programs use: those over the NICs that runtimes give a GPU (docs/targets.md)."""

from __future__ import annotations

import pytest

from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.model.usable_links import usable
from hetesynth.topology.language import parse_topology


def two_servers(gpus: int, nics: str, attached: str) -> Topology:
    inside = f"gpus {gpus}\nmesh gpu[0-{gpus - 1}] {{ bandwidth 100 GB/s }}\n" if gpus > 1 else "gpus 1\n"
    node = f"node n {{\n{inside}{nics}\n{attached}\n}}\n"
    return parse_topology(
        f"{node}cluster c {{\ninstance a = n\ninstance b = n\nfabric f {{ join *.nic*; latency 1 us }}\n}}"
    )


def received_over(topology: Topology, target: str) -> dict[str, list[str]]:
    """The NICs over which each GPU of the second server is sent to, by its name."""
    part, seen = usable(topology, (TARGETS[target],)), dict[str, set[str]]()
    for link in part.links:
        if topology.servers[link.src] == "a" and topology.servers[link.dst] == "b":
            nic = part.wires[link.wires[-1]].src
            seen.setdefault(part.vertices[link.dst].name, set()).add(part.vertices[nic].name)
    return {name: sorted(nics) for name, nics in seen.items()}


FOUR = "nic nic[0-3] { bandwidth 100 Gbps }"
ALL = "\n".join(f"attach gpu[*] -> nic{i}" for i in range(4))
CLASSES = "nic nic[0-1] { bandwidth 100 Gbps }\nnic nic[2-3] { bandwidth 200 Gbps }"


@pytest.mark.parametrize(
    ("gpus", "nics", "target", "expected"),
    [
        (1, FOUR, "portable", [[0, 1, 2, 3]]),
        (1, FOUR, "msccl", [[0]]),
        (2, FOUR, "msccl-executor", [[0, 1], [2, 3]]),
        (2, FOUR, "mscclpp", [[0], [2]]),
        (4, FOUR, "rccl-6", [[0], [2], [1], [3]]),
        (1, CLASSES, "portable", [[2, 3]]),
        (2, CLASSES, "portable", [[2], [3]]),
        (3, CLASSES, "rccl-5", [[2], [3], [2]]),
    ],
)
def test_a_gpu_gets_its_share_of_the_fastest(gpus: int, nics: str, target: str, expected: list[list[int]]) -> None:
    wanted = {f"b.gpu{gpu}": [f"b.nic{i}" for i in share] for gpu, share in enumerate(expected)}
    assert received_over(two_servers(gpus, nics, ALL), target) == wanted


def test_the_part_knows_the_whole() -> None:
    whole = two_servers(2, CLASSES, ALL)
    part = usable(whole, (TARGETS["portable"],))
    assert part.whole is whole and 0 < len(part.links) < len(whole.links)
    assert part.links == tuple(whole.links[i] for i in part.numbers)
    plain = two_servers(2, "nic nic[0-1] { bandwidth 100 Gbps }", "attach gpu[0-1] -> nic[0-1]")
    assert usable(plain, (TARGETS["portable"],)) is plain
