"""``PYTHONPATH=tests python -m benchmarks.exact_allreduce SOLVER [SEED ...]``: docs/data/exact_allreduce.csv.

The cells of data/gaps_allreduce.csv, which was fixed before the engine was written, by ``auto``: ``without`` what
works on both phases together, with ``overlap`` alone, with ``z3`` or with ``cadical``. Seconds are of the
processor; the solver's units, about half a minute, end a search.
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
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search.auto import AUTO, JOINED, applying
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution
from hetesynth.topology.language import parse_topology

CELLS = ROOT / "tests" / "benchmarks" / "data" / "gaps_allreduce.csv"
RESULTS = ROOT / "docs" / "data" / "exact_allreduce.csv"
HEAD = ["seed", "cluster", "gpus", "chunks", "solver", "steps", "bound", "rechecked", "seconds"]
SOLVERS: dict[str, Strategy] = {
    "without": replace(AUTO, joined=None),
    "overlap": replace(AUTO, joined=applying(JOINED[:1])),
    "z3": AUTO,
}


def rows(solver: str, seeds: Sequence[str]) -> Iterator[list[str]]:
    """The rows of ``solver`` for the cells of ``seeds``, of all cells where there are none."""
    for cell in csv.DictReader(CELLS.read_text().splitlines()):
        if seeds and cell["seed"] not in seeds:
            continue
        topology = parse_topology(generated_cluster(int(cell["seed"])).text)
        request = Request(topology, "allreduce", chunks=int(cell["chunks"]), schedule_only=True)
        _, problem = load_problem(request, PhaseTimer())
        began = time.process_time()
        solution = verified_solver(SOLVERS[solver], Budget(), DEFAULT).solve(problem)
        seconds = time.process_time() - began
        assert isinstance(solution, Solution), cell
        bound = solution.bound
        checked = recheck_bound(problem, bound, 60.0).complete
        about = [cell["seed"], cell["cluster"], cell["gpus"], cell["chunks"], solver]
        yield [*about, str(solution.schedule.makespan), str(bound.steps), str(checked), f"{seconds:.1f}"]


def main(solver: str, *seeds: str) -> None:
    """Replace the rows of ``solver`` and ``seeds``."""
    kept: dict[tuple[str, str], list[str]] = {}
    if RESULTS.exists():
        kept = {(row[0], row[4]): row for row in list(csv.reader(RESULTS.read_text().splitlines()))[1:]}
    for row in rows(solver, seeds):
        kept[row[0], row[4]] = row
        print(",".join(row), flush=True)
        ordered = sorted(kept.values(), key=lambda row: (int(row[0]), row[4]))
        write_atomically(RESULTS, csv_text(HEAD, ordered).encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
