"""Measures ways of CEGIS, and solvers behind it: ``python tests/benchmarks/cegis_laws.py``.

Prints the two tables of docs/decisions.md, 17. First: from checkpoint to checkpoint, and all steps at
once with laws learned everywhere or at the step where they were broken (HeteCCL 5.2). Second: the models of single
steps that come up on the way, and of all steps, by Z3 and by other solvers; those that are not installed are left
out (``pip install ortools python-sat``). CPU seconds, every run in a process of its own. ``--limit SECONDS``: of
one run (default 60).
"""

from __future__ import annotations

import argparse
import importlib.util
import pickle
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.graphs import Graph, dgx1, fig10, problem, servers

Instance = tuple[Callable[[], Graph], int, int]

ALLGATHERS: dict[str, Instance] = {  # graph, chunks, steps: the bound
    "dgx1 c=2": (dgx1, 2, 3),
    "fig10 c=2": (fig10, 2, 9),
    "4+8 c=1": (lambda: servers([4, 8]), 1, 3),
    "4+8 c=4": (lambda: servers([4, 8]), 4, 9),
    "4x2+8 c=1": (lambda: servers([4, 4, 8]), 1, 4),
    "4x2+8 c=2": (lambda: servers([4, 4, 8]), 2, 7),
    "4x3+8 c=1": (lambda: servers([4, 4, 4, 8]), 1, 5),
    "4x2+8x2 c=1": (lambda: servers([4, 4, 8, 8]), 1, 6),
    "4x2+8x2 c=4": (lambda: servers([4, 4, 8, 8]), 4, 21),
}
WAYS = {"checkpoints": ("greedy", 0), "all steps, laws everywhere": ("nothing", 0),
        "all steps, laws at their step": ("nothing", 1)}  # fmt: skip
WHOLE = ("4+8 c=1", "4x2+8 c=1", "4x3+8 c=1", "dgx1 c=2", "fig10 c=2")
SOLVERS = ("z3, shown by lp", "z3", "highs", "cp-sat", "cadical")
NEEDS = {"cp-sat": "ortools", "cadical": "pysat"}


def search_of(instance: str, first: str, at_their_step: int) -> tuple[Any, int]:
    """A search, and the number of steps to ask for."""
    from hetesynth.judge.schedule.judge import schedule_violations
    from hetesynth.model.problem import Budget
    from hetesynth.policy import DEFAULT
    from hetesynth.search.search import Search

    graph, chunks, steps = ALLGATHERS[instance]
    smt = replace(DEFAULT.smt, laws_at_their_step=at_their_step, cegis_rlimit=10**9, whole_sends=10**7)
    policy = replace(DEFAULT, smt=smt)
    asked = problem(graph(), "allgather", chunks)
    return Search(asked, steps, Budget(), schedule_violations, policy=policy, first_candidate=first), steps  # type: ignore[arg-type]


def run_way(instance: str, way: str) -> str:
    """One cell of the first table."""
    from hetesynth.search.smt import cegis

    search, steps = search_of(instance, *WAYS[way])
    started = time.process_time()
    outcome, _ = cegis.synthesize(search, steps)
    seconds = time.process_time() - started
    trace = search.trace
    return f"{type(outcome).__name__} {seconds:.2f}, {trace.calls} calls, {trace.counterexamples} cex"


@dataclass(frozen=True, slots=True)
class Model:
    """Clauses and at-most counts over ``variables`` numbered from 1; ``likely``: those a linear program uses."""

    variables: int
    clauses: Sequence[Sequence[int]]
    counts: Sequence[tuple[Sequence[int], int]]
    choice: Any = None


def models(instance: str) -> list[Model]:
    """The models of single steps that Z3 was to decide, with every send; for ``whole`` that of all steps."""
    from hetesynth.search.smt import cegis
    from hetesynth.search.smt.monolithic import every_law
    from hetesynth.search.smt.step_model import StepModel

    if instance.startswith("whole "):
        search, steps = search_of(instance[6:], "nothing", 0)
        model = StepModel(cegis.CopyProblem(search.problem), steps)
        for law in every_law(model.tables):
            model.add(law)
        said = model.clauses
        return [Model(len(said._names) - 1, said._stated, said._counts)]
    taken: list[Model] = []
    original = cegis.StepChoice

    class Recorded(original):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args[:-1], cegis.Sample())  # every send
            clauses, _ = self.clauses(range(len(self.sends)), None)
            taken.append(Model(len(self.sends), clauses._stated, clauses._counts, self))

    cegis.StepChoice = Recorded  # type: ignore[misc]
    search, steps = search_of(instance, "greedy", 0)
    cegis.synthesize(search, steps)
    return taken


def decide(model: Model, solver: str) -> str:
    """Sat, unsat or unknown."""
    return {"z3": by_z3, "z3, shown by lp": by_guided_z3, "highs": by_highs, "cp-sat": by_cp_sat,
            "cadical": by_cadical}[solver](model)  # fmt: skip


def by_z3(model: Model) -> str:
    """Clauses and native counts."""
    from hetesynth.search.smt.clauses import Clauses

    clauses = Clauses()
    for number in range(model.variables):
        clauses.variable(f"v{number}")
    for literals in model.clauses:
        clauses.clause(*literals)
    for literals, limit in model.counts:
        clauses.at_most(literals, limit)
    return clauses.check([], 2**31 - 1, None)


def by_guided_z3(model: Model) -> str:
    """As cegis does: a linear program first, then Z3 on what it uses."""
    if model.choice is None:
        return "-"
    likely = model.choice.likely()
    if likely is None:
        return "unsat"
    clauses, variables = model.choice.clauses(likely[0], None)
    answer: str = clauses.check([variables[n] for n in likely[1]], 2**31 - 1, None)
    return answer if answer == "sat" else by_z3(model)


def by_highs(model: Model) -> str:
    """A 0/1 program."""
    import highspy
    import numpy as np

    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.addVars(model.variables, np.zeros(model.variables), np.ones(model.variables))
    kinds = np.array([highspy.HighsVarType.kInteger] * model.variables)
    solver.changeColsIntegrality(model.variables, np.arange(model.variables, dtype=np.int32), kinds)
    rows = [(literals, -highspy.kHighsInf, float(limit)) for literals, limit in model.counts]
    rows += [(literals, 1.0, highspy.kHighsInf) for literals in model.clauses]
    for literals, low, high in rows:
        index = np.array([abs(v) - 1 for v in literals], dtype=np.int32)
        negated = sum(v < 0 for v in literals)
        solver.addRow(low - negated, high - negated, len(index), index, np.sign(np.array(literals, dtype=float)))
    solver.run()
    status = solver.getModelStatus()
    return {highspy.HighsModelStatus.kOptimal: "sat", highspy.HighsModelStatus.kInfeasible: "unsat"}.get(
        status, "unknown"
    )


def by_cp_sat(model: Model) -> str:
    """OR-tools, one worker."""
    from ortools.sat.python import cp_model

    program = cp_model.CpModel()
    booleans = [program.new_bool_var(f"v{n}") for n in range(model.variables)]
    term = lambda v: booleans[v - 1] if v > 0 else ~booleans[-v - 1]  # noqa: E731
    for literals in model.clauses:
        program.add_bool_or([term(v) for v in literals])
    for literals, limit in model.counts:
        program.add(sum(term(v) for v in literals) <= limit)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return {cp_model.OPTIMAL: "sat", cp_model.FEASIBLE: "sat", cp_model.INFEASIBLE: "unsat"}.get(
        solver.solve(program), "unknown"
    )


def by_cadical(model: Model) -> str:
    """CaDiCaL through PySAT, counts as sequential counters."""
    from pysat.card import CardEnc, EncType
    from pysat.solvers import Cadical195

    top = model.variables
    with Cadical195() as solver:
        for literals in model.clauses:
            solver.add_clause(list(literals))
        for literals, limit in model.counts:
            encoded = CardEnc.atmost(list(literals), limit, top_id=top, encoding=EncType.seqcounter)
            top = max(top, encoded.nv)
            for clause in encoded.clauses:
                solver.add_clause(clause)
        return "sat" if solver.solve() else "unsat"


def run_solver(instance: str, solver: str) -> str:
    """One cell of the second table: all models of the instance."""
    stated = models(instance) if solver == SOLVERS[0] else recorded(instance)
    started = time.process_time()
    answers = [decide(model, solver) for model in stated]
    seconds = time.process_time() - started
    most = max((model.variables for model in stated), default=0)
    counted = ", ".join(f"{answers.count(a)} {a}" for a in sorted(set(answers))) or "no model"
    return f"{counted} {seconds:.2f} ({most} variables)"


def recorded(instance: str) -> list[Model]:
    """The models, made in a process of their own: OR-tools and highspy do not load together."""
    with tempfile.NamedTemporaryFile(suffix=".pickle") as file:
        subprocess.run([sys.executable, __file__, "--run", "models", instance, file.name], check=True)
        plain: list[Model] = pickle.loads(Path(file.name).read_bytes())
    return plain


def cell(limit: int, *words: str) -> str:
    """What a run in a process of its own prints."""
    command = [sys.executable, __file__, "--limit", str(limit), "--run", *words]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or f"> {limit}"


def main() -> None:
    """Both tables, or one run for them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--run", nargs=3)
    options = parser.parse_args()
    if options.run:
        kind, instance, which = options.run
        if kind == "models":
            Path(which).write_bytes(pickle.dumps([replace(model, choice=None) for model in models(instance)]))
            return
        resource.setrlimit(resource.RLIMIT_CPU, (options.limit, options.limit + 1))
        print(run_way(instance, which) if kind == "way" else run_solver(instance, which))
        return
    import z3

    print(f"{platform.machine()}, Python {platform.python_version()}, z3 {z3.get_version_string()}\n")
    print("| allgather | " + " | ".join(WAYS) + " |\n|" + "---|" * (len(WAYS) + 1))
    for instance in ALLGATHERS:
        cells = [cell(options.limit, "way", instance, way) for way in WAYS]
        print(f"| {instance} | " + " | ".join(cells) + " |", flush=True)
    present = [s for s in SOLVERS if s not in NEEDS or importlib.util.find_spec(NEEDS[s])]
    print("\n| models | " + " | ".join(present) + " |\n|" + "---|" * (len(present) + 1))
    for instance in [*ALLGATHERS, *(f"whole {name}" for name in WHOLE)]:
        cells = [cell(options.limit, "solver", instance, solver) for solver in present]
        print(f"| {instance} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
