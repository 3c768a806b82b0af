"""The inner loop of the greedy rounds, on arrays: plain Python for small problems, compiled by numba for large.

It uses no randomness of its own; noise comes in as arrays, so both ways give the same schedule.

An *ingress* is one ingress resource as one receiver sees it, such as its NIC or its NVLink: the arcs into the
receiver that use it lie side by side. Its *sender set* is the set of ranks that those arcs come from. Ingresses
with equal sender sets share one count, for each chunk, of the senders that hold it: where it is zero, the chunk
cannot come through. Egress resources (a NIC that several senders share, the NVLink of one) of equal capacity and
as many arcs form an *egress class*. For each chunk and class it is counted how many egress resources with capacity
left lead away from a holder. Where all arcs of an ingress leave by one class, and none of it is open to a chunk,
the chunk cannot come through in this step. Both counts only say that looking at the arcs would be in vain.

A step: every ingress lists its best deliveries (a chunk to the receiver), those that bring the chunk closest to
the ranks still lacking it. Then they are taken from one queue, best first, each over the cheapest arc that has
capacity left. An ingress whose list is used up lists the next ones.
"""

import heapq
from typing import NamedTuple

import numpy as np

from hetesynth.machine_code import Bools, Floats, Ints

MIN_GAIN = 1e-9  # less is rounding
LIST_LENGTH = 16  # deliveries that an ingress lists at a time
GIVEN_UP, STUCK, STOPPED = -1, -2, -3  # instead of a number of steps
MISSING, MADE = 0, 1  # entries of ``Scratch.counts``


class Network(NamedTuple):
    """The arrays that a round reads."""

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
    """The limits that a round has to respect."""

    exclusive: bool  # a rank sends a chunk to one peer a step
    max_peers: int  # ranks that a rank may send to, and receive from
    most_steps: int  # give up after these; less than one: never
    stale_share: float  # a queued delivery whose gain fell below this share of what it was is queued anew


class Progress(NamedTuple):
    """The arrays that a round changes."""

    senders_holding: Ints  # sender sets x chunks: ranks of the set that hold the chunk
    egress_count: Ints  # chunks x classes: egress resources of holders of the chunk, when a step begins
    holds: Bools  # chunks x ranks
    lacks: Bools  # chunks x ranks
    distance: Floats  # chunks x ranks: priced distance from the holders
    used: Floats  # resources; counts uses
    transfers: Ints  # deliveries x 3; filled with step, chunk, arc


class Lists(NamedTuple):
    """The deliveries that each ingress has listed last."""

    rank_of: Ints  # ingresses: the rank that receives through each
    sender_set: Ints  # ingresses: as in the network
    ingress_class: Ints
    length: Ints  # ingresses: deliveries of the list
    pending: Ints  # ingresses: of these, how many are queued
    after_key: Floats  # ingresses: the last delivery listed, by its key and its chunk
    after_chunk: Ints
    best_key: Floats  # as long as a list: the one being made, best first
    best_chunk: Ints


class Scratch(NamedTuple):
    """The arrays that a round keeps for itself."""

    gain: Floats  # chunks x ranks: how much closer the chunk would be to the ranks that lack it
    arriving: Bools  # chunks x ranks: in this step
    present: Bools  # ranks x chunks: held or arriving
    sent: Ints  # chunks x ranks: the last step in which the rank sent the chunk
    residual: Ints  # resources: capacity left in this step
    blocked: Bools  # ranks: none of their ingresses has capacity left
    met: Bools  # ranks x ranks: some chunk went from row to column
    receivers: Ints  # ranks: how many others each has sent to
    senders: Ints  # ranks: how many others each has received from
    open_egress: Ints  # chunks x classes: ``egress_count`` of resources with capacity left
    counts: Ints  # MISSING: deliveries still to make; MADE: transfers


def run_round(network: Network, rules: Rules, progress: Progress, stop: Ints) -> tuple[int, int]:
    """Fill ``transfers``; return how many, and the steps or a code that says why none. ``stop``: not 0 ends it."""
    chunks, ranks = progress.holds.shape
    ingresses = len(network.ingress)
    rank_of = np.zeros(ingresses, dtype=np.int64)
    for v in range(ranks):
        rank_of[network.ingresses_of[v] : network.ingresses_of[v + 1]] = v
    lists = Lists(
        rank_of,
        network.sender_set,
        network.ingress_class,
        np.zeros(ingresses, dtype=np.int64),
        np.zeros(ingresses, dtype=np.int64),
        np.zeros(ingresses),
        np.zeros(ingresses, dtype=np.int64),
        np.zeros(LIST_LENGTH),
        np.zeros(LIST_LENGTH, dtype=np.int64),
    )
    gain = np.zeros((chunks, ranks))
    counts = np.zeros(2, dtype=np.int64)
    counts[MISSING] = add_first_gains(gain, progress.lacks, progress.distance, network.towards)
    arriving = np.zeros((chunks, ranks), dtype=np.bool_)
    scratch = Scratch(
        gain,
        arriving,
        progress.holds.T.copy(),
        np.full((chunks, ranks), -1, dtype=np.int64),
        network.capacity.copy(),
        np.zeros(ranks, dtype=np.bool_),
        np.zeros((ranks, ranks), dtype=np.bool_),
        np.zeros(ranks, dtype=np.int64),
        np.zeros(ranks, dtype=np.int64),
        progress.egress_count.copy(),
        counts,
    )
    step = 0
    while counts[MISSING] > 0:
        if rules.most_steps > 0 and step >= rules.most_steps:
            return counts[MADE], GIVEN_UP
        begin = counts[MADE]
        scratch.residual[:] = network.capacity
        scratch.blocked[:] = False
        scratch.open_egress[:] = progress.egress_count
        lists.after_key[:] = np.inf
        lists.after_chunk[:] = -1
        if not fill_step(network, rules, progress, scratch, lists, step, stop):
            return counts[MADE], STOPPED
        if counts[MADE] == begin:
            return counts[MADE], STUCK
        for n in range(begin, counts[MADE]):  # what arrived in this step is held from now on
            k = progress.transfers[n, 1]
            for v in range(ranks):
                if arriving[k, v]:
                    progress.holds[k, v] = True
                    arriving[k, v] = False
                    progress.egress_count[k] += network.egresses[v]
                    for i in range(network.sets_start[v], network.sets_start[v + 1]):
                        progress.senders_holding[network.sets_of[i], k] += 1
        step += 1
    return counts[MADE], step


def add_first_gains(gain: Floats, lacks: Bools, distance: Floats, towards: Floats) -> int:
    """Add to ``gain`` what each delivery would gain at first; return how many deliveries are lacking."""
    chunks, ranks = gain.shape
    missing = 0
    for k in range(chunks):
        for w in range(ranks):
            if lacks[k, w]:
                missing += 1
                old = distance[k, w]
                for v in range(ranks):
                    saved = old - towards[w, v]
                    gain[k, v] += saved if saved > 0.0 else 0.0
    return missing


def fill_step(
    network: Network, rules: Rules, progress: Progress, scratch: Scratch, lists: Lists, step: int, stop: Ints
) -> bool:
    """Make deliveries, best first, while there is capacity; return False when stopped. All is in one function:
    references to the 20 arrays that it reads would be counted at every call of another one."""
    arc_src, into, ingress, ingress_start, ingresses_of, sender_set = network[:6]
    egress_class, ingress_class, leavers, leavers_start, _, uses, uses_start, capacity = network[8:16]
    price, closest, towards, noise, arc_noise = network[16:]
    exclusive, max_peers, _, stale_share = rules
    senders_holding, _, holds, lacks, distance, used, transfers = progress
    gain, arriving, present, sent, residual, blocked, met, receivers, senders, open_egress, counts = scratch
    ranks = len(blocked)
    queue = [(0.0, -1, -1)]
    queue.pop()
    for i in range(len(ingress)):
        if stop[0] != 0:
            return False
        g = len(ingress) - 1 - i
        list_best(lists, g, gain, noise, present, senders_holding, open_egress, queue)
    again = -1  # an ingress whose list is used up
    while again >= 0 or len(queue) > 0:
        if stop[0] != 0:
            return False
        if again >= 0:
            list_best(lists, again, gain, noise, present, senders_holding, open_egress, queue)
            again = -1
            continue
        promised, code, g = heapq.heappop(queue)
        k = code // ranks
        v = code - k * ranks
        if g >= 0:
            lists.pending[g] -= 1
            full = blocked[v] or (ingress[g] >= 0 and residual[ingress[g]] <= 0)
            if lists.pending[g] == 0 and lists.length[g] == LIST_LENGTH and not full:
                again = g
                lists.after_key[g] = -promised
                lists.after_chunk[g] = k
        if blocked[v] or arriving[k, v] or gain[k, v] <= MIN_GAIN:
            continue
        now = gain[k, v] * noise[k, v]
        if now < -promised * stale_share:
            heapq.heappush(queue, (-now, code, -1))
            continue
        best, best_cost, room = -1, 0.0, False  # the cheapest arc with capacity left
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
                    cost += 2e-3  # one more connection
                fits = True
                for j in range(uses_start[a], uses_start[a + 1]):
                    r = uses[j]
                    if residual[r] <= 0:
                        fits = False
                        break
                    cost += price[r] * (2.0 - residual[r] / capacity[r])  # dearer when full
                if fits and (best < 0 or cost < best_cost):
                    best, best_cost = a, cost
        if best < 0:
            blocked[v] = not room
            continue
        for j in range(uses_start[best], uses_start[best + 1]):
            r = uses[j]
            residual[r] -= 1
            used[r] += 1.0
            if residual[r] == 0 and egress_class[r] >= 0:
                # one resource less leads away from the holders of each chunk
                for i in range(leavers_start[r], leavers_start[r + 1]):
                    for c in range(len(holds)):
                        if holds[c, leavers[i]]:
                            open_egress[c, egress_class[r]] -= 1
        u = arc_src[best]
        if not met[u, v]:
            met[u, v] = True
            receivers[u] += 1
            senders[v] += 1
        sent[k, u] = step
        arriving[k, v] = True
        present[v, k] = True
        transfers[counts[MADE], 0] = step
        transfers[counts[MADE], 1] = k
        transfers[counts[MADE], 2] = best
        counts[MADE] += 1
        counts[MISSING] -= bring_closer(gain, lacks, distance, closest, towards, k, v)
    return True


def list_best(
    lists: Lists,
    g: int,
    gain: Floats,
    noise: Floats,
    present: Bools,
    senders_holding: Ints,
    open_egress: Ints,
    queue: list[tuple[float, int, int]],
) -> None:
    """Queue the best deliveries through ingress ``g`` after the last one listed."""
    best_key, best_chunk = lists.best_key, lists.best_chunk
    chunks, ranks = gain.shape
    v, senders, leaving = lists.rank_of[g], lists.sender_set[g], lists.ingress_class[g]
    after_key, after_chunk = lists.after_key[g], lists.after_chunk[g]
    length = 0
    for k in range(chunks):
        if present[v, k] or senders_holding[senders, k] == 0:
            continue
        if gain[k, v] <= MIN_GAIN or (leaving >= 0 and open_egress[k, leaving] == 0):
            continue
        key = gain[k, v] * noise[k, v]
        if key < after_key or (key == after_key and k > after_chunk):
            i = length
            if length < len(best_key):
                length += 1
            elif key > best_key[length - 1]:
                i -= 1
            else:
                continue
            while i > 0 and best_key[i - 1] < key:
                best_key[i] = best_key[i - 1]
                best_chunk[i] = best_chunk[i - 1]
                i -= 1
            best_key[i] = key
            best_chunk[i] = k
    lists.length[g] = length
    lists.pending[g] = length
    for i in range(length):
        heapq.heappush(queue, (-best_key[i], best_chunk[i] * ranks + v, g))


def bring_closer(
    gain: Floats, lacks: Bools, distance: Floats, closest: Floats, towards: Floats, k: int, v: int
) -> int:
    """Update distances and gains of chunk ``k`` once rank ``v`` will hold it; return the deliveries made."""
    ranks = len(closest)
    deliveries = 0
    for w in range(ranks):
        if not lacks[k, w]:
            continue
        old = distance[k, w]
        if w == v:
            lacks[k, w] = False
            deliveries += 1
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
    return deliveries
