"""What a library runs as a candidate: its own program, where it fits the target, so that nothing slower is chosen.

In: a topology, a request, a size. Out: a ``Ranked``, or None. Rings, trees and sends and their channels are those
that the rival is simulated with; the program is the same but for additions, which are fused with the receive
before them.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, takewhile
from math import gcd

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import Ranked, timed_lowering
from hetesynth.engine.choice.tuning import LATE, UNTRIED, Candidate, Pipelined
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.ring_baseline import Baseline, ring_baseline, tree_baseline
from hetesynth.engine.steady_plans import quickest_plan
from hetesynth.engine.steady_programs import LibraryProgram, Rings, Sends, Trees, steady_predictor
from hetesynth.engine.verified_solver import verified_solver
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import Deadline
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.target import Target
from hetesynth.model.words import microseconds
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.baselines.table import DOUBLE_TREE, ring_strategy
from hetesynth.search.solve import Solution

NAME = "ring"
LABEL = "NCCL's rings"


def why_skipped(factory: ProblemFactory, deadline: Deadline) -> str | None:
    """Why rings are not even simulated, or None."""
    request, ranks = factory.request, factory.topology.ranks
    most = request.policy.autotune.max_ranks_rings
    if ranks > most:
        return f"{ranks} ranks are more than {most}"
    return LATE if deadline.expired(UNTRIED) else None


def library_candidates(
    factory: ProblemFactory, specs: CandidateSpecs, target: Target, deadline: Deadline, record: Decisions
) -> Iterator[Ranked]:  # fmt: skip
    """The library's own programs for ``specs.size`` bytes that ``target`` holds, which rings or sends are soonest;
    none after ``deadline``."""
    request, topology = factory.request, factory.topology
    options = CostOptions.of(request)
    reason = why_skipped(factory, deadline)
    if reason is not None:
        record.note(LABEL, "skipped", reason)
        return
    baseline = ring_baseline(topology, request.collective, factory.root, specs.size, options)
    if isinstance(baseline, str):
        record.note(LABEL, "refused", baseline)
        return
    yield from _timed(factory, specs, baseline, target, deadline, record)
    if request.collective == "allreduce":
        trees = tree_baseline(topology, specs.size, options)
        if trees is not None and trees.seconds < baseline.seconds and target.format != "mscclpp-json":
            yield from _timed(factory, specs, trees, target, deadline, record)


def _timed(
    factory: ProblemFactory, specs: CandidateSpecs, baseline: Baseline, target: Target, deadline: Deadline,
    record: Decisions,
) -> Iterator[Ranked]:  # fmt: skip
    """The programs of ``baseline``, or its plan where ``target`` takes plans."""
    request, topology = factory.request, factory.topology
    lowering = timed_lowering(request, target, topology)
    plans = target.format == "mscclpp-json"
    fitting = _fitting(factory, specs, baseline, lowering)
    if plans:
        one: LibraryProgram = Rings(baseline.orders[: baseline.rings]) if baseline.orders else Sends(1)
        fitting = iter([(one, request.fixed_chunks or max(1, baseline.rings))])
    timed = False
    for program, chunks in fitting:
        if deadline.expired(UNTRIED):
            record.note(baseline.name, "skipped", LATE)
            return
        label = f"{baseline.name}, c={chunks}"
        ranked = (_ranked_plan if plans else _ranked)(factory, specs, label, program, chunks, lowering)
        if ranked is not None:
            timed = True
            record.note(f"{label}: {program.label}", "tried", microseconds(ranked.seconds or 0.0))
            yield ranked
    if not timed:
        record.note(baseline.name, "refused", f"no program of them fits {target.name}")


def _fitting(
    factory: ProblemFactory, specs: CandidateSpecs, baseline: Baseline, lowering: LoweringOptions
) -> Iterator[tuple[LibraryProgram, int]]:  # fmt: skip
    """The program of ``baseline`` and its chunks; where the target holds only fewer channels or chunks of it, the
    widest of each kind that it holds."""
    ranks, least = baseline.ranks, 0 if specs.personalized else 1  # plain sends go to their receivers at once
    for kind in _narrower(baseline, factory.request.fixed_chunks):
        for place, (program, chunks) in enumerate(kind):
            elements = (
                1 + ranks + least * specs.transfers(chunks) // ranks
            )  # an instruction takes one chunk at most
            if elements > lowering.target.max_nodes:  # no need to make the program, which took 10 s on 64 GPUs
                continue
            if specs.chunk_bytes(chunks) >= 1 and program.fit(factory.collective(chunks), lowering):
                yield program, chunks
                if place == 0:  # all of it
                    return
                break


def _narrower(baseline: Baseline, stated: int | None) -> Iterator[Iterator[tuple[LibraryProgram, int]]]:
    """``baseline``, then the same on half as many channels and so on, by kind; ``stated`` chunks or what suits."""
    halves = [*takewhile(bool, (baseline.channels >> k for k in count()))]
    if baseline.trees:
        parts = baseline.chunks // baseline.channels
        widths = [(n, k) for n in halves for k in (parts, parts // 4, parts // 16) if k]
        yield ((Trees(baseline.trees[:n]), stated or n * k // gcd(n * k, baseline.ranks)) for n, k in widths)
        return
    if not baseline.orders:
        yield ((Sends(n), stated or n) for n in halves)
        return
    if baseline.apart and stated in (None, baseline.chunks):
        chunks = baseline.chunks
        yield ((Rings(baseline.orders[:n], chunks), chunks) for n in halves if n > chunks)
    yield _plain_rings(baseline, stated, [n for n in halves if n > baseline.rings])


def _plain_rings(
    baseline: Baseline, stated: int | None, widths: list[int]
) -> Iterator[tuple[LibraryProgram, int]]:  # fmt: skip
    for channels in (*widths, baseline.rings):
        chunks = stated or max(channels, baseline.chunks * channels // baseline.channels)
        while chunks:
            yield Rings(baseline.orders[: min(channels, chunks)]), chunks
            chunks = 0 if stated or chunks // 2 < channels else chunks // 2


def _ranked(
    factory: ProblemFactory, specs: CandidateSpecs, label: str, program: LibraryProgram, chunks: int,
    lowering: LoweringOptions,
) -> Ranked | None:  # fmt: skip
    """The schedule along the links of ``program`` with its time; None where there is no schedule."""
    topology, options = factory.topology, CostOptions.of(factory.request)
    problem = factory.problem(specs.paper_chunking(chunks), chunks)
    solution = _along(factory, program, problem)
    if solution is None:
        return None
    predictor = steady_predictor(topology, problem, solution.schedule, program, lowering, options)
    if predictor is None:
        return None
    seconds = predictor.timeline(specs.size).makespan
    least = round(specs.size / specs.chunk_bytes(chunks))  # chunks of a byte
    latency = predictor.timeline(least).makespan if least < specs.size else seconds
    pipelined = Pipelined(latency, max(0.0, seconds - latency) / specs.size)
    candidate = Candidate(
        label, NAME, chunks, specs.paper_chunking(chunks), problem, solution,
        SchedulePredictor(topology, problem, solution.schedule, options), seconds, pipelined,
    )  # fmt: skip
    return Ranked(candidate, None, seconds, program)


def _ranked_plan(
    factory: ProblemFactory, specs: CandidateSpecs, label: str, program: LibraryProgram, chunks: int,
    lowering: LoweringOptions,
) -> Ranked | None:  # fmt: skip
    """The schedule along the same links, a chunk on each ring, with the time of its plan; None where there is
    none."""
    topology, options = factory.topology, CostOptions.of(factory.request)
    problem = factory.problem(specs.paper_chunking(chunks), chunks)
    solution = _along(factory, program, problem)
    if solution is None:
        return None
    quick = quickest_plan(topology, problem, solution.schedule, specs.size, lowering, options)
    if quick is None:
        return None
    candidate = Candidate(
        label, NAME, chunks, specs.paper_chunking(chunks), problem, solution,
        SchedulePredictor(topology, problem, solution.schedule, options), quick.seconds,
    )  # fmt: skip
    return Ranked(candidate, None, quick.seconds, quick.steady)


def _along(factory: ProblemFactory, program: LibraryProgram, problem: Problem) -> Solution | None:
    """The verified schedule along the links of ``program``, if there is one."""
    request, first = factory.request, factory.topology.links[0]
    orders = program.orders if isinstance(program, Rings) else ()
    strategy = DOUBLE_TREE if isinstance(program, Trees) else ring_strategy(orders, (first.src, first.dst))
    try:
        solution = verified_solver(strategy, Budget(seed=request.budget.seed), request.policy).solve(problem)
    except HetesynthError:  # a schedule may have fewer peers than a program
        return None
    return solution if isinstance(solution, Solution) else None
