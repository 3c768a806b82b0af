"""A schedule of steps as a program in steady state, where that is quicker than one message a transfer.

In: a solved problem, a size. Out: a ``Pipeline``, or None. What carries a chunk of a schedule is its tree,
whatever found it, so the lowering of trees applies: transfers of a step that wait do not hold up those that could
go on.
"""

from __future__ import annotations

import math

from hetesynth.autotune.effort import Effort, efforts
from hetesynth.autotune.program_ranking import Ranked, ranked_programs, timed_lowering, timed_target
from hetesynth.autotune.tuning import Candidate
from hetesynth.compile.artifacts import SolvedRequest
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.steady_programs import Pipeline, SteadyState, steady_predictor
from hetesynth.compile.time_ahead import TimeAhead
from hetesynth.lowering.steady_state.lower import Arrangement, arrangements
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.report.words import microseconds


def step_pipeline(solved: SolvedRequest, size: int, deadline: Deadline, record: Decisions) -> Pipeline | None:
    """The arrangement of the schedule's trees whose program for ``size`` bytes is quicker than the plain one."""
    request, topology = solved.compilation.request, solved.chunking.topology
    problem, schedule = solved.problem, solved.solution.schedule
    target = timed_target(request)
    if target is None or target.format != "msccl-xml":  # of plans the quicker lowering is written anyway
        return None
    options, costs = timed_lowering(request, target, topology), CostOptions.of(request)
    work = request.policy.effort.operation * len(schedule.transfers)
    allotted = efforts(solved.compilation.budget, topology.ranks, request.policy.effort).steady.allotted
    listed = arrangements(problem, schedule, costs.costs(topology), options, size)
    fitting = [a for a in listed if work * a.pieces <= allotted]
    if not fitting:
        record.note("steady state", "skipped", "its programs are too long for the effort")
        return None
    arrangement = min(fitting, key=lambda a: (a.division != "own", a.estimate))
    if _late(solved, arrangement, deadline):
        record.note("steady state", "skipped", "its files would come too late")
        return None
    steady = SteadyState(arrangement, costs.costs(topology))
    predictor = steady_predictor(topology, problem, schedule, steady, options, costs)
    plain = _plain_seconds(solved, size, deadline)
    if predictor is None:
        record.note("steady state", "refused", "it does not fit the target")
        return None
    seconds = predictor.timeline(size).makespan
    quicker = plain is None or seconds < plain
    against = "" if plain is None else f", its plain program {microseconds(plain)}"
    record.note(steady.label, "chosen" if quicker else "tried", f"{microseconds(seconds)}{against}")
    return steady if quicker else None


def _late(solved: SolvedRequest, arrangement: Arrangement, deadline: Deadline) -> bool:
    """Whether files made after a trial of both programs would come after ``deadline``."""
    number = len(solved.solution.schedule.transfers)
    ahead = TimeAhead.of(solved.compilation.request, solved.problem.ranks)
    operations = number * arrangement.pieces
    seconds = ahead.variants(number) + ahead.trial(operations) + ahead.files(operations)
    return deadline.expired("programs left untimed", seconds)


def _plain_seconds(solved: SolvedRequest, size: int, deadline: Deadline) -> float | None:
    """Of the program that is lowered step by step."""
    ranked = plain_programs(solved, step_candidate(solved, size), size, deadline)
    return min((r.seconds for r in ranked if r.seconds is not None), default=None)


def step_candidate(solved: SolvedRequest, size: int) -> Candidate:
    """The schedule of the fewest steps as a candidate for ``size`` bytes."""
    request, topology = solved.compilation.request, solved.chunking.topology
    predictor = SchedulePredictor(topology, solved.problem, solved.solution.schedule, CostOptions.of(request))
    chunks = solved.problem.collective.chunks_per_rank
    return Candidate(
        f"fewest steps, c={chunks}", solved.strategy, chunks, solved.chunking, solved.problem, solved.solution,
        predictor, predictor.timeline(size).makespan,
    )  # fmt: skip


def plain_programs(solved: SolvedRequest, candidate: Candidate, size: int, deadline: Deadline) -> list[Ranked]:
    """``candidate`` with the time of its programs, lowered step by step."""
    request, topology = solved.compilation.request, solved.chunking.topology
    return ranked_programs(topology, request, [candidate], size, deadline, Decisions(), Effort(math.inf))
