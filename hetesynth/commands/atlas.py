"""One schedule for each range of sizes: what a user installs to have the right one at every size.

In: a request, sizes. Out: an ``Atlas``: ranges that tile all sizes, each with judged programs whose minBytes and
maxBytes say the range, the frontier between latency and bandwidth (SCCL, section 3.5), features of the topology.
Members of the pool stand by the times of their programs. Ranges are few: one is used as long as it is within
1 % of the best; where it hands over, the size is found by bisection.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hetesynth import __version__
from hetesynth.autotune.pool import Pool, pool, sample_sizes
from hetesynth.autotune.topology_features import features
from hetesynth.commands.atlas_folder import PLOT, with_digests
from hetesynth.compile.addressing import addressable, carried, demand_addressable
from hetesynth.compile.artifacts import (
    UNFIT,
    ProgramSpec,
    Synthesis,
    demand_callable,
    finished,
    library_warnings,
)
from hetesynth.compile.compilation import Compilation, compilation
from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.compile.plan_predictor import first_predictor
from hetesynth.compile.predictors import CostOptions
from hetesynth.compile.recipe import topology_hash
from hetesynth.compile.request import Request
from hetesynth.compile.roots import Warned
from hetesynth.compile.time_verdict import Timed, TimeVerdict, time_verdict, verdict_line
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.decisions import Decisions
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.synthesis.search import Progress, no_progress

MARK = b'"kind": "hetesynth atlas'  # what index.json of any atlas begins with, that of single losses too


@dataclass(frozen=True)
class Range:
    """Sizes ``low`` to ``high`` of the collective's buffer, both included; ``high`` None: all beyond.

    ``member``: of the pool. ``synthesis``: its files, for buffers of ``min_bytes`` to ``max_bytes`` (0: no limit)
    as runtimes count. ``plan_bytes``: up to where the plans for MSCCL++ among them go, None where there are none.
    """

    low: int
    high: int | None
    min_bytes: int
    max_bytes: int
    member: int
    synthesis: Synthesis
    plan_bytes: int | None = None
    seconds: tuple[tuple[int, float], ...] = ()  # sizes of the pool, and what its first program takes


@dataclass(frozen=True)
class Atlas:
    """Ranges in order of size, the pool they were chosen from, and what did not fit a target."""

    compilation: Compilation
    topology: Topology
    pool: Pool
    ranges: tuple[Range, ...]
    unfit: tuple[tuple[str, str], ...]
    verdicts: tuple[tuple[int, TimeVerdict], ...] = ()  # of members, at the sizes that were tuned for

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self.compilation.request

    @property
    def cut_short(self) -> bool:
        """Whether the clock or Ctrl-C decided anything."""
        return self.pool.cut_short or bool(self.compilation.budget.clock_decisions)


def atlas(request: Request, sizes: Sequence[int], progress: Progress = no_progress) -> Atlas:
    """Choose and make the schedules for ``sizes``.

    Where every target is MSCCL++ the sizes end where its offsets do. Raises HetesynthError when nothing was found
    or nothing fits.
    """
    demand_callable(request)
    usable = [size for size in sizes if addressable(request, size)]
    if not usable:
        demand_addressable(request, min(sizes))
    run = compilation(request, progress)
    with run.timer.phase("parse"):
        topology = load_topology(request.topology)
    with run.timer.phase("search"):
        members = pool(
            topology, request, usable, progress, programs=True, budget=run.budget, decisions=run.decisions
        )
    unfit: list[tuple[str, str]] = []
    record = run.decisions.inside("ranges")
    policy = request.policy.autotune
    while True:
        with run.timer.phase("predict"):
            selected = selected_ranges(members, policy)
            borders = [_handover_size(members, selected, k, policy) for k in range(len(selected) - 1)]
        ranges, refused = _RangeFiles(run, members).of(selected, borders)
        if refused is None:
            _note_ranges(record, members, selected)
            verdicts = _verdicts(run, topology, members, ranges)
            return Atlas(run, topology, members, tuple(ranges), tuple(unfit), verdicts)
        member, error = refused
        unfit.append((members.candidates[member].label, error.message))
        record.note(members.candidates[member].label, "refused", error.message)
        if len(members.candidates) == 1:
            raise error
        members = members.without(member)


def _verdicts(
    run: Compilation, topology: Topology, members: Pool, ranges: Sequence[Range]
) -> tuple[tuple[int, TimeVerdict], ...]:  # fmt: skip
    """The files of the ranges beside the limit and the library, at the sizes that were tuned for."""
    request, bounds, verdicts = run.request, members.bounds, []
    root, options = members.candidates[0].problem.collective.root, CostOptions.of(run.request)
    for size in sample_sizes(members.sizes, request.policy.autotune):
        entry = next((r for r in ranges if r.high is None or size <= r.high), ranges[-1])
        seconds = dict(entry.seconds).get(size)
        timed: Timed = "program"
        if request.schedule_only:
            timed, seconds = "schedule", members.members[entry.member].schedule[members.sizes.index(size)]
        elif entry.synthesis.targets[0].format == "mscclpp-json":
            timed = "plan"
        finite = seconds if seconds is not None and math.isfinite(seconds) else None
        verdicts.append((entry.member, time_verdict(topology, root, bounds, size, finite, options, timed)))
    return tuple(verdicts)


def _of_the_file(synthesis: Synthesis, sizes: Sequence[int], options: CostOptions) -> dict[int, float]:
    """What the first program or plan takes at each of ``sizes``, read from its bytes; nothing where there is none
    or it is too large to be simulated."""
    transfers = len(synthesis.solution.schedule.transfers)
    if transfers > options.policy.compile.max_program_transfers:
        return {}
    predictor = first_predictor(synthesis.topology, synthesis.programs, options)
    return {} if predictor is None else {size: predictor.timeline(size).makespan for size in sizes}


def _note_ranges(record: Decisions, members: Pool, selected: list[tuple[int, int, int]]) -> None:
    """Which members were chosen for which sizes, and which for none."""
    for first, last, i in selected:
        sizes = f"{members.sizes[first]} to {members.sizes[last]} bytes"
        record.note(_made_for(members, i), "chosen", f"for {sizes}: near the best there, for the longest range")
    for i in sorted(set(range(len(members.members))) - {i for _, _, i in selected}):
        reason = "where it is near the best another one is for more sizes"
        record.note(_made_for(members, i), "skipped", reason)


def _made_for(members: Pool, i: int) -> str:
    """Members of one label differ in the size that they were made for, or in throttling."""
    member, candidate = members.members[i], members.candidates[i]
    throttled = f", throttled after {member.throttling.after}" if member.throttling is not None else ""
    if member.steady is not None:
        throttled = f", {member.steady.label}"
    return f"{candidate.label}, chunks of {candidate.chunking.chunk_bytes:,} bytes{throttled}"


def selected_ranges(members: Pool, policy: AutotunePolicy = DEFAULT.autotune) -> list[tuple[int, int, int]]:
    """(first size, last size, member) of the fewest ranges in which every member is near the best at each size."""
    numbers, tolerance = range(len(members.candidates)), policy.atlas_tolerance
    best = [members.seconds[members.best(j)][j] for j in range(len(members.sizes))]

    def reach(i: int, first: int) -> int:
        """The first size from ``first`` on at which member i is not near the best."""
        limits = (j for j in range(first, len(best)) if members.seconds[i][j] > best[j] * (1 + tolerance))
        return next(limits, len(best))

    ranges: list[tuple[int, int, int]] = []
    first = 0
    while first < len(best):
        ends = {i: reach(i, first) for i in numbers}
        end = max(ends.values())
        farthest = [i for i in numbers if ends[i] == end]
        member = min(farthest, key=lambda i: (sum(members.seconds[i][first:end]), i))
        ranges.append((first, end - 1, member))
        first = end
    return ranges


def _handover_size(members: Pool, selected: list[tuple[int, int, int]], k: int, policy: AutotunePolicy) -> int:
    """The last size of range k: where the next member becomes the quicker one."""
    first, last, member = selected[k]
    follower = selected[k + 1][2]
    while last > first and members.seconds[follower][last] < members.seconds[member][last]:
        last -= 1
    low, high = members.sizes[last], members.sizes[last + 1]
    before, after = members.members[member], members.members[follower]
    while high > low * policy.handover_precision and high - low > 1:
        middle = max(low + 1, min(high - 1, round(math.sqrt(low * high))))
        if after.seconds(middle) < before.seconds(middle):
            high = middle
        else:
            low = middle
    return low


@dataclass(frozen=True)
class _RangeFiles:
    """Makes the files of ranges from members of a pool."""

    run: Compilation
    members: Pool

    def of(
        self, selected: list[tuple[int, int, int]], borders: list[int]
    ) -> tuple[list[Range], tuple[int, HetesynthError] | None]:
        """The files of every range, or the first member that does not fit its target."""
        name, ranks = self.run.request.collective, self.members.bounds.ranks
        ranges: list[Range] = []
        low, least = 0, 0
        for k, (_, last, member) in enumerate(selected):
            high = borders[k] if k < len(borders) else None
            most = 0 if high is None else _odd(runtime_bytes(name, ranks, high))
            if high is not None and most < least:  # rounding left nothing of this range
                continue
            try:
                entry = self._range(member, last, (low, high), (least, most))
            except HetesynthError as error:
                if error.code not in UNFIT:
                    raise
                return [], (member, error)
            ranges.append(entry)
            low, least = (0, 0) if entry.high is None else (entry.high + 1, entry.max_bytes + 1)
        return ranges, None

    def _range(self, member: int, last: int, sizes: tuple[int, int | None], calls: tuple[int, int]) -> Range:
        """``sizes``: of the buffer; ``calls``: of the runtime's; plans for MSCCL++ alone may end before."""
        (low, high), (least, most) = sizes, calls
        synthesis = self.files(member, last, least, most)
        limit = carried(synthesis)
        short = limit is not None and all(t.format == "mscclpp-json" for t in self.run.request.targets)
        if limit is not None and short and (high is None or limit < most):
            most = limit
            blocks = self.members.bounds.ranks if self.run.request.collective in ("gather", "scatter") else 1
            high = limit * blocks
            if any(program.carries != limit for program in synthesis.programs.values()):  # some go on for longer
                synthesis = self.files(member, last, least, most)
        plan_bytes = None if limit is None else min(most or limit, limit)
        inside = [size for size in self.members.sizes if low <= size and (high is None or size <= high)]
        seconds = _of_the_file(synthesis, inside, CostOptions.of(self.run.request))
        return Range(low, high, least, most, member, synthesis, plan_bytes, tuple(seconds.items()))

    def files(self, member: int, last: int, least: int, most: int) -> Synthesis:
        """What ``member`` becomes for a range; without plans for MSCCL++ where all of it is past their limit."""
        candidate, entry = self.members.candidates[member], self.members.members[member]
        time_optimality, targets = self.members.time_optimality(member, last), self.run.request.targets
        try:
            spec = ProgramSpec(targets, entry.throttling, least, most, entry.steady)
            return finished(candidate.solved(self.run, spec, time_optimality))
        except HetesynthError as error:
            others = tuple(t for t in targets if t.format != "mscclpp-json")
            if error.code != "HS509" or not others:
                raise
            spec = ProgramSpec(others, entry.throttling, least, most, entry.steady)
            return finished(candidate.solved(self.run, spec, time_optimality))


def _odd(size: int) -> int:
    """The next odd number: no buffer of whole elements has just that size, so readers that exclude the limit and
    readers that include it agree."""
    return size | 1


def files(result: Atlas) -> dict[str, bytes]:
    """Every file of the atlas by its name in the folder: programs by target, schedules, index and plot."""
    from hetesynth.report.size_plot import size_plot

    contents: dict[str, bytes] = {}
    for k, entry in enumerate(result.ranges):
        for suffix, data in entry.synthesis.files.items():
            contents[_name(result, k, suffix)] = data
    title = f"{result.topology.name}: {result.request.collective}, {result.topology.ranks} GPUs"
    borders = [r.high for r in result.ranges if r.high is not None]
    contents[PLOT] = size_plot(title, _curves(result), borders).encode()
    contents["index.json"] = (json.dumps(with_digests(index(result), contents), indent=2) + "\n").encode()
    return contents


def _name(result: Atlas, k: int, suffix: str) -> str:
    """Programs of each target have a folder of their own: some runtimes read every file of a folder."""
    stem = f"{result.topology.name}-{result.request.collective}-{k}"
    program = result.ranges[k].synthesis.programs.get(suffix)
    if program is None:
        return f"schedules/{stem}{SCHEDULE_SUFFIX}"
    return f"{program.target.name}/{stem}{suffix}"


def _curves(result: Atlas) -> dict[str, list[tuple[int, float]]]:
    lines: dict[str, list[tuple[int, float]]] = {}
    sizes = result.pool.sizes
    for k, entry in enumerate(result.ranges):
        seconds = result.pool.seconds[entry.member]
        lines[f"{k}: {result.pool.candidates[entry.member].label}"] = [
            (size, size / s / 1e9) for size, s in zip(sizes, seconds, strict=True) if math.isfinite(s)
        ]
    lines["bound"] = [(size, size / result.pool.bounds.seconds(size) / 1e9) for size in sizes]
    return lines


def index(result: Atlas) -> dict[str, Any]:
    """The JSON index: ranges with their files and times, the frontier, the topology's features."""
    return {
        "kind": "hetesynth atlas",
        "generator": f"hetesynth {__version__}",
        "verdict": verdict_line([v for _, v in result.verdicts]),
        "verdicts": [
            {"size": v.size, "candidate": result.pool.candidates[member].label, **v.figures()}
            for member, v in result.verdicts
        ],
        "cluster": result.topology.name,
        "topology_sha256": topology_hash(result.topology),
        **({"losses": list(result.topology.notes)} if result.topology.notes else {}),
        "collective": result.request.collective,
        "ranks": result.topology.ranks,
        "root": result.pool.candidates[0].problem.collective.root,
        "simulated": True,
        "runtime_costs": result.request.runtime is not None,
        "cut_short": result.cut_short,
        "ended_by": result.pool.ending,
        "decided_by_clock": list(result.compilation.budget.clock_decisions.told()),
        "targets": [t.name for t in result.request.targets],
        "warnings": [warned.plain() for warned in _warnings(result)],
        "runtime_advice": _advice(result),
        "topology": features(result.topology, result.pool.bounds, result.request.policy),
        "ranges": [_range(result, k) for k in range(len(result.ranges))],
        "frontier": frontier(result),
        "unfit": [{"candidate": label, "reason": why} for label, why in result.unfit],
    }


def _warnings(result: Atlas) -> list[Warned]:
    """Where a library is quicker, and what holds of the files of every range."""
    targets = result.request.targets
    slower = [warned for _, verdict in result.verdicts for warned in library_warnings(verdict, targets)]
    return [*slower, *result.ranges[0].synthesis.warnings]


def _advice(result: Atlas) -> dict[str, str | list[str]] | None:
    advice = result.ranges[0].synthesis.advice
    return None if advice is None else advice.plain()


def _range(result: Atlas, k: int) -> dict[str, Any]:
    entry = result.ranges[k]
    candidate, throttling = result.pool.candidates[entry.member], result.pool.members[entry.member].throttling
    inside = [
        j
        for j, size in enumerate(result.pool.sizes)
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
        "files": [_name(result, k, suffix) for suffix in entry.synthesis.files],
        "throttling": None if throttling is None else throttling.after,
        "sizes": [_figures(result.pool, entry, j) for j in inside],
    }


def _figures(members: Pool, entry: Range, j: int) -> dict[str, Any]:
    """What a range takes at size j: its schedule beside the bound, and its program."""
    seconds = dict(entry.seconds).get(members.sizes[j])
    program = {"program_predicted_us": None if seconds is None else seconds * 1e6}
    return {**members.time_optimality(entry.member, j).figures(), **program}


def frontier(result: Atlas) -> list[dict[str, Any]]:
    """The members of the pool that no other beats in both latency and bandwidth, the quickest to start first.

    ``latency_us``: simulated for no bytes at all. ``us_per_MB``: what one more megabyte costs at the largest size.
    """
    largest = result.pool.sizes[-1]
    rows = []
    for i, candidate in enumerate(result.pool.candidates):
        latency = candidate.predictor.timeline(0).makespan
        slope = (
            candidate.predictor.timeline(2 * largest).makespan - candidate.predictor.timeline(largest).makespan
        ) / largest
        rows.append((latency, slope, i))
    kept: list[tuple[float, float, int]] = []
    for latency, slope, i in sorted(rows):
        if not kept or slope < kept[-1][1] * (1 - 1e-9):
            kept.append((latency, slope, i))
    return [
        {
            "candidate": result.pool.candidates[i].label,
            "chunks": result.pool.candidates[i].chunks,
            "steps": result.pool.candidates[i].solution.schedule.makespan,
            "latency_us": latency * 1e6,
            "us_per_MB": slope * 1e12,
            "in_atlas": any(entry.member == i for entry in result.ranges),
        }
        for latency, slope, i in kept
    ]
