"""The inner loop of the greedy rounds, on arrays: plain Python for small problems, compiled by numba for large.

One source serves both: ``run_round`` is called as it stands, or through ``compiled()``. It uses no randomness of
its own; noise comes in as arrays, so both ways give the same schedule.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.synthesis.machine_code import machine_code

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_GAIN = 1e-9
LISTED = 16  # deliveries that a gate considers at a time
STALE = 0.6  # a queued delivery whose gain fell below this share of what it was is queued anew


def run_round(
    arc_src: Ints,  # arcs: source rank
    into: Ints,  # arcs sorted by destination rank, then by the gate they come through
    gate: Ints,  # gates: a resource that all arcs of the gate use (-1: none); gates sorted by destination rank
    gate_start: Ints,  # gates + 1: where the arcs of each gate begin in ``into``
    gates_of: Ints,  # ranks + 1: where the gates of each rank begin
    crowd: Ints,  # gates: the set of ranks that the arcs of the gate come from
    crowds_of: Ints,  # crowds that each rank belongs to, rank after rank
    crowds_start: Ints,  # ranks + 1
    have: Ints,  # crowds x chunks: how many of the crowd hold the chunk; changed
    exit_class: Ints,  # resources: the class of an exit, that is a resource arcs leave their source by; else -1
    gate_class: Ints,  # gates: the class of exit that all its arcs leave by, -1 where they differ
    behind: Ints,  # ranks that leave by each resource, resource after resource
    behind_start: Ints,  # resources + 1
    ways: Ints,  # ranks x classes: exits of each class that a rank has
    leaving: Ints,  # chunks x classes: exits open to the chunk when a step begins; changed
    uses: Ints,  # resources of each arc, arc after arc
    uses_start: Ints,  # arcs + 1
    capacity: Ints,  # resources
    price: Floats,  # resources
    closest: Floats,  # ranks x ranks: priced distance from row to column
    towards: Floats,  # the same, transposed
    holds: Bools,  # chunks x ranks; changed
    lacks: Bools,  # chunks x ranks; changed
    distance: Floats,  # chunks x ranks: priced distance from the holders; changed
    noise: Floats,  # chunks x ranks: factor on gains
    arc_noise: Floats,  # arcs: added to costs
    exclusive: bool,  # a rank sends a chunk to one peer a step
    max_peers: int,  # ranks that a rank may send to, and receive from
    new_peer: float,  # added to the cost of a link between ranks that have not met
    most_steps: int,  # give up after these; less than one: never
    stop: Ints,  # one number; when somebody makes it other than zero, the round ends
    used: Floats,  # resources; counts uses
    transfers: Ints,  # deliveries x 3; filled with step, chunk, arc
) -> tuple[int, int]:
    """Fill ``transfers`` step by step; how many, and the number of steps (-1: given up, -2: stuck,
    -3: stopped)."""
    chunks, ranks = holds.shape
    gain = np.zeros((chunks, ranks))
    missing = 0
    for k in range(chunks):
        for w in range(ranks):
            if lacks[k, w]:
                missing += 1
                old = distance[k, w]
                for v in range(ranks):
                    saved = old - towards[w, v]
                    gain[k, v] += saved if saved > 0.0 else 0.0
    arriving = np.zeros((chunks, ranks), dtype=np.bool_)
    taken = holds.T.copy()  # ranks x chunks: held or arriving
    sent = np.full((chunks, ranks), -1, dtype=np.int64)
    residual = capacity.copy()
    blocked = np.zeros(ranks, dtype=np.bool_)
    met = np.zeros((ranks, ranks), dtype=np.bool_)
    receivers = np.zeros(ranks, dtype=np.int64)
    senders = np.zeros(ranks, dtype=np.int64)
    open_exits = leaving.copy()
    listed = np.zeros(len(gate), dtype=np.int64)
    pending = np.zeros(len(gate), dtype=np.int64)
    to_list = np.zeros(len(gate), dtype=np.int64)
    after_key = np.zeros(len(gate))
    after_chunk = np.zeros(len(gate), dtype=np.int64)
    best_key = np.zeros(LISTED)
    best_chunk = np.zeros(LISTED, dtype=np.int64)
    rank_of = np.zeros(len(gate), dtype=np.int64)
    for v in range(ranks):
        for g in range(gates_of[v], gates_of[v + 1]):
            rank_of[g] = v
    count, step = 0, 0
    while missing > 0:
        if most_steps > 0 and step >= most_steps:
            return count, -1
        before = count
        for r in range(len(capacity)):
            residual[r] = capacity[r]
        for v in range(ranks):
            blocked[v] = False
        open_exits[:] = leaving
        queue = [(0.0, -1, -1)]
        queue.pop()
        for g in range(len(gate)):  # list the best deliveries of every gate; again when a list runs out
            to_list[g] = g
            after_key[g] = np.inf
            after_chunk[g] = -1
        waiting = len(gate)
        while waiting > 0 or len(queue) > 0:
            if stop[0] != 0:
                return count, -3
            if waiting > 0:
                waiting -= 1
                g = to_list[waiting]
                v = rank_of[g]
                at = 0
                for k in range(chunks):
                    if taken[v, k] or have[crowd[g], k] == 0:
                        continue
                    if gate_class[g] >= 0 and open_exits[k, gate_class[g]] == 0:
                        continue
                    if gain[k, v] <= MIN_GAIN:
                        continue
                    key = gain[k, v] * noise[k, v]
                    if key > after_key[g] or (key == after_key[g] and k <= after_chunk[g]):
                        continue
                    if at == LISTED and key <= best_key[at - 1]:
                        continue
                    i = at
                    if at < LISTED:
                        at += 1
                    else:
                        i -= 1
                    while i > 0 and best_key[i - 1] < key:
                        best_key[i] = best_key[i - 1]
                        best_chunk[i] = best_chunk[i - 1]
                        i -= 1
                    best_key[i] = key
                    best_chunk[i] = k
                listed[g] = at
                pending[g] = at
                for i in range(at):
                    heapq.heappush(queue, (-best_key[i], best_chunk[i] * ranks + v, g))
                continue
            promised, code, g = heapq.heappop(queue)
            k = code // ranks
            v = code - k * ranks
            if g >= 0:
                pending[g] -= 1
                full = blocked[v] or (gate[g] >= 0 and residual[gate[g]] <= 0)
                if pending[g] == 0 and listed[g] == LISTED and not full:
                    to_list[0] = g
                    after_key[g] = -promised
                    after_chunk[g] = k
                    waiting = 1
            if blocked[v] or arriving[k, v] or gain[k, v] <= MIN_GAIN:
                continue
            now = gain[k, v] * noise[k, v]
            if now < -promised * STALE:
                heapq.heappush(queue, (-now, code, -1))
                continue
            best, best_cost, room = -1, 0.0, False
            for g in range(gates_of[v], gates_of[v + 1]):
                if gate[g] >= 0 and residual[gate[g]] <= 0:
                    continue
                room = True
                if have[crowd[g], k] == 0 or (gate_class[g] >= 0 and open_exits[k, gate_class[g]] == 0):
                    continue
                for i in range(gate_start[g], gate_start[g + 1]):
                    a = into[i]
                    u = arc_src[a]
                    if not holds[k, u] or (exclusive and sent[k, u] == step):
                        continue
                    cost = arc_noise[a]
                    if not met[u, v]:
                        if receivers[u] >= max_peers or senders[v] >= max_peers:
                            continue
                        cost += new_peer
                    fits = True
                    for j in range(uses_start[a], uses_start[a + 1]):
                        r = uses[j]
                        if residual[r] <= 0:
                            fits = False
                            break
                        cost += price[r] * (2.0 - residual[r] / capacity[r])
                    if fits and (best < 0 or cost < best_cost):
                        best, best_cost = a, cost
            if best < 0:
                if not room:
                    blocked[v] = True
                continue
            for j in range(uses_start[best], uses_start[best + 1]):
                r = uses[j]
                residual[r] -= 1
                if residual[r] == 0 and exit_class[r] >= 0:
                    for i in range(behind_start[r], behind_start[r + 1]):
                        u = behind[i]
                        for c in range(chunks):
                            if holds[c, u]:
                                open_exits[c, exit_class[r]] -= 1
                used[uses[j]] += 1.0
            u = arc_src[best]
            if not met[u, v]:
                met[u, v] = True
                receivers[u] += 1
                senders[v] += 1
            sent[k, u] = step
            arriving[k, v] = True
            taken[v, k] = True
            transfers[count, 0] = step
            transfers[count, 1] = k
            transfers[count, 2] = best
            count += 1
            for w in range(ranks):
                if not lacks[k, w]:
                    continue
                old = distance[k, w]
                if w == v:
                    lacks[k, w] = False
                    missing -= 1
                    for x in range(ranks):  # no branches: these loops are most of a large round
                        saved = old - towards[w, x]
                        gain[k, x] -= saved if saved > 0.0 else 0.0
                elif closest[v, w] < old:
                    new = closest[v, w]
                    distance[k, w] = new
                    for x in range(ranks):
                        saved = old - towards[w, x]
                        left = new - towards[w, x]
                        gain[k, x] -= (saved if saved > 0.0 else 0.0) - (left if left > 0.0 else 0.0)
        if count == before:
            return count, -2
        for n in range(before, count):
            k = transfers[n, 1]
            for v in range(ranks):
                if arriving[k, v]:
                    holds[k, v] = True
                    arriving[k, v] = False
                    leaving[k] += ways[v]
                    for i in range(crowds_start[v], crowds_start[v + 1]):
                        have[crowds_of[i], k] += 1
        step += 1
    return count, step


def kept() -> bool:
    """Whether machine code of this kernel seems to be on disk, said without loading numba: only speed depends on
    it."""
    here = Path(__file__)
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(elsewhere)] if elsewhere else [here.parent / "__pycache__"]
    return any(next(place.rglob(f"{here.stem}.run_round-*.nbc"), None) is not None for place in places)


def compiled() -> Callable[..., Any]:
    """``run_round`` as machine code."""
    return machine_code(run_round)
