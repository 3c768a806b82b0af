"""NCCL's rings as a candidate: their own program, where it fits the target, so that nothing slower is chosen.

In: a topology, a request, a size. Out: a ``Ranked``, or None. The rings and their channels are those of
``ring_baseline``; the program is the same but for additions, which are fused with the receive before them.
"""

from __future__ import annotations

from functools import partial

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.program_ranking import Ranked
from hetesynth.autotune.tuning import Candidate, Pipelined
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.ring_baseline import Baseline, ring_baseline
from hetesynth.compile.steady_programs import Rings, steady_predictor
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.target import Target
from hetesynth.report.words import microseconds
from hetesynth.synthesis.baselines.table import ring_strategy
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.verify.schedule.judge import schedule_violations

NAME = "ring"
LABEL = "NCCL's rings"


def ring_candidate(
    factory: ProblemFactory, specs: CandidateSpecs, target: Target, record: Decisions
) -> Ranked | None:  # fmt: skip
    """The quickest program of NCCL's rings for ``specs.size`` bytes that ``target`` holds."""
    request, topology = factory.request, factory.topology
    options = CostOptions.of(request)
    most = request.policy.autotune.max_ranks_rings
    if topology.ranks > most:
        record.note(LABEL, "skipped", f"{topology.ranks} ranks are more than {most}")
        return None
    baseline = ring_baseline(topology, request.collective, factory.root, specs.size, options)
    if isinstance(baseline, str):
        record.note(LABEL, "refused", baseline)
        return None
    for channels in dict.fromkeys((baseline.channels, baseline.rings)):
        ranked = _ranked(factory, specs, target, baseline, channels)
        label = f"{LABEL} on {channels} channels"
        if ranked is not None:
            record.note(label, "tried", microseconds(ranked.seconds or 0.0))
            return ranked
        record.note(label, "refused", "no program that fits the target")
    return None


def _ranked(
    factory: ProblemFactory, specs: CandidateSpecs, target: Target, baseline: Baseline, channels: int
) -> Ranked | None:  # fmt: skip
    """The rings on ``channels``, in chunks that these carry equally, where chunks are not stated."""
    request, topology = factory.request, factory.topology
    stated = request.fixed_chunks
    chunks = stated or max(channels, baseline.chunks * channels // baseline.channels)
    rings = Rings(baseline.orders[: min(channels, chunks)])
    if specs.chunk_bytes(chunks) < 1:
        return None
    problem = factory.problem(specs.paper_chunking(chunks), chunks)
    first = topology.links[0]
    oracle = partial(schedule_violations, policy=request.policy.verify)
    strategy = ring_strategy(rings.orders, (first.src, first.dst))
    solver = Solver(strategy, Budget(None, request.budget.seed), oracle, policy=request.policy)
    try:
        solution = solver.solve(problem)
    except HetesynthError:  # the links of the schedule may be fewer than those of the program
        return None
    if not isinstance(solution, Solution):
        return None
    options, policy = CostOptions.of(request), request.policy.lowering
    lowering = LoweringOptions("timed", target=target, servers=topology.servers, policy=policy)
    predictor = steady_predictor(topology, problem, solution.schedule, rings, lowering, options)
    if predictor is None:
        return None
    seconds = predictor.timeline(specs.size).makespan
    pipelined = Pipelined(0.0, seconds / specs.size)
    candidate = Candidate(
        f"{LABEL}, c={chunks}", NAME, chunks, specs.paper_chunking(chunks), problem, solution,
        SchedulePredictor(topology, problem, solution.schedule, options), seconds, pipelined,
    )  # fmt: skip
    return Ranked(candidate, None, seconds, rings)
