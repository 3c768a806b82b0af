"""``PYTHONPATH=tests python -m benchmarks.exact TABLE SOLVER [SEED ...]``: docs/data/exact_TABLE.csv.

The cells of data/gaps_TABLE.csv, lists that were fixed before there was an exact engine. ``allreduce``, at full
units: ``without`` what works on both phases together, with ``overlap`` alone, with ``z3``. ``personal`` (alltoall,
scatter, gather), as ``synth`` does by default: ``none``, no solver; ``without`` the flow; ``flow``, what auto is;
``cegis``, the paper's loop, 30 s. Seconds are of the processor.
"""

from __future__ import annotations

import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.clusters import ROOT
from benchmarks.generated_clusters import generated_cluster
from benchmarks.tables import csv_text
from hetesynth.engine.bounds import recheck_bound
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem, verified_solver
from hetesynth.engine.request import Request
from hetesynth.files.atomic import write_atomically
from hetesynth.model.collective import ROOTED
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search.auto import AUTO, CEGIS, JOINED, RULES, applying
from hetesynth.search.effort import for_steps
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution
from hetesynth.topology.language import parse_topology

DATA = ROOT / "tests" / "benchmarks" / "data"
HEAD = ["seed", "cluster", "gpus", "collective", "chunks", "solver", "steps", "bound", "rechecked", "seconds"]


def _auto_without(*left_out: str) -> Strategy:
    return replace(AUTO, improve=applying(tuple(rule for rule in RULES if rule.name not in left_out)))


SOLVERS: dict[str, dict[str, tuple[Strategy, Budget]]] = {
    "allreduce": {
        "without": (replace(AUTO, joined=None), Budget()),
        "overlap": (replace(AUTO, joined=applying(JOINED[:1])), Budget()),
        "z3": (AUTO, Budget()),
    },
    "personal": {
        "none": (_auto_without("flow", "checkpoints", "cegis"), Budget(effort=1.0)),
        "without": (_auto_without("flow"), Budget(effort=1.0)),
        "flow": (AUTO, Budget(effort=1.0)),
        "cegis": (CEGIS, Budget(30.0, effort=1.0)),
    },
}


def rows(table: str, solver: str, seeds: Sequence[str]) -> Iterator[list[str]]:
    """The rows of ``solver`` for the cells of ``seeds``, of all cells where there are none."""
    strategy, budget = SOLVERS[table][solver]
    for cell in csv.DictReader((DATA / f"gaps_{table}.csv").read_text().splitlines()):
        if seeds and cell["seed"] not in seeds:
            continue
        topology = parse_topology(generated_cluster(int(cell["seed"])).text)
        name = cell["collective"]
        root = topology.ranks // 2 if name in ROOTED else None
        request = Request(topology, name, int(cell["chunks"]), root, schedule_only=True)  # type: ignore[arg-type]
        _, problem = load_problem(request, PhaseTimer())
        began = time.process_time()
        solution = verified_solver(strategy, budget, for_steps(DEFAULT, budget.effort)).solve(problem)
        seconds = time.process_time() - began
        about = [cell[key] for key in HEAD[:5]] + [solver]
        if not isinstance(solution, Solution):
            yield [*about, "", "", "", f"{seconds:.1f}"]
            continue
        checked = recheck_bound(problem, solution.bound, 60.0).complete
        yield [
            *about, str(solution.schedule.makespan), str(solution.bound.steps), str(checked), f"{seconds:.1f}",
        ]  # fmt: skip


def main(table: str, solver: str, *seeds: str) -> None:
    """Replace the rows of ``solver`` and ``seeds``."""
    results = ROOT / "docs" / "data" / f"exact_{table}.csv"
    kept: dict[tuple[str, ...], list[str]] = {}
    if results.exists():
        kept = {tuple(row[:6]): row for row in list(csv.reader(results.read_text().splitlines()))[1:]}
    for row in rows(table, solver, seeds):
        kept[tuple(row[:6])] = row
        print(",".join(row), flush=True)
        ordered = sorted(kept.values(), key=lambda row: (int(row[0]), row[3], row[5]))
        write_atomically(results, csv_text(HEAD, ordered).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
