"""What throttling gains: ``python tests/benchmarks/throttling_gains.py [WORD]``; WORD is in `cluster collective`.

Prints the table of docs/decisions.md, 6: simulated microseconds of the schedule in its order, of its
program as lowered and throttled, and of the programs of NCCL's ring and double tree, for the MSCCL executor.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hetesynth.engine.choice.program_ranking import throttlings
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.predictors import CostOptions, ProgramPredictor, SchedulePredictor
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.greedy import greedy
from hetesynth.search.registry import strategy
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTERS = ("h20_4p8", "v100_4p8", "a100_x2", "mi250_x1", "h20_4x2p8x2", "h20_64")
SIZES = (4 << 20, 64 << 20, 1 << 30)
ROUNDS = 12
TARGET = TARGETS["msccl-executor"]
HEADER = """| cluster | collective | c | size | order | program | any | sends | shared | ring | double tree |
|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """One line for each number of chunks and size; the baselines are the quicker of 1 and 4 chunks."""
    print(HEADER)
    for cluster in CLUSTERS:
        for collective in ("allgather", "allreduce"):
            if any(word in f"{cluster} {collective}" for word in sys.argv[1:] or [""]):
                _case(cluster, collective)


def _case(cluster: str, collective: str) -> None:
    baselines = {
        name: [_found(cluster, collective, c, strategy(name)) for c in (1, 4)] for name in ("ring", "double-tree")
    }
    best = [[min(column) for column in zip(*map(_plain, found), strict=True)] for found in baselines.values()]
    for chunks in (1, 4, 8):
        rounds = Strategy("greedy", lambda search: greedy.improve(search, rounds=ROUNDS))
        found = _found(cluster, collective, chunks, rounds)
        if found is None:
            continue
        topology, problem, schedule = found
        predictor = SchedulePredictor(topology, problem, schedule)
        plain = _plain(found)
        for number, size in enumerate(SIZES):
            line = [_us(predictor.timeline(size).makespan), _us(plain[number]), *_throttled(*found, size)]
            line += [_us(times[number]) for times in best]
            print(f"| {cluster} | {collective} | {chunks} | {size >> 20} MiB | {' | '.join(line)} |", flush=True)


def _found(
    cluster: str, collective: str, chunks: int, chosen: Strategy
) -> tuple[Topology, Problem, Schedule] | None:
    request = Request(EXAMPLES / cluster / "topo.dsl", collective, chunks)  # type: ignore[arg-type]
    chunking, problem = load_problem(request, PhaseTimer())
    try:
        outcome = Solver(chosen, Budget(), schedule_violations).solve(problem)
    except HetesynthError:
        return None
    return (chunking.topology, problem, outcome.schedule) if isinstance(outcome, Solution) else None


def _plain(found: tuple[Topology, Problem, Schedule] | None) -> list[float]:
    """Seconds of the program without throttling by size; infinite where there is none."""
    try:
        program = None if found is None else lower(found[1], found[2], LoweringOptions("x", target=TARGET))
    except HetesynthError:
        program = None
    if found is None or program is None:
        return [float("inf")] * len(SIZES)
    return [_seconds(found[0], program, size) for size in SIZES]


def _throttled(topology: Topology, problem: Problem, schedule: Schedule, size: int) -> list[str]:
    line = []
    options = LoweringOptions("x", target=TARGET)
    for throttling in throttlings(topology, problem, schedule, size, options, CostOptions()):
        try:
            program = lower(problem, schedule, LoweringOptions("x", target=TARGET, throttling=throttling))
        except HetesynthError:
            line.append("-")
            continue
        line.append(_us(_seconds(topology, program, size)))
    return line


def _seconds(topology: Topology, program: Program, size: int) -> float:
    return ProgramPredictor(topology, program, target=TARGET).timeline(size).makespan


def _us(seconds: float) -> str:
    return "-" if seconds == float("inf") else f"{seconds * 1e6:.0f}"


if __name__ == "__main__":
    main()
