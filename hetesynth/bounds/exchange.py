"""The bandwidth bound of alltoall: the dual of the maximum concurrent flow.

In: a topology. Out: lengths of wires such that the bytes that must travel, weighed by the shortest paths, need so
many seconds of the bandwidth, weighed by the lengths. Any lengths give a valid bound, so what the linear program
returns in floating point is rounded to fractions and the bound computed from these exactly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hetesynth.model.time_bound import TimeBound, WireLengths
from hetesynth.model.topology import Topology

GRAIN = 10**7  # length of the longest wire: how finely lengths are rounded


def exchange_bound(topology: Topology) -> TimeBound:
    """The bound for a buffer of one rank: a block of 1/N of it goes from every rank to every other."""
    lengths = _lengths(topology)
    return TimeBound(
        "exchange",
        min((link.latency for link in topology.links), default=Fraction(0)),
        exchange_seconds(topology, lengths),
        "no routing of the blocks loads the wires less (a maximum concurrent flow)",
        WireLengths(lengths),
    )


def exchange_seconds(topology: Topology, lengths: tuple[Fraction, ...]) -> Fraction:
    """Seconds per byte of buffer that ``lengths`` prove: shortest paths between all ranks against the supply.

    Wires without a limit must have length 0.
    """
    supply = Fraction(0)
    for wire, length in zip(topology.wires, lengths, strict=True):
        if wire.bandwidth is not None:
            supply += wire.bandwidth * wire.lanes * length
        elif length:
            raise ValueError("a wire without a limit supplies any length")
    demand = sum((sum(_shortest(topology, r, lengths), Fraction(0)) for r in range(topology.ranks)), Fraction(0))
    return demand / topology.ranks / supply if supply else Fraction(0)


def _shortest(topology: Topology, source: int, lengths: tuple[Fraction, ...]) -> list[Fraction]:
    """Distance from ``source`` to every rank along links."""
    import heapq

    leaving: dict[int, list[tuple[int, Fraction]]] = {}
    for link in topology.links:
        leaving.setdefault(link.src, []).append((link.dst, sum((lengths[w] for w in link.wires), Fraction(0))))
    distance: dict[int, Fraction] = {}
    queue = [(Fraction(0), source)]
    while queue:
        d, at = heapq.heappop(queue)
        if at not in distance:
            distance[at] = d
            for to, length in leaving.get(at, ()):
                if to not in distance:
                    heapq.heappush(queue, (d + length, to))
    return [distance.get(r, Fraction(0)) for r in range(topology.ranks)]


def _lengths(topology: Topology) -> tuple[Fraction, ...]:
    """Optimal wire lengths: one flow per source, which leaves a unit at every other rank."""
    from scipy.optimize import linprog
    from scipy.sparse import coo_matrix

    limited = [w for w, wire in enumerate(topology.wires) if wire.bandwidth is not None]
    rates = [float((topology.wires[w].bandwidth or 0) * topology.wires[w].lanes) for w in limited]
    row_of = {w: i for i, w in enumerate(limited)}
    n, m = topology.ranks, len(topology.links)
    mean = float(np.mean(rates))
    rows: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for s in range(n):
        for i, link in enumerate(topology.links):
            for w in link.wires:
                if w in row_of:
                    rows.append(row_of[w])
                    columns.append(s * m + i)
                    values.append(1.0)
    loads = coo_matrix(
        (
            values + [-r / mean for r in rates],
            (rows + list(range(len(limited))), columns + [n * m] * len(limited)),
        ),
        shape=(len(limited), n * m + 1),
    )
    balance, demand = _balance(topology)
    cost = np.zeros(n * m + 1)
    cost[-1] = 1.0
    solved = linprog(
        cost, A_ub=loads.tocsr(), b_ub=np.zeros(len(limited)), A_eq=balance, b_eq=demand, method="highs"
    )
    if solved.status != 0:
        return tuple(Fraction(0) for _ in topology.wires)
    prices = np.maximum(0.0, -solved.ineqlin.marginals)
    scale = GRAIN / max(float(prices.max()), 1e-30)
    lengths = [Fraction(0)] * len(topology.wires)
    for w, price in zip(limited, prices, strict=True):
        lengths[w] = Fraction(round(float(price) * scale))
    return tuple(lengths)


def _balance(topology: Topology) -> tuple[object, np.ndarray]:
    """Flow conservation: of source s, one unit more enters rank v != s than leaves it."""
    from scipy.sparse import coo_matrix

    n, m = topology.ranks, len(topology.links)
    rows, columns, values = [], [], []
    demand = []
    for s in range(n):
        number = {v: s * (n - 1) + k for k, v in enumerate(v for v in range(n) if v != s)}
        demand += [1.0] * (n - 1)
        for i, link in enumerate(topology.links):
            for v, sign in ((link.dst, 1.0), (link.src, -1.0)):
                if v in number:
                    rows.append(number[v])
                    columns.append(s * m + i)
                    values.append(sign)
    matrix = coo_matrix((values, (rows, columns)), shape=(n * (n - 1), n * m + 1))
    return matrix.tocsr(), np.array(demand)
