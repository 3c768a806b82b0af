"""The inner loop of the greedy rounds, on arrays: plain Python for small problems, compiled by numba for large.

One source serves both: ``run_round`` is called as it stands, or through ``compiled()``. It uses no randomness of
its own; noise comes in as arrays, so both ways give the same schedule.

What lies between a sender u and a receiver v:

      senders          egress resources          ingress resources      receiver

        u0 ---+
              +-----> [ NIC of u0, u1 ] ----+
        u1 ---+         class 0             |
                                            +---> [ NIC of v ] ----+
        u2 ---+                             |       ingress 0      |
              +-----> [ NIC of u2, u3 ] ----+                      +---> v
        u3 ---+         class 0                                    |
                                                                   |
        u4 ---------> [ NVLink of u4 ] -------> [ NVLink of v ] ---+
                        class 1                     ingress 1

An *ingress* is one ingress resource as one receiver sees it: the arcs into v that use it lie side by side. Its
*sender set* is the set of ranks that those arcs come from: {u0, u1, u2, u3} for ingress 0 and {u4} for ingress 1.
Ingresses with equal sender sets share one count, for each chunk, of the senders that hold it: where it is zero,
the chunk cannot come through. Egress resources of equal capacity and as many arcs form an *egress class*. For each
chunk and class it is counted how many egress resources with capacity left lead away from a holder. Where all arcs
of an ingress leave by one class, and none of it is open to a chunk, the chunk cannot come through in this step.
Both counts only say that looking at the arcs would be in vain.

A step: every ingress lists its best deliveries (a chunk to the receiver), those that bring the chunk closest to
the ranks still lacking it. Then they are taken from one queue, best first, each over the cheapest arc that has
capacity left. An ingress whose list is used up lists the next ones.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetesynth.machine_code import machine_code

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

MIN_GAIN = 1e-9
LISTED = 16  # deliveries that an ingress lists at a time
STALE = 0.6  # a queued delivery whose gain fell below this share of what it was is queued anew


class Network(NamedTuple):
    """What a round reads."""

    arc_src: Ints  # arcs: source rank
    into: Ints  # arcs sorted by destination rank, then by ingress resource
    ingress: Ints  # ingresses, sorted by destination rank: the resource that all its arcs use, -1: they share none
    ingress_start: Ints  # ingresses + 1: where the arcs of each begin in ``into``
    ingresses_of: Ints  # ranks + 1: where the ingresses of each rank begin
    sender_set: Ints  # ingresses: the sender set of each
    sets_of: Ints  # sender sets that each rank belongs to, rank after rank
    sets_start: Ints  # ranks + 1
    egress_class: Ints  # resources: the class of an egress resource, -1: it is none
    ingress_class: Ints  # ingresses: the egress class that all its arcs leave by, -1: they differ
    leavers: Ints  # ranks that leave by each resource, resource after resource
    leavers_start: Ints  # resources + 1
    egresses: Ints  # ranks x classes: egress resources of each class that a rank has
    uses: Ints  # resources of each arc, arc after arc
    uses_start: Ints  # arcs + 1
    capacity: Ints  # resources
    price: Floats  # resources
    closest: Floats  # ranks x ranks: priced distance from row to column
    towards: Floats  # ``closest`` transposed
    noise: Floats  # chunks x ranks: factor on gains
    arc_noise: Floats  # arcs: added to costs


class Rules(NamedTuple):
    """What a round has to respect."""

    exclusive: bool  # a rank sends a chunk to one peer a step
    max_peers: int  # ranks that a rank may send to, and receive from
    new_peer: float  # added to the cost of a link between ranks that have not met
    most_steps: int  # give up after these; less than one: never


class Progress(NamedTuple):
    """What a round changes."""

    senders_holding: Ints  # sender sets x chunks: ranks of the set that hold the chunk
    egress_count: Ints  # chunks x classes: egress resources of holders of the chunk, when a step begins
    holds: Bools  # chunks x ranks
    lacks: Bools  # chunks x ranks
    distance: Floats  # chunks x ranks: priced distance from the holders
    used: Floats  # resources; counts uses
    transfers: Ints  # deliveries x 3; filled with step, chunk, arc


def run_round(network: Network, rules: Rules, progress: Progress, stop: Ints) -> tuple[int, int]:
    """Fill ``transfers`` step by step; how many, and the number of steps (-1: given up, -2: stuck, -3: stopped).

    ``stop`` is one number; when somebody makes it other than zero, the round ends.
    """
    (
        arc_src, into, ingress, ingress_start, ingresses_of, sender_set, sets_of, sets_start,
        egress_class, ingress_class, leavers, leavers_start, egresses, uses, uses_start, capacity,
        price, closest, towards, noise, arc_noise,
    ) = network  # fmt: skip
    exclusive, max_peers, new_peer, most_steps = rules
    senders_holding, egress_count, holds, lacks, distance, used, transfers = progress
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
    open_egress = egress_count.copy()
    listed = np.zeros(len(ingress), dtype=np.int64)
    pending = np.zeros(len(ingress), dtype=np.int64)
    to_list = np.zeros(len(ingress), dtype=np.int64)
    after_key = np.zeros(len(ingress))
    after_chunk = np.zeros(len(ingress), dtype=np.int64)
    best_key = np.zeros(LISTED)
    best_chunk = np.zeros(LISTED, dtype=np.int64)
    rank_of = np.zeros(len(ingress), dtype=np.int64)
    for v in range(ranks):
        for g in range(ingresses_of[v], ingresses_of[v + 1]):
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
        open_egress[:] = egress_count
        queue = [(0.0, -1, -1)]
        queue.pop()
        for g in range(len(ingress)):  # list the best deliveries of every ingress; again when a list runs out
            to_list[g] = g
            after_key[g] = np.inf
            after_chunk[g] = -1
        waiting = len(ingress)
        while waiting > 0 or len(queue) > 0:
            if stop[0] != 0:
                return count, -3
            if waiting > 0:
                waiting -= 1
                g = to_list[waiting]
                v = rank_of[g]
                at = 0
                for k in range(chunks):
                    if taken[v, k] or senders_holding[sender_set[g], k] == 0:
                        continue
                    if ingress_class[g] >= 0 and open_egress[k, ingress_class[g]] == 0:
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
                full = blocked[v] or (ingress[g] >= 0 and residual[ingress[g]] <= 0)
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
            for g in range(ingresses_of[v], ingresses_of[v + 1]):
                if ingress[g] >= 0 and residual[ingress[g]] <= 0:
                    continue
                room = True
                if senders_holding[sender_set[g], k] == 0 or (
                    ingress_class[g] >= 0 and open_egress[k, ingress_class[g]] == 0
                ):
                    continue
                for i in range(ingress_start[g], ingress_start[g + 1]):
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
                if residual[r] == 0 and egress_class[r] >= 0:
                    for i in range(leavers_start[r], leavers_start[r + 1]):
                        u = leavers[i]
                        for c in range(chunks):
                            if holds[c, u]:
                                open_egress[c, egress_class[r]] -= 1
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
                    egress_count[k] += egresses[v]
                    for i in range(sets_start[v], sets_start[v + 1]):
                        senders_holding[sets_of[i], k] += 1
        step += 1
    return count, step


def compiled() -> Callable[..., Any]:
    """``run_round`` as machine code."""
    return machine_code(run_round)
