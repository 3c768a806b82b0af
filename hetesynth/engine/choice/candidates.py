"""Candidate specs for a size: each a strategy with a number of chunks per rank and capacities. The first number of
chunks is about the root of the bandwidth-to-latency ratio, where a pipeline of chunks is in balance; the others
follow by distance from it. ``search.auto.FOR_A_SIZE`` says which strategies are tried, and in which order."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory, demand_several_ranks, no_schedule
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import Bounds, bounds_of
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import PERSONALIZED, transfers
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, hops
from hetesynth.model.target import Target
from hetesynth.model.topology import WAN_LATENCY, Topology
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.baselines.table import ring_strategy
from hetesynth.search.bounds.lower import reach
from hetesynth.search.chunking import Chunking, chunk
from hetesynth.search.collectives import DUAL, invert
from hetesynth.search.registry import row_of, strategy, timed_strategies
from hetesynth.search.search import Strategy
from hetesynth.search.symmetry import symmetric
from hetesynth.search.timed.earliest_arrival import Rates
from hetesynth.topology.language.nccl_graph import server_rings

CHUNK_COUNTS = (1, 2, 4, 8, 16, 32, 64)
MOST_TRANSFERS = 40_000  # a schedule with more takes longer to find than its last percent is worth


@dataclass(frozen=True)
class CandidateSpec:
    """A strategy to try with some number of chunks. ``name``: the strategy; ``kind``: its variant."""

    label: str
    name: str
    kind: str
    chunks: int
    chunking: Chunking
    strategy: Strategy


@dataclass(frozen=True)
class CandidateSpecs:
    """Makes candidate specs for ``size`` bytes of the collective that ``request`` names, on ``topology``."""

    topology: Topology
    request: Request
    size: int

    def demand_possible(self) -> None:
        """Raise HetesynthError HS404 for a cluster of one GPU, HS601 when some rank cannot be reached at all."""
        demand_several_ranks(self.topology)
        problem = self.factory.problem(chunk(self.topology, self.request.chunking), 1)
        stranded = reach(invert(problem)[0] if self.request.collective in DUAL else problem).stranded
        if stranded is not None:
            raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")

    @cached_property
    def costs(self) -> CostOptions:
        """The cost options by which candidates are predicted."""
        return CostOptions.of(self.request)

    @cached_property
    def bounds(self) -> Bounds:
        """The lower bounds on the time of the collective."""
        return bounds_of(self.topology, self.request.collective, self.factory.root, self.costs)

    def lowering_for(self, target: Target) -> LoweringOptions:
        """Return the options by which programs for ``target`` are lowered that are only timed."""
        return LoweringOptions("timed", target=target, servers=self.topology.servers)

    @cached_property
    def factory(self) -> ProblemFactory:
        """The factory of the problems that candidates solve."""
        return ProblemFactory(self.topology, self.request)

    @property
    def personalized(self) -> bool:
        """True if every chunk is for one rank."""
        return self.request.collective in PERSONALIZED

    @property
    def between_sites(self) -> bool:
        """True if strategy ``auto`` tries wan: links of the cluster join data centers, and chunks are for all."""
        return self.request.strategy == "auto" and not self.personalized and self.far

    @cached_property
    def far(self) -> bool:
        """True if links of the cluster join data centers."""
        return any(link.latency >= WAN_LATENCY for link in self.topology.links)

    @property
    def bandwidth_latency_ratio(self) -> float:
        """The least seconds of the bytes over the least seconds of latency; infinite where there is no latency."""
        bytes_ = max(float(b.seconds_per_byte) for b in self.bounds.bounds) * self.size
        latency = max(float(b.latency) for b in self.bounds.bounds)
        return bytes_ / latency if latency else math.inf

    @property
    def latency_counts(self) -> bool:
        """True if the size is so small that trees of few levels may be quicker."""
        return self.bandwidth_latency_ratio < 1_000

    def transfers(self, chunks: int) -> int:
        """Return about how many transfers a schedule with ``chunks`` chunks per rank has."""
        return transfers(self.request.collective, self.topology.ranks, chunks)

    def chunk_bytes(self, chunks: int) -> float:
        """The exact size of a chunk, not rounded; less than one where the buffer is too small."""
        return chunk_bytes(self.request.collective, self.topology.ranks, chunks, self.size)

    def latency(self, problem: Problem, schedule: Schedule) -> float:
        """Return the seconds of an empty message along ``schedule``: the start, and hops over the slowest link."""
        slowest = max(float(link.latency) for link in self.topology.links)
        return self.costs.start(self.topology) + hops(schedule, problem.arcs) * slowest

    def counts(self) -> list[int]:
        """Chunks per rank, the most promising number first. HetesynthError HS611 where no chunk has a byte."""
        if self.request.fixed_chunks is not None:
            return [self.request.fixed_chunks]
        small = [c for c in CHUNK_COUNTS if self.chunk_bytes(c) >= 1]
        if not small:
            raise self.too_small(1)
        fit = [c for c in small if self.transfers(c) <= MOST_TRANSFERS] or small[:1]
        quick = max(c for c in fit if c == fit[0] or self.transfers(c) <= 9_000)
        balance = math.log2(max(self.bandwidth_latency_ratio, 1.0)) / 2
        if self.personalized:  # a chunk for every rank makes a pipeline already
            balance = max(0.0, balance - math.log2(self.topology.ranks))
        start = min(balance, math.log2(min(8 if self.personalized else 16, quick)))
        return sorted(fit, key=lambda c: (abs(math.log2(c) - start), c))

    def of(self, name: str, chunks: int) -> Iterator[CandidateSpec]:
        """Yield a spec for every variant of strategy ``name``, the highest price first where bytes count most."""
        if self.chunk_bytes(chunks) < 1:
            raise self.too_small(chunks)
        row, chunking = row_of(name), self.paper_chunking(chunks)
        if row.at_once and self.request.chunking.reference == "slowest":  # all of it takes one step
            longer = replace(chunking.options, reference=chunking.tau_ref * self.topology.ranks)
            chunking = chunk(self.topology, longer)
        if name == self.request.strategy and self.request.rings:
            variants = [(name, strategy_of(self.request, self.topology))]
        elif row.objective == "steps":
            variants = [(name, strategy(name))]
        else:
            variants = timed_strategies(row, self.rates(chunks))
        if self.bandwidth_latency_ratio >= 4:
            variants.reverse()
        for variant, one in variants:
            one = sketched(one, self.request, timed=row.objective == "time")
            yield CandidateSpec(f"{variant}, c={chunks}", name, variant, chunks, chunking, one)

    def problem(self, spec: CandidateSpec) -> Problem:
        """Return the problem that ``spec`` solves; a strategy that adds at once leaves the order to programs."""
        problem = self.factory.problem(spec.chunking, spec.chunks)
        at_once = row_of(spec.name).at_once and self.request.exclusion == "auto"
        return replace(problem, exclusive_reduction=False) if at_once else problem

    def paper_chunking(self, chunks: int) -> Chunking:
        """Return the paper's chunking or, where tiny chunks make it absurd, that of a shorter reference step."""
        options = replace(self.request.chunking, chunk_bytes=max(1, int(self.chunk_bytes(chunks))))
        try:
            return chunk(self.topology, options)
        except HetesynthError as error:
            if error.code != "HS402" or options.reference != "slowest":
                raise
        of_chunk = [link.latency + (options.chunk_bytes or 1) / link.bandwidth for link in self.topology.links]
        return chunk(self.topology, replace(options, reference=min(of_chunk)))

    @cached_property
    def _rates(self) -> Rates:
        prices = costs(self.topology, self.costs.rates)
        return Rates(prices.link_alpha, prices.link_resources, prices.resource_rate, 1.0, self.topology.servers)

    def rates(self, chunks: int) -> Rates:
        """Return the rates of links and the chunk size with ``chunks`` chunks per rank, for counting seconds."""
        return replace(self._rates, chunk_bytes=self.chunk_bytes(chunks))

    def too_small(self, chunks: int) -> HetesynthError:
        """Return the error that a chunk would be less than a byte, HetesynthError HS611."""
        least = math.ceil(1 / chunk_bytes(self.request.collective, self.topology.ranks, chunks, 1))
        fewer = ", or fewer --chunks" if chunks > 1 else ""
        message = f"{self.size} bytes are too few for chunks of a byte or more: at least {least} are needed"
        return HetesynthError(message, code="HS611", help=f"use --size {least}B or more{fewer}")


def sketched(strategy: Strategy, request: Request, *, timed: bool = False) -> Strategy:
    """Return ``strategy`` under the sketch's symmetries; a ``timed`` one, which counts seconds, refuses them."""
    if request.sketch is None or not request.sketch.offsets:
        return strategy
    if timed:
        return replace(strategy, refuses=lambda *_: "it counts seconds, and the sketch's symmetries are of steps")
    return symmetric(strategy, request.sketch)


def strategy_of(request: Request, topology: Topology) -> Strategy:
    """The strategy that ``request`` names, along stated rings where it has some."""
    if not request.rings:
        return sketched(strategy(request.strategy), request)
    if request.strategy != "ring":
        message = f"strategy {request.strategy} takes no rings"
        raise HetesynthError(message, code="HS620", help="use --strategy ring with --rings")
    first = topology.links[0]
    return ring_strategy(server_rings(topology, request.rings), (first.src, first.dst))
