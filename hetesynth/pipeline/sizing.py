"""The right schedule for a size: chunks, reference time, rounding and strategy chosen by predicted time.

In: a request with a size. Out: contenders, each a verified schedule with a clock that predicts it at any size,
the quickest first. Steps are only the means here: a contender with more steps may well be quicker. What is tried,
in a fixed order until the time budget ends: chunks per rank in powers of two; for each, routes by earliest arrival
with growing prices on load, then capacities by the paper's rule and with the multiple of tau_ref that rounds least.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.collectives.library import collective
from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs, chunk_bytes, costs
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.time_bound import TimeBound, tightest
from hetesynth.model.topology import Topology
from hetesynth.pipeline.simulation import CostOptions, Prediction, ScheduleClock
from hetesynth.synthesis.search import Progress, silent
from hetesynth.verify.schedule import schedule_violations

if TYPE_CHECKING:
    from hetesynth.pipeline.synthesis import Request
    from hetesynth.synthesis.solve import Solution
    from hetesynth.synthesis.strategy import Strategy

CHUNKS = (1, 2, 4, 8, 16, 32)
MAX_TRANSFERS = 40_000  # of a contender; beyond, a schedule takes longer to find than its last percent is worth
MAX_TIMED = 9_000  # of a contender routed by earliest arrival
MAX_MULTIPLE = 6  # of tau_ref, so that unequal rates become whole numbers of chunks
WEIGHTS = (0.0, 0.5, 1.0)
ENOUGH = 0.995  # of the bound: nothing is left to gain
SHARE = 0.2  # of the remaining budget for one contender


@dataclass(frozen=True)
class Contender:
    """One way to do it. ``prediction`` is for the size asked for."""

    label: str
    chunking: Chunking
    problem: Problem
    solution: Solution
    clock: ScheduleClock
    prediction: Prediction


@dataclass(frozen=True)
class Contest:
    """All contenders for one size, the quickest first. ``cut_short``: the budget ended before the list did."""

    size: int
    bound: TimeBound
    contenders: tuple[Contender, ...]
    cut_short: bool

    @property
    def share_of_bound(self) -> float:
        """The bound over the best prediction: 1 is optimal."""
        return float(self.bound.seconds(self.size)) / self.contenders[0].prediction.seconds


@dataclass(frozen=True)
class _Way:
    label: str
    chunks: int
    chunking: Chunking
    strategy: Strategy


def contest(topology: Topology, request: Request, size: int, progress: Progress = silent) -> Contest:
    """Try every way that ``request`` leaves open for a buffer of ``size`` bytes.

    Raises HetesynthError when the size is too small to be cut, or no way gives a schedule.
    """
    from hetesynth.bounds.throughput import time_bounds

    bound = tightest(time_bounds(topology, request.collective, request.root), size)
    least = float(bound.seconds(size))
    budget = request.budget.seconds
    ends = None if budget is None else time.monotonic() + budget
    found: list[Contender] = []
    cut_short = False
    for way in _ways(topology, request, size):
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0 and found:
            cut_short = True
            break
        contender = _contender(topology, request, size, way, None if left is None else SHARE * max(left, 0.1))
        if contender is None:
            continue
        found.append(contender)
        best = min(c.prediction.seconds for c in found)
        progress(f"{way.label}: {contender.prediction.seconds * 1e6:.4g} us, best {best * 1e6:.4g} us", None)
        if least >= ENOUGH * best:
            break
    if not found:
        raise HetesynthError(
            f"no way to do {request.collective} in {size} bytes was found",
            code="HS610", exit_code=3, help="raise --time-budget, or choose --strategy and --chunks",
        )  # fmt: skip
    return Contest(size, bound, tuple(sorted(found, key=lambda c: c.prediction.seconds)), cut_short)


def _contender(
    topology: Topology, request: Request, size: int, way: _Way, seconds: float | None
) -> Contender | None:
    """The schedule of one way, predicted; None when the way is not for this problem."""
    from hetesynth.synthesis.solve import Solution, Solver

    wanted = collective(request.collective, topology.ranks, way.chunks, request.root)
    problem = way.chunking.problem(wanted, max_peers=request.max_peers)
    try:
        outcome = Solver(way.strategy, Budget(seconds, request.budget.seed), schedule_violations).solve(problem)
    except HetesynthError:
        return None
    if not isinstance(outcome, Solution):
        return None
    clock = ScheduleClock(topology, problem, outcome.schedule, CostOptions())
    return Contender(way.label, way.chunking, problem, outcome, clock, clock.predict(size))


def _ways(topology: Topology, request: Request, size: int) -> Iterator[_Way]:
    """What is tried, in order."""
    from hetesynth.synthesis.registry import strategy

    paid = costs(topology)
    for chunks in _chunk_counts(topology, request, size):
        chunkings = _chunkings(topology, request, size, chunks)
        if request.strategy != "auto":
            named = strategy(request.strategy)
            yield from (_Way(f"{named.name} c={chunks}", chunks, c, named) for c in chunkings)
            continue
        if chunks <= 4:
            yield from _timed_ways(request, chunkings[0], chunks, paid)
        yield from (
            _Way(f"greedy c={chunks}{_said(c)}", chunks, c, strategy("auto" if chunks == 1 else "greedy"))
            for c in chunkings
        )


def _said(chunking: Chunking) -> str:
    return "" if chunking.options.rounding == "ceil" else f" tau_ref={float(chunking.tau_ref) * 1e6:.3g}us"


def _timed_ways(request: Request, chunking: Chunking, chunks: int, paid: Costs) -> Iterator[_Way]:
    from hetesynth.synthesis.timed import Rates, timed_strategy

    if _transfers(request, chunking.topology.ranks, chunks) > MAX_TIMED:
        return
    rates = Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, chunking.chunk_bytes)
    for weight in WEIGHTS:
        yield _Way(f"timed c={chunks} price={weight:g}", chunks, chunking, timed_strategy(rates, weight))


def _transfers(request: Request, ranks: int, chunks: int) -> int:
    """Deliveries of the collective, times two where each goes by another rank."""
    if request.collective in ("broadcast", "reduce", "gather", "scatter"):
        return (ranks - 1) * chunks
    return ranks * (ranks - 1) * chunks * (2 if request.collective in ("alltoall", "allreduce") else 1)


def _chunk_counts(topology: Topology, request: Request, size: int) -> list[int]:
    """Chunks per rank that make sense for this size; the ones asked for, if any."""
    if request.chunks > 1:
        return [request.chunks]
    ranks = topology.ranks
    small = [c for c in CHUNKS if chunk_bytes(request.collective, ranks, c, size) >= 1]
    return [c for c in small if _transfers(request, ranks, c) <= MAX_TRANSFERS] or small[:1]


def _chunkings(topology: Topology, request: Request, size: int, chunks: int) -> list[Chunking]:
    """The paper's capacities for chunks of this size, and those that round least."""
    exact = chunk_bytes(request.collective, topology.ranks, chunks, size)
    if exact < 1:
        raise HetesynthError(
            f"{size} bytes are too few to be cut into {chunks} chunks per rank",
            code="HS611", help="use fewer --chunks or a larger --size",
        )  # fmt: skip
    options = replace(request.chunking, chunk_bytes=max(1, int(exact)))
    paper = chunk(topology, options)
    if request.chunking != ChunkingOptions():
        return [paper]
    closest = min(_multiples(topology, options, paper, chunks), key=_worst_error, default=paper)
    return [paper] if _worst_error(paper) <= _worst_error(closest) else [paper, closest]


def _multiples(topology: Topology, options: ChunkingOptions, paper: Chunking, chunks: int) -> Iterable[Chunking]:
    for multiple in range(1, min(MAX_MULTIPLE, 2 * chunks) + 1):
        reference = paper.tau_ref * multiple * Fraction(1_000_001, 1_000_000)
        yield chunk(topology, replace(options, reference=reference, rounding="nearest"))


def _worst_error(chunking: Chunking) -> float:
    """How wrong the most wrong capacity of a link, wire or group is."""
    shared = [c for c in (*chunking.wires, *chunking.groups) if c is not None]
    return max((abs(float(c.error)) for c in (*chunking.link_capacities(), *shared)), default=0.0)
