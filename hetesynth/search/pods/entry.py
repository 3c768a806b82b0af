"""At which gate each chunk enters and leaves a pod.

In: gates and chunks per rank. Out: for every pod type a pattern of gates, repeated over the positions of chunks,
which loads gates by their rates.

Position ``first + j n + i`` of a pod with n GPUs is part j of the chunks of its GPU ``order[i]``: n consecutive
positions are of n GPUs, and few of them leave by different edges.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hetesynth.policy.pods import PodsPolicy
from hetesynth.search.pods.gates import Gates, Kind
from hetesynth.search.pods.rounds import Blocks

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Entries:
    """``order[k]``: the GPUs of kind k in the order of positions.

    ``slots[k]``: the gate of kind k at which position x enters and leaves is ``slots[k][x mod len]``; ``own``:
    the gate from which a pod sends its own position ``first + x``, by kind; empty: as the others, after they have
    been spread."""

    gates: Gates
    chunks: int
    order: tuple[tuple[int, ...], ...]
    slots: tuple[tuple[int, ...], ...]
    own: tuple[tuple[int, ...], ...]

    @property
    def blocks(self) -> Blocks:
        """The positions of each pod."""
        cluster = self.gates.cluster
        return Blocks(
            tuple(pod.first_rank * self.chunks for pod in cluster.pods),
            tuple(cluster.size(p) * self.chunks for p in range(len(cluster.pods))),
        )


def entries(gates: Gates, chunks: int, policy: PodsPolicy, *, spread_first: bool) -> Entries | None:
    """Patterns for all pods. ``spread_first``: chunks leave their pod by the pattern too, once they are spread;
    else from their own GPU: None where one has no gate."""
    own: list[tuple[int, ...]] = []
    order = tuple(_order(kind, gates.cluster.types[kind.type].ranks, policy) for kind in gates.kinds)
    for number, kind in enumerate(gates.kinds if not spread_first else ()):
        of_gpu = defaultdict(list)
        for g, gate in enumerate(kind.gates):
            of_gpu[gate.gpu].append(g)
        ranks = gates.cluster.types[kind.type].ranks
        if len(of_gpu) < ranks and len(gates.cluster.pods) > 1:
            return None
        turns = [of_gpu[gpu] for gpu in order[number]]
        own.append(tuple(turns[x % ranks][x // ranks % len(turns[x % ranks])] for x in range(ranks * chunks)))
    slots = tuple(_aligned(gates, own) or _pattern(kind, policy) for kind in gates.kinds)
    return Entries(gates, chunks, order, slots, tuple(own))


def _order(kind: Kind, ranks: int, policy: PodsPolicy) -> tuple[int, ...]:
    """All GPUs, in the order in which the pattern of gates first names them."""
    return tuple(dict.fromkeys([*(kind.gates[g].gpu for g in _pattern(kind, policy)), *range(ranks)]))


def _aligned(gates: Gates, own: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Each GPU's gate in turn, where all pods are alike, so that a chunk stays on the gate of its own GPU; empty
    where GPUs have several gates or these are not equally fast."""
    if len(gates.kinds) > 1 or not own:
        return ()
    kind = gates.kinds[0]
    if len(kind.gates) != gates.cluster.types[kind.type].ranks or len(set(kind.share)) > 1:
        return ()
    return own[0][: len(kind.gates)]


def _pattern(kind: Kind, policy: PodsPolicy) -> tuple[int, ...]:
    """Gates in proportion to their rates, so that any stretch of the pattern loads the edge evenly: edges by
    smooth weighted round robin, the gates of an edge in turn."""
    weights = _weights(kind.share, policy.max_slots)
    at_edge: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number, gate in enumerate(kind.gates):
        at_edge[gate.leave, gate.enter].append(number)
    edges = list(at_edge.values())
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


def _weights(share: Sequence[Fraction], most: int) -> list[int]:
    """Whole numbers in the proportion of ``share``, rounded where they would sum to more than ``most``."""
    scale = math.lcm(*(s.denominator for s in share))
    whole = [int(s * scale) for s in share]
    divisor = math.gcd(*whole)
    weights = [w // divisor for w in whole]
    if sum(weights) <= max(most, len(weights)):
        return weights
    return [max(1, round(w * max(most, len(weights)) / sum(weights))) for w in weights]


@dataclass(frozen=True)
class GateTable:
    """The gates of positions as arrays; gates of all pods are numbered one after another."""

    entries: Entries
    base: Ints
    _kind: Ints
    _length: Ints
    _slots: Ints
    _own: Ints
    _first: Ints
    _count: Ints

    def at(self, pod: Ints, position: Ints) -> Ints:
        """The gate at which each position is in each pod."""
        kind, inside = self._kind[pod], position - self._first[pod]
        gate = self._slots[kind, position % self._length[kind]]
        if self._own.size:
            mine = (inside >= 0) & (inside < self._count[pod])
            gate = np.where(mine, self._own[kind, np.where(mine, inside, 0)], gate)
        return np.asarray(self.base[pod] + gate, np.int64)


def gate_table(entries: Entries) -> GateTable:
    """``entries`` as arrays."""
    gates, blocks = entries.gates, entries.blocks
    sizes = [len(gates.kind(p).gates) for p in range(len(gates.cluster.pods))]
    return GateTable(
        entries,
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        np.array(gates.kind_of, np.int64),
        np.array([len(pattern) for pattern in entries.slots], np.int64),
        _padded(entries.slots),
        _padded(entries.own),
        np.array(blocks.first, np.int64),
        np.array(blocks.count, np.int64),
    )


def _padded(rows: Sequence[Sequence[int]]) -> Ints:
    table = np.zeros((len(rows), max(map(len, rows), default=0)), np.int64)
    for i, row in enumerate(rows):
        table[i, : len(row)] = row
    return table


def home_of(entries: Entries) -> Sequence[tuple[int, ...]]:
    """By kind, the GPU of each chunk that a pod starts with, by its position in the pod modulo its GPUs."""
    return entries.order


def gpus_of_slots(entries: Entries) -> Sequence[tuple[int, ...]]:
    """By kind, the GPU at which each slot's chunks enter."""
    return [
        tuple(kind.gates[g].gpu for g in pattern)
        for kind, pattern in zip(entries.gates.kinds, entries.slots, strict=True)
    ]
