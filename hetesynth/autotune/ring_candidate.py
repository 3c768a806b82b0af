"""NCCL's rings as a candidate: their own program, where it fits the target, so that nothing slower is chosen.

In: a topology, a request, a size. Out: a ``Ranked``, or None. The rings and their channels are those of
``ring_baseline``; the program is the same but for additions, which are fused with the receive before them.
"""

from __future__ import annotations

from itertools import count, takewhile

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.program_ranking import Ranked, timed_lowering
from hetesynth.autotune.tuning import LATE, UNTRIED, Candidate, Pipelined
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.ring_baseline import Baseline, ring_baseline
from hetesynth.compile.steady_plans import quickest_plan
from hetesynth.compile.steady_programs import Rings, steady_predictor
from hetesynth.compile.time_ahead import TimeAhead
from hetesynth.compile.verified_solver import verified_solver
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.target import Target
from hetesynth.report.words import microseconds
from hetesynth.synthesis.baselines.table import ring_strategy
from hetesynth.synthesis.solve import Solution

NAME = "ring"
LABEL = "NCCL's rings"


def why_skipped(factory: ProblemFactory, deadline: Deadline) -> str | None:
    """Why rings are not even simulated, or None."""
    request, ranks = factory.request, factory.topology.ranks
    most = request.policy.autotune.max_ranks_rings
    if ranks > most:
        return f"{ranks} ranks are more than {most}"
    ahead = TimeAhead.of(request, ranks)
    return LATE if deadline.expired(UNTRIED, ahead.library() + _to_the_files(ahead, 1)) else None


def ring_candidate(
    factory: ProblemFactory, specs: CandidateSpecs, target: Target, deadline: Deadline, record: Decisions
) -> Ranked | None:  # fmt: skip
    """The quickest program of NCCL's rings for ``specs.size`` bytes that ``target`` holds; None where its files
    would come after ``deadline``."""
    request, topology = factory.request, factory.topology
    options = CostOptions.of(request)
    reason = why_skipped(factory, deadline)
    if reason is not None:
        record.note(LABEL, "skipped", reason)
        return None
    ahead = TimeAhead.of(request, topology.ranks)
    baseline = ring_baseline(topology, request.collective, factory.root, specs.size, options)
    if isinstance(baseline, str):
        record.note(LABEL, "refused", baseline)
        return None
    lowering = timed_lowering(request, target, topology)
    plans = target.format == "mscclpp-json"
    if plans:
        rings = Rings(baseline.orders[: baseline.rings])
        fitting: tuple[Rings, int] | None = rings, request.fixed_chunks or len(rings.orders)
    else:
        fitting = _fitting(factory, specs, baseline, lowering)
    if fitting is not None and deadline.expired(UNTRIED, _to_the_files(ahead, fitting[1])):
        record.note(LABEL, "skipped", LATE)
        return None
    timed = _ranked_plan if plans else _ranked
    ranked = None if fitting is None else timed(factory, specs, *fitting, lowering)
    if ranked is None:
        record.note(LABEL, "refused", f"no program of them fits {target.name}")
        return None
    record.note(ranked.candidate.label, "tried", microseconds(ranked.seconds or 0.0))
    return ranked


def _to_the_files(ahead: TimeAhead, chunks: int) -> float:
    """Seconds until there are files of a program in so many chunks, if it is tried now."""
    return ahead.to_the_files(ahead.transfers(chunks), kept=False)


def _fitting(
    factory: ProblemFactory, specs: CandidateSpecs, baseline: Baseline, lowering: LoweringOptions
) -> tuple[Rings, int] | None:  # fmt: skip
    """The rings of ``baseline`` and chunks, on fewer channels or in fewer chunks where they must be."""
    stated = factory.request.fixed_chunks
    lanes = baseline.channels // baseline.chunks if baseline.apart and stated in (None, baseline.chunks) else 1
    while lanes > 1:
        rings = Rings(baseline.orders[: baseline.chunks * lanes], baseline.chunks)
        if rings.fit(factory.collective(baseline.chunks), lowering):
            return rings, baseline.chunks
        lanes //= 2
    halves = takewhile(lambda c: c > baseline.rings, (baseline.channels >> k for k in count()))
    for channels in (*halves, baseline.rings):
        chunks = stated or max(channels, baseline.chunks * channels // baseline.channels)
        while chunks:
            rings = Rings(baseline.orders[: min(channels, chunks)])
            if specs.chunk_bytes(chunks) >= 1 and rings.fit(factory.collective(chunks), lowering):
                return rings, chunks
            chunks = 0 if stated or chunks // 2 < channels else chunks // 2
    return None


def _ranked(
    factory: ProblemFactory, specs: CandidateSpecs, rings: Rings, chunks: int, lowering: LoweringOptions
) -> Ranked | None:  # fmt: skip
    """The schedule along ``rings`` with the time of their program; None where there is no schedule."""
    topology, options = factory.topology, CostOptions.of(factory.request)
    problem = factory.problem(specs.paper_chunking(chunks), chunks)
    solution = _along(factory, rings, problem)
    if solution is None:
        return None
    predictor = steady_predictor(topology, problem, solution.schedule, rings, lowering, options)
    if predictor is None:
        return None
    seconds = predictor.timeline(specs.size).makespan
    least = round(specs.size / specs.chunk_bytes(chunks))  # chunks of a byte
    latency = predictor.timeline(least).makespan if least < specs.size else seconds
    pipelined = Pipelined(latency, max(0.0, seconds - latency) / specs.size)
    candidate = Candidate(
        f"{LABEL}, c={chunks}", NAME, chunks, specs.paper_chunking(chunks), problem, solution,
        SchedulePredictor(topology, problem, solution.schedule, options), seconds, pipelined,
    )  # fmt: skip
    return Ranked(candidate, None, seconds, rings)


def _ranked_plan(
    factory: ProblemFactory, specs: CandidateSpecs, rings: Rings, chunks: int, lowering: LoweringOptions
) -> Ranked | None:  # fmt: skip
    """The schedule along ``rings``, a chunk on each, with the time of its plan; None where there is none."""
    topology, options = factory.topology, CostOptions.of(factory.request)
    problem = factory.problem(specs.paper_chunking(chunks), chunks)
    solution = _along(factory, rings, problem)
    if solution is None:
        return None
    quick = quickest_plan(topology, problem, solution.schedule, specs.size, lowering, options)
    if quick is None:
        return None
    candidate = Candidate(
        f"{LABEL}, c={chunks}", NAME, chunks, specs.paper_chunking(chunks), problem, solution,
        SchedulePredictor(topology, problem, solution.schedule, options), quick.seconds,
    )  # fmt: skip
    return Ranked(candidate, None, quick.seconds, quick.steady)


def _along(factory: ProblemFactory, rings: Rings, problem: Problem) -> Solution | None:
    """The verified schedule along ``rings``, if there is one."""
    request, first = factory.request, factory.topology.links[0]
    strategy = ring_strategy(rings.orders, (first.src, first.dst))
    try:
        solution = verified_solver(strategy, Budget(seed=request.budget.seed), request.policy).solve(problem)
    except HetesynthError:  # a schedule may have fewer peers than a program
        return None
    return solution if isinstance(solution, Solution) else None
