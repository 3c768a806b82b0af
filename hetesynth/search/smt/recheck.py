"""Asking a fresh solver whether a query is unsatisfiable: the oracle that the judge of lower bounds is given.

In: SMT-LIB 2 text and limits of work and time. Out: yes, no, or not known within these. Builds nothing itself.
"""

from __future__ import annotations

import math
import threading

import z3

from hetesynth.search.interrupts import deferred

POLL_SECONDS = 0.05


def unsatisfiable(query: str, seconds: float, units: int = 0) -> bool | None:
    """Whether ``query`` is unsatisfiable. None: not known within ``seconds`` (infinite: no limit) and ``units`` of
    the solver's resources (0: no limit), interrupted, or nothing Z3 can read."""
    try:
        with deferred() as interrupted:
            return _decide(query, seconds, units, interrupted)
    except (KeyboardInterrupt, z3.Z3Exception):
        return None


def _decide(query: str, seconds: float, units: int, interrupted: threading.Event) -> bool | None:
    solver = z3.SolverFor("QF_FD", ctx=z3.Context())  # what else this process stated must not change the answer
    solver.set("ctrl_c", False)
    solver.set("rlimit", units)
    if not math.isinf(seconds):
        solver.set("timeout", max(1, int(seconds * 1000)))
    solver.from_string(query)
    answers: list[z3.CheckSatResult] = []
    worker = threading.Thread(target=lambda: answers.append(solver.check()), daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
        if interrupted.is_set():
            solver.interrupt()
    if not answers or answers[0] == z3.unknown:
        return None
    return bool(answers[0] == z3.unsat)
