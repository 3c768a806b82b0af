"""Rechecking lower bounds from their witnesses: the judge's verdict, with Z3 for its queries."""

from __future__ import annotations

import z3

from hetesynth.judge.bounds import judge
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem


def recheck(problem: Problem, bound: LowerBound) -> None:
    """AssertionError where the witness of ``bound`` does not prove its number of steps for ``problem``."""
    said = judge.recheck(problem, bound, unsat=_unsat)
    assert said.complete, said


def _unsat(query: str) -> bool:
    solver = z3.Solver()
    solver.from_string(query)
    return len(solver.assertions()) > 0 and solver.check() == z3.unsat
