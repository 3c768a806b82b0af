"""The cut bound: what must enter a region, over what can enter it in a step.

In: any problem. Out: the best such bound over single ranks and groups of well-joined ranks, in both directions
(SCCL 3.1, the bandwidth bound). For reductions a chunk whose contributions lie on both sides crosses once.

Last steps: a copied chunk that crosses when r steps are left, that one included, reaches (1 + d)^(r - 1) ranks of
the far side, where d is how many others a rank there can send it to in a step: its neighbours, or one where a rank
adds one value at a time (HeteCCL eq. 8). So with w ranks at least that want each of n chunks and a capacity of C,
n w <= C (min(w, 1) + min(w, 1 + d) + ... + min(w, (1 + d)^(T - 1))).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set
from typing import Literal

from hetesynth.model.bound import CutWitness, LastStepWitness, LowerBound, VolumeWitness
from hetesynth.model.problem import Problem
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.bounds.cover import Coverer
from hetesynth.search.bounds.regions import Region, partitions

Direction = Literal["in", "out"]


def cut_bounds(problem: Problem, policy: BoundsPolicy) -> tuple[LowerBound | None, LowerBound | None]:
    """The best cut and the best last-step bound over the candidate regions."""
    coverer = Coverer(problem)
    alike: set[tuple[int, ...]] | None = set() if len(problem.arcs) > policy.cut_every_region_arcs else None
    cut: LowerBound | None = None
    last_step: LowerBound | None = None
    seen: set[Region] = set()
    for parts in partitions(problem, policy):
        crossing = _crossing(problem, parts)
        for p, region in enumerate(parts):
            if region in seen:
                continue
            seen.add(region)
            for direction, arcs in crossing.items():
                if alike is not None and _met(alike, problem, region, direction, arcs[p]):
                    continue
                bound = _bound(problem, coverer, region, direction, arcs[p])
                if bound is None:
                    continue
                cut = bound if cut is None or bound.steps > cut.steps else cut
                arrived = None if problem.collective.reduces else _last_step_bound(problem, bound)
                if arrived is not None and (last_step is None or arrived.steps > last_step.steps):
                    last_step = arrived
    return cut, last_step


def _met(
    alike: set[tuple[int, ...]], problem: Problem, region: Region, direction: Direction, arcs: list[int]
) -> bool:
    """Whether a region that looks the same was tried: on large graphs one of a kind must do."""
    wide = sum(problem.arcs[a].capacity for a in arcs)
    peers = len({problem.arcs[a].src if direction == "out" else problem.arcs[a].dst for a in arcs})
    look = (direction == "in", len(region), len(arcs), wide, peers)
    if look in alike:
        return True
    alike.add(look)
    return False


def _crossing(problem: Problem, parts: list[Region]) -> dict[Direction, dict[int, list[int]]]:
    part_of = {r: p for p, region in enumerate(parts) for r in region}
    crossing: dict[Direction, dict[int, list[int]]] = {"in": defaultdict(list), "out": defaultdict(list)}
    for a, arc in enumerate(problem.arcs):
        src, dst = part_of[arc.src], part_of[arc.dst]
        if src != dst:
            crossing["out"][src].append(a)
            crossing["in"][dst].append(a)
    return crossing


def _bound(
    problem: Problem, coverer: Coverer, region: Region, direction: Direction, arcs: list[int]
) -> LowerBound | None:
    needed = sum(1 for _ in _must_cross(problem, frozenset(region), direction))
    if not needed or not arcs:
        return None
    cover = coverer.cover(arcs)
    steps = -(-needed // cover.capacity)
    where = f"rank {region[0]}" if len(region) == 1 else f"ranks {_in_words(region)}"
    verb = "enter" if direction == "in" else "leave"
    proof = f"{needed} chunks must {verb} {where}, at most {cover.capacity} can in a step"
    return LowerBound(steps, "cut", proof, CutWitness(region, direction, cover.resources, needed, cover.capacity))


def _last_step_bound(problem: Problem, cut: LowerBound) -> LowerBound | None:
    """What ``cut`` proves when the last step is looked at; None when that is no more."""
    w = cut.witness
    if not isinstance(w, CutWitness):
        return None
    far = frozenset(w.region) if w.direction == "in" else frozenset(range(problem.ranks)) - set(w.region)
    posts = problem.collective.post
    listeners = min(len(posts[k] & far) for k in _must_cross(problem, frozenset(w.region), w.direction))
    copies = most_copies(problem, far)
    steps = _steps(w, listeners, copies)
    if steps <= cut.steps:
        return None
    witness = LastStepWitness(w.region, w.direction, w.resources, w.needed, w.capacity, listeners, copies)
    if listeners <= 1 + copies:
        late = f"in the last step does so {listeners} times"
    else:
        late = f"late does so more often, as {listeners} ranks want it and pass it on to {copies} other a step"
    return LowerBound(steps, "last-step", f"{cut.proof}, and one that first does so {late}", witness)


def most_copies(problem: Problem, ranks: Set[int]) -> int:
    """To how many others among ``ranks`` one of them sends a chunk in a step, at most."""
    if problem.exclusive_reduction:
        return 1
    others: dict[int, set[int]] = defaultdict(set)
    for arc in problem.arcs:
        if arc.src in ranks and arc.dst in ranks:
            others[arc.src].add(arc.dst)
    return max(map(len, others.values()), default=0)


def _steps(cut: CutWitness, listeners: int, copies: int) -> int:
    """The least T with n w <= C times the ranks that arrivals reach."""
    steps, reach, served = 0, 1, 0
    while cut.capacity * served < cut.needed * listeners:
        if reach >= listeners or not copies:  # every step more serves as much
            short = cut.needed * listeners - cut.capacity * served
            return steps + -(-short // (cut.capacity * min(listeners, reach)))
        served += reach
        reach *= 1 + copies
        steps += 1
    return steps


def _must_cross(problem: Problem, region: frozenset[int], direction: Direction) -> Iterator[int]:
    """Chunks that cannot be complete where they must be unless something crosses in ``direction``."""
    collective = problem.collective
    for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
        inside, outside = not pre.isdisjoint(region), not pre <= region
        goes_in, goes_out = not post.isdisjoint(region), not post <= region
        if direction == "in":
            crosses = goes_in and outside and (collective.reduces or not inside)
        else:
            crosses = goes_out and inside and (collective.reduces or not outside)
        if crosses:
            yield k


def volume_bound(problem: Problem, policy: BoundsPolicy) -> LowerBound | None:
    """Allreduce over m parts moves every chunk at least 2 (m - 1) times between parts: full exchange by one-way
    calls needs 2m - 2 of them (Harary and Schwenk 1974), contracted to the parts."""
    if problem.collective.name != "allreduce":
        return None
    coverer = Coverer(problem)
    best: LowerBound | None = None
    for parts in partitions(problem, policy):
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
        if best is None or steps > best.steps:
            witness = VolumeWitness(tuple(parts), chunks, crossings, cover.resources, cover.capacity)
            best = LowerBound(steps, "volume", proof, witness)
    return best


def _in_words(region: Region) -> str:
    """``0-3`` or ``0, 2, 5``."""
    if region == tuple(range(region[0], region[-1] + 1)):
        return f"{region[0]}-{region[-1]}"
    return ", ".join(map(str, region))
