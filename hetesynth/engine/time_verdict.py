"""The time of what is written beside the limit that is proved and beside what a library takes.

Times are estimates at the rates that large published runs reach (calibration ``measured``). A limit is proved at
the rates that the topology states; the share of it that a program reaches compares both at these rates."""

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
from hetesynth.engine.rival import SIZES, Rival, library_rival
from hetesynth.errors import InternalError
from hetesynth.library.machine import machine_of
from hetesynth.model.bound import TimeBound, of_scope, tightest
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import BACKWARDS, CollectiveName
from hetesynth.model.cost import Costs, bandwidths, chunk_bytes, delayed
from hetesynth.model.problem import Problem
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.words import EXACT, short_time, size_text, whole_percent
from hetesynth.policy import Policy


@dataclass(frozen=True, slots=True)
class Bounds:
    """The time bounds of a collective on a topology, each rechecked from its witness: those that hold for every
    algorithm, and ``tree_based`` ones. ``launch``: seconds that every program takes before anything moves.
    ``at_line_rate``: the same bounds at the rates that the topology states; None: these are at those rates."""

    name: CollectiveName
    ranks: int
    bounds: tuple[TimeBound, ...]
    tree_based: tuple[TimeBound, ...] = ()
    launch: float = 0.0
    at_line_rate: Bounds | None = None

    @property
    def proved(self) -> Bounds:
        """The bounds at line rate, below which no machine can be."""
        return self.at_line_rate or self

    def at(self, size: int | Fraction) -> TimeBound:
        """Return the bound that is the largest for ``size`` bytes."""
        return tightest(self.bounds, size)

    def seconds(self, size: int | Fraction) -> float:
        """Return the seconds below which no schedule for ``size`` bytes is at these rates."""
        return self.launch + float(self.at(size).seconds(size))

    def optimality(self, size: int, seconds: float | None, line_seconds: float | None = None) -> TimeOptimality:
        """Return ``seconds``, and ``line_seconds`` at line rate, for ``size`` bytes beside the proved bounds."""
        proved = self.proved
        bound = proved.at(size)
        trees = max(proved.tree_based, key=lambda b: b.seconds(size), default=None)
        if trees is not None and trees.seconds(size) <= bound.seconds(size):
            trees = None
        return TimeOptimality(size, self.name, self.ranks, seconds, bound, proved.launch, trees, line_seconds)


@dataclass(frozen=True, slots=True)
class TimeOptimality:
    """A schedule's estimated ``seconds`` for ``size`` bytes, its ``line_seconds`` at line rate, and the proved
    ``bound``; None where not computed. ``launch``: as in ``Bounds``. ``tree_bound``: that of algorithms along
    trees, where they are known to take longer than ``bound``."""

    size: int
    name: CollectiveName
    ranks: int
    seconds: float | None
    bound: TimeBound | None
    launch: float = 0.0
    tree_bound: TimeBound | None = None
    line_seconds: float | None = None

    @property
    def bound_seconds(self) -> float | None:
        """The seconds below which no schedule is; None where the bound is not known."""
        return None if self.bound is None else self.launch + float(self.bound.seconds(self.size))

    @property
    def tree_bound_seconds(self) -> float | None:
        """The seconds below which no algorithm along trees is; None where not known to be more than the bound."""
        return None if self.tree_bound is None else self.launch + float(self.tree_bound.seconds(self.size))

    @property
    def proof(self) -> str | None:
        """The reason why no schedule is quicker, in words; None where the bound is not known."""
        if self.bound is None or not self.launch:
            return None if self.bound is None else self.bound.proof
        return f"{self.bound.proof}, once the kernel has started ({self.launch * 1e6:g} us)"

    @property
    def percent(self) -> float | None:
        """The share of the bound that is reached, both at line rate: 100 is optimal; None where not simulated."""
        return _share(self.bound_seconds, self.line_seconds)

    def figures(self) -> dict[str, Any]:
        """Return what ``--json`` says, in microseconds and 10^9 bytes per second; null: nothing was simulated."""
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
            "percent_of_tree_bound": _share(trees, self.line_seconds),
        }


def _share(limit: float | None, line_seconds: float | None) -> float | None:
    """Return how many percent ``limit`` is of ``line_seconds``; None where either is not known."""
    return None if limit is None or not line_seconds else 100.0 * limit / line_seconds


@lru_cache(maxsize=8)
def rechecked_bounds(topology: Topology, name: CollectiveName, root: Rank | None, policy: Policy) -> Bounds:
    """Return every time bound of the collective. Raises InternalError when the judge of bounds refuses one."""
    from hetesynth.judge.bounds.time_bounds import time_bound_violations
    from hetesynth.search.bounds.throughput import time_bounds

    bounds = time_bounds(topology, name, root, policy)
    for bound in bounds:
        wrong = time_bound_violations(topology, name, root, bound)
        if wrong:
            raise InternalError(f"the time bound by {bound.kind} does not verify: {wrong[0].message}")
    return Bounds(name, topology.ranks, of_scope(bounds, "all"), of_scope(bounds, "tree-based"))


def bounds_of(topology: Topology, name: CollectiveName, root: Rank | None, options: CostOptions) -> Bounds:
    """Return every time bound of the collective at the rates of ``options``, and at line rate."""
    bounds = rechecked_bounds(calibrated(topology, options.rates), name, root, options.policy)
    bounds = replace(bounds, launch=options.launch(topology))
    line = options.line_rate
    return (
        bounds
        if options.rates == line.rates
        else replace(bounds, at_line_rate=bounds_of(topology, name, root, line))
    )


@lru_cache(maxsize=8)
def _of_programs(
    topology: Topology,
    name: CollectiveName,
    root: Rank | None,
    options: CostOptions,
    protocol: Protocol | None = None,
) -> Bounds:
    """Return every time bound of programs, for bytes on the wire, with the hops of ``protocol`` where one is
    named. A message of a program occupies its wires before the latency, a transfer of a schedule after it: a
    program is a schedule seen backwards."""
    prices, rated = options.costs(topology), calibrated(topology, options.rates)
    turned = (rated if protocol is None else delayed(rated, prices, protocol)).reversed()
    bounds = rechecked_bounds(turned, BACKWARDS.get(name, name), root, options.policy)
    return replace(bounds, launch=prices.launch if protocol is None else prices.start(protocol))


def _latencies_meet(prices: Costs) -> bool:
    """Return True if links that share a resource differ in latency: only then it matters if bytes precede it."""
    of_resource: dict[int, set[float]] = defaultdict(set)
    for resources, alpha in zip(prices.link_resources, prices.link_alpha, strict=True):
        for r in resources:
            of_resource[r].add(alpha)
    return any(len(alphas) > 1 for alphas in of_resource.values())


def target_seconds(
    topology: Topology, bounds: Bounds, root: Rank | None, size: int, options: CostOptions, target: Target
) -> float:
    """Return the seconds below which no program for ``target`` is at the rates of ``options``, whose ``bounds``
    these are: with any protocol a program pays its start, its bytes on the wire and a hop, and more hops where
    they count."""
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
    """Return the number of links on the way between the two ranks that are farthest apart."""
    linked = np.eye(ranks, dtype=np.bool_)
    linked[tuple(np.array(prices.link_ends).T)] = True
    hops, reached = 1, linked
    while (further := reached @ linked).sum() > reached.sum():
        hops, reached = hops + 1, further
    return hops


def implied_size(problem: Problem, bytes_of_chunk: int) -> int:
    """Return the bytes of the buffer that chunks of ``bytes_of_chunk`` make."""
    collective = problem.collective
    whole = 1 / chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, 1)  # chunks of a buffer
    return bytes_of_chunk * round(whole)


def time_optimality(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: CostOptions, most: int = 50_000
) -> TimeOptimality:
    """Return the time of a schedule that was not made for a size; not simulated past ``most`` transfers."""
    collective = problem.collective
    if len(schedule.transfers) > most:
        return TimeOptimality(size, collective.name, collective.ranks, None, None)
    bounds = bounds_of(topology, collective.name, collective.root, options.line_rate)
    times = (
        SchedulePredictor(topology, problem, schedule, rates).timeline(size).makespan
        for rates in (options, options.line_rate)
    )
    return bounds.optimality(size, *times)


def rival_at(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions
) -> Rival | str:
    """Return the library's time for ``size`` bytes on the whole cluster, or in words why it is not known."""
    if options.runtime is None:
        return "runtime costs are left out"
    whole = topology.whole or topology
    return library_rival(whole, name, size, bounds_of(whole, name, root, options.line_rate).seconds(size))


def library_seconds(
    topology: Topology, name: CollectiveName, root: Rank | None, options: CostOptions, size: int
) -> float:
    """Return the seconds that the library takes for ``size`` bytes; infinite where they are not known."""
    rival = rival_at(topology, name, root, size, options)
    return rival.seconds if isinstance(rival, Rival) else math.inf


Timed = Literal["program", "plan", "table", "schedule"]
ALIKE = 0.01  # share of the time; formulas miss published runs by more (docs/reality.md)
MOST_CHARACTERS = 110  # of a verdict


@dataclass(frozen=True, slots=True)
class TimeVerdict:
    """The time of what is written, beside the proved limit and the library, at ``size`` bytes.

    ``seconds``: an estimate at the rates that runs reach; ``line_seconds``: the time at line rate; None where it
    was not simulated. ``limit``, ``tree_limit``, ``target_limit``: seconds at line rate that no algorithm, none
    along trees, no program for the target undercuts; None where these are no more than ``limit``. ``rival``: the
    library, or in words why there is none. ``switch_reduces``: the hardware has switches that add, which ``limit``
    leaves out. ``useful``: from which size of the buffer to which the file is expected to be no slower than the
    library; None: at none, or not computed where not ``ranged``."""

    timed: Timed
    size: int
    seconds: float | None
    line_seconds: float | None
    limit: float
    tree_limit: float | None
    target_limit: float | None
    rival: Rival | str
    switch_reduces: bool = False
    useful: tuple[int, int] | None = None
    ranged: bool = False

    @property
    def percent_of_limit(self) -> float | None:
        """The share of the proved limit that is reached at line rate; 100: nothing is quicker."""
        return _share(self.limit, self.line_seconds)

    @property
    def percent_of_target_limit(self) -> float | None:
        """The share of ``target_limit`` that is reached at line rate; None where there is no such limit."""
        return _share(self.target_limit, self.line_seconds)

    @property
    def factor_over_library(self) -> float | None:
        """The library's time divided by the time of what is written, both estimated; None where not known."""
        return None if not self.seconds or isinstance(self.rival, str) else self.rival.seconds / self.seconds

    @property
    def slower_than_library(self) -> bool:
        """True where the library is expected to be quicker by more than one percent."""
        return self.factor_over_library is not None and self.factor_over_library < 1 - ALIKE

    @property
    def line(self) -> str:
        """A sentence of at most 110 characters, as ``verdict_line`` says it."""
        return verdict_line([self])

    @property
    def explanation(self) -> tuple[str, ...]:
        """The lines of what the verdict leaves out: other limits, and what the library runs."""
        lines = [
            f"limit: {short_time(self.limit)}, proved at line rate; {self.timed} there {_time(self.line_seconds)}"
        ]
        if self.target_limit is not None:
            near = _percent(self.percent_of_target_limit)
            lines.append(f"limit of programs for the target: {short_time(self.target_limit)}{near}")
        if self.tree_limit is not None:
            near = _percent(_share(self.tree_limit, self.line_seconds))
            lines.append(f"limit of trees: {short_time(self.tree_limit)}{near}")
        if isinstance(self.rival, Rival):
            lines.append(self.rival.explanation)
        return tuple(lines)

    def figures(self) -> dict[str, Any]:
        """Return what ``--json`` says: times in microseconds, null where they are not known."""
        rival = self.rival if isinstance(self.rival, Rival) else None
        factor = self.factor_over_library
        low, high = (None, None) if rival is None or factor is None else (factor * rival.low, factor * rival.high)
        return {
            "verdict": self.line,
            "program_us": None if self.seconds is None or self.timed == "schedule" else self.seconds * 1e6,
            "program_us_at_line_rate": None if self.line_seconds is None else self.line_seconds * 1e6,
            "limit_us": self.limit * 1e6,
            "percent_of_limit": self.percent_of_limit,
            "percent_of_tree_limit": _share(self.tree_limit, self.line_seconds),
            "target_limit_us": None if self.target_limit is None else self.target_limit * 1e6,
            "percent_of_target_limit": self.percent_of_target_limit,
            "limit_without_switch_reduction": self.switch_reduces,
            "library": None if rival is None else rival.name,
            "library_us": None if rival is None else rival.seconds * 1e6,
            "library_unchecked": None if rival is None else rival.unchecked or None,
            "no_library": self.rival if isinstance(self.rival, str) else None,
            "factor_over_library": factor,
            "factor_low": low,
            "factor_high": high,
            "slower_than_library": self.slower_than_library,
            "useful_from": None if self.useful is None else self.useful[0],
            "useful_to": None if self.useful is None else self.useful[1],
        }


def time_verdict(
    topology: Topology,
    name: CollectiveName,
    root: Rank | None,
    size: int,
    times: tuple[float | None, float | None],
    options: CostOptions,
    timed: Timed = "program",
    *,
    target: Target | None = None,
    useful: tuple[int, int] | None = None,
    ranged: bool = False,
) -> TimeVerdict:
    """Return the verdict on ``times``, seconds at the rates that runs reach and at line rate, for ``size`` bytes.

    The limit is that of the whole cluster where ``topology`` has only the links that ``target``, the target of the
    program, uses."""
    line = options.line_rate
    bounds = of_target = bounds_of(topology, name, root, line)
    target_limit = of_target.seconds(size)
    if target is not None and timed == "program":
        target_limit = target_seconds(topology, of_target, root, size, line, target)
    if topology.whole is not None:
        topology = topology.whole
        bounds = bounds_of(topology, name, root, line)
    limit = bounds.seconds(size)
    if timed == "program" and _latencies_meet(line.costs(topology)):
        limit = min(limit, _of_programs(topology, name, root, line).seconds(size))
    machine = machine_of(topology)
    return TimeVerdict(
        timed,
        size,
        *times,
        limit,
        bounds.optimality(size, None).tree_bound_seconds,
        target_limit if target_limit > limit * (1 + ALIKE) else None,
        rival_at(topology, name, root, size, options),
        switch_reduces=name == "allreduce" and machine is not None and any(node.nvls for node in machine.nodes),
        useful=useful,
        ranged=ranged,
    )


def verdict_line(verdicts: Sequence[TimeVerdict]) -> str:
    """Return one sentence for all sizes: estimated time, factor over the library with its band, share of the
    proved limit, and sizes to use it for; of several verdicts the least and the most of each figure."""
    first, last = verdicts[0], verdicts[-1]
    if len(verdicts) == 1:
        took = "not simulated" if first.seconds is None else f"est. {short_time(first.seconds)}"
        what = f"{size_text(first.size, EXACT)}: {took}"
    else:
        what = f"{size_text(first.size)} to {size_text(last.size)}"
    shares = [v.percent_of_limit for v in verdicts if v.percent_of_limit is not None]
    limit = "of limit without NVLS" if first.switch_reduces else "of proved limit"
    near = f"{_span(shares, whole_percent)} % {limit}" if shares else f"proved limit {short_time(first.limit)}"
    factors = [(v.factor_over_library, v.rival) for v in verdicts]
    compared = [(factor, rival) for factor, rival in factors if factor is not None and isinstance(rival, Rival)]
    if not compared:
        beside = f"no factor: {first.rival}" if isinstance(first.rival, str) else ""
        return ", ".join(part for part in (what, near, beside) if part)
    low, high = (
        min(factor * rival.low for factor, rival in compared),
        max(factor * rival.high for factor, rival in compared),
    )
    library = f"{_span([factor for factor, _ in compared], _factor)} x {compared[0][1].library}"
    use = f", {use_text(first.useful, compared[0][1].library)}" if len(verdicts) == 1 and first.ranged else ""
    reasons = list(dict.fromkeys(rival.unchecked for _, rival in compared if rival.unchecked))
    for unchecked in (", ".join(reasons), "unchecked"):
        band = f"{_rounded(low)} to {_rounded(high)}" + (f", {unchecked}" if reasons else "")
        sentence = f"{what}, {library} ({band}), {near}{use}"
        if len(sentence) <= MOST_CHARACTERS:
            break
    return sentence


def use_text(useful: tuple[int, int] | None, library: str) -> str:
    """Return the sizes for which a file is of use, in words: ``from 16 MiB``, ``for 1 KiB to 64 MiB``."""
    if useful is None:
        return f"{library} wins at all sizes"
    low, high = (size_text(size) for size in useful)
    return f"from {low}" if useful[1] >= SIZES[-1] else f"for {low} to {high}"


def _time(seconds: float | None) -> str:
    return "not simulated" if seconds is None else short_time(seconds)


def _percent(share: float | None) -> str:
    return "" if share is None else f" ({whole_percent(share)} %)"


def _factor(factor: float) -> str:
    """Return ``factor`` with two digits, more where these would hide that it is less than 1 or more."""
    if factor >= 10:
        return _rounded(factor)
    for digits in (2, 4) if factor < 1 else (1, 2, 4):
        text = f"{factor:.{digits}f}"
        if abs(factor - 1) <= EQUAL or float(text) != 1.0:
            break
    return text


def _rounded(factor: float) -> str:
    return f"{factor:.1f}" if factor < 10 else f"{factor:.0f}"


def _span(values: Sequence[float], text: Callable[[float], str]) -> str:
    low, high = text(min(values)), text(max(values))
    return low if low == high else f"{low} to {high}"
