"""Time against size: a result beside the baselines and the bound.

In: a cluster, predictors of what is to be compared, sizes. Out: curves, and in words which are missing. Baselines
are the program of NCCL's rings (``ring_baseline``) and strategies of the registry, whose schedules are synthesized
here for the same problem; those of equal times share a curve.
"""

from __future__ import annotations

from dataclasses import replace

from hetesynth.engine.plan_predictor import PlanPredictor
from hetesynth.engine.predictors import CostOptions, ProgramPredictor, SchedulePredictor
from hetesynth.engine.ring_baseline import NAMES, ring_baseline
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.time_bound import TimeBound, tightest
from hetesynth.model.topology import Topology
from hetesynth.report.contents import Curve

BASELINES = ("double-tree", "sph", "all-pairs", "doubling", "hierarchical")


def own_curves(
    sizes: tuple[int, ...], schedule: SchedulePredictor | None, program: ProgramPredictor | PlanPredictor | None
) -> list[Curve]:
    """The result itself."""
    curves = []
    if schedule is not None:
        curves.append(Curve("this schedule", "schedule", tuple(schedule.predict(s).seconds for s in sizes)))
    if program is not None:
        curves.append(Curve("this program", "program", tuple(program.predict(s).seconds for s in sizes)))
    return curves


def bound_curve(sizes: tuple[int, ...], bounds: tuple[TimeBound, ...], launch: float) -> list[Curve]:
    """What nothing is below, ``launch`` seconds included; none where there is no bound."""
    if not bounds:
        return []
    return [Curve("lower bound", "bound", tuple(launch + float(tightest(bounds, s).seconds(s)) for s in sizes))]


def baseline_curves(
    topology: Topology,
    problem: Problem,
    sizes: tuple[int, ...],
    options: CostOptions,
) -> tuple[list[Curve], tuple[str, ...]]:
    """The baselines that apply, and why others do not."""
    from hetesynth.engine.verified_solver import verified_solver
    from hetesynth.search.collectives import collective
    from hetesynth.search.registry import strategy
    from hetesynth.search.solve import Solution

    policy = options.policy.compile
    by_times: dict[tuple[float, ...], list[str]] = {}
    missing: list[str] = []
    problem = replace(problem, max_peers=None)
    goal = problem.collective
    rings = _ring_curve(topology, goal, sizes, options)
    if isinstance(rings, str):
        missing.append(f"Baseline ring does not apply: {rings}.")
        rings = []
    for chunks in (max(policy.baseline_chunks, goal.chunks_per_rank), goal.chunks_per_rank, 1):
        problem = replace(problem, collective=collective(goal.name, goal.ranks, chunks, goal.root))
        if _least_moves(problem) <= policy.max_baseline_deliveries:
            break
    else:
        more = f"there are more than {policy.max_baseline_deliveries:,} deliveries"
        return rings, (
            *missing,
            f"Other baselines are left out: {more}." if rings else f"Baselines are left out: {more}.",
        )
    if problem.collective.chunks_per_rank != goal.chunks_per_rank:
        missing.append(f"Baselines have {chunks} chunk{'' if chunks == 1 else 's'} per rank.")
    for name in BASELINES:
        try:
            outcome = verified_solver(strategy(name), Budget(), options.policy).solve(problem)
        except HetesynthError as error:
            reason = error.message.rpartition("this problem: ")[2]
            missing.append(f"Baseline {name} does not apply: {reason}.")
            continue
        if isinstance(outcome, Solution):
            predictor = SchedulePredictor(topology, problem, outcome.schedule, options)
            by_times.setdefault(tuple(predictor.predict(s).seconds for s in sizes), []).append(name)
    curves = [Curve(" = ".join(names), "baseline", seconds) for seconds, names in by_times.items()]
    return rings + curves, tuple(missing)


def _ring_curve(
    topology: Topology, goal: Collective, sizes: tuple[int, ...], options: CostOptions
) -> list[Curve] | str:  # fmt: skip
    """What NCCL runs, as a program, or why there is none; between simulated sizes it grows evenly."""
    import numpy as np

    policy, few = options.policy.compile, sizes
    if goal.ranks > policy.few_sizes_from_ranks and len(sizes) > policy.few_sizes:
        places = np.linspace(0, len(sizes) - 1, policy.few_sizes).round().astype(int)
        few = tuple(sizes[i] for i in places)
    seconds = []
    for size in few:
        baseline = ring_baseline(topology, goal.name, goal.root, size, options)
        if isinstance(baseline, str):
            return baseline
        seconds.append(baseline.seconds)
    between = np.interp(sizes, few, seconds)
    return [Curve(f"{NAMES[goal.name]}, program", "baseline", tuple(between.tolist()))]


def _least_moves(problem: Problem) -> int:
    """How often a chunk, or a part of a sum, must move at least; ``Collective.deliveries`` counts no parts."""
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    return sum(len(pre | post) - 1 for pre, post in pairs)
