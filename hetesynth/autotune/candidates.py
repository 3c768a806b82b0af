"""What a tuning run for a size tries, and in which order: chunks per rank, capacities, strategy.

In: a topology, a request, a size. Out: ``CandidateSpec``s, one group for each number of chunks. The first number
is about the root of (seconds of the bytes / seconds of latency), where a pipeline of chunks is in balance; the
others follow by distance from it, so that what is most likely to win is there when time is short.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice
from typing import TYPE_CHECKING

from hetesynth.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.compile.least_time import transfers
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.cost import chunk_bytes, costs
from hetesynth.model.time_bound import TimeBound
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.compile.request import Request
    from hetesynth.synthesis.strategy import Strategy
    from hetesynth.synthesis.timed.earliest_arrival import Rates

CHUNKS = (1, 2, 4, 8, 16, 32, 64)

MAX_START = 16

MAX_START_PERSONALIZED = 8  # there are as many chunks more as ranks

MAX_TRANSFERS = 40_000  # of a candidate; beyond, a schedule takes longer to find than its last percent is worth

QUICK_TRANSFERS = 9_000  # of the first candidates

MAX_TREES = 20_000  # of a candidate along balanced trees

MAX_LISTED = 12_000  # of a candidate with fixed routes

MAX_STEADY = (33_000, 8)  # transfers and chunks per rank of a candidate whose NICs keep their peers

MAX_MULTIPLE = 16  # of tau_ref, so that unequal rates become whole numbers of chunks

FEW_MULTIPLES = 4

SHARE = 0.2  # of the remaining budget for one candidate

SHARE_NEGOTIATED = 0.6  # where hardly anything else is worth a try

PRICED = 4.0  # seconds of bytes / seconds of latency, from which on load counts more than latency

PACKED_SHARE = 0.4  # of the remaining budget: there is no schedule before the last step is filled

HEAVY = 30.0  # seconds of bytes / seconds of latency, from which on packed trees come first of all

LARGE = 300.0  # seconds of bytes / seconds of latency, from which on earliest arrival is no guide

SMALL_PERSONALIZED = 20.0  # the same where each chunk is for one rank

PLACED = ("exchange", "negotiated", "timed", "timed-trees", "ring", "tree-packing", "greedy", "trees", "direct")
"""Strategies for which the order of ``auto`` has a rule, besides the baselines."""

STEADY = ("server-rings", "ring", "double-tree")
"""Strategies that are fixed and whose ranks have few peers: programs hardly lose against their schedules."""


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
    share: float = SHARE


@dataclass(frozen=True)
class CandidateSpecs:
    """Everything to be tried for ``size`` bytes; ``bounds`` tell how latency and bytes compare."""

    topology: Topology
    request: Request
    size: int
    bounds: tuple[TimeBound, ...]

    @property
    def bandwidth_latency_ratio(self) -> float:
        """Seconds that the bytes take at least over seconds that latency takes at least."""
        bytes_ = max(float(b.seconds_per_byte) for b in self.bounds) * self.size
        latency = max(float(b.latency) for b in self.bounds)
        return bytes_ / latency if latency else math.inf

    def counts(self) -> list[int]:
        """Chunks per rank, the most promising number first."""
        if self.request.chunks_stated or self.request.chunks > 1:
            return [self.request.chunks]
        name, ranks = self.request.collective, self.topology.ranks
        small = [c for c in CHUNKS if chunk_bytes(name, ranks, c, self.size) >= 1]
        if not small:
            raise self._too_small(1)
        even = [c for c in self._even_counts() if transfers(name, ranks, c) <= MAX_TRANSFERS]
        fit = [c for c in small if transfers(name, ranks, c) <= MAX_TRANSFERS] or small[:1]
        most = MAX_START_PERSONALIZED if name in PERSONALIZED else MAX_START
        quick = max(c for c in fit if c == fit[0] or transfers(name, ranks, c) <= QUICK_TRANSFERS)
        balance = math.log2(max(self.bandwidth_latency_ratio, 1.0)) / 2
        if name in PERSONALIZED:  # a chunk for every rank makes a pipeline already
            balance = max(0.0, balance - math.log2(ranks))
        start = min(balance, math.log2(min(most, quick)))
        more = 1 if self.bandwidth_latency_ratio < LARGE or name in PERSONALIZED else -1
        return sorted({*fit, *even}, key=lambda c: (c not in even, abs(math.log2(c) - start), more * c))

    def _even_counts(self) -> list[int]:
        """For large buffers a number of chunks for which the busiest resource needs whole steps, if no power of
        two does: with 10 chunks 31 steps on two DGX-2."""
        name = self.request.collective
        if self.bandwidth_latency_ratio < LARGE or name not in ("allgather", "reducescatter"):
            return []
        slowest = min(link.bandwidth for link in self.topology.links)
        steps = max(b.seconds_per_byte for b in self.bounds) * self.topology.ranks * slowest
        unit = steps.denominator
        if unit & (unit - 1) == 0 or unit > MAX_START:
            return []
        while unit < MAX_START:
            unit *= 2
        return [unit]

    def of(self, chunks: int, *, hurry: bool = False) -> Iterator[CandidateSpec]:
        """The candidate specs with ``chunks`` chunks per rank, in order.

        ``hurry``: with the paper's capacities only, as the others take seconds to find on large clusters.
        """
        from hetesynth.synthesis.registry import row_of

        exact = chunk_bytes(self.request.collective, self.topology.ranks, chunks, self.size)
        if exact < 1:
            raise self._too_small(chunks)
        chunkings = self._chunkings(chunks, max(1, int(exact)), closest=not hurry)
        if self.request.strategy != "auto":
            row = row_of(self.request.strategy)
            if row.objective == "time" and not self.request.rings:
                yield from self._timed(row.name, chunks, chunkings, exact)
            else:
                yield from self._each(strategy_of(self.request, self.topology), chunks, chunkings)
            return
        yield from self._of_auto(chunks, chunkings, exact)
        yield from self._unplaced(chunks, chunkings, exact)

    def _of_auto(self, chunks: int, chunkings: list[Chunking], exact: float) -> Iterator[CandidateSpec]:
        """The strategies of ``PLACED`` and the baselines, in the order that suits the collective and the size."""
        if self.request.collective in PERSONALIZED:
            yield from self._timed("exchange", chunks, chunkings, exact)
        elif self.bandwidth_latency_ratio >= PRICED and self._independent() and len(chunkings) > 1:
            yield from self._timed("negotiated", chunks, chunkings, exact, SHARE_NEGOTIATED)
        timed = list(self._timed("timed", chunks, chunkings, exact))
        late = self.bandwidth_latency_ratio > (
            SMALL_PERSONALIZED if self.request.collective in PERSONALIZED else LARGE
        )
        yield from () if late else timed
        number = transfers(self.request.collective, self.topology.ranks, chunks)
        if (
            number <= MAX_LISTED and self.request.collective not in PERSONALIZED
        ):  # cheap, and a floor when time is short
            yield from self._named("ring", chunks, chunkings)
        if self.request.collective not in PERSONALIZED and self.bandwidth_latency_ratio > PRICED:
            yield from self._packed(chunks, chunkings[0])
        if (
            self.request.collective not in PERSONALIZED
            and PRICED <= self.bandwidth_latency_ratio < LARGE
            and not self._independent()
        ):
            yield from self._timed("negotiated", chunks, chunkings, exact)
        yield from self._named("greedy", chunks, chunkings)
        if self.request.collective not in PERSONALIZED and number <= MAX_TREES:
            if len(chunkings) > 1:  # rates that are no multiples of each other
                yield from self._timed("timed-trees", chunks, chunkings, exact)
            yield from self._named("trees", chunks, chunkings)
        listed = [
            *([] if self.request.collective not in PERSONALIZED else ["ring"]),
            *_baselines(),
            *(["direct"] if chunks <= 2 and self.request.collective == "alltoall" else []),
        ]
        if number <= MAX_LISTED:
            for name in listed:
                yield from self._named(name, chunks, chunkings[:1])
        if late and chunks <= 2:
            yield from timed

    def first_specs(self) -> Iterator[CandidateSpec]:
        """What comes near the bound at the first try where bytes weigh much: packed trees; where links share
        nothing, negotiated loads, earliest arrival and greedy rounds."""
        if (
            self.request.strategy == "auto"
            and self.request.collective not in PERSONALIZED
            and self.bandwidth_latency_ratio > HEAVY
        ):
            chunks = self.counts()[0]
            exact = chunk_bytes(self.request.collective, self.topology.ranks, chunks, self.size)
            chunkings = self._chunkings(chunks, max(1, int(exact)))
            if not self._independent():
                yield from self._packed(chunks, chunkings[0])
                return
            if len(chunkings) > 1:
                yield from self._timed("negotiated", chunks, chunkings, exact, SHARE_NEGOTIATED)
            yield from islice(self._timed("timed", chunks, chunkings, exact), 1)
            yield from self._named("greedy", chunks, chunkings[:1])

    def designs(self) -> Iterator[CandidateSpec]:
        """Fixed routes of few peers, for collectives too large for most searches: there is a schedule soon."""
        from hetesynth.synthesis.auto import FEW_PEERS

        chunks = self.counts()[0]
        number = transfers(self.request.collective, self.topology.ranks, chunks)
        if self.request.strategy == "auto" and number > MAX_LISTED:
            exact = chunk_bytes(self.request.collective, self.topology.ranks, chunks, self.size)
            if exact < 1:
                raise self._too_small(chunks)
            options = replace(self.request.chunking, chunk_bytes=int(exact))
            heavy = (
                self.bandwidth_latency_ratio >= PRICED
            )  # load counts more than latency: rails first, as time may end after it
            for name in sorted(FEW_PEERS, key=lambda name: heavy and name != "server-rings"):
                yield from self._named(name, chunks, [_quantized(self.topology, options)])

    def rails(self) -> Iterator[CandidateSpec]:
        """Rings of servers with every number of chunks; nothing where bytes weigh little."""
        for chunks, size in self._steady_counts():
            options = replace(self.request.chunking, chunk_bytes=size)
            yield from self._named("server-rings", chunks, [_quantized(self.topology, options)])

    def steady(self) -> Iterator[CandidateSpec]:
        """What keeps its time as a program, with every number of chunks; nothing where bytes weigh little."""
        for chunks, size in self._steady_counts():
            chunkings = self._chunkings(chunks, size)
            for known in STEADY:
                some = chunkings if known == "ring" else chunkings[:1]
                yield from self._named(known, chunks, some)

    def fixed(self) -> Iterator[CandidateSpec]:
        """Fixed routes, which need no search, with as few chunks as allowed; nothing where these are many."""
        from hetesynth.compile.problem import MANY_RANKS
        from hetesynth.synthesis.auto import FEW_PEERS, LAST

        chunks, name = min(self.counts()), self.request.collective
        exact = chunk_bytes(name, self.topology.ranks, chunks, self.size)
        many = transfers(name, self.topology.ranks, chunks) > MAX_LISTED
        if self.request.strategy != "auto" or many or exact < 1:
            return
        options = replace(self.request.chunking, chunk_bytes=int(exact))
        chunking = [_quantized(self.topology, options)]
        relayed = name in PERSONALIZED and self.topology.ranks > MANY_RANKS
        for known in (*(FEW_PEERS if relayed else ("ring",)), LAST):
            yield from self._named(known, chunks, chunking)

    def _steady_counts(self) -> Iterator[tuple[int, int]]:
        """Chunks per rank and the bytes of one; none where links share nothing: there programs keep their time."""
        name = self.request.collective
        if (
            self.request.strategy != "auto"
            or name in PERSONALIZED
            or self.bandwidth_latency_ratio < PRICED
            or self._independent()
        ):
            return
        for chunks in self.counts():
            exact = chunk_bytes(name, self.topology.ranks, chunks, self.size)
            number = transfers(name, self.topology.ranks, chunks)
            if number <= MAX_STEADY[0] and chunks <= MAX_STEADY[1] and exact >= 1:
                yield chunks, int(exact)

    def _named(self, name: str, chunks: int, chunkings: list[Chunking]) -> Iterator[CandidateSpec]:
        from hetesynth.synthesis.registry import strategy

        yield from self._each(strategy(name), chunks, chunkings)

    def _each(self, found: Strategy, chunks: int, chunkings: list[Chunking]) -> Iterator[CandidateSpec]:
        for number, c in enumerate(chunkings):
            yield CandidateSpec(
                _label(found.name, chunks, c), found.name, f"{found.name} {number}", chunks, c, found
            )

    def _timed(
        self, name: str, chunks: int, chunkings: list[Chunking], exact: float, share: float = SHARE
    ) -> Iterator[CandidateSpec]:
        """Every variant of a strategy that counts seconds; in reverse where load counts more than latency."""
        from hetesynth.synthesis.registry import row_of, timed_strategies

        row = row_of(name)
        if row.max_transfers is not None and self._transfers(chunks) > row.max_transfers:
            return
        variants = timed_strategies(row, self._rates(exact))
        for label, found in variants if self.bandwidth_latency_ratio < PRICED else reversed(variants):
            for number, c in enumerate(chunkings if row.every_chunking else chunkings[:1]):
                told = _label(label, chunks, c) if row.every_chunking else f"{label}, c={chunks}"
                yield CandidateSpec(told, name, f"{label} {number}", chunks, c, found, share)

    def _unplaced(self, chunks: int, chunkings: list[Chunking], exact: float) -> Iterator[CandidateSpec]:
        """The candidates of the registry for which ``_of_auto`` has no place: they come last."""
        from hetesynth.synthesis.registry import ROWS

        for row in ROWS:
            if not row.candidate or row.library or row.name in PLACED:
                continue
            if row.objective == "time":
                yield from self._timed(row.name, chunks, chunkings, exact)
            elif row.max_transfers is None or self._transfers(chunks) <= row.max_transfers:
                yield from self._named(row.name, chunks, chunkings)

    def _transfers(self, chunks: int) -> int:
        return transfers(self.request.collective, self.topology.ranks, chunks)

    def _independent(self) -> bool:
        """Whether no two links share anything."""
        used = [r for resources in costs(self.topology).link_resources for r in resources]
        return len(used) == len(set(used))

    def _packed(self, chunks: int, paper: Chunking) -> Iterator[CandidateSpec]:
        from hetesynth.collectives.library import collective
        from hetesynth.compile.safe_chunking import safe_chunking
        from hetesynth.synthesis.registry import strategy
        from hetesynth.synthesis.trees.packed_trees import forwarding_delay_strategy

        name = self.request.collective
        if self.request.chunking == ChunkingOptions():
            root = collective(name, self.topology.ranks, 1, self.request.root).root
            ideal = max(float(b.seconds_per_byte) for b in self.bounds)
            paper = safe_chunking(self.topology, paper, name, root, ideal)
        delayed = (forwarding_delay_strategy(), "tree-packing, forwarding delay")
        for found, how in ((strategy("tree-packing"), "tree-packing"), delayed):
            label = _label(how, chunks, paper)
            yield CandidateSpec(label, found.name, how, chunks, paper, found, PACKED_SHARE)

    def _rates(self, exact: float) -> Rates:
        from hetesynth.synthesis.timed.earliest_arrival import Rates

        paid = costs(self.topology)
        return Rates(paid.link_alpha, paid.link_resources, paid.resource_rate, exact)

    def _chunkings(self, chunks: int, size: int, *, closest: bool = True) -> list[Chunking]:
        """The paper's capacities for chunks of ``size`` bytes and, with ``closest``, those that round less."""
        options = replace(self.request.chunking, chunk_bytes=size)
        paper = _quantized(self.topology, options)
        if self.request.chunking != ChunkingOptions() or not closest:
            return [paper]
        found = [paper]
        for most in (FEW_MULTIPLES, MAX_MULTIPLE):
            near = _closest(self.topology, options, paper, min(most, 2 * chunks))
            if _error(near) < 0.9 * _error(found[-1]):
                found.append(near)
        return found

    def _too_small(self, chunks: int) -> HetesynthError:
        least = math.ceil(1 / chunk_bytes(self.request.collective, self.topology.ranks, chunks, 1))
        fewer = ", or fewer --chunks" if chunks > 1 else ""
        return HetesynthError(
            f"{self.size} bytes are too few for chunks of a byte or more: at least {least} are needed",
            code="HS611",
            help=f"use --size {least}B or more{fewer}",
        )


def strategy_of(request: Request, topology: Topology) -> Strategy:
    """The strategy that ``request`` names, along stated rings where it has some."""
    from hetesynth.synthesis.registry import strategy

    if not request.rings:
        return strategy(request.strategy)
    if request.strategy != "ring":
        raise HetesynthError(
            f"strategy {request.strategy} takes no rings", code="HS620", help="use --strategy ring with --rings"
        )
    from hetesynth.frontend.nccl_graph import server_rings
    from hetesynth.synthesis.baselines.table import ring_strategy

    first = topology.links[0]
    return ring_strategy(server_rings(topology, request.rings), (first.src, first.dst))


def _baselines() -> list[str]:
    from hetesynth.synthesis.registry import ROWS

    return [row.name for row in ROWS if row.library and row.candidate and row.name != "ring"]


def _label(name: str, chunks: int, chunking: Chunking) -> str:
    said = f", tau_ref {float(chunking.tau_ref) * 1e6:.3g} us" if chunking.options.rounding != "ceil" else ""
    return f"{name}, c={chunks}{said}"


def _closest(topology: Topology, options: ChunkingOptions, paper: Chunking, most: int) -> Chunking:
    """The multiple of tau_ref with the least error of rounding."""
    found = [
        _quantized(topology, replace(options, reference=paper.tau_ref * multiple, rounding="nearest"))
        for multiple in map(Fraction, range(1, most + 1))
    ]
    return min(found, key=_error)


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
