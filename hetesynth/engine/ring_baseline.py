"""Rings, double trees and plain sends as programs, with the best number of channels and chunks: our candidates.
Rings are those of ``ring_search``, on twice as many channels as long as that is quicker: of 240 questions one had
a quicker program beyond, by 1.8 %. Broadcast and reduce go along the same rings as chains; alltoall, gather and
scatter are plain sends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.protocols import quickest_protocol
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import PERSONALIZED, CollectiveName
from hetesynth.model.cost import Costs, chunk_bytes, costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program, Protocol
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.library_programs import direct_program, ring_program, tree_program
from hetesynth.search.baselines.ring_search import Wiring, orders, ring_sets
from hetesynth.search.baselines.table import Tree, trees_of
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.copy_problem import CopyProblem, NoRoute
from hetesynth.search.server_groups import ring_servers

NAMES: dict[CollectiveName, str] = {
    "allgather": "best rings",
    "reducescatter": "best rings",
    "allreduce": "best rings",
    "broadcast": "chains along best rings",
    "reduce": "chains along best rings",
    "alltoall": "all pairs directly",
    "gather": "direct sends to the root",
    "scatter": "direct sends from the root",
}

MOST_RANKS_RINGS = 128  # up to here rings are searched for and simulated
MOST_CHANNELS = 64
"""NCCL's (src/include/device.h, MAXCHANNELS)."""
CHAIN_PARTS = (1, 4, 16, 32, 64)
"""Chunks per channel: 5x5 GPUs, broadcast of 16 MB: 3,869 us with 16, 3,465 us with 64."""
TREES = (4, 8, 16, 32)
TREE_PARTS = (4, 16, 64, 1)
MOST_TREE_MOVES = 40_000
"""Channels of trees that are tried, then parts of each; a program of so many moves takes seconds to simulate."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The quickest program of its kind. ``rings``: different ones, 0 where there are none. ``orders``: of the
    ranks on each channel, where there are rings. ``alike``: so many channels are alike. ``apart``: the blocks of
    ranks take the channels of a ring in turn. ``trees``: one a channel, where there are trees. ``protocol``: the
    quickest of what was quickest with Simple."""

    name: str
    seconds: float
    rings: int
    channels: int
    chunks: int
    alike: int
    collective: CollectiveName
    ranks: int
    root: Rank | None
    orders: tuple[tuple[Rank, ...], ...] = field(default=(), repr=False)
    apart: bool = False
    trees: tuple[Tree, ...] = field(default=(), repr=False)
    protocol: Protocol = "Simple"

    @property
    def label(self) -> str:
        """``best rings: 4 on 16 channels, c=16``."""
        if not self.rings:
            return f"{self.name}, c={self.chunks}"
        return f"{self.name}: {self.rings} on {self.channels} channels, c={self.chunks}"

    @property
    def program(self) -> Program:
        """It, with all channels."""
        goal = collective(self.collective, self.ranks, self.chunks, self.root)
        if self.trees:
            program = tree_program(self.name, self.trees, self.chunks)
        elif self.orders:
            program = ring_program(self.name, goal, self.orders, self.chunks if self.apart else 0)
        else:
            program = direct_program(self.name, goal, self.channels)
        return replace(program, protocol=self.protocol)

    @property
    def of_alike(self) -> Baseline:
        """One of the channels that are alike."""
        orders = self.orders[: len(self.orders) // self.alike]
        channels, chunks = self.channels // self.alike, self.chunks // self.alike
        return replace(self, seconds=0.0, channels=channels, chunks=chunks, alike=1, orders=orders)

    def quickest(self, topology: Topology, size: int, options: CostOptions) -> Baseline:
        """It with the quickest protocol."""
        predictor = quickest_protocol(topology, self.of_alike.program, size, options, alike=self.alike)
        seconds = predictor.run(size, self.alike)[0].makespan
        return replace(self, protocol=predictor.program.protocol, seconds=seconds)

    def times(self, alike: int, parts: int) -> Baseline:
        """So many channels for each of its own, each for so many chunks."""
        channels, chunks = self.channels * alike, self.chunks * alike * parts
        return replace(self, channels=channels, chunks=chunks, alike=alike, orders=self.orders * alike)


@lru_cache(maxsize=64)
def ring_baseline(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> Baseline | str:
    """Return the quickest of these programs for ``size`` bytes, or in words why there is none."""
    best = _simulated(topology, name, root, size, options)
    return best if isinstance(best, str) else best.quickest(topology, size, options)


def _simulated(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> Baseline | str:
    prices = costs(topology, options.rates)
    links, chain = _side_by_side(prices), name in ("broadcast", "reduce")
    one = Baseline(NAMES[name], math.inf, 0, links, links, 1, name, topology.ranks, root)
    if name in PERSONALIZED:
        return _widened(topology, one, 1, size, options, "there is no program")
    try:
        wiring = ring_wiring(topology, prices)
        sets = ring_sets(wiring)
    except NoRoute as missing:
        return str(missing)
    cheapest = min(sets, key=lambda s: (_significant(s.cost), len(s.rings)))
    fewest = min(sets, key=lambda s: len(s.rings))
    best: Baseline | str = "there is no program"
    most = max(sets, key=lambda s: (len(s.rings), -_significant(s.cost)))  # many chains are filled soonest
    even = [s for s in sets if _significant(s.cost) == _significant(cheapest.cost)]
    for rings in dict.fromkeys((cheapest, fewest, most, *even) if chain else (cheapest, fewest)):
        if isinstance(best, Baseline) and best.seconds < size * rings.cost * (1 - 1 / topology.ranks):
            continue
        shown = orders(wiring, rings.rings) * links
        number = len(shown)
        shape = replace(one, rings=len(rings.rings), channels=number, chunks=number, orders=shown)
        if chain:
            back = replace(shape, orders=tuple(order[::-1] for order in shown))
            best = _pipelined(topology, back, size, options, _pipelined(topology, shape, size, options, best))
            continue
        best = _widened(topology, shape, 1, size, options, best)
        lanes = min(topology.ranks, MOST_CHANNELS // number)
        if lanes > 1:
            apart = replace(shape, channels=number * lanes, orders=shown * lanes, apart=True)
            best = _widened(topology, apart, 1, size, options, best)
    return best


def _pipelined(
    topology: Topology, shape: Baseline, size: int, options: CostOptions, best: Baseline | str
) -> Baseline | str:
    """The quicker of ``best`` and the chains ``shape``, in as many parts and on as many channels as pay."""
    quickest: Baseline | str = "there is no program"
    for parts in CHAIN_PARTS:
        if parts > 1 and size < shape.times(1, parts).chunks:
            break
        least = 1 if isinstance(quickest, str) else quickest.alike // 2
        quickest = _widened(topology, shape, parts, size, options, quickest, least)
    if isinstance(quickest, str):
        return best if isinstance(best, Baseline) else quickest
    if isinstance(best, Baseline) and _significant(best.seconds) <= _significant(quickest.seconds):
        return best
    return quickest


def _widened(
    topology: Topology,
    shape: Baseline,
    parts: int,
    size: int,
    options: CostOptions,
    best: Baseline | str,
    least: int = 1,
) -> Baseline | str:
    """The quicker of ``best`` and ``shape``, on twice as many channels as long as that is quicker, or on as many
    as copy what the fastest link carries; ``least``: for each of its own."""
    before, prices = math.inf, options.costs(topology)
    rates = [prices.copy_rate(rank, "Simple") or math.inf for rank in range(topology.ranks)]
    copying = math.ceil(max(prices.link_rate) / min(rates) / shape.channels)
    for alike in sorted({1, 2, 4, 8, 16, 32, 64, max(1, copying)}):
        if alike < least:
            continue
        tried = shape.times(alike, parts)
        if alike > 1 and tried.channels > MOST_CHANNELS:
            break
        if isinstance(best, Baseline) and chunk_bytes(tried.collective, topology.ranks, tried.chunks, size) < 1:
            break
        try:
            seconds = seconds_of(topology, tried, size, options)
        except HetesynthError as error:
            return best if isinstance(best, Baseline) else error.message
        if _significant(seconds) >= _significant(before):
            break
        before = seconds
        if not isinstance(best, Baseline) or _significant(seconds) < _significant(best.seconds):
            best = replace(tried, seconds=seconds)
    return best


@lru_cache(maxsize=64)
def tree_baseline(topology: Topology, size: int, options: CostOptions) -> Baseline | None:
    """Return the AllReduce along double binary trees, in the parts and on the channels that pay; None where a link
    is missing, or the bytes alone take longer than with rings."""
    try:
        trees = tuple(trees_of(CopyProblem(_problem(topology)), TREES[-1]))
        best = Baseline("double trees", math.inf, 0, TREES[0], 1, 1, "allreduce", topology.ranks, None)
        rings = ring_baseline(topology, "allreduce", None, size, options)
        most, prices = math.inf if isinstance(rings, str) else rings.seconds, options.costs(topology)
        for parts in TREE_PARTS:
            if parts < TREE_PARTS[0] and best.chunks > TREE_PARTS[0] * best.channels:
                continue  # more are quicker than these
            for n in TREES if parts == TREE_PARTS[0] else sorted({best.channels, 16}):
                if 2 * (topology.ranks - 1) * n * parts > MOST_TREE_MOVES or size < n * parts:
                    continue
                if parts > TREE_PARTS[0] and size < 4_096 * n * parts:  # such were never the quickest
                    continue
                if _bytes_alone(prices, trees[:n], size) >= min(most, best.seconds):
                    continue
                tried = replace(best, channels=n, chunks=n * parts, trees=trees[:n])
                tried = replace(tried, seconds=seconds_of(topology, tried, size, options))
                best = min(best, tried, key=lambda t: _significant(t.seconds))
        return best.quickest(topology, size, options) if best.trees else None
    except (NoRoute, HetesynthError):
        return None


def _bytes_alone(prices: Costs, trees: Sequence[Tree], size: int) -> float:
    """Seconds that ``size`` bytes take at least, each tree moving its share up and down."""
    common: dict[tuple[Rank, Rank], set[int]] = {}  # to all links between two ranks
    for ends, used in zip(prices.link_ends, prices.link_resources, strict=True):
        common[ends] = common.get(ends, {*used}) & {*used}
    edges = [ends for tree in trees for ends in enumerate(tree) if ends[0] != ends[1]]
    trips = Counter(r for a, b in edges for ends in ((a, b), (b, a)) for r in common.get(ends, ()))
    each = max((n / prices.resource_rate[r] for r, n in trips.items()), default=0.0)
    return size / len(trees) * each


def seconds_of(topology: Topology, baseline: Baseline, size: int, options: CostOptions) -> float:
    """What ``baseline`` takes by ``options``. One of the channels that are alike is simulated, with its share of
    the bytes and of every wire: they move alike, so that is exact."""
    return _predictor(topology, baseline.of_alike, options).run(size, baseline.alike)[0].makespan


@lru_cache(maxsize=8)
def _predictor(topology: Topology, baseline: Baseline, options: CostOptions) -> ProgramPredictor:
    return ProgramPredictor(topology, baseline.program, options)


def _side_by_side(prices: Costs) -> int:
    """The most links that are equally fast between two ranks: channels take them in turn."""
    best = Counter(zip(prices.link_ends, prices.link_rate, prices.link_alpha, strict=True))
    quickest: dict[tuple[Rank, Rank], tuple[float, float]] = {}
    for ends, rate, alpha in best:
        quickest[ends] = max(quickest.get(ends, (0.0, -math.inf)), (rate, -alpha))
    return max((n for (ends, rate, alpha), n in best.items() if quickest[ends] == (rate, -alpha)), default=1)


def _significant(value: float) -> float:
    """``value`` to nine digits: what differs in the last bits of a sum is equal."""
    return float(f"{value:.9g}")


def ring_wiring(topology: Topology, prices: Costs) -> Wiring:
    """What rings are searched on: of the links between two ranks those that programs use, the fastest."""
    best: dict[tuple[Rank, Rank], tuple[float, float]] = {}
    speeds = [(prices.link_rate[i], -prices.link_alpha[i]) for i in range(len(prices.link_ends))]
    for ends, speed in zip(prices.link_ends, speeds, strict=True):
        best[ends] = max(best.get(ends, speed), speed)
    used = [i for i, ends in enumerate(prices.link_ends) if speeds[i] == best[ends]]
    return Wiring(
        ends=tuple(prices.link_ends[i] for i in used),
        uses=tuple(prices.link_resources[i] for i in used),
        rates=prices.resource_rate,
        servers=tuple(ring_servers(_problem(topology))),
    )


def _problem(topology: Topology) -> Problem:
    """Links with capacities and servers; the collective does not matter."""
    return chunk(topology).problem(collective("broadcast", topology.ranks, 1, 0))
