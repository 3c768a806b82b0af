"""What neighbourhood search gains on schedules of one greedy round.

``python tests/benchmarks/neighbourhood_gains.py [WORD]`` prints the table of docs/decisions.md, 4:
bound, steps before and after, CPU seconds of the search.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.search.bounds.lower import lower_bound
from hetesynth.search.greedy import direct, greedy
from hetesynth.search.search import Search
from hetesynth.search.smt import neighbourhood_search

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CASES = [
    ("v100_fail_one8", "alltoall"), ("torus_8x8", "allgather"), ("mesh_8x8_hetero", "allgather"),
    ("h20_4x2p8", "allgather"), ("h20_8x2p4", "allgather"), ("v100_4x3p8", "alltoall"), ("torus_8x8", "broadcast"),
    ("dgx2_x2", "allgather"), ("ndv2_x4", "allgather"), ("h20_8x8", "allgather"),
    ("v100_4p8_sharednic", "allgather"),
]  # fmt: skip


def main() -> None:
    """One line a case."""
    print("| case | bound | greedy round | with lns | CPU s | ended by |\n|---|---|---|---|---|---|")
    for cluster, collective in CASES:
        if not any(word in f"{cluster} {collective}" for word in sys.argv[1:] or [""]):
            continue
        request = Request(EXAMPLES / cluster / "topo.dsl", collective, 1)  # type: ignore[arg-type]
        problem = load_problem(request, PhaseTimer())[1]
        search = Search(problem, lower_bound(problem).steps, Budget(), schedule_violations)
        greedy.improve(search, rounds=1)
        if direct.refuses(problem) is None:
            direct.improve(search)
        before = search.best.makespan if search.best else 0
        started = time.process_time()
        neighbourhood_search.improve(search, rlimit=search.policy.steps.neighbourhood_rlimit)
        seconds = time.process_time() - started
        after = search.best.makespan if search.best else 0
        print(
            f"| {cluster} {collective} | {search.target} | {before} | {after} | {seconds:.1f} | {search.ending} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
