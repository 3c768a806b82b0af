"""Prints the table of docs/decisions.md, 7: programs with fused receives and without.

Simulated microseconds for the executor's target, at the size that the topology's chunk implies and at 16 times
that: ``python tests/benchmarks/fused_gains.py``.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.fused_receives import seconds
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import implied_size
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTERS = ("fig10", "dgx1", "h20_4p8", "two_dc_50km", "a100_x2", "v100_4x2p8", "mi250_x1", "dgx2_x2", "h20_32")
ONE_ROUND = Strategy("greedy", lambda search: greedy.improve(search, rounds=1))
OPTIONS = LoweringOptions("x", target=TARGETS["msccl-executor"])


def row(cluster: str, name: CollectiveName) -> list[str] | None:
    """Of each size: microseconds with fused receives, without, and as chosen; None where no schedule was found."""
    request = Request(EXAMPLES / cluster / "topo.dsl", name, root=0 if name in ROOTED else None)
    chunking, problem = load_problem(request, PhaseTimer())
    found = Solver(ONE_ROUND, Budget(), schedule_violations).solve(problem)
    if not isinstance(found, Solution):
        return None
    topology, schedule = chunking.topology, found.schedule
    plain = replace(OPTIONS, optimizations=replace(OPTIONS.optimizations, fuse=False))
    predictors = [
        ProgramPredictor(topology, lower(problem, schedule, options), target=OPTIONS.target)
        for options in (OPTIONS, plain)
    ]
    cells = []
    for factor in (1, 16):
        size = factor * implied_size(problem, chunking.chunk_bytes)
        taken = [predictor.timeline(size).makespan for predictor in predictors]
        taken.append(seconds(topology, problem, schedule, size, OPTIONS, CostOptions()) or 0.0)
        cells += [f"{size / 1e6:.0f} MB", *(f"{t * 1e6:.1f}" for t in taken)]
    return cells


def main() -> None:
    """One line for each cluster and collective."""
    print("| cluster | collective | size | fused | plain | chosen | size | fused | plain | chosen |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for cluster in CLUSTERS:
        for name in COLLECTIVE_NAMES:
            cells = row(cluster, name)
            if cells is not None:
                print(f"| {cluster} | {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
