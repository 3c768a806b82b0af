"""What a strategy is: a way to improve a search over a copying problem.

A strategy offers schedules to the search it is given and may return a better lower bound, proved on the way. It
declares which problems it accepts and knows nothing of the judge nor, unless one is handed to it, of other
strategies. Where the problem limits the peers of a rank, a strategy refuses it, or chooses among the arcs that
``peers.within_peers`` leaves, or counts peers itself; should a schedule need more all the same, the search does
not take it (``Search.offer``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hetesynth.model.bound import LowerBound, UnsatWitness
from hetesynth.model.problem import Problem
from hetesynth.policy import Policy
from hetesynth.search.search import Search

Improve = Callable[[Search], LowerBound | None]
Accepts = Callable[[Problem, Policy], str | None]


def _anything(problem: Problem, policy: Policy) -> str | None:
    return None


@dataclass(frozen=True, slots=True)
class Strategy:
    """``improve`` works on a search; ``refuses`` says in words why a problem is not for it, or None. ``whole``: it
    takes an allreduce as it is; for others it is a reduce-scatter followed by an allgather. ``opening``: tried
    before bounds that take long are proved, and all there is where it meets one that does not."""

    name: str
    improve: Improve
    refuses: Accepts = _anything
    whole: bool = False
    opening: Improve | None = None


def unsat_bound(infeasible_steps: int, query: str) -> LowerBound:
    """The bound that an unsatisfiable query for ``infeasible_steps`` steps proves."""
    steps = f"{infeasible_steps} step" + ("" if infeasible_steps == 1 else "s")
    proof = f"Z3: no schedule has only {steps}"
    return LowerBound(infeasible_steps + 1, "unsat", proof, UnsatWitness(infeasible_steps, query))
