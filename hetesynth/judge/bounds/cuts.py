"""Rechecking cuts: what must cross a border against what can cross it.

In: a problem and a witness (cut, volume, flow). Out: the number of steps the witness proves; ``Refuted`` when it
proves nothing. Capacities are those of the laws that the judge of schedules enforces, added up anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from hetesynth.judge.bounds.laws import Refuted, carried, checked_ranks, demand, quotient
from hetesynth.model.bound import CutWitness, FlowWitness, LastStepWitness, VolumeWitness
from hetesynth.model.problem import Problem

MAX_STEPS = 1_000_000


def cut_steps(problem: Problem, claim: CutWitness) -> int:
    """Every chunk that is needed on the far side of the border crosses it at least once."""
    region = checked_ranks(problem, claim.region, "the region")
    demand(claim.direction in ("in", "out"), f"{claim.direction!r} is no direction")
    far = region if claim.direction == "in" else set(range(problem.ranks)) - region
    across = {a for a, arc in enumerate(problem.arcs) if arc.dst in far and arc.src not in far}
    needed = _must_reach(problem, far)
    demand(claim.needed == needed, f"{claim.needed} chunks are said to cross, {needed} must")
    capacity = carried(problem, claim.resources, across)
    demand(
        claim.capacity == capacity,
        f"the resources are said to carry {claim.capacity} a step, they carry {capacity}",
    )
    return quotient(needed, capacity)


def last_step_steps(problem: Problem, claim: LastStepWitness) -> int:
    """A cut of which the last steps serve less: a crossing with few steps left does not get to all ranks that want
    the chunk, however they pass it on. Each crossing is worth the ranks it can reach, each chunk needs all."""
    demand(not problem.collective.reduces, "parts of a sum may cross in any step")
    demand(claim.wanted > 0, "nobody wants the chunks")
    cut_steps(problem, CutWitness(claim.region, claim.direction, claim.resources, claim.needed, claim.capacity))
    region = set(claim.region)
    far = region if claim.direction == "in" else set(range(problem.ranks)) - region
    for k, (pre, post) in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        listeners = len(post & far)
        if listeners and far.isdisjoint(pre):
            demand(listeners >= claim.wanted, f"chunk {k} is wanted by {listeners} ranks, not {claim.wanted}")
    copies = 1 if problem.exclusive_reduction else _widest(problem, far)
    demand(claim.copies >= copies, f"a rank can pass a chunk on to {copies} others in a step, not {claim.copies}")
    worth, left = 1, claim.needed * claim.wanted
    for steps in range(1, MAX_STEPS + 1):
        left -= claim.capacity * min(worth, claim.wanted)
        if left <= 0:
            return steps
        worth = min(worth * (1 + claim.copies), claim.wanted)
    raise Refuted(f"more than {MAX_STEPS} steps are not rechecked")


def _widest(problem: Problem, ranks: set[int]) -> int:
    """The most others among ``ranks`` that one of them has a link to."""
    pairs = {(arc.src, arc.dst) for arc in problem.arcs if arc.src in ranks and arc.dst in ranks}
    return max(Counter(src for src, _ in pairs).values(), default=0)


def _must_reach(problem: Problem, far: set[int]) -> int:
    """Chunks wanted within ``far`` that it cannot complete by itself: no holder, or a contribution outside."""
    collective = problem.collective
    crossing = 0
    for pre, post in zip(collective.pre, collective.post, strict=True):
        if not far.isdisjoint(post):
            crossing += not pre <= far if collective.reduces else far.isdisjoint(pre)
    return crossing


def volume_steps(problem: Problem, claim: VolumeWitness) -> int:
    """When all m parts contribute to a chunk and want its sum, it crosses between parts at least 2(m - 1) times:
    gossip by one-way calls (Harary and Schwenk 1974), each part taken as one caller."""
    demand(problem.collective.reduces, "the volume bound is for reductions that everybody needs")
    checked_ranks(problem, (r for part in claim.parts for r in part), "the partition")
    part_of = {r: p for p, part in enumerate(claim.parts) for r in part}
    demand(len(part_of) == problem.ranks, "the parts leave a rank out")
    demand(all(claim.parts), "a part is empty")
    everywhere = set(range(len(claim.parts)))
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    chunks = sum({part_of[r] for r in pre} == everywhere == {part_of[r] for r in post} for pre, post in pairs)
    demand(
        claim.chunks == chunks,
        f"{claim.chunks} chunks are said to be needed by every part from every part, not {chunks}",
    )
    crossings = 2 * (len(claim.parts) - 1)
    demand(
        claim.crossings == crossings, f"{len(claim.parts)} parts need {crossings} crossings, not {claim.crossings}"
    )
    between = {a for a, arc in enumerate(problem.arcs) if part_of[arc.src] != part_of[arc.dst]}
    capacity = carried(problem, claim.resources, between)
    demand(
        claim.capacity == capacity,
        f"the resources are said to carry {claim.capacity} a step, they carry {capacity}",
    )
    return quotient(chunks * crossings, capacity)


def flow_steps(problem: Problem, claim: FlowWitness) -> int:
    """The cut of the time-expanded graph: chunks that start on the source side and are wanted at the destination,
    which is not on it, cross during some step, and fewer can cross in all steps together than must."""
    side = _source_side(problem, claim)
    collective, destination = problem.collective, claim.destination
    lacking = inside = 0
    for pre, post in zip(collective.pre, collective.post, strict=True):
        others = pre - {destination}
        if destination not in post or not others or (destination in pre and not collective.reduces):
            continue
        lacking += 1
        starts = [r in side[0] for r in others]
        inside += any(starts) if collective.reduces else all(starts)
    demand(
        0 < claim.needed <= lacking,
        f"{claim.needed} chunks are said to be missing at rank {destination}, {lacking} are",
    )
    across = sum(_across(problem, side, claim.steps))
    outside = lacking - inside
    crossing = across + outside - (lacking - claim.needed)
    demand(crossing <= claim.flow, f"the cut carries {crossing} of the {claim.needed} chunks, not {claim.flow}")
    demand(claim.flow < claim.needed, f"all {claim.needed} chunks can reach rank {destination}")
    return claim.steps + 1


def _source_side(problem: Problem, claim: FlowWitness) -> list[set[int]]:
    """The vertices on the source side before each step, and after the last."""
    demand(0 <= claim.destination < problem.ranks, f"there is no rank {claim.destination}")
    demand(0 <= claim.steps <= MAX_STEPS, f"{claim.steps} steps are not rechecked")
    side: list[set[int]] = [set() for _ in range(claim.steps + 1)]
    for step, vertex in claim.source_side:
        last = claim.steps if vertex < problem.ranks else claim.steps - 1
        exists = 0 <= step <= last and 0 <= vertex < problem.vertices
        demand(exists, f"({step}, {vertex}) is no vertex of the time-expanded graph")
        side[step].add(vertex)
    demand(claim.destination not in side[-1], "the destination is on the source side")
    for step, (now, then) in enumerate(pairwise(side)):
        forgetful = sorted(r for r in now - then if r < problem.ranks)
        if forgetful:
            raise Refuted(
                f"rank {forgetful[0]} keeps what it has after step {step}: it cannot leave the source side"
            )
    return side


def _across(problem: Problem, side: list[set[int]], steps: int) -> Iterator[int]:
    """Chunks that the wires out of the source side carry, for each step."""
    wires = list(_wires(problem))
    ranks = problem.ranks
    for step in range(steps):
        now, then = side[step], side[step + 1]
        total = 0
        for src, dst, capacity, name in wires:
            if src in now and dst not in (then if dst < ranks else now):
                if capacity is None:
                    raise Refuted(f"step {step}: {name} crosses the cut and has no limit")
                total += capacity
        yield total


def _wires(problem: Problem) -> Iterator[tuple[int, int, int | None, str]]:
    """Wires in use and links without wires: ends, chunks a step, name. Each link is a path of wires, so what
    crosses on a link crosses on a wire. A wire of one link carries what that link may carry."""
    users: list[int] = [0] * len(problem.segments)
    alone: dict[int, int] = {}
    segments = problem.segments
    starts, ends = [s.src for s in segments], [s.dst for s in segments]
    for a, arc in enumerate(problem.arcs):
        if not arc.segments:
            yield arc.src, arc.dst, arc.capacity, f"link {a}"
            continue
        at = arc.src
        for s in arc.segments:
            if starts[s] != at:
                raise Refuted(f"the wires of link {a} are no path")
            at = ends[s]
            users[s] += 1
            alone[s] = arc.capacity
        if at != arc.dst:
            raise Refuted(f"the wires of link {a} do not end at rank {arc.dst}")
    for s, segment in enumerate(segments):
        if users[s]:
            capacity = alone[s] if users[s] == 1 else segment.capacity
            yield segment.src, segment.dst, capacity, segment.name
