"""A large cluster as pods: servers, or groups of servers, of a few types, and the network between them.

Every instance of a cluster is a pod. Links between GPUs exist inside each type only: between pods there are wires,
whose number grows with the cluster and not with its square. Units as in ``topology``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.model.topology import Link, Rank, SharedGroup, Topology, Vertex, Wire


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod: its type, its first rank, and its vertices and wires in the cluster, in the order of its type."""

    name: str
    type: int
    first_rank: Rank
    vertices: tuple[int, ...]
    wires: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PodCluster:
    """A cluster as pods.

    ``types[i]``: a pod of type i by itself, names without the pod's. ``vertices`` and ``wires`` are those of the
    whole cluster, GPUs first; what belongs to no pod is the network between them.
    """

    name: str
    types: tuple[Topology, ...]
    pods: tuple[Pod, ...]
    vertices: tuple[Vertex, ...]
    wires: tuple[Wire, ...]
    chunk_bytes: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """The number of GPUs."""
        last = self.pods[-1]
        return last.first_rank + self.types[last.type].ranks

    def size(self, pod: int) -> int:
        """Return the number of GPUs of a pod."""
        return self.types[self.pods[pod].type].ranks

    def reversed(self) -> PodCluster:
        """Return the cluster with every wire and link turned around; indices stay."""
        wires = tuple(replace(wire, src=wire.dst, dst=wire.src) for wire in self.wires)
        return replace(self, types=tuple(t.reversed() for t in self.types), wires=wires)


def rate_of(wire: Wire | Link | SharedGroup) -> Fraction | None:
    """Return the bytes per second of all lanes of ``wire``; None: it never limits."""
    return None if wire.bandwidth is None else wire.bandwidth * wire.lanes


@dataclass(frozen=True, slots=True)
class PodBound:
    """No schedule of the collective takes less than ``seconds``; ``proof`` says in words why.

    ``bytes`` must cross wires that together carry ``rate`` bytes per second (None: the bound is latency alone).
    """

    seconds: Fraction
    proof: str
    bytes: int
    rate: Fraction | None
