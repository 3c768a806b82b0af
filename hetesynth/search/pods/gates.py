"""Where the GPUs of a pod meet the network: gates, and the paths between those of different pods.

In: a ``PodCluster``. Out: for each pod its gates with their wires, and the path from one gate to another. A gate
is a GPU with a shortest path of wires to the edge of its pod and one from there. Pods that are alike, inside and
in what their gates carry, are of one kind.
"""

from __future__ import annotations

import heapq
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from hetesynth.errors import HetesynthError
from hetesynth.model.pods import PodCluster, rate_of
from hetesynth.model.topology import Rank, Topology

_FABRIC_COST = 1 << 20  # more than any path has wires, so that fabrics count first


class Gate(NamedTuple):
    """A GPU of a pod and wires of the pod: from it to vertex ``leave`` of the edge, and from ``enter`` to it."""

    gpu: Rank
    out: tuple[int, ...]
    into: tuple[int, ...]
    leave: int
    enter: int


class Uplink(NamedTuple):
    """The wires of the cluster by which a gate goes on from the edge of its pod, and by which it is reached."""

    out: int
    into: int


@dataclass(frozen=True, slots=True)
class Kind:
    """Pods of one type whose gates carry alike. ``share``: bytes per second that each gate has if all are used."""

    type: int
    gates: tuple[Gate, ...]
    share: tuple[Fraction, ...]


@dataclass(frozen=True)
class Gates:
    """The gates of every pod: ``kinds[kind_of[p]].gates``, and ``uplinks[p]`` beside them."""

    cluster: PodCluster
    kinds: tuple[Kind, ...]
    kind_of: tuple[int, ...]
    uplinks: tuple[tuple[Uplink, ...], ...]

    def kind(self, pod: int) -> Kind:
        """The kind of a pod."""
        return self.kinds[self.kind_of[pod]]


def gates_of(cluster: PodCluster) -> Gates:
    """The gates of all pods. HetesynthError HS410: a pod has none."""
    place = {v: (p, i) for p, pod in enumerate(cluster.pods) for i, v in enumerate(pod.vertices)}
    leaving: list[dict[int, int]] = [{} for _ in cluster.pods]
    entering: list[dict[int, int]] = [{} for _ in cluster.pods]
    for number, wire in enumerate(cluster.wires):
        src, dst = place.get(wire.src), place.get(wire.dst)
        if src is not None and dst is None:
            leaving[src[0]].setdefault(src[1], number)
        elif src is None and dst is not None:
            entering[dst[0]].setdefault(dst[1], number)
    kinds: dict[Kind, int] = {}
    kind_of, uplinks = [], []
    memo: dict[object, tuple[Gate, ...]] = {}
    for p, pod in enumerate(cluster.pods):
        key = pod.type, tuple(sorted(leaving[p])), tuple(sorted(entering[p]))
        if key not in memo:
            memo[key] = _gates(cluster.types[pod.type], leaving[p], entering[p])
        gates = memo[key]
        if not gates and len(cluster.pods) > 1:
            raise HetesynthError(
                f"pod {pod.name} has no way to the network and back",
                code="HS410",
                help="pods are composed over fabrics and switches of the cluster; join their NICs by a fabric, or "
                "choose another strategy",
            )
        links = tuple(Uplink(leaving[p][g.leave], entering[p][g.enter]) for g in gates)
        uplinks.append(links)
        kind_of.append(kinds.setdefault(Kind(pod.type, gates, _shares(cluster, gates, links)), len(kinds)))
    return Gates(cluster, tuple(kinds), tuple(kind_of), tuple(uplinks))


def _shares(cluster: PodCluster, gates: tuple[Gate, ...], uplinks: tuple[Uplink, ...]) -> tuple[Fraction, ...]:
    """The rate of each gate's uplinks, shared with the other gates there."""
    shares = []
    for gate, uplink in zip(gates, uplinks, strict=True):
        rates = []
        for wire, end in ((uplink.out, 3), (uplink.into, 4)):
            rate = rate_of(cluster.wires[wire])
            if rate is not None:
                rates.append(rate / sum(other[end] == gate[end] for other in gates))
        shares.append(min(rates, default=Fraction(1)))
    return tuple(shares)


def _gates(pod: Topology, leaving: Mapping[int, int], entering: Mapping[int, int]) -> tuple[Gate, ...]:
    """For each GPU its nearest vertices of the edge, out i-th with in i-th."""
    out_of, into = defaultdict(list), defaultdict(list)
    for number, wire in enumerate(pod.wires):
        out_of[wire.src].append((number, wire.dst))
        into[wire.dst].append((number, wire.src))
    gates = []
    for gpu in range(pod.ranks):
        outs = _nearest(gpu, out_of.__getitem__, leaving, pod.ranks)
        ins = _nearest(gpu, into.__getitem__, entering, pod.ranks)
        for i in range(max(len(outs), len(ins)) if outs and ins else 0):
            (leave, out), (enter, back) = outs[i % len(outs)], ins[i % len(ins)]
            gates.append(Gate(gpu, out, back[::-1], leave, enter))
    return tuple(gates)


def _nearest(
    gpu: Rank, neighbours: Callable[[int], list[tuple[int, int]]], edge: Mapping[int, int], ranks: int
) -> list[tuple[int, tuple[int, ...]]]:
    """The vertices of the edge that the fewest wires join to ``gpu``, past no other GPU, each with its wires."""
    paths: dict[int, tuple[int, ...]] = {gpu: ()}
    level = [gpu]
    while level:
        reached = [(v, paths[v]) for v in level if v in edge]
        if reached:
            return sorted(reached)
        following = []
        for at in level:
            for wire, to in neighbours(at):
                if to >= ranks and to not in paths:
                    paths[to] = (*paths[at], wire)
                    following.append(to)
        level = following
    return []


class Network:
    """Paths between the vertices of the network, with the fewest fabrics and then the fewest wires."""

    def __init__(self, cluster: PodCluster) -> None:
        inside = {v for pod in cluster.pods for v in pod.vertices}
        self._cluster = cluster
        self._next: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for number, wire in enumerate(cluster.wires):
            if wire.src not in inside and wire.dst not in inside:
                self._next[wire.src].append((number, wire.dst))
        self._from: dict[int, dict[int, tuple[int, ...]]] = {}

    def path(self, src: int, dst: int) -> tuple[int, ...] | None:
        """The wires from vertex ``src`` to vertex ``dst``; None: there is no path."""
        if src not in self._from:
            self._from[src] = self._paths(src)
        return self._from[src].get(dst)

    def _paths(self, src: int) -> dict[int, tuple[int, ...]]:
        best: dict[int, tuple[int, ...]] = {}
        queue: list[tuple[int, tuple[int, ...], int]] = [(0, (), src)]
        while queue:
            cost, path, at = heapq.heappop(queue)
            if at in best:
                continue
            best[at] = path
            fabric = self._cluster.vertices[at].kind == "fabric"
            for wire, to in self._next[at]:
                heapq.heappush(queue, (cost + 1 + fabric * _FABRIC_COST, (*path, wire), to))
        return best


def components(cluster: PodCluster) -> dict[int, int]:
    """The part of the network in which each of its vertices lies, wires taken in both directions."""
    inside = {v for pod in cluster.pods for v in pod.vertices}
    near: dict[int, list[int]] = {v: [] for v in range(len(cluster.vertices)) if v not in inside}
    for wire in cluster.wires:
        if wire.src in near and wire.dst in near:
            near[wire.src].append(wire.dst)
            near[wire.dst].append(wire.src)
    part: dict[int, int] = {}
    for start in near:
        queue = deque([start] if start not in part else [])
        while queue:
            at = queue.popleft()
            if at not in part:
                part[at] = start
                queue.extend(near[at])
    return part
