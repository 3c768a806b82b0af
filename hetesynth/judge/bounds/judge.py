"""The judge of lower bounds: rechecks from the witness alone that no schedule takes fewer steps.

It knows nothing of how bounds are found and uses none of that code; what it demands of a witness is in
docs/certificates.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hetesynth.judge.bounds.cuts import cut_steps, flow_steps, growth_steps, last_step_steps, volume_steps
from hetesynth.judge.bounds.laws import NEVER, Refuted, demand, hops_over, turned_around
from hetesynth.judge.bounds.prices import price_steps
from hetesynth.judge.bounds.query import query_steps
from hetesynth.model.bound import (
    CutWitness,
    DistanceWitness,
    FlowWitness,
    GrowthWitness,
    LastStepWitness,
    LowerBound,
    PriceWitness,
    UnsatWitness,
    VolumeWitness,
)
from hetesynth.model.problem import Problem
from hetesynth.model.verdict import Violation

Unsat = Callable[[str], "bool | None"]  # an SMT-LIB 2 text -> unsatisfiable, satisfiable, not known


@dataclass(frozen=True, slots=True)
class Recheck:
    """``violations``: what is wrong. ``open``: what was left unchecked, in words; None when nothing was."""

    violations: tuple[Violation, ...] = ()
    open: str | None = None

    @property
    def complete(self) -> bool:
        """Whether the bound is proved by what was rechecked."""
        return not self.violations and self.open is None


def recheck(problem: Problem, bound: LowerBound, *, unsat: Unsat | None = None) -> Recheck:
    """Whether the witness of ``bound`` proves that every schedule of ``problem`` has as many steps as it says.

    What ``unsat`` does not decide of a query stays open; that it is satisfiable refutes the bound.
    """
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
    """One step where something has to move: a chunk to a target, or contributions to each other."""
    collective = problem.collective
    pairs = zip(collective.pre, collective.post, strict=True)
    return int(any(not post <= pre or (collective.reduces and len(pre) > 1) for pre, post in pairs))


def _distance_steps(problem: Problem, claim: DistanceWitness) -> int:
    """A chunk crosses one link a step: from its nearest holder, or from every contributor."""
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
    """Eq. 8: the contributions in a value, or the holders of a chunk, at most double each step."""
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
    "growth": (GrowthWitness, growth_steps),
    "unsat": (UnsatWitness, query_steps),
}
"""For each method the witness that it needs, and the steps which that proves."""
