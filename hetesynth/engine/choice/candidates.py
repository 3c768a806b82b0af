"""Candidate specs for a size: what a strategy, a number of chunks per rank and capacities make together.

The first number of chunks is about the root of the bandwidth-to-latency ratio, where a pipeline of chunks is in
balance; the others follow by distance from it. Which specs are made, and in which order, is said in ``rules``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import PERSONALIZED, CollectiveName, transfers
from hetesynth.model.cost import Costs, chunk_bytes, costs
from hetesynth.model.time_bound import TimeBound
from hetesynth.model.topology import Rank, SharedGroup, Topology, Wire
from hetesynth.policy import Policy
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.search.bounds.throughput import cut_bounds
from hetesynth.search.chunking import Capacity, Chunking, ChunkingOptions, chunk

if TYPE_CHECKING:
    from hetesynth.search.registry import StrategyRow
    from hetesynth.search.search import Strategy
    from hetesynth.search.timed.earliest_arrival import Rates


def safe_chunking(
    topology: Topology, paper: Chunking, name: CollectiveName, root: Rank | None, ideal: float,
    policy: Policy,
) -> Chunking:  # fmt: skip
    """Capacities rounded down, of the shortest step that loses little, or else of the one that loses least.

    ``ideal``: seconds for each byte that the collective takes at least on the topology as it is, by cuts and
    volume.
    """
    step = max(paper.chunk_bytes / link.bandwidth for link in topology.links)
    best: tuple[float, Chunking] | None = None
    little = 0.005  # for which no longer step is tried
    for multiple in range(1, 5):
        stated = replace(paper.options, reference=step * multiple, rounding="floor", latencies=False)
        rounded = chunk(topology, stated)
        if topology.ranks > 64:
            return rounded
        bounds = cut_bounds(_as_promised(topology, rounded), name, root, policy.bounds)
        loss = max(float(b.seconds_per_byte) for b in bounds) / ideal - 1
        if best is None or loss < best[0] - little:
            best = loss, rounded
        if loss <= little:
            break
    return best[1] if best else paper


def _as_promised(topology: Topology, rounded: Chunking) -> Topology:
    """The topology with the rates that the capacities stand for, where a step lasts until all bytes are there."""
    limits: list[Wire | SharedGroup] = [*topology.wires, *topology.groups]
    lasts = [
        Fraction(capacity.chunks * rounded.chunk_bytes, capacity.lanes) / limit.bandwidth
        for limit, capacity in zip(limits, [*rounded.wires, *rounded.groups], strict=True)
        if capacity is not None and limit.bandwidth is not None
    ]
    step = max(lasts, default=rounded.tau_ref)

    def rate(capacity: Capacity) -> Fraction:
        return Fraction(capacity.chunks * rounded.chunk_bytes, capacity.lanes) / step

    wires = tuple(
        wire if capacity is None else replace(wire, bandwidth=rate(capacity))
        for wire, capacity in zip(topology.wires, rounded.wires, strict=True)
    )
    groups = tuple(
        replace(group, bandwidth=rate(capacity))
        for group, capacity in zip(topology.groups, rounded.groups, strict=True)
    )
    return replace(topology, wires=wires, groups=groups)


@dataclass(frozen=True)
class CandidateSpec:
    """One thing to try. ``strategy``: how; ``name``: its name; ``kind``: all but the number of chunks;
    ``share``: of the remaining budget."""

    label: str
    name: str
    kind: str
    chunks: int
    chunking: Chunking
    strategy: Strategy
    share: float


@dataclass(frozen=True)
class CandidateSpecs:
    """Makes candidate specs for ``size`` bytes; ``bounds`` tell how latency and bytes compare."""

    topology: Topology
    request: Request
    size: int
    bounds: tuple[TimeBound, ...]

    @property
    def policy(self) -> AutotunePolicy:
        """The thresholds of tuning runs."""
        return self.request.policy.autotune

    @property
    def personalized(self) -> bool:
        """Whether every chunk is for one rank."""
        return self.request.collective in PERSONALIZED

    @property
    def bandwidth_latency_ratio(self) -> float:
        """Seconds that the bytes take at least over seconds that latency takes at least."""
        bytes_ = max(float(b.seconds_per_byte) for b in self.bounds) * self.size
        latency = max(float(b.latency) for b in self.bounds)
        return bytes_ / latency if latency else math.inf

    @cached_property
    def _by_cuts(self) -> Fraction:
        """Seconds that each byte takes at least at the stated rates, by cuts and volume."""
        root = ProblemFactory(self.topology, self.request).root
        bounds = cut_bounds(self.topology, self.request.collective, root, self.request.policy.bounds)
        return max(b.seconds_per_byte for b in bounds)

    @cached_property
    def independent(self) -> bool:
        """Whether no two links share anything."""
        used = [r for resources in self._costs.link_resources for r in resources]
        return len(used) == len(set(used))

    def transfers(self, chunks: int) -> int:
        """Of a schedule with ``chunks`` chunks per rank, about."""
        return transfers(self.request.collective, self.topology.ranks, chunks)

    def chunk_bytes(self, chunks: int) -> float:
        """The exact size of a chunk, not rounded; less than one where the buffer is too small."""
        return chunk_bytes(self.request.collective, self.topology.ranks, chunks, self.size)

    def counts(self) -> list[int]:
        """Chunks per rank, the most promising number first."""
        if self.request.fixed_chunks is not None:
            return [self.request.fixed_chunks]
        ranks, policy = self.topology.ranks, self.policy
        small = [c for c in policy.chunk_counts if self.chunk_bytes(c) >= 1]
        if not small:
            raise self.too_small(1)
        even = [c for c in self._even_counts() if self.transfers(c) <= policy.max_transfers]
        fit = [c for c in small if self.transfers(c) <= policy.max_transfers] or small[:1]
        most = policy.max_first_chunks_personalized if self.personalized else policy.max_first_chunks
        quick = max(c for c in fit if c == fit[0] or self.transfers(c) <= policy.max_first_transfers)
        balance = policy.pipeline_exponent * math.log2(max(self.bandwidth_latency_ratio, 1.0))
        if self.personalized:  # a chunk for every rank makes a pipeline already
            balance = max(0.0, balance - math.log2(ranks))
        start = min(balance, math.log2(min(most, quick)))
        more = 1 if self.bandwidth_latency_ratio < policy.ratio_arrival_misleads or self.personalized else -1
        return sorted({*fit, *even}, key=lambda c: (c not in even, abs(math.log2(c) - start), more * c))

    def left_out(self, counts: Sequence[int]) -> Iterator[tuple[int, str]]:
        """Each number of chunks of the policy that is not in ``counts``, and why."""
        for chunks in self.policy.chunk_counts:
            if chunks in counts:
                continue
            if self.request.fixed_chunks is not None:
                yield chunks, f"{self.request.fixed_chunks} chunks per rank are stated"
            elif self.chunk_bytes(chunks) < 1:
                yield chunks, "a chunk would be less than a byte"
            else:
                most = self.policy.max_transfers
                yield chunks, f"{self.transfers(chunks):,} transfers are more than {most:,}"

    def _even_counts(self) -> list[int]:
        """For large buffers a number of chunks for which the busiest resource needs whole steps, if no power of
        two does: with 10 chunks 31 steps on two DGX-2."""
        name, most = self.request.collective, self.policy.max_first_chunks
        if self.bandwidth_latency_ratio < self.policy.ratio_arrival_misleads:
            return []
        if name not in ("allgather", "reducescatter"):
            return []
        slowest = min(link.bandwidth for link in self.topology.links)
        steps = self._by_cuts * self.topology.ranks * slowest
        unit = steps.denominator
        if unit & (unit - 1) == 0 or unit > most:
            return []
        while unit < most:
            unit *= 2
        return [unit]

    def named(self, name: str, chunks: int, chunkings: Sequence[Chunking]) -> Iterator[CandidateSpec]:
        """A strategy that counts steps, with each of ``chunkings``."""
        from hetesynth.search.registry import strategy

        yield from self.each(strategy(name), chunks, chunkings)

    def each(self, strategy: Strategy, chunks: int, chunkings: Sequence[Chunking]) -> Iterator[CandidateSpec]:
        """The same of a strategy that the registry need not know."""
        for number, c in enumerate(chunkings):
            label, kind = _label(strategy.name, chunks, c), f"{strategy.name} {number}"
            yield CandidateSpec(label, strategy.name, kind, chunks, c, strategy, self.policy.share)

    def timed(
        self, row: StrategyRow, chunks: int, chunkings: Sequence[Chunking], share: float | None = None
    ) -> Iterator[CandidateSpec]:
        """Every variant of a strategy that counts seconds; in reverse where load counts more than latency."""
        from hetesynth.search.registry import timed_strategies

        variants = timed_strategies(row, self.rates(chunks), self.policy)
        if self.bandwidth_latency_ratio >= self.policy.ratio_load_counts:
            variants.reverse()
        for variant, strategy in variants:
            for number, c in enumerate(chunkings if row.every_chunking else chunkings[:1]):
                label = _label(variant, chunks, c) if row.every_chunking else f"{variant}, c={chunks}"
                kind = f"{variant} {number}"
                yield CandidateSpec(label, row.name, kind, chunks, c, strategy, share or self.policy.share)

    def packed(self, chunks: int, paper: Chunking) -> Iterator[CandidateSpec]:
        """Packed trees on capacities that the hardware keeps, without and with a forwarding delay."""
        from hetesynth.search.registry import strategy
        from hetesynth.search.trees.packed_trees import forwarding_delay_strategy

        if self.request.chunking == ChunkingOptions():
            root = ProblemFactory(self.topology, self.request).root
            ideal = float(self._by_cuts)
            policy = self.request.policy
            paper = safe_chunking(self.topology, paper, self.request.collective, root, ideal, policy)
        delayed = (forwarding_delay_strategy(), "tree-packing, forwarding delay")
        for packing, kind in ((strategy("tree-packing"), "tree-packing"), delayed):
            label = _label(kind, chunks, paper)
            yield CandidateSpec(label, packing.name, kind, chunks, paper, packing, self.policy.share_packed)

    def paper_chunking(self, chunks: int) -> Chunking:
        """The paper's capacities."""
        options = replace(self.request.chunking, chunk_bytes=max(1, int(self.chunk_bytes(chunks))))
        return _quantized(self.topology, options)

    def chunkings(self, chunks: int, *, less_rounding: bool = True) -> list[Chunking]:
        """The paper's capacities and, with ``less_rounding``, those that round less."""
        paper = self.paper_chunking(chunks)
        if self.request.chunking != ChunkingOptions() or not less_rounding:
            return [paper]
        choices, policy = [paper], self.policy
        for most in (policy.few_multiples, policy.max_multiple):
            multiples = range(1, min(most, policy.multiples_per_chunk * chunks) + 1)
            stated = [replace(paper.options, reference=paper.tau_ref * k, rounding="nearest") for k in multiples]
            near = min((_quantized(self.topology, options) for options in stated), key=_error)
            if _error(near) < policy.less_rounding * _error(choices[-1]):
                choices.append(near)
        return choices

    @cached_property
    def _costs(self) -> Costs:
        return costs(self.topology, CostOptions.of(self.request).rates)

    def rates(self, chunks: int) -> Rates:
        """What strategies that count seconds know of the links, with ``chunks`` chunks per rank."""
        from hetesynth.search.timed.earliest_arrival import Rates

        prices, size = self._costs, self.chunk_bytes(chunks)
        return Rates(prices.link_alpha, prices.link_resources, prices.resource_rate, size, self.topology.servers)

    def too_small(self, chunks: int) -> HetesynthError:
        """What to say where a chunk would be less than a byte."""
        least = math.ceil(1 / chunk_bytes(self.request.collective, self.topology.ranks, chunks, 1))
        fewer = ", or fewer --chunks" if chunks > 1 else ""
        return HetesynthError(
            f"{self.size} bytes are too few for chunks of a byte or more: at least {least} are needed",
            code="HS611",
            help=f"use --size {least}B or more{fewer}",
        )


def strategy_of(request: Request, topology: Topology) -> Strategy:
    """The strategy that ``request`` names, along stated rings where it has some."""
    from hetesynth.search.registry import strategy

    if not request.rings:
        return strategy(request.strategy)
    if request.strategy != "ring":
        raise HetesynthError(
            f"strategy {request.strategy} takes no rings", code="HS620", help="use --strategy ring with --rings"
        )
    from hetesynth.search.baselines.table import ring_strategy
    from hetesynth.topology.language.nccl_graph import server_rings

    first = topology.links[0]
    return ring_strategy(server_rings(topology, request.rings), (first.src, first.dst))


def _label(name: str, chunks: int, chunking: Chunking) -> str:
    rounded = chunking.options.rounding != "ceil"
    return f"{name}, c={chunks}" + (f", tau_ref {float(chunking.tau_ref) * 1e6:.3g} us" if rounded else "")


def _quantized(topology: Topology, options: ChunkingOptions) -> Chunking:
    """The capacities; where tiny chunks and links without latency make them absurd, by a shorter reference."""
    try:
        return chunk(topology, options)
    except HetesynthError as error:
        if error.code != "HS402" or options.reference != "slowest":
            raise
    quickest = min(link.latency + (options.chunk_bytes or 1) / link.bandwidth for link in topology.links)
    return chunk(topology, replace(options, reference=quickest))


def _error(chunking: Chunking) -> float:
    """How wrong the most wrong capacity of a link, wire or group is."""
    worst = chunking.worst_error()
    return 0.0 if worst is None else abs(float(worst.error))
