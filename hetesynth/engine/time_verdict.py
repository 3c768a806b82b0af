"""The time of what is written beside the proved limit and beside what a library takes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from hetesynth.engine.lowering import EQUAL
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.engine.protocols import supported
from hetesynth.engine.ring_baseline import MOST_RANKS_RINGS, ring_baseline, ring_limit, seconds_of, tree_baseline
from hetesynth.errors import InternalError
from hetesynth.library.machine import library_of, machine_of
from hetesynth.library.times import chosen
from hetesynth.model.bound import TimeBound, of_scope, tightest
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import BACKWARDS, PERSONALIZED, CollectiveName
from hetesynth.model.cost import Costs, bandwidths, chunk_bytes, delayed
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.words import AT_RATES, of_limit, size_text, whole_percent
from hetesynth.policy import Policy


@dataclass(frozen=True, slots=True)
class Bounds:
    """The time bounds of a collective on a topology, each rechecked from its witness: those that hold for every
    algorithm, and ``tree_based`` ones. ``launch``: seconds that every program takes before anything moves.
    ``stated``: those of every algorithm at the rates that the topology states."""

    name: CollectiveName
    ranks: int
    bounds: tuple[TimeBound, ...]
    tree_based: tuple[TimeBound, ...] = ()
    launch: float = 0.0
    stated: tuple[TimeBound, ...] = ()

    def at(self, size: int | Fraction) -> TimeBound:
        """The one that says most for ``size`` bytes."""
        return tightest(self.bounds, size)

    def seconds(self, size: int | Fraction) -> float:
        """No schedule is quicker for ``size`` bytes, whatever runs it."""
        return self.launch + float(self.at(size).seconds(size))

    def optimality(self, size: int, seconds: float | None) -> TimeOptimality:
        """``seconds`` for ``size`` bytes beside the bounds."""
        bound = self.at(size)
        trees = max(self.tree_based, key=lambda b: b.seconds(size), default=None)
        if trees is not None and trees.seconds(size) <= bound.seconds(size):
            trees = None
        return TimeOptimality(size, self.name, self.ranks, seconds, bound, self.launch, trees)


@dataclass(frozen=True, slots=True)
class TimeOptimality:
    """A schedule's time for ``size`` bytes beside ``bound``; both None where nobody looked. ``launch``: as in
    ``Bounds``. ``tree_bound``: where algorithms that follow trees are known to take longer than ``bound``."""

    size: int
    name: CollectiveName
    ranks: int
    seconds: float | None
    bound: TimeBound | None
    launch: float = 0.0
    tree_bound: TimeBound | None = None

    @property
    def bound_seconds(self) -> float | None:
        """No schedule is quicker."""
        return None if self.bound is None else self.launch + float(self.bound.seconds(self.size))

    @property
    def tree_bound_seconds(self) -> float | None:
        """No algorithm along trees is quicker, where that is known to be more."""
        return None if self.tree_bound is None else self.launch + float(self.tree_bound.seconds(self.size))

    @property
    def proof(self) -> str | None:
        """Why no schedule is quicker."""
        if self.bound is None or not self.launch:
            return None if self.bound is None else self.bound.proof
        return f"{self.bound.proof}, once the kernel has started ({self.launch * 1e6:g} us)"

    @property
    def percent(self) -> float | None:
        """Of the bound: 100 is optimal."""
        return self._percent_of(self.bound_seconds)

    def _percent_of(self, least: float | None) -> float | None:
        return None if not self.seconds or least is None else 100.0 * least / self.seconds

    def figures(self) -> dict[str, Any]:
        """What ``--json`` says: microseconds, and 10^9 bytes per second; null where nothing was simulated."""
        trees = self.tree_bound_seconds
        reached = None if self.seconds is None else bandwidths(self.name, self.ranks, self.size, self.seconds)
        return {
            "size": self.size,
            "predicted_us": None if self.seconds is None else self.seconds * 1e6,
            "algbw_GBps": None if reached is None else reached.algorithm / 1e9,
            "busbw_GBps": None if reached is None else reached.bus / 1e9,
            "bound_us": None if self.bound_seconds is None else self.bound_seconds * 1e6,
            "percent_of_bound": self.percent,
            "time_bound": None if self.bound is None else self.bound.kind,
            "time_bound_proof": self.proof,
            "tree_bound_us": None if trees is None else trees * 1e6,
            "percent_of_tree_bound": self._percent_of(trees),
        }


@lru_cache(maxsize=8)
def rechecked_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> Bounds:
    """Every time bound of the collective. Raises InternalError when the judge of bounds refuses one."""
    from hetesynth.judge.bounds.time_bounds import time_bound_violations
    from hetesynth.search.bounds.throughput import time_bounds

    bounds = time_bounds(topology, name, root, policy)
    for bound in bounds:
        wrong = time_bound_violations(topology, name, root, bound)
        if wrong:
            raise InternalError(f"the time bound by {bound.kind} does not verify: {wrong[0].message}")
    return Bounds(name, topology.ranks, of_scope(bounds, "all"), of_scope(bounds, "tree-based"))


def bounds_of(topology: Topology, name: CollectiveName, root: Rank | None, options: CostOptions) -> Bounds:
    """Every time bound of the collective at the rates of ``options``, and what programs take to start."""
    bounds = rechecked_bounds(calibrated(topology, options.rates), name, root, options.policy)
    stated = rechecked_bounds(topology, name, root, options.policy).bounds
    return replace(bounds, launch=options.launch(topology), stated=stated)


@lru_cache(maxsize=8)
def _of_programs(
    topology: Topology,
    name: CollectiveName,
    root: Rank | None,
    options: CostOptions,
    protocol: Protocol | None = None,
) -> Bounds:
    """Every time bound of programs, for bytes on the wire, with the hops of ``protocol`` where one is named. A
    message of a program occupies its wires before the latency, a transfer of a schedule after it: a program is a
    schedule seen backwards."""
    prices, rated = options.costs(topology), calibrated(topology, options.rates)
    turned = (rated if protocol is None else delayed(rated, prices, protocol)).reversed()
    bounds = rechecked_bounds(turned, BACKWARDS.get(name, name), root, options.policy)
    return replace(bounds, launch=prices.launch if protocol is None else prices.start(protocol))


def _latencies_meet(prices: Costs) -> bool:
    """Whether links of different latency share a resource: only there it counts on which side of it bytes are."""
    of_resource: dict[int, set[float]] = defaultdict(set)
    for resources, alpha in zip(prices.link_resources, prices.link_alpha, strict=True):
        for r in resources:
            of_resource[r].add(alpha)
    return any(len(alphas) > 1 for alphas in of_resource.values())


def target_seconds(
    topology: Topology, bounds: Bounds, root: Rank | None, size: int, options: CostOptions, target: Target
) -> float:
    """No program for ``target`` is quicker for ``size`` bytes, by ``bounds`` and what it pays with any protocol:
    start, bytes on the wire and a hop; more hops are looked at where they count."""
    prices = options.costs(topology)
    if not target.format.program or not prices.hops:
        return bounds.seconds(size)
    best, ways, most_hops = math.inf, [], _hops(prices, topology.ranks)
    per_byte = float(max(bound.seconds_per_byte for bound in bounds.bounds))
    for protocol in supported(prices, target, bounds.name, topology.servers):
        sent = size * target.fifo(protocol, bounds.name).overhead
        first = prices.start(protocol) + min(prices.lags(protocol))  # and a hop after the last byte
        ways.append((first + per_byte * float(sent), protocol, sent))
    for least, protocol, sent in sorted(ways):
        if least < best:
            counts = protocol == "LL" or most_hops * max(prices.lags(protocol)) > ALIKE * least  # LL shares limits
            delays = _of_programs(topology, bounds.name, root, options, protocol) if counts else None
            best = min(best, least if delays is None else delays.seconds(sent))
    return best


def _hops(prices: Costs, ranks: int) -> int:
    """Links on the way between the two ranks that are farthest apart."""
    linked = np.eye(ranks, dtype=np.bool_)
    linked[tuple(np.array(prices.link_ends).T)] = True
    hops, reached = 1, linked
    while (further := reached @ linked).sum() > reached.sum():
        hops, reached = hops + 1, further
    return hops


def implied_size(problem: Problem, bytes_of_chunk: int) -> int:
    """The buffer that chunks of ``bytes_of_chunk`` make."""
    collective = problem.collective
    whole = 1 / chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, 1)  # chunks of a buffer
    return bytes_of_chunk * round(whole)


def time_optimality(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: CostOptions, most: int = 50_000
) -> TimeOptimality:
    """The time of a schedule that was not made for a size; not simulated past ``most`` transfers."""
    collective = problem.collective
    if len(schedule.transfers) > most:
        return TimeOptimality(size, collective.name, collective.ranks, None, None)
    bounds = bounds_of(topology, collective.name, collective.root, options)
    return bounds.optimality(size, SchedulePredictor(topology, problem, schedule, options).timeline(size).makespan)


@dataclass(frozen=True, slots=True)
class Rival:
    """``library``: NCCL or RCCL, where there is one for these GPUs. ``how``: its algorithm, channels and protocol.
    ``checked``: whether its formulas were compared with published runs."""

    library: str
    how: str
    seconds: float
    checked: bool

    @property
    def name(self) -> str:
        """``NCCL (ring, 24 channels, Simple)``."""
        return f"{self.library} ({self.how})"


def library_rival(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions, limit: float
) -> Rival | str:
    """The library's time for ``size`` bytes, or in words why there is none. A formula that undercuts ``limit`` has
    not seen a part of the fabric and is left out, unless a switch adds; one of rings is held to what the rings of
    this fabric carry."""
    machine = machine_of(topology)
    library, checked = library_of(topology) or "the library", machine is not None and machine.checked
    simulated = ring_baseline(topology, name, root, size, options)
    formula = None if machine is None else chosen(machine, name, size)
    by_switch = formula is not None and formula.algorithm == "NVLS"  # between nodes NICs limit as well
    if formula is not None and formula.expected < limit and not by_switch:
        formula = None
    if isinstance(simulated, str):
        if formula is None:
            return simulated
        return Rival(library, formula.label, formula.expected, checked)
    trees = tree_baseline(topology, size, options) if name == "allreduce" else None
    if trees is not None and trees.seconds < simulated.seconds:
        simulated = trees
    what = "sends" if name in PERSONALIZED else "tree" if simulated.trees else "ring"
    count = f"{simulated.channels} channel{'' if simulated.channels == 1 else 's'}"
    rival = Rival(library, f"{what}, {count}, {simulated.protocol}", simulated.seconds, checked)
    if formula is None:
        return rival
    gain = 1.0
    if options.rates != "measured":  # the formulas hold at the rates that runs reach
        measured = seconds_of(topology, simulated, size, replace(options, calibration="measured"))
        gain = min(1.0, simulated.seconds / measured)
    seconds = formula.expected * gain
    if not by_switch:
        seconds = max(limit, seconds)
    if formula.algorithm == "Ring":
        sent = size * PORTABLE.fifo(formula.protocol, name).overhead
        started = options.costs(topology).start(formula.protocol)
        seconds = max(seconds, started + ring_limit(topology, name, sent, options))
    if simulated.seconds <= seconds:
        return rival
    return replace(rival, how=formula.label, seconds=seconds)


Timed = Literal["program", "plan", "table", "schedule"]
ALIKE = 0.01  # share of the time; formulas miss published runs by more (docs/reality.md)
EXACT = 6  # digits of a size that is one's own


@dataclass(frozen=True, slots=True)
class TimeVerdict:
    """What takes ``seconds`` for ``size`` bytes (None: it was not simulated), beside what no algorithm undercuts
    at the rates by which times are predicted (``limit``), at those that the topology states (``line_limit``) and
    along trees, what no program for the target undercuts where that is more (``target_limit``), and beside
    ``library``, with its seconds or why there are none (``rings``). ``checked``: whether these were compared with
    published runs. ``switch_reduces``: whether the hardware has what ``limit`` does not know: switches that
    add."""

    timed: Timed
    size: int
    seconds: float | None
    limit: float
    line_limit: float
    tree_limit: float | None
    library: str
    rings: float | str
    checked: bool = True
    switch_reduces: bool = False
    target_limit: float | None = None

    @property
    def percent_of_limit(self) -> float | None:
        """100: nothing is quicker."""
        return None if not self.seconds else 100.0 * self.limit / self.seconds

    @property
    def percent_of_target_limit(self) -> float | None:
        """100: no program for the target is quicker."""
        return None if not self.seconds or self.target_limit is None else 100.0 * self.target_limit / self.seconds

    @property
    def percent_of_tree_limit(self) -> float | None:
        """The same among algorithms along trees."""
        return None if not self.seconds or self.tree_limit is None else 100.0 * self.tree_limit / self.seconds

    @property
    def factor_over_library(self) -> float | None:
        """How many times as fast as the library."""
        return None if not self.seconds or isinstance(self.rings, str) else self.rings / self.seconds

    @property
    def slower_than_library(self) -> bool:
        """Whether the library is quicker, by more than simulations can tell."""
        return self.factor_over_library is not None and self.factor_over_library < 1 - ALIKE

    @property
    def line(self) -> str:
        """``program 1,425 us for 192 MB: 97 % of the proved limit (simulated), 1.26 x NCCL's rings``."""
        return verdict_line([self])

    @property
    def warning(self) -> str | None:
        """What to say where the library is quicker than what is written."""
        if not self.slower_than_library or isinstance(self.rings, str):
            return None
        return f"{self.library} is quicker: {_us(self.rings)} for {size_text(self.size, EXACT)}"

    def figures(self) -> dict[str, Any]:
        """What ``--json`` says."""
        return {
            "verdict": self.line,
            "program_us": None if self.seconds is None or self.timed == "schedule" else self.seconds * 1e6,
            "limit_us": self.limit * 1e6,
            "limit_at_line_rate_us": self.line_limit * 1e6,
            "percent_of_limit": self.percent_of_limit,
            "percent_of_tree_limit": self.percent_of_tree_limit,
            "target_limit_us": None if self.target_limit is None else self.target_limit * 1e6,
            "percent_of_target_limit": self.percent_of_target_limit,
            "limit_without_switch_reduction": self.switch_reduces,
            "library": None if isinstance(self.rings, str) else self.library,
            "library_checked": self.checked,
            "library_us": None if isinstance(self.rings, str) else self.rings * 1e6,
            "no_library": self.rings if isinstance(self.rings, str) else None,
            "factor_over_library": self.factor_over_library,
            "slower_than_library": self.slower_than_library,
        }


def time_verdict(
    topology: Topology,
    root: Rank | None,
    bounds: Bounds,
    size: int,
    seconds: float | None,
    options: CostOptions,
    timed: Timed = "program",
    *,
    target: Target | None = None,
    without_library: str | None = None,
) -> TimeVerdict:
    """The verdict on ``seconds`` for ``size`` bytes, beside the limits of the whole cluster where ``bounds``
    are of the links that a target uses. ``target``: that of the program. ``without_library``: why the library's
    program is not simulated."""
    of_target = bounds.seconds(size)
    if target is not None and timed == "program":
        of_target = target_seconds(topology, bounds, root, size, options, target)
    if topology.whole is not None:
        topology = topology.whole
        bounds = bounds_of(topology, bounds.name, root, options)
    tree_limit = bounds.optimality(size, seconds).tree_bound_seconds
    limit = bounds.seconds(size)
    if timed == "program" and _latencies_meet(options.costs(topology)):
        limit = min(limit, _of_programs(topology, bounds.name, root, options).seconds(size))
    line_limit = bounds.launch + float(tightest(bounds.stated or bounds.bounds, size).seconds(size))
    if without_library is None and topology.ranks > MOST_RANKS_RINGS:
        without_library = (
            f"{topology.ranks} ranks are more than the {MOST_RANKS_RINGS} for which a library is simulated"
        )
    rival = without_library or library_rival(topology, bounds.name, root, size, options, limit)
    library, rings, checked = (
        (rival.name, rival.seconds, rival.checked)
        if isinstance(rival, Rival)
        else (library_of(topology) or "the library", rival, True)
    )
    machine = machine_of(topology)
    adds = bounds.name == "allreduce" and machine is not None and any(node.nvls for node in machine.nodes)
    target_limit = of_target if of_target > limit * (1 + ALIKE) else None
    return TimeVerdict(
        timed, size, seconds, limit, line_limit, tree_limit, library, rings, checked, adds, target_limit
    )


def verdict_line(verdicts: Sequence[TimeVerdict]) -> str:
    """One line for all sizes: of one size its time, of several the least and the most of each figure."""
    first, last = verdicts[0], verdicts[-1]
    if len(verdicts) == 1:
        took = "not simulated" if first.seconds is None else _us(first.seconds)
        what = f"{first.timed} {took} for {size_text(first.size, EXACT)}"
    else:
        what = f"{first.timed}s for {size_text(first.size)} to {size_text(last.size)}"
    shares = [v.percent_of_limit for v in verdicts if v.percent_of_limit is not None]
    what_limit = "limit without switch reduction" if first.switch_reduces else "limit"
    at_line = [100.0 * v.line_limit / v.seconds for v in verdicts if v.seconds]
    rates = ""
    if any(v.line_limit != v.limit for v in verdicts):
        rates = AT_RATES + (f", {_span(at_line, whole_percent)} % at line rate" if shares else "")
    near = of_limit(_span(shares, whole_percent), what_limit, rates) if shares else ""
    parts = [near or f"{what_limit} {_us(first.limit)} (proved{rates})"]
    target = [v.percent_of_target_limit for v in verdicts if v.percent_of_target_limit is not None]
    parts += [f"{_span(target, whole_percent)} % of that of programs for the target"] if target else []
    trees = [v.percent_of_tree_limit for v in verdicts if v.percent_of_tree_limit is not None]
    parts += [f"{_span(trees, whole_percent)} % of that of trees"] if trees else []
    factors = [v.factor_over_library for v in verdicts if v.factor_over_library is not None]
    if factors:
        rivals = [v for v in verdicts if v.factor_over_library is not None]
        library = rivals[0].library  # with what it runs, where that is the same at all sizes
        if any(v.library != library for v in rivals):
            library = library.partition(" (")[0]
        if not all(v.checked for v in rivals):
            library += ", not checked against measurements"
        beside = ", which runs as a program" if first.timed == "schedule" else ""
        parts.append(f"{_span(factors, _factor)} x {library}{beside}")
    elif isinstance(first.rings, str):
        parts.append(f"not beside {first.library}: {first.rings}")
    return f"{what}: {', '.join(parts)}"


def _us(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:,.0f} us" if us >= 1_000 else f"{us:.4g} us"


def _factor(factor: float) -> str:
    """Two decimals, more where these would hide that it is less than 1."""
    return f"{factor:.4f}" if factor < 1 - EQUAL and f"{factor:.2f}" == "1.00" else f"{factor:.2f}"


def _span(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"
