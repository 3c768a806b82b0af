"""A schedule of steps as a candidate for a size, with the program that is quickest.

In: a solved problem, a size. Out: the schedule with its quickest program: step by step, throttled, or in steady
state, where transfers of a step that wait do not hold up those that could go on.
"""

from __future__ import annotations

from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.effort import Effort, efforts
from hetesynth.engine.choice.program_ranking import Ranked, ranked_programs
from hetesynth.engine.choice.tuning import Candidate
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions


def step_candidate(solved: SolvedRequest, size: int) -> Candidate:
    """The schedule of the fewest steps as a candidate for ``size`` bytes."""
    request, topology = solved.compilation.request, solved.chunking.topology
    predictor = SchedulePredictor(topology, solved.problem, solved.solution.schedule, CostOptions.of(request))
    chunks = solved.problem.collective.chunks_per_rank
    return Candidate(
        f"fewest steps, c={chunks}", solved.strategy, chunks, solved.chunking, solved.problem, solved.solution,
        predictor, predictor.timeline(size).makespan,
    )  # fmt: skip


def step_program(
    solved: SolvedRequest, candidate: Candidate, size: int, deadline: Deadline, record: Decisions
) -> Ranked:  # fmt: skip
    """``candidate``, made of ``solved``, with its quickest program."""
    request, topology = solved.compilation.request, solved.chunking.topology
    allotted = efforts(solved.compilation.budget, topology.ranks, request.policy.effort).steady.allotted
    return ranked_programs(topology, request, [candidate], size, deadline, record, Effort(allotted))[0]
