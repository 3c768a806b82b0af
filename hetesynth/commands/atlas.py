"""One schedule for each range of sizes: what a user installs to have the right one at every size.

In: a request, sizes. Out: an ``Atlas``: ranges that tile all sizes, each with judged programs whose minBytes and
maxBytes say the range, the frontier between latency and bandwidth (SCCL, section 3.5), features of the topology.
Members of the pool stand by the times of their programs. Ranges are few: one is used as long as it is within
1 % of the best; where it hands over, the crossing of the two predictions is found by bisection.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hetesynth import __version__
from hetesynth.autotune.pool import Pool, pool
from hetesynth.autotune.program_ranking import for_candidate
from hetesynth.autotune.topology_features import features
from hetesynth.compile.addressing import addressable, carried, demand_addressable
from hetesynth.compile.artifacts import UNFIT, Synthesis, demand_callable
from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.deadline import Cuts
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Progress, silent

TOLERANCE = 0.01  # what a schedule may be slower than the best before another takes over
PRECISION = 1.01  # of a crossover size
MARK = b'"kind": "hetesynth atlas"'


@dataclass(frozen=True)
class Range:
    """Sizes ``low`` to ``high`` of the collective's buffer, both included; ``high`` None: all beyond.

    ``member``: of the pool. ``made``: its files, for buffers of ``min_bytes`` to ``max_bytes`` (0: no limit) as
    runtimes count. ``plan_bytes``: up to where the plans for MSCCL++ among them go, None where there are none.
    """

    low: int
    high: int | None
    min_bytes: int
    max_bytes: int
    member: int
    made: Synthesis
    plan_bytes: int | None = None


@dataclass(frozen=True)
class Atlas:
    """Ranges in order of size, the pool they were chosen from, and what did not fit a target."""

    request: Request
    topology: Topology
    pool: Pool
    ranges: tuple[Range, ...]
    unfit: tuple[tuple[str, str], ...]
    clock: PhaseTimer

    @property
    def cut_short(self) -> bool:
        """Whether the clock or Ctrl-C decided anything."""
        return self.pool.cut_short or bool(self.request.budget.cuts)


def atlas(request: Request, sizes: Sequence[int], progress: Progress = silent) -> Atlas:
    """Choose and make the schedules for ``sizes``.

    Where every target is MSCCL++ the sizes end where its offsets do. Raises HetesynthError when nothing was found
    or nothing fits.
    """
    demand_callable(request)
    demanded = [size for size in sizes if addressable(request, size)]
    if not demanded:
        demand_addressable(request, min(sizes))
    sizes = demanded
    clock = PhaseTimer()
    request = replace(request, budget=replace(request.budget, cuts=Cuts()))
    with clock.phase("parse"):
        topology = load_topology(request.topology)
    with clock.phase("search"):
        chosen = pool(topology, request, sizes, progress, programs=True)
    unfit: list[tuple[str, str]] = []
    while True:
        with clock.phase("predict"):
            selected = selected_ranges(chosen)
            borders = [_crossing(chosen, selected, k) for k in range(len(selected) - 1)]
        made, refused = _made(request, chosen, selected, borders, clock, progress)
        if refused is None:
            return Atlas(request, topology, chosen, tuple(made), tuple(unfit), clock)
        member, error = refused
        unfit.append((chosen.candidates[member].label, error.message))
        if len(chosen.candidates) == 1:
            raise error
        chosen = chosen.without(member)


def selected_ranges(chosen: Pool) -> list[tuple[int, int, int]]:
    """(first size, last size, member) of the fewest ranges in which every member is near the best at each size."""
    members = range(len(chosen.candidates))
    best = [chosen.seconds[chosen.best(j)][j] for j in range(len(chosen.sizes))]

    def reach(i: int, first: int) -> int:
        """The first size from ``first`` on at which member i is not near the best."""
        limits = (j for j in range(first, len(best)) if chosen.seconds[i][j] > best[j] * (1 + TOLERANCE))
        return next(limits, len(best))

    ranges: list[tuple[int, int, int]] = []
    first = 0
    while first < len(best):
        ends = {i: reach(i, first) for i in members}
        end = max(ends.values())
        farthest = [i for i in members if ends[i] == end]
        member = min(farthest, key=lambda i: (sum(chosen.seconds[i][first:end]), i))
        ranges.append((first, end - 1, member))
        first = end
    return ranges


def _crossing(chosen: Pool, selected: list[tuple[int, int, int]], k: int) -> int:
    """The last size of range k: where the next member becomes the quicker one."""
    first, last, member = selected[k]
    follower = selected[k + 1][2]
    while last > first and chosen.seconds[follower][last] < chosen.seconds[member][last]:
        last -= 1
    low, high = chosen.sizes[last], chosen.sizes[last + 1]
    here, there = chosen.members[member], chosen.members[follower]
    while high > low * PRECISION and high - low > 1:
        middle = max(low + 1, min(high - 1, round(math.sqrt(low * high))))
        if there.seconds(middle) < here.seconds(middle):
            high = middle
        else:
            low = middle
    return low


def _made(
    request: Request, chosen: Pool, selected: list[tuple[int, int, int]], borders: list[int], clock: PhaseTimer,
    progress: Progress,
) -> tuple[list[Range], tuple[int, HetesynthError] | None]:  # fmt: skip
    """The files of every range, or the first member that does not fit its target."""
    found: list[Range] = []
    low, least = 0, 0
    for k, (_, last, member) in enumerate(selected):
        high = borders[k] if k < len(borders) else None
        most = 0 if high is None else _odd(runtime_bytes(request.collective, chosen.bounds.ranks, high))
        if high is not None and most < least:  # rounding left nothing of this range
            continue
        asked = replace(request, min_bytes=least, max_bytes=most, size=chosen.sizes[last])
        try:
            made = _files(asked, chosen, member, last, clock, progress)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            return [], (member, error)
        limit = carried(made)
        short = limit is not None and all(t.format == "mscclpp-json" for t in request.targets)
        if limit is not None and short and (high is None or limit < most):
            most = limit
            high = limit * (chosen.bounds.ranks if request.collective in ("gather", "scatter") else 1)
            if any(program.carries != limit for program in made.programs.values()):  # some go on for longer
                made = _files(replace(asked, max_bytes=most), chosen, member, last, clock, progress)
        plan_bytes = None if limit is None else min(most or limit, limit)
        found.append(Range(low, high, least, most, member, made, plan_bytes))
        low, least = (0, 0) if high is None else (high + 1, most + 1)
    return found, None


def _files(
    asked: Request, chosen: Pool, member: int, last: int, clock: PhaseTimer, progress: Progress
) -> Synthesis:  # fmt: skip
    """What ``member`` becomes for a range; without plans for MSCCL++ where all of it is past their limit."""
    candidate, throttling = chosen.candidates[member], chosen.members[member].throttling
    time_optimality = chosen.time_optimality(member, last)
    try:
        return for_candidate(asked, candidate, time_optimality, clock, None, progress, throttling)
    except HetesynthError as error:
        others = tuple(t for t in asked.targets if t.format != "mscclpp-json")
        if error.code != "HS509" or not others:
            raise
        return for_candidate(
            replace(asked, targets=others), candidate, time_optimality, clock, None, progress, throttling
        )


def _odd(size: int) -> int:
    """The next odd number: no buffer of whole elements has just that size, so readers that exclude the limit and
    readers that include it agree."""
    return size | 1


def files(found: Atlas) -> dict[str, bytes]:
    """Every file of the atlas by its name in the folder: programs by target, schedules, index and plot."""
    from hetesynth.report.size_plot import size_plot

    listed: dict[str, bytes] = {}
    for k, entry in enumerate(found.ranges):
        for suffix, data in entry.made.files.items():
            listed[_name(found, k, suffix)] = data
    title = f"{found.topology.name}: {found.request.collective}, {found.topology.ranks} GPUs"
    borders = [r.high for r in found.ranges if r.high is not None]
    listed["bandwidth.svg"] = size_plot(title, _curves(found), borders).encode()
    listed["index.json"] = (json.dumps(index(found), indent=2) + "\n").encode()
    return listed


def _name(found: Atlas, k: int, suffix: str) -> str:
    """Programs of each target have a folder of their own: some runtimes read every file of a folder."""
    stem = f"{found.topology.name}-{found.request.collective}-{k}"
    program = found.ranges[k].made.programs.get(suffix)
    if program is None:
        return f"schedules/{stem}{SCHEDULE_SUFFIX}"
    return f"{program.target.name}/{stem}{suffix}"


def _curves(found: Atlas) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    sizes = found.pool.sizes
    for k, entry in enumerate(found.ranges):
        seconds = found.pool.seconds[entry.member]
        lines[f"{k}: {found.pool.candidates[entry.member].label}"] = [
            (size, size / s / 1e9) for size, s in zip(sizes, seconds, strict=True) if math.isfinite(s)
        ]
    lines["bound"] = [(size, size / found.pool.bounds.seconds(size) / 1e9) for size in sizes]
    return lines


def index(found: Atlas) -> dict[str, Any]:
    """The JSON index: ranges with their files and times, the frontier, the topology's features."""
    return {
        "kind": "hetesynth atlas",
        "generator": f"hetesynth {__version__}",
        "cluster": found.topology.name,
        "collective": found.request.collective,
        "ranks": found.topology.ranks,
        "root": found.pool.candidates[0].problem.collective.root,
        "simulated": True,
        "cut_short": found.cut_short,
        "ended_by": found.pool.ending,
        "decided_by_clock": list(found.request.budget.cuts.told()),
        "targets": [t.name for t in found.request.targets],
        "warnings": [warned.plain() for warned in found.ranges[0].made.warnings],
        "topology": features(found.topology, found.pool.bounds),
        "ranges": [_range(found, k) for k in range(len(found.ranges))],
        "frontier": frontier(found),
        "unfit": [{"candidate": label, "reason": why} for label, why in found.unfit],
    }


def _range(found: Atlas, k: int) -> dict[str, Any]:
    entry = found.ranges[k]
    candidate, throttling = found.pool.candidates[entry.member], found.pool.members[entry.member].throttling
    inside = [
        j
        for j, size in enumerate(found.pool.sizes)
        if entry.low <= size and (entry.high is None or size <= entry.high)
    ]
    return {
        "low": entry.low,
        "high": entry.high,
        "min_bytes": entry.min_bytes,
        "max_bytes": entry.max_bytes or None,
        "mscclpp_max_bytes": entry.plan_bytes,
        "candidate": candidate.label,
        "strategy": candidate.name,
        "chunks": candidate.chunks,
        "steps": candidate.solution.schedule.makespan,
        "lower_bound": candidate.solution.bound.steps,
        "files": [_name(found, k, suffix) for suffix in entry.made.files],
        "throttling": None if throttling is None else throttling.after,
        "sizes": [_figures(found.pool, entry.member, j) for j in inside],
    }


def _figures(chosen: Pool, i: int, j: int) -> dict[str, Any]:
    """What member i takes at size j: its schedule beside the bound, and its program where that was timed."""
    taken = chosen.program_seconds(i, j)
    told = {"program_predicted_us": None if taken is None else taken * 1e6}
    return {**chosen.time_optimality(i, j).figures(), **told}


def frontier(found: Atlas) -> list[dict[str, Any]]:
    """The members of the pool that no other beats in both latency and bandwidth, the quickest to start first.

    ``latency_us``: simulated for no bytes at all. ``us_per_MB``: what one more megabyte costs at the largest size.
    """
    largest = found.pool.sizes[-1]
    rows = []
    for i, candidate in enumerate(found.pool.candidates):
        latency = candidate.clock.timeline(0).makespan
        slope = (
            candidate.clock.timeline(2 * largest).makespan - candidate.clock.timeline(largest).makespan
        ) / largest
        rows.append((latency, slope, i))
    kept: list[tuple[float, float, int]] = []
    for latency, slope, i in sorted(rows):
        if not kept or slope < kept[-1][1] * (1 - 1e-9):
            kept.append((latency, slope, i))
    return [
        {
            "candidate": found.pool.candidates[i].label,
            "chunks": found.pool.candidates[i].chunks,
            "steps": found.pool.candidates[i].solution.schedule.makespan,
            "latency_us": latency * 1e6,
            "us_per_MB": slope * 1e12,
            "in_atlas": any(entry.member == i for entry in found.ranges),
        }
        for latency, slope, i in kept
    ]
