"""The judge of lower bounds: rechecks from the witness alone that no schedule takes fewer steps.

It knows nothing of how bounds are found and uses none of that code; what it demands of a witness is in
docs/certificates.md.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from hetesynth.judge.bounds.laws import (
    NEVER,
    Refuted,
    carried,
    checked_ranks,
    demand,
    homes,
    hops_over,
    price_steps,
    quotient,
    stepped_price_steps,
    turned_around,
)
from hetesynth.judge.bounds.query import query_steps
from hetesynth.model.bound import (
    CutWitness,
    DistanceWitness,
    FlowWitness,
    GrowthWitness,
    LastStepWitness,
    LowerBound,
    PriceWitness,
    SteppedPriceWitness,
    UnsatWitness,
    VolumeWitness,
)
from hetesynth.model.problem import Problem
from hetesynth.model.verdict import Violation

MAX_STEPS = 1_000_000


def cut_steps(problem: Problem, claim: CutWitness) -> int:
    """Return the steps of a cut: each chunk needed on the far side of the border crosses it at least once."""
    far = _far(problem, claim)
    across = {a for a, arc in enumerate(problem.arcs) if arc.dst in far and arc.src not in far}
    collective = problem.collective
    needed = 0  # chunks wanted on the far side that it cannot complete by itself
    for pre, post in zip(collective.pre, collective.post, strict=True):
        if not far.isdisjoint(post):
            needed += not pre <= far if collective.reduces else far.isdisjoint(pre)
    demand(claim.needed == needed, f"{claim.needed} chunks are said to cross, {needed} must")
    return quotient(needed, _capacity(problem, claim, across))


def _far(problem: Problem, claim: CutWitness) -> set[int]:
    """The ranks on the far side of the border."""
    region = checked_ranks(problem, claim.region, "the region")
    demand(claim.direction in ("in", "out"), f"{claim.direction!r} is no direction")
    return region if claim.direction == "in" else set(range(problem.ranks)) - region


def _capacity(problem: Problem, claim: CutWitness | VolumeWitness, links: set[int]) -> int:
    capacity = carried(problem, claim.resources, links)
    said = f"the resources are said to carry {claim.capacity} a step, they carry {capacity}"
    demand(claim.capacity == capacity, said)
    return capacity


def last_step_steps(problem: Problem, claim: LastStepWitness) -> int:
    """Return the steps of a cut whose last steps serve less: a late crossing does not get to all ranks that want
    the chunk, however they pass it on. Each crossing is worth the ranks it can reach, each chunk needs all."""
    demand(not problem.collective.reduces, "parts of a sum may cross in any step")
    demand(claim.wanted > 0, "nobody wants the chunks")
    cut_steps(problem, claim)
    far = _far(problem, claim)
    for k, (pre, post) in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        listeners = len(post & far)
        if listeners and far.isdisjoint(pre):
            demand(listeners >= claim.wanted, f"chunk {k} is wanted by {listeners} ranks, not {claim.wanted}")
    copies = 1
    if not problem.exclusive_reduction:  # the most others on the far side that one of it has a link to
        pairs = {(arc.src, arc.dst) for arc in problem.arcs if arc.src in far and arc.dst in far}
        copies = max(Counter(src for src, _ in pairs).values(), default=0)
    demand(claim.copies >= copies, f"a rank can pass a chunk on to {copies} others in a step, not {claim.copies}")
    steps, worth, left = 0, 1, claim.needed * claim.wanted
    while left > 0:
        steps += 1
        left -= claim.capacity * worth
        worth = min(worth * (1 + claim.copies), claim.wanted)
    return steps


def volume_steps(problem: Problem, claim: VolumeWitness) -> int:
    """Return the steps of the volume bound: a chunk whose sum all m parts give to and want crosses between parts
    at least 2(m - 1) times: gossip by one-way calls (Harary and Schwenk 1974), each part taken as one caller."""
    demand(problem.collective.reduces, "the volume bound is for reductions that everybody needs")
    part_of = homes(problem, claim.parts)
    everywhere = set(range(len(claim.parts)))
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    chunks = sum({part_of[r] for r in pre} == everywhere == {part_of[r] for r in post} for pre, post in pairs)
    said = f"{claim.chunks} chunks are said to be needed by every part from every part, not {chunks}"
    demand(claim.chunks == chunks, said)
    crossings = 2 * (len(claim.parts) - 1)
    said = f"{len(claim.parts)} parts need {crossings} crossings, not {claim.crossings}"
    demand(claim.crossings == crossings, said)
    between = {a for a, arc in enumerate(problem.arcs) if part_of[arc.src] != part_of[arc.dst]}
    return quotient(chunks * crossings, _capacity(problem, claim, between))


def flow_steps(problem: Problem, claim: FlowWitness) -> int:
    """Return one step more than a cut of the time-expanded graph excludes: chunks that start on the source side
    and are wanted at the destination, not on it, cross in some step; fewer than must can cross in all steps."""
    destination, ranks = claim.destination, problem.ranks
    demand(0 <= destination < ranks, f"there is no rank {destination}")
    demand(0 <= claim.steps <= MAX_STEPS, f"{claim.steps} steps are not rechecked")
    side: list[set[int]] = [set() for _ in range(claim.steps + 1)]  # before each step, and at the end
    for step, vertex in claim.source_side:
        last = claim.steps if vertex < ranks else claim.steps - 1
        exists = 0 <= step <= last and 0 <= vertex < problem.vertices
        demand(exists, f"({step}, {vertex}) is no vertex of the time-expanded graph")
        side[step].add(vertex)
    demand(destination not in side[-1], "the destination is on the source side")
    lacking = inside = 0
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        others, reduces = pre - {destination}, problem.collective.reduces
        if destination in post and others and (reduces or destination not in pre):
            lacking += 1
            inside += not others.isdisjoint(side[0]) if reduces else others <= side[0]
    said = f"{claim.needed} chunks are said to be missing at rank {destination}, {lacking} are"
    demand(0 < claim.needed <= lacking, said)
    across = 0  # chunks that the wires out of the source side carry in all steps
    wires = _wires(problem)
    for step, (now, then) in enumerate(pairwise(side)):
        for rank in sorted(r for r in now - then if r < ranks):
            raise Refuted(f"rank {rank} keeps what it has after step {step}: it cannot leave the source side")
        for src, dst, capacity, name in wires:
            if src in now and dst not in (then if dst < ranks else now):
                if capacity is None:
                    raise Refuted(f"step {step}: {name} crosses the cut and has no limit")
                across += capacity
    crossing = across + claim.needed - inside
    demand(crossing <= claim.flow, f"the cut carries {crossing} of the {claim.needed} chunks, not {claim.flow}")
    demand(claim.flow < claim.needed, f"all {claim.needed} chunks can reach rank {destination}")
    return claim.steps + 1


def _wires(problem: Problem) -> list[tuple[int, int, int | None, str]]:
    """Wires in use and links without wires: ends, chunks a step, name. Each link is a path of wires, so what
    crosses on a link crosses on a wire. A wire of one link carries what that link may carry."""
    segments = problem.segments
    users: dict[int, list[int]] = {}  # of each wire in use, what the links over it may carry
    wires: list[tuple[int, int, int | None, str]] = []
    for a, arc in enumerate(problem.arcs):
        if not arc.segments:
            wires.append((arc.src, arc.dst, arc.capacity, f"link {a}"))
            continue
        at = arc.src
        for s in arc.segments:
            demand(segments[s].src == at, f"the wires of link {a} are no path")
            at = segments[s].dst
            users.setdefault(s, []).append(arc.capacity)
        demand(at == arc.dst, f"the wires of link {a} do not end at rank {arc.dst}")
    for s, over in sorted(users.items()):
        capacity = over[0] if len(over) == 1 else segments[s].capacity
        wires.append((segments[s].src, segments[s].dst, capacity, segments[s].name))
    return wires


def growth_steps(problem: Problem, claim: GrowthWitness) -> int:
    """The first number of steps in which a chunk that every rank wants can spread over the parts.

    Until a step begins, the ranks that hold the chunk are at most all of the parts that held it one step earlier,
    and one rank for every arrival since in another part; what they can send to other parts is bounded by the named
    resources. In the last step a part without the chunk must take one arrival for each of its ranks.
    """
    demand(0 <= claim.chunk < len(problem.collective.chunks), "it is about a chunk that does not exist")
    demand(len(problem.collective.post[claim.chunk]) == problem.ranks, "not every rank wants the chunk")
    demand(not problem.collective.reduces, "growth is about copies")
    home = homes(problem, claim.parts)
    parts_named = len(claim.out_of_parts) == len(claim.into_parts) == len(claim.parts)
    everyone = parts_named and len(claim.out_of_ranks) == problem.ranks
    demand(everyone, "it does not name resources for everyone")
    out_of_part: list[set[int]] = [set() for _ in claim.parts]
    into_part: list[set[int]] = [set() for _ in claim.parts]
    out_of_rank: list[set[int]] = [set() for _ in range(problem.ranks)]
    for a, arc in enumerate(problem.arcs):
        if home[arc.src] != home[arc.dst]:
            out_of_part[home[arc.src]].add(a)
            into_part[home[arc.dst]].add(a)
            out_of_rank[arc.src].add(a)
    leaves_part = max(_each_carried(problem, claim.out_of_parts, out_of_part))
    enters_part = _each_carried(problem, claim.into_parts, into_part)
    leaves_rank = max(_each_carried(problem, claim.out_of_ranks, out_of_rank))
    holders = problem.collective.pre[claim.chunk]
    fresh = [p for p, part in enumerate(claim.parts) if holders.isdisjoint(part)]
    must_be_early = sum(enters_part[p] < len(claim.parts[p]) for p in fresh)
    smallest_first = sorted(len(claim.parts[p]) for p in fresh)
    old, new = len(claim.parts) - len(fresh), 0  # parts that had the chunk at first, and since
    out = min(leaves_part * old, leaves_rank * len(holders))
    step = 1
    while True:  # as long as chunks leave parts, more parts have some
        missing = max(0, len(fresh) - new)
        if out == 0 or (out >= sum(smallest_first[:missing]) and len(fresh) - missing >= must_be_early):
            return step
        before, arrivals = min(len(claim.parts), old + new), out
        new = min(len(fresh), new + arrivals)
        out = leaves_part * before + min(leaves_part, leaves_rank) * arrivals
        step += 1


def _each_carried(problem: Problem, names: tuple[tuple[str, ...], ...], links: list[set[int]]) -> list[int]:
    return [carried(problem, n, ls) if ls else 0 for n, ls in zip(names, links, strict=True)]


Unsat = Callable[[str], "bool | None"]  # an SMT-LIB 2 text -> unsatisfiable, satisfiable, not known


@dataclass(frozen=True, slots=True)
class Recheck:
    """The result of a recheck: ``violations``, and what was left unchecked (``open``), in words; None: nothing."""

    violations: tuple[Violation, ...] = ()
    open: str | None = None

    @property
    def complete(self) -> bool:
        """True if the bound is proved by what was rechecked."""
        return not self.violations and self.open is None


def recheck(problem: Problem, bound: LowerBound, *, unsat: Unsat | None = None) -> Recheck:
    """Recheck from its witness that every schedule of ``problem`` has at least the steps that ``bound`` claims. A
    query that ``unsat`` does not decide stays open; one that is satisfiable refutes the bound."""
    try:
        witness = bound.witness
        row = _WITNESS.get(bound.method)
        if row is None or not isinstance(witness, row[0]):
            raise Refuted(f"its witness is a {type(witness).__name__}")
        proved = row[1](turned_around(problem) if bound.backwards else problem, witness)
        least = 0 if witness is None else proved  # what has no witness may claim less than it could
        demand(least <= bound.steps <= proved, f"it claims {bound.steps} steps, its proof gives {proved}")
        if not isinstance(witness, UnsatWitness):
            return Recheck()
        answer = None if unsat is None else unsat(witness.query)
        demand(answer is not False, "its query is satisfiable")
        return Recheck(open=None if answer else "its query, which no second solver decided in time")
    except Refuted as reason:
        return Recheck((Violation("certificate", f"the {bound.method} bound does not hold: {reason}"),))


def _trivial_steps(problem: Problem, _: None) -> int:
    """Return 1 where something has to move, a chunk to a target or contributions to each other; else 0."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    return int(any(not post <= pre or (collective.reduces and len(pre) > 1) for pre, post in pairs))


def _distance_steps(problem: Problem, claim: DistanceWitness) -> int:
    """Return how many links a chunk crosses, one a step, from its nearest holder or its farthest contributor."""
    collective = problem.collective
    if claim.hops == 0:
        return 0
    demand(0 <= claim.chunk < len(collective.chunks), f"there is no chunk {claim.chunk}")
    demand(claim.rank in collective.post[claim.chunk], f"rank {claim.rank} does not want chunk {claim.chunk}")
    senders: list[set[int]] = [set() for _ in range(problem.ranks)]
    for arc in problem.arcs:
        senders[arc.dst].add(arc.src)
    away = hops_over(senders, [claim.rank])
    holders = [away[r] for r in collective.pre[claim.chunk]]
    hops = max(holders) if collective.reduces else min(holders)
    text = f"chunk {claim.chunk} is {hops} links away from rank {claim.rank}, not {claim.hops}"
    demand(claim.hops == hops or hops == NEVER, text)
    return claim.hops


def _doubling_steps(problem: Problem, _: None) -> int:
    """Return the steps of eq. 8: contributions in a value, or holders of a chunk, at most double in each step."""
    text = "nothing forbids several additions, or sends, of one chunk at once (eq. 8)"
    demand(problem.exclusive_reduction, text)
    collective = problem.collective
    steps = 0
    for pre, post in set(zip(collective.pre, collective.post, strict=True)):
        start, end = (1, len(pre)) if collective.reduces else (len(pre), len(pre | post))
        steps = max(steps, (-(-end // start) - 1).bit_length())
    return steps


_WITNESS: dict[str, tuple[type, Callable[[Problem, Any], int]]] = {
    "trivial": (type(None), _trivial_steps),
    "doubling": (type(None), _doubling_steps),
    "distance": (DistanceWitness, _distance_steps),
    "cut": (CutWitness, cut_steps),
    "last-step": (LastStepWitness, last_step_steps),
    "flow": (FlowWitness, flow_steps),
    "volume": (VolumeWitness, volume_steps),
    "price": (PriceWitness, price_steps),
    "stepped-price": (SteppedPriceWitness, stepped_price_steps),
    "growth": (GrowthWitness, growth_steps),
    "unsat": (UnsatWitness, query_steps),
}
"""For each method the witness that it needs, and the steps which that proves."""
