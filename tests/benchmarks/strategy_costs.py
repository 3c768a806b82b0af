"""What a search of each strategy costs: CPU seconds on one core for each transfer of its schedule.

    python tests/benchmarks/strategy_costs.py [STRATEGY ...]

A line for each strategy and cluster, then the geometric mean of a strategy: the figure that its row of the
registry has, rounded to one digit. Kernels are compiled before.
"""

from __future__ import annotations

import math
import sys
import time
from collections import defaultdict
from pathlib import Path

from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cost import costs
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.registry import ROWS, StrategyRow, strategy, timed_strategies
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.timed.earliest_arrival import Rates
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTERS = ("dgx1", "h20_4p8", "v100_4p8", "h20_16")
CHUNKS = (4, 1)  # per rank; fewer where a strategy declines
SECONDS = 10.0  # of the budget: what it ends counts with all transfers, so such a figure is too low


def strategies_of(row: StrategyRow, factory: ProblemFactory, chunk_bytes: int) -> list[Strategy]:
    """The strategy of a row, or all its variants."""
    if row.objective == "steps":
        return [strategy(row.name)]
    prices = costs(factory.topology)
    rates = Rates(prices.link_alpha, prices.link_resources, prices.resource_rate, chunk_bytes)
    return [variant for _, variant in timed_strategies(row, rates, DEFAULT.autotune)]


def measured(row: StrategyRow, cluster: str, chunks: int) -> tuple[float, int] | None:
    """CPU seconds of one search without its bound, and transfers; None where the strategy declines."""
    path = EXAMPLES / cluster / "topo.dsl"
    name = "allgather" if "allgather" in row.accepts else "alltoall"
    topology, size = load_topology(path), 1 << 20
    factory = ProblemFactory(topology, Request(path, name, chunks))
    problem = factory.problem(chunk(topology, ChunkingOptions(chunk_bytes=size)))
    times = []
    for search in strategies_of(row, factory, size):
        for _ in range(2):  # the first loads and compiles
            began = time.process_time()
            try:
                outcome = Solver(search, Budget(SECONDS), schedule_violations).solve(problem)
            except HetesynthError:
                return None
            seconds = time.process_time() - began
            if not isinstance(outcome, Solution):
                return None
        times.append((seconds, len(outcome.schedule.transfers)))
    return sum(s for s, _ in times) / len(times), times[-1][1]


def main() -> None:
    """Print the table."""
    each: dict[str, list[float]] = defaultdict(list)
    for row in (row for row in ROWS if row.name in (sys.argv[1:] or [row.name])):
        for cluster in CLUSTERS:
            results = (measured(row, cluster, chunks) for chunks in CHUNKS)
            result = next((entry for entry in results if entry is not None), None)
            if result is None:
                print(f"{row.name:14} {cluster:10} declines", flush=True)
                continue
            seconds, transfers = result
            each[row.name].append(seconds / transfers)
            print(f"{row.name:14} {cluster:10} {seconds:8.3f} s {transfers:6} transfers", flush=True)
    for name, per_transfer in each.items():
        mean = math.exp(sum(map(math.log, per_transfer)) / len(per_transfer))
        print(f"{name:14} {mean:.1e} s a transfer, {1 / mean:,.0f} transfers a second")


if __name__ == "__main__":
    main()
