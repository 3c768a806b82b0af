"""Clauses and counts for Z3's finite-domain solver, over its C interface.

In: Boolean variables by name, clauses and counts over literals: a positive number is a variable, a negative one
its negation. Out: sat, unsat or unknown, a model, a core, and the text of what was stated. The Python interface of
Z3 takes twenty times as long to state a clause, longer than the solver takes to decide most models.
"""

import math
import threading
from collections.abc import Iterable, Sequence
from typing import Literal

import z3

from hetesynth.search.interrupts import deferred


def unsatisfiable(query: str, seconds: float, units: int = 0) -> bool | None:
    """Return True if ``query`` is unsatisfiable. None: not known within ``seconds`` (infinite: no limit) and
    ``units`` of the solver's resources (0: no limit), interrupted, or nothing Z3 can read."""
    try:
        with deferred() as interrupted:
            solver = _solver()
            solver.from_string(query)
            answer = _decided(solver, (), interrupted, units, None if math.isinf(seconds) else seconds)
            return None if answer == "unknown" else answer == "unsat"
    except (KeyboardInterrupt, z3.Z3Exception):
        return None


Answer = Literal["sat", "unsat", "unknown"]


def _solver() -> z3.Solver:
    """A solver with a context of its own: what else was ever stated in this process must not change the answer."""
    solver = z3.SolverFor("QF_FD", ctx=z3.Context())
    solver.set("ctrl_c", False)
    return solver


def _decided(
    solver: z3.Solver, assumptions: Sequence[z3.BoolRef], stop: threading.Event, rlimit: int, seconds: float | None
) -> Answer:
    """Return the answer, found in a thread, so that Ctrl-C reaches Python, which then stops the solver."""
    solver.set("rlimit", rlimit)
    if seconds is not None:
        solver.set("timeout", max(1, int(seconds * 1000)))
    answers: list[z3.CheckSatResult] = []
    worker = threading.Thread(target=lambda: answers.append(solver.check(*assumptions)), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(0.05)
        if stop.is_set():
            solver.interrupt()
    if not answers or answers[0] == z3.unknown:
        return "unknown"
    return "sat" if answers[0] == z3.sat else "unsat"


class Clauses:
    """A solver and what it was told. ``stop`` ends a check; ``spent``: solver resource units; ``timed_out``:
    whether the last check ended by its seconds, with units left."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self.spent = 0
        self.timed_out = False
        self._solver = _solver()
        self._context = self._solver.ctx.ref()
        self._names: list[str] = [""]
        self._literals: dict[int, z3.BoolRef] = {}
        self._asts: dict[int, z3.Ast] = {}
        self._stated: list[tuple[int, ...]] = []
        self._counts: list[tuple[tuple[int, ...], int]] = []

    def variable(self, name: str) -> int:
        """Add a variable and return its number."""
        number = len(self._names)
        self._names.append(name)
        positive = z3.Bool(name, self._solver.ctx)
        negative = z3.BoolRef(z3.Z3_mk_not(self._context, positive.as_ast()), self._solver.ctx)
        for literal, term in ((number, positive), (-number, negative)):
            self._literals[literal] = term
            self._asts[literal] = term.as_ast()
        return number

    def clause(self, *literals: int) -> None:
        """State that at least one of ``literals`` holds; none: false."""
        self._stated.append(literals)
        terms = (z3.Ast * len(literals))(*[self._asts[v] for v in literals])
        z3.Z3_solver_assert(self._context, self._solver.solver, z3.Z3_mk_or(self._context, len(literals), terms))

    def at_most(self, variables: Sequence[int], limit: int) -> None:
        """State that at most ``limit`` of ``variables`` hold."""
        self._counts.append((tuple(variables), limit))
        terms = (z3.Ast * len(variables))(*[self._asts[v] for v in variables])
        counted = z3.Z3_mk_atmost(self._context, len(variables), terms, limit)
        z3.Z3_solver_assert(self._context, self._solver.solver, counted)

    def at_least(self, variables: Sequence[int], limit: int) -> None:
        """State that at least ``limit`` of ``variables`` hold."""
        if limit > len(variables):
            self.clause()
        elif limit > 0:
            self.at_most([-v for v in variables], len(variables) - limit)

    def check(self, assumed: Iterable[int], rlimit: int, seconds: float | None) -> Answer:
        """Decide with ``assumed`` literals; ``unknown`` after ``rlimit`` resource units or ``seconds``."""
        before = self._used()
        answer = _decided(self._solver, [self._literals[v] for v in assumed], self.stop, rlimit, seconds)
        used = self._used() - before
        self.timed_out = answer == "unknown" and seconds is not None and used < rlimit and not self.stop.is_set()
        self.spent += rlimit if answer == "unknown" else used
        return answer

    def _used(self) -> int:
        statistics = self._solver.statistics()
        counted = "rlimit count" in statistics.keys()  # noqa: SIM118
        return int(statistics.get_key_value("rlimit count")) if counted else 0

    def core(self) -> set[str]:
        """The names of the assumed variables that the last ``unsat`` blames."""
        return {str(literal) for literal in self._solver.unsat_core()}

    def true(self, variables: Iterable[int]) -> list[int]:
        """Return those of ``variables`` that hold in the last model."""
        model = self._solver.model()
        value = (z3.Ast * 1)()
        true: list[int] = []
        for variable in variables:
            evaluated = z3.Z3_model_eval(self._context, model.model, self._asts[variable], False, value)
            if evaluated and z3.Z3_get_bool_value(self._context, value[0]) == 1:
                true.append(variable)
        return true

    def smt2(self) -> str:
        """Return what was stated as SMT-LIB 2, for any solver that knows at-most."""

        def terms(literals: Sequence[int]) -> str:
            return " ".join(self._names[v] if v > 0 else f"(not {self._names[-v]})" for v in literals)

        lines = [f"(declare-fun {name} () Bool)" for name in self._names[1:]]
        lines += [f"(assert {f'(or {terms(literals)})' if literals else 'false'})" for literals in self._stated]
        lines += [f"(assert ((_ at-most {limit}) {terms(variables)}))" for variables, limit in self._counts]
        return "\n".join([*lines, "(check-sat)", ""])
