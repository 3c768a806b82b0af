"""The best lower bound on the number of steps of a problem.

In: a copying problem, or allreduce. Out: a ``LowerBound`` with its witness. Reductions to one rank per chunk are
bounded through their dual, which takes exactly as many steps: the caller inverts them.
"""

from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from hetesynth.model import bound as proofs
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, PackingPolicy
from hetesynth.search.bounds.regions import Coverer, Region, partitions


@dataclass(frozen=True, slots=True)
class Reach:
    """The distances of chunks: ``farthest`` (chunk, rank, hops); ``stranded``: a (chunk, rank) with no path."""

    farthest: proofs.DistanceWitness
    stranded: tuple[int, int] | None


def reach(problem: Problem) -> Reach:
    """Return how far chunks must travel; in a reduction, every contribution to the chunk's targets. For all
    origins at once: a rank's state is a bit set of the origins that reach it so far."""
    collective = problem.collective
    index: dict[frozenset[int], int] = {}  # the distinct places chunks start from, one bit each
    needs = [0] * problem.ranks
    for pre, post in dict.fromkeys(collective.ends):
        for origin in [frozenset({r}) for r in sorted(pre)] if collective.reduces else [pre]:
            bit = 1 << index.setdefault(origin, len(index))
            for target in post:
                needs[target] |= bit
    origins, everything = list(index), (1 << len(index)) - 1
    state = [sum(1 << bit for bit, origin in enumerate(origins) if r in origin) for r in range(problem.ranks)]
    neighbours: list[set[int]] = [set() for _ in range(problem.ranks)]
    for arc in problem.arcs:
        neighbours[arc.dst].add(arc.src)
    farthest = proofs.DistanceWitness(0, 0, 0)
    hops = 0
    while True:
        missing = [need & ~has for need, has in zip(needs, state, strict=True)]
        rank = next((r for r, bits in enumerate(missing) if bits), None)
        if rank is None:
            return Reach(farthest, None)
        origin = origins[(missing[rank] & -missing[rank]).bit_length() - 1]
        starts = (
            k for k, pre in enumerate(collective.pre) if (origin <= pre if collective.reduces else origin == pre)
        )
        late = next(k for k in starts if rank in collective.post[k]), rank
        hops += 1
        farthest = proofs.DistanceWitness(*late, hops)
        after = list(state)
        for v, senders in enumerate(neighbours):
            if state[v] != everything:
                for u in senders:
                    after[v] |= state[u]
        if after == state:
            return Reach(farthest, late)
        state = after


def distance_bound(problem: Problem) -> LowerBound:
    """Return the bound that no chunk arrives sooner than its distance."""
    worst = reach(problem).farthest
    links = f"{worst.hops} link{'' if worst.hops == 1 else 's'}"
    return LowerBound(worst.hops, "distance", f"chunk {worst.chunk} is {links} away from rank {worst.rank}", worst)


def doubling_bound(problem: Problem) -> LowerBound | None:
    """Return the bound that a chunk's holders at most double each step, with one send (or one addition) of a chunk
    per rank and step; None if ranks may add it more often."""
    if not problem.exclusive_reduction:
        return None
    collective = problem.collective
    spread = max(max(len(pre), len(post)) for pre, post in collective.ends)
    steps = max(0, spread - 1).bit_length()
    proof = f"one addition per chunk, rank and step: {spread} contributions need {steps} doublings (eq. 8)"
    return LowerBound(steps, "doubling", proof)


Direction = Literal["in", "out"]


def cut_bounds(problem: Problem) -> tuple[LowerBound | None, LowerBound | None]:
    """The best cut and the best last-step bound over single ranks and groups of well-joined ranks, in both
    directions: what must enter a region, over what can enter it in a step (SCCL 3.1, the bandwidth bound)."""
    coverer = Coverer(problem)
    alike: set[tuple[int, ...]] | None = set() if len(problem.arcs) > 20_000 else None
    cuts, last_steps, seen = list[LowerBound](), list[LowerBound](), set[Region]()
    for parts in partitions(problem):
        crossing = _crossing(problem, parts)
        for p, region in enumerate(parts):
            if region in seen:
                continue
            seen.add(region)
            for direction, arcs in crossing.items():
                if alike is not None:  # on large graphs one of the regions that look the same must do
                    wide = sum(problem.arcs[a].capacity for a in arcs[p])
                    peers = {problem.arcs[a].src if direction == "out" else problem.arcs[a].dst for a in arcs[p]}
                    look = (direction == "in", len(region), len(arcs[p]), wide, len(peers))
                    if look in alike:
                        continue
                    alike.add(look)
                crossed = _must_cross(problem, frozenset(region), direction)
                if not crossed or not arcs[p]:
                    continue
                cover = coverer.cover(arcs[p])
                named = f"{region[0]}-{region[-1]}"
                if region != tuple(range(region[0], region[-1] + 1)):
                    named = ", ".join(map(str, region))
                where = f"rank {region[0]}" if len(region) == 1 else f"ranks {named}"
                verb = "enter" if direction == "in" else "leave"
                proof = f"{len(crossed)} chunks must {verb} {where}, at most {cover.capacity} can in a step"
                witness = proofs.CutWitness(region, direction, cover.resources, len(crossed), cover.capacity)
                bound = LowerBound(-(-len(crossed) // cover.capacity), "cut", proof, witness)
                cuts.append(bound)
                if not problem.collective.reduces and (late := _last_step_bound(problem, bound, witness)):
                    last_steps.append(late)
    cut, last_step = (max(some, key=lambda b: b.steps, default=None) for some in (cuts, last_steps))
    return cut, last_step


def _crossing(problem: Problem, parts: list[Region]) -> dict[Direction, dict[int, list[int]]]:
    part_of = {r: p for p, region in enumerate(parts) for r in region}
    crossing: dict[Direction, dict[int, list[int]]] = {"in": defaultdict(list), "out": defaultdict(list)}
    for a, arc in enumerate(problem.arcs):
        src, dst = part_of[arc.src], part_of[arc.dst]
        if src != dst:
            crossing["out"][src].append(a)
            crossing["in"][dst].append(a)
    return crossing


def _last_step_bound(problem: Problem, cut: LowerBound, w: proofs.CutWitness) -> LowerBound | None:
    """Return the bound that ``cut`` proves when the last step is looked at; None when that is no more.

    A copied chunk that crosses when r steps are left, that one included, reaches (1 + d)^(r - 1) ranks of the far
    side, where d is how many others a rank there can send it to in a step: its neighbors, or one where a rank adds
    one value at a time (HeteCCL eq. 8). So with w ranks at least that want each of n chunks and a capacity of C,
    n w <= C (min(w, 1) + min(w, 1 + d) + ... + min(w, (1 + d)^(T - 1)))."""
    far = frozenset(w.region) if w.direction == "in" else frozenset(range(problem.ranks)) - set(w.region)
    posts = problem.collective.post
    listeners = min(len(posts[k] & far) for k in _must_cross(problem, frozenset(w.region), w.direction))
    copies = most_copies(problem, far)
    steps, reach, served = 0, 1, 0
    while (short := w.needed * listeners - w.capacity * served) > 0:
        if reach >= listeners or not copies:  # every step more serves as much
            steps += -(-short // (w.capacity * min(listeners, reach)))
            break
        served += reach
        reach *= 1 + copies
        steps += 1
    if steps <= cut.steps:
        return None
    witness = proofs.LastStepWitness(w.region, w.direction, w.resources, w.needed, w.capacity, listeners, copies)
    if listeners <= 1 + copies:
        late = f"in the last step does so {listeners} times"
    else:
        others = "1 other" if copies == 1 else f"{copies} others"
        late = f"late does so more often, as {listeners} ranks want it and pass it on to {others} a step"
    return LowerBound(steps, "last-step", f"{cut.proof}, and one that first does so {late}", witness)


def most_copies(problem: Problem, ranks: Set[int]) -> int:
    """Return the most others among ``ranks`` to which one of them sends a chunk in a step."""
    if problem.exclusive_reduction:
        return 1
    others: dict[int, set[int]] = defaultdict(set)
    for arc in problem.arcs:
        if arc.src in ranks and arc.dst in ranks:
            others[arc.src].add(arc.dst)
    return max(map(len, others.values()), default=0)


def _must_cross(problem: Problem, region: frozenset[int], direction: Direction) -> list[int]:
    """Chunks that cannot be complete where they must be unless something crosses in ``direction``."""
    collective = problem.collective
    crossing = []
    for k, (pre, post) in enumerate(collective.ends):
        inside, outside = not pre.isdisjoint(region), not pre <= region
        goes_in, goes_out = not post.isdisjoint(region), not post <= region
        if direction == "in":
            crosses = goes_in and outside and (collective.reduces or not inside)
        else:
            crosses = goes_out and inside and (collective.reduces or not outside)
        if crosses:
            crossing.append(k)
    return crossing


def volume_bound(problem: Problem) -> LowerBound | None:
    """Return the bound that allreduce over m parts moves every chunk at least 2 (m - 1) times between parts: full
    exchange by one-way calls needs 2m - 2 of them (Harary and Schwenk 1974), contracted to the parts."""
    if problem.collective.name != "allreduce":
        return None
    coverer = Coverer(problem)
    bounds: list[LowerBound] = []
    for parts in partitions(problem):
        crossing = [a for arcs in _crossing(problem, parts)["in"].values() for a in arcs]
        if not crossing:
            continue
        cover = coverer.cover(crossing)
        chunks, crossings = len(problem.collective.chunks), 2 * (len(parts) - 1)
        steps = -(-chunks * crossings // cover.capacity)
        proof = (
            f"each of {chunks} chunks crosses between {len(parts)} parts at least {crossings} times, "
            f"at most {cover.capacity} crossings fit in a step"
        )
        witness = proofs.VolumeWitness(tuple(parts), chunks, crossings, cover.resources, cover.capacity)
        bounds.append(LowerBound(steps, "volume", proof, witness))
    return max(bounds, key=lambda b: b.steps, default=None)


def growth_bound(problem: Problem) -> LowerBound | None:
    """The best growth bound over the candidate partitions, or None where no single source serves everybody.

    Split the ranks into parts (servers). A part that held the chunk a step ago may be full of it and sends on at
    most what can leave a part; a rank that has just received it in a new part sends at most what can leave a rank.
    So the parts reached grow no faster than

        S(0) = min(E r, x h),  R(0) = r,  R(t+1) = min(m, R(t) + S(t)),  S(t+1) = E R(t) + min(E, x) S(t)

    with r parts and h ranks holding it at first, E and x the most that leaves any part and any rank. In the last
    step every rank of a part not yet reached must receive it from outside: the smallest parts left need as many
    arrivals as they have ranks, and no part takes more than can enter it.
    """
    if len(set(problem.collective.pre)) > 1:
        return None  # several sources: the flow into one destination asks for more
    ends = enumerate(problem.collective.ends)
    chunk = next((k for k, (pre, post) in ends if len(post) == problem.ranks > len(pre)), None)
    if chunk is None or len(problem.arcs) > 20_000:
        return None
    coverer = Coverer(problem)
    holders = problem.collective.pre[chunk]
    bounds: list[LowerBound] = []
    for parts in partitions(problem):
        crossing, sent = _crossing(problem, parts), defaultdict[int, list[int]](list)
        for a in sorted(a for arcs in crossing["out"].values() for a in arcs):
            sent[problem.arcs[a].src].append(a)
        sides = ((crossing["out"], len(parts)), (crossing["in"], len(parts)), (sent, problem.ranks))
        out_of, into, rank_out = ([coverer.cover(arcs[i]) for i in range(number)] for arcs, number in sides)
        most = max(c.capacity for c in out_of), max(c.capacity for c in rank_out)
        # the least number of steps that the recurrence leaves open
        first = reached = sum(not holders.isdisjoint(part) for part in parts)
        new = [(part, c) for part, c in zip(parts, into, strict=True) if holders.isdisjoint(part)]
        slow, sizes = sum(len(part) > c.capacity for part, c in new), sorted(len(part) for part, _ in new)
        sends, steps = min(most[0] * reached, most[1] * len(holders)), 1
        # where nothing spreads the caller has seen that every rank can be reached
        while sends and (sum(sizes[: len(parts) - reached]) > sends or reached - first < slow):
            reached, sends = min(len(parts), reached + sends), most[0] * reached + min(most) * sends
            steps += 1
        names = (tuple(c.resources for c in side) for side in (out_of, into, rank_out))
        witness = proofs.GrowthWitness(chunk, tuple(parts), *names)
        what = "ranks" if len(parts) == problem.ranks else "groups of ranks"
        proof = f"spreading over {len(parts)} {what}, of which at most {most[0]} chunks leave one in a step"
        bounds.append(LowerBound(steps, "growth", proof, witness))
    return max(bounds, key=lambda b: b.steps, default=None)


def all_bounds(problem: Problem, packing: PackingPolicy = DEFAULT.packing) -> list[LowerBound]:
    """Every bound that applies, best first; among equals the simplest proof first."""
    bounds, last_step = _without_flows(problem)
    if not problem.collective.reduces:
        from hetesynth.search.bounds.flow import flow_bound
        from hetesynth.search.bounds.packing import price_bound

        at_least, collective = max(b.steps for b in bounds), problem.collective
        further = [flow_bound(problem, at_least)]
        if all(len(ends) == 1 for ends in (*collective.post, *collective.pre)):
            out_of = flow_bound(problem.reversed(), at_least)
            if out_of is not None:
                out_of = replace(out_of, proof=out_of.proof.replace("can reach", "can leave"), backwards=True)
            further.append(out_of)
        further.append(price_bound(problem, packing))
        bounds += tuple(bound for bound in further if bound is not None)
    return sorted([*bounds, *last_step], key=lambda b: -b.steps)


def quick_bound(problem: Problem) -> LowerBound:
    """Return the best of the bounds that take no flows and no linear programs."""
    cheap, last_step = _without_flows(problem)
    return max((*cheap, *last_step), key=lambda b: b.steps)


@lru_cache(maxsize=16)
def _without_flows(problem: Problem) -> tuple[tuple[LowerBound, ...], tuple[LowerBound, ...]]:
    cut, last_step = cut_bounds(problem)
    collective = problem.collective
    moving = any(post - pre or (collective.reduces and len(pre) > 1) for pre, post in collective.ends)
    trivial = LowerBound(int(moving), "trivial", "something must move" if moving else "nothing has to move")
    growth = None if collective.reduces else growth_bound(problem)
    cheap = (trivial, distance_bound(problem), doubling_bound(problem), cut, volume_bound(problem), growth)
    return tuple(b for b in cheap if b is not None), () if last_step is None else (last_step,)


@lru_cache(maxsize=16)
def lower_bound(problem: Problem, packing: PackingPolicy = DEFAULT.packing) -> LowerBound:
    """The best bound known."""
    return all_bounds(problem, packing)[0]
