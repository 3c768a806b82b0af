"""Where the GPUs of a pod meet the network: gates, and the paths between those of different pods.

In: a ``PodCluster``. Out: for each pod its gates with their wires, and the path from one gate to another. A gate
is a GPU with a shortest path of wires to the edge of its pod and one from there. Pods that are alike, inside and
in what their gates carry, are of one kind.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.machine_code import Ints
from hetesynth.model.pods import PodCluster, rate_of
from hetesynth.model.topology import Rank
from hetesynth.search.copy_problem import grouped


class Move(NamedTuple):
    """A move of ``chunks`` chunks, from position ``first`` on, from pod ``src`` to pod ``dst``."""

    src: int
    dst: int
    first: int
    chunks: int


Round = list[Move]


Blocks = Sequence[tuple[int, int]]
"""Of each pod the first of its positions, and how many they are."""


def ring(blocks: Blocks, order: Sequence[int], at_once: int) -> list[Round]:
    """Return the rounds in which every pod passes on to the next what it has, first its own and then in the order
    of arrival, ``at_once`` chunks a round; nothing returns to the pod that it comes from."""
    pods = len(order)
    queues = [deque([(*blocks[p], p)]) for p in order]
    rounds: list[Round] = []
    while any(queues):
        sends: list[list[tuple[int, int, int]]] = []
        for queue in queues:  # the first chunks of each leave it
            sends.append([])
            most = at_once
            while queue and most:
                first, count, origin = queue.popleft()
                if count > most:
                    queue.appendleft((first + most, count - most, origin))
                    count = most
                most -= count
                sends[-1].append((first, count, origin))
        for i, sent in enumerate(sends):
            behind = order[(i + 2) % pods]
            queues[(i + 1) % pods].extend(run for run in sent if run[2] != behind)
        rounds.append(
            [
                Move(order[i], order[(i + 1) % pods], first, count)
                for i, sent in enumerate(sends)
                for first, count in _joined((first, count) for first, count, _ in sent)
            ]
        )
    return rounds


def _joined(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return ``runs`` (first, count) of positions in order, adjacent ones joined."""
    joined: list[tuple[int, int]] = []
    for first, count in sorted(runs):
        if joined and sum(joined[-1]) == first:
            joined[-1] = joined[-1][0], joined[-1][1] + count
        else:
            joined.append((first, count))
    return joined


def doubling(blocks: Blocks, order: Sequence[int]) -> list[Round]:
    """Return the rounds of doubling: in round i every pod sends the last 2^i blocks that it has to the pod 2^i
    places on; the last round sends what is missing (Bruck et al. 1997)."""
    pods = len(order)
    rounds: list[Round] = []
    distance = 1
    while distance < pods:
        some = min(distance, pods - distance)
        rounds.append(
            [
                Move(order[i], order[(i + distance) % pods], first, count)
                for i in range(pods)
                for first, count in _joined(blocks[order[i - b]] for b in range(some))
            ]
        )
        distance *= 2
    return rounds


@dataclass(frozen=True)
class Entries:
    """The gates of positions. ``order[k]``: the GPUs of kind k in the order of positions. ``slots[k]``: position x
    enters and leaves kind k at gate ``slots[k][x mod len]``; ``own``: the gate from which a pod sends its own
    position ``first + x``, by kind; empty: as other positions, after they have been spread."""

    gates: Gates
    chunks: int
    order: tuple[tuple[int, ...], ...]
    slots: tuple[tuple[int, ...], ...]
    own: tuple[tuple[int, ...], ...]

    @property
    def blocks(self) -> Blocks:
        """The first of the positions of each pod, and their number."""
        cluster, each = self.gates.cluster, self.chunks
        return [(pod.first_rank * each, cluster.size(p) * each) for p, pod in enumerate(cluster.pods)]


def entries(gates: Gates, chunks: int, *, spread_first: bool) -> Entries | None:
    """Return patterns for all pods. ``spread_first``: chunks leave their pod by the pattern too, once they are
    spread; else from their own GPU: None where one has no gate. Position ``first + j n + i`` of a pod with n GPUs
    is part j of the chunks of its GPU ``order[i]``: n consecutive positions are of n GPUs, and few of them leave
    by different edges."""
    own: list[tuple[int, ...]] = []
    order: list[tuple[int, ...]] = []  # all GPUs, in the order in which the pattern of gates first names them
    for kind in gates.kinds:
        first = (kind.gates[g].gpu for g in _pattern(kind))
        order.append(tuple(dict.fromkeys([*first, *range(gates.cluster.types[kind.type].ranks)])))
    for number, kind in enumerate(gates.kinds if not spread_first else ()):
        of_gpu = grouped(gate.gpu for gate in kind.gates)
        ranks = gates.cluster.types[kind.type].ranks
        if len(of_gpu) < ranks and len(gates.cluster.pods) > 1:
            return None
        turns = [of_gpu[gpu] for gpu in order[number]]
        own.append(tuple(turns[x % ranks][x // ranks % len(turns[x % ranks])] for x in range(ranks * chunks)))
    slots = tuple(_pattern(kind) for kind in gates.kinds)
    kind = gates.kinds[0]
    alike = len(gates.kinds) == 1 and len(set(kind.share)) == 1
    if own and alike and len(kind.gates) == gates.cluster.types[kind.type].ranks:
        slots = (own[0][: len(kind.gates)],)  # a chunk stays on the gate of its own GPU
    return Entries(gates, chunks, tuple(order), slots, tuple(own))


def _pattern(kind: Kind) -> tuple[int, ...]:
    """Gates in proportion to their rates: edges by smooth weighted round robin, the gates of an edge in turn."""
    scale = math.lcm(*(s.denominator for s in kind.share))
    whole = [int(s * scale) for s in kind.share]
    weights = [w // math.gcd(*whole) for w in whole]
    most = max(64, len(weights))  # a longer pattern is rounded
    if sum(weights) > most:
        weights = [max(1, round(w * most / sum(weights))) for w in weights]
    edges = list(grouped((gate.leave, gate.enter) for gate in kind.gates).values())
    total = [sum(weights[g] for g in edge) for edge in edges]
    left = [[g for r in range(max(weights[g] for g in edge)) for g in edge if weights[g] > r] for edge in edges]
    credit = [0] * len(edges)
    pattern = []
    for _ in range(sum(weights)):
        credit = [c + w for c, w in zip(credit, total, strict=True)]
        best = max(range(len(edges)), key=lambda e: (credit[e], -e))
        credit[best] -= sum(weights)
        pattern.append(left[best].pop(0))
    return tuple(pattern)


class GateTable:
    """The gates of positions as arrays; gates of all pods are numbered one after another."""

    def __init__(self, entries: Entries) -> None:
        gates, blocks = entries.gates, entries.blocks
        sizes = [len(gates.kind(p).gates) for p in range(len(gates.cluster.pods))]
        self._base = np.cumsum([0, *sizes], dtype=np.int64)
        self._kind = np.array(gates.kind_of, np.int64)
        self._length = np.array([len(pattern) for pattern in entries.slots], np.int64)
        self._first, self._count = np.array(blocks, np.int64).T
        self._slots, self._own = (
            np.array([[*row, *[0] * (max(map(len, rows)) - len(row))] for row in rows], np.int64)
            for rows in (entries.slots, entries.own)
        )

    def at(self, pod: Ints, position: Ints) -> Ints:
        """The gate at which each position is in each pod."""
        kind, inside = self._kind[pod], position - self._first[pod]
        gate = self._slots[kind, position % self._length[kind]]
        if self._own.size:
            mine = (inside >= 0) & (inside < self._count[pod])
            gate = np.where(mine, self._own[kind, np.where(mine, inside, 0)], gate)
        return np.asarray(self._base[pod] + gate, np.int64)


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
    kind_of, uplinks = [], list[tuple[Uplink, ...]]()
    memo: dict[object, tuple[Gate, ...]] = {}
    for p, pod in enumerate(cluster.pods):
        key = pod.type, tuple(sorted(leaving[p])), tuple(sorted(entering[p]))
        if key not in memo:
            kind, nearest = cluster.types[pod.type], list[Gate]()
            out_of, into = defaultdict(list), defaultdict(list)
            for number, wire in enumerate(kind.wires):
                out_of[wire.src].append((number, wire.dst))
                into[wire.dst].append((number, wire.src))
            for gpu in range(kind.ranks):  # its nearest vertices of the edge, out i-th with in i-th
                outs = _nearest(gpu, out_of.__getitem__, leaving[p], kind.ranks)
                ins = _nearest(gpu, into.__getitem__, entering[p], kind.ranks)
                for i in range(max(len(outs), len(ins)) if outs and ins else 0):
                    (leave, out), (enter, back) = outs[i % len(outs)], ins[i % len(ins)]
                    nearest.append(Gate(gpu, out, back[::-1], leave, enter))
            memo[key] = tuple(nearest)
        gates = memo[key]
        if not gates and len(cluster.pods) > 1:
            raise HetesynthError(
                f"pod {pod.name} has no way to the network and back",
                code="HS410",
                help="pods are composed over fabrics and switches of the cluster; join their NICs by a fabric, or "
                "choose another strategy",
            )
        uplinks.append(tuple(Uplink(leaving[p][g.leave], entering[p][g.enter]) for g in gates))
        share = []  # the rate of each gate's uplinks, shared with the other gates there
        for gate, uplink in zip(gates, uplinks[p], strict=True):
            ways = [(rate_of(cluster.wires[uplink.out]), sum(g.leave == gate.leave for g in gates))]
            ways.append((rate_of(cluster.wires[uplink.into]), sum(g.enter == gate.enter for g in gates)))
            share.append(min((rate / users for rate, users in ways if rate is not None), default=Fraction(1)))
        kind_of.append(kinds.setdefault(Kind(pod.type, gates, tuple(share)), len(kinds)))
    return Gates(cluster, tuple(kinds), tuple(kind_of), tuple(uplinks))


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
        if src in self._from:
            return self._from[src].get(dst)
        best = self._from[src] = {}
        queue: list[tuple[int, tuple[int, ...], int]] = [(0, (), src)]
        while queue:
            cost, path, at = heapq.heappop(queue)
            if at in best:
                continue
            best[at] = path
            fabric = self._cluster.vertices[at].kind == "fabric"
            for wire, to in self._next[at]:
                heapq.heappush(queue, (cost + 1 + fabric * _FABRIC_COST, (*path, wire), to))
        return best.get(dst)
