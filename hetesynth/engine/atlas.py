"""The programs for ranges of sizes: what a user installs to have one at every size. A program is used as long as
it is within 1 % of the best and not slower than the library, so that ranges are few; sizes for which there is no
such program are left to the library. The frontier is that of SCCL, section 3.5."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, cast

from hetesynth import __version__
from hetesynth.engine.artifacts import (
    UNFIT,
    ProgramSpec,
    Synthesis,
    addressable,
    carried,
    demand_addressable,
    demand_callable,
    finished,
    library_warnings,
    narrowed,
)
from hetesynth.engine.choice.pool import Pool, library_times, pool, sample_places
from hetesynth.engine.compilation import Compilation, compilation
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions, contents_predictor
from hetesynth.engine.problem import usable_topology
from hetesynth.engine.recipe import topology_hash
from hetesynth.engine.request import Request
from hetesynth.engine.rival import SIZES
from hetesynth.engine.time_verdict import ALIKE, Timed, TimeVerdict, time_verdict, verdict_line
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import PLOT, with_digests, write_folder
from hetesynth.model.size_range import SizeRange, spelled_range
from hetesynth.model.topology import Topology
from hetesynth.search.search import Progress, no_progress

ALL = (SizeRange(0, None, ""),)
LEFT = "the library is quicker at all sizes"  # that are asked for, where there are ranges
MARK = b'"kind": "hetesynth atlas'  # what index.json of any atlas begins with, that of single losses too


@dataclass(frozen=True)
class Range:
    """The sizes ``extent`` of the collective's buffer, a part of those ``asked`` for, and the files for them of
    ``member`` of the pool. ``carries``: the largest call of a plan. ``times``: by size of the pool the seconds of
    the first program at the rates that runs reach, and at line rate."""

    asked: SizeRange
    extent: SizeRange
    member: int
    synthesis: Synthesis
    carries: int | None = None
    times: tuple[tuple[int, tuple[float, float]], ...] = ()

    @property
    def calls(self) -> tuple[int, int]:
        """The least and the most bytes of a call, as runtimes count (0: no limit)."""
        least, most = self.extent.calls(self.synthesis.request.collective, self.synthesis.topology.ranks)
        plans = all(target.format.plan for target in self.synthesis.targets)
        return least, (self.plan_bytes or most) if plans else most

    @property
    def plan_bytes(self) -> int | None:
        """The bytes of the largest call of a plan of this range; None where no limit is known."""
        most = self.extent.calls(self.synthesis.request.collective, self.synthesis.topology.ranks)[1]
        return None if self.carries is None else min(most or self.carries, self.carries)

    @property
    def sizes(self) -> tuple[int, int]:
        """The first and the last size; the last of ``SIZES`` where the range has no end."""
        return self.low, SIZES[-1] if self.high is None else self.high

    @property
    def low(self) -> int:
        """The smallest size."""
        return self.extent.low

    @property
    def high(self) -> int | None:
        """The largest size; None: there is none."""
        return self.extent.high if self.extent.closed or self.extent.high is None else self.extent.high - 1

    def holds(self, size: int) -> bool:
        """Return True if ``size`` is in the range."""
        return self.low <= size and (self.high is None or size <= self.high)


@dataclass(frozen=True)
class Atlas:
    """Ranges in order of size, their pool, and what did not fit a target; other sizes are left to the library."""

    compilation: Compilation
    topology: Topology
    pool: Pool
    ranges: tuple[Range, ...]
    unfit: tuple[tuple[str, str], ...]
    verdicts: tuple[tuple[int, TimeVerdict], ...] = ()  # of members, about where tuning runs began

    @property
    def request(self) -> Request:
        """The request that the atlas answers."""
        return self.compilation.request

    @property
    def cut_short(self) -> bool:
        """True if the clock or Ctrl-C decided anything."""
        return self.pool.cut_short or bool(self.compilation.budget.clock_decisions)

    def write(self, folder: Path) -> list[Path]:
        """Write the whole folder, which is new, empty or an atlas to be replaced; return the paths in it."""
        write_folder(folder, self.files, MARK)
        return [folder / name for name in self.files]

    @cached_property
    def files(self) -> dict[str, bytes]:
        """Every file by its name in the folder: programs by target, schedules, index and plot."""
        from hetesynth.report.size_plot import size_plot

        contents = {
            self._name(k, suffix): data
            for k, entry in enumerate(self.ranges)
            for suffix, data in entry.synthesis.files.items()
        }
        title = f"{self.topology.name}: {self.request.collective}, {self.topology.ranks} GPUs"
        borders = [r.high for r in self.ranges if r.high is not None]
        lines: dict[str, list[tuple[int, float]]] = {}
        for k, entry in enumerate(self.ranges):
            timed = zip(self.pool.sizes, self.pool.seconds[entry.member], strict=True)
            label = f"{k}: {self.pool.candidates[entry.member].label}"
            lines[label] = [(size, size / s / 1e9) for size, s in timed if math.isfinite(s)]
        lines["bound"] = [(size, size / self.pool.bounds.proved.seconds(size) / 1e9) for size in self.pool.sizes]
        contents[PLOT] = size_plot(title, lines, borders).encode()
        contents["index.json"] = (json.dumps(with_digests(self.index, contents), indent=2) + "\n").encode()
        return contents

    def _name(self, k: int, suffix: str) -> str:
        """Return a file's name, in a folder of its target: some runtimes read every file of a folder."""
        stem = f"{self.topology.name}-{self.request.collective}-{k}"
        program = self.ranges[k].synthesis.programs.get(suffix)
        if program is None:
            return f"schedules/{stem}{SCHEDULE_SUFFIX}"
        return f"{program.target.name}/{stem}{suffix}"

    @cached_property
    def index(self) -> dict[str, Any]:
        """The JSON index: ranges with their files and times."""
        request, members, first = self.request, self.pool, self.ranges[:1]
        slower = [
            w for _, verdict in self.verdicts for w in library_warnings(verdict, request.targets, request.always)
        ]
        warnings = [*slower, *(warned for entry in first for warned in entry.synthesis.warnings)]
        ranges = []
        for k, entry in enumerate(self.ranges):
            candidate = members.candidates[entry.member]
            took, sizes = dict(entry.times), []
            for size in members.sizes:
                if entry.holds(size):
                    us = took[size][0] * 1e6 if size in took else None
                    figures = members.schedule_at(entry.member, size).figures()
                    sizes.append({**figures, "program_predicted_us": us})
            ranges.append(
                {
                    "low": entry.low,
                    "high": entry.high,
                    "min_bytes": entry.calls[0],
                    "max_bytes": entry.calls[1] or None,
                    "mscclpp_max_bytes": entry.plan_bytes,
                    "candidate": candidate.label,
                    "strategy": candidate.name,
                    "chunks": candidate.chunks,
                    "steps": candidate.solution.schedule.makespan,
                    "lower_bound": entry.synthesis.solution.bound.steps,
                    "files": [self._name(k, suffix) for suffix in entry.synthesis.files],
                    "sizes": sizes,
                }
            )
        left = [size for size in members.sizes if not any(entry.holds(size) for entry in self.ranges)]
        return {
            "kind": "hetesynth atlas",
            "generator": f"hetesynth {__version__}",
            "verdict": verdict_line([v for _, v in self.verdicts])
            if self.verdicts
            else LEFT + (" asked for" if self.ranges else ""),
            "verdicts": [
                {"size": v.size, "candidate": members.candidates[member].label, **v.figures()}
                for member, v in self.verdicts
            ],
            "cluster": self.topology.name,
            "topology_sha256": topology_hash(self.topology),
            **({"losses": list(self.topology.notes)} if self.topology.notes else {}),
            "collective": request.collective,
            "ranks": self.topology.ranks,
            "root": members.candidates[0].problem.collective.root,
            "simulated": True,
            "runtime_costs": request.runtime is not None,
            "cut_short": self.cut_short,
            "ended_by": members.ending,
            "decided_by_clock": list(self.compilation.budget.clock_decisions.told()),
            "targets": [t.name for t in request.targets],
            "warnings": [asdict(warned) for warned in warnings],
            "runtime_advice": first[0].synthesis.advice if first else None,
            "ranges": ranges,
            "left_to_library": left,
            "unfit": [{"candidate": label, "reason": why} for label, why in self.unfit],
        }


def atlas(
    request: Request, sizes: Sequence[int], progress: Progress = no_progress, asked: Sequence[SizeRange] = ALL
) -> Atlas:
    """Choose and make the programs for ``sizes``, with files of their own for each range that is ``asked`` for;
    where every target is MSCCL++ the sizes end where its 32-bit offsets do."""
    demand_callable(request)
    usable = [size for size in sizes if addressable(request, size)]
    if not usable:
        demand_addressable(request, min(sizes))
    run = compilation(request, progress)
    with run.timer.phase("parse"):
        topology = usable_topology(request)
    with run.timer.phase("search"):
        members = pool(
            topology, request, usable, progress, beside_library=True, budget=run.budget, decisions=run.decisions
        )
    unfit: list[tuple[str, str]] = []
    record = run.decisions.inside("ranges")

    library = library_times(topology, request)
    if request.always:  # no size is left to it
        library, members = (lambda _: math.inf), replace(members, library=(math.inf,) * len(members.sizes))
    while True:
        with run.timer.phase("predict"):
            chosen = [(one, *piece) for one in asked for piece in program_ranges(members, one, library)]
        ranges: list[Range] = []
        for one, extent, i in chosen:
            least, most = extent.calls(request.collective, members.bounds.ranks)
            if most and most < least:  # rounding left nothing of this range
                continue
            try:
                made_range = _made_range(run, members, i, one, extent)
                files = made_range.synthesis
                if len(files.withheld) < len(files.programs) or request.schedule_only:
                    ranges.append(made_range)
            except HetesynthError as error:
                if error.code not in UNFIT:
                    raise
                unfit.append((members.candidates[i].label, error.message))
                record.note(members.candidates[i].label, "refused", error.message)
                if len(members.candidates) == 1:
                    raise
                members = members.without(i)
                break
        else:
            break
    verdicts = []
    goal, options = members.candidates[0].problem.collective, CostOptions.of(request)
    for place in sample_places(members.sizes):
        size = members.sizes[place]
        entry = next((r for r in ranges if r.holds(size)), None)
        if entry is None:
            continue
        target, timed = entry.synthesis.targets[0], cast("Timed", entry.synthesis.targets[0].format.kind)
        times: tuple[float | None, float | None] = dict(entry.times).get(size, (None, None))
        if request.schedule_only:
            times, timed = (members.schedule_at(entry.member, size).seconds, None), "schedule"
        written_for_all = request.always and not request.schedule_only  # where it loses too
        useful = entry.synthesis.first_times.useful if written_for_all else entry.sizes
        question = topology, goal.name, goal.root, size, times, options, timed
        verdicts.append((entry.member, time_verdict(*question, target=target, useful=useful, ranged=True)))
    return Atlas(run, topology, members, tuple(ranges), tuple(unfit), tuple(verdicts))


def selected_ranges(
    seconds: Sequence[Sequence[float]], library: Sequence[float], tolerance: float
) -> list[tuple[int, int, int]]:
    """Return (first size, last size, member), as indices, of the fewest ranges in which each member, which takes
    ``seconds[i][j]``, is at each size within ``tolerance`` of the best, and no slower than the library."""
    best = [min(column) for column in zip(*seconds, strict=True)]

    def reach(i: int, first: int) -> int:
        """Return the index of the first size from ``first`` on at which member i is too slow."""
        j = first
        while j < len(best) and seconds[i][j] < math.inf and seconds[i][j] <= best[j] * (1 + tolerance):
            if library[j] < seconds[i][j] * (1 - ALIKE):
                break
            j += 1
        return j

    ranges: list[tuple[int, int, int]] = []
    first = 0
    while first < len(best):
        ends = [reach(i, first) for i in range(len(seconds))]
        end = max(ends)
        farthest = [i for i, one in enumerate(ends) if one == end]
        member = min(farthest, key=lambda i: (sum(seconds[i][first:end]), i))
        if end > first:
            ranges.append((first, end - 1, member))
        first = max(end, first + 1)
    return ranges


def program_ranges(
    members: Pool, asked: SizeRange, library: Callable[[int], float]
) -> list[tuple[SizeRange, int]]:
    """Return the ranges within ``asked``, each with its member. Borders are found by bisection: between two ranges
    where the second becomes quicker, next to sizes of the library where the range or the library does."""
    places = [j for j, size in enumerate(members.sizes) if asked.holds(size)]
    sizes = [members.sizes[j] for j in places]
    seconds = [[row[j] for j in places] for row in members.seconds]
    selected = selected_ranges(seconds, [members.library[j] for j in places], 0.01)

    def bracket(low: int, high: int, is_later: Callable[[int], bool]) -> tuple[int, int]:
        """Return two sizes near each other between which ``is_later`` begins to hold."""
        while high > low * 1.01 and high - low > 1:
            middle = max(low + 1, min(high - 1, round(math.sqrt(low * high))))
            low, high = (low, middle) if is_later(middle) else (middle, high)
        return low, high

    def is_beaten(i: int, expected: bool, size: int) -> bool:
        """Return True if "the library is quicker" is as ``expected``; half of ``ALIKE`` is left as a margin."""
        return (library(size) < members.members[i].seconds(size) * (1 - ALIKE / 2)) is expected

    def is_passed(i: int, follower: int, size: int) -> bool:
        return members.members[follower].seconds(size) < members.members[i].seconds(size)

    ranges: list[tuple[SizeRange, int]] = []
    low = asked.low
    for k, (first, last, i) in enumerate(selected):
        high, closed, border = asked.high, asked.closed, 0
        if first > 0 and (k == 0 or selected[k - 1][1] < first - 1):
            low = _round(*bracket(sizes[first - 1], sizes[first], partial(is_beaten, i, False)))
        if k + 1 < len(selected) and selected[k + 1][0] == last + 1:
            follower = selected[k + 1][2]
            while last > first and seconds[follower][last] < seconds[i][last]:
                last -= 1
            border = _round(*bracket(sizes[last], sizes[last + 1], partial(is_passed, i, follower)))
            high, closed = border, False
        elif last + 1 < len(sizes):
            before, after = bracket(sizes[last], sizes[last + 1], partial(is_beaten, i, True))
            high, closed = _round(before - 1, after - 1), True
        if high is None or high > low or (closed and high == low):
            ranges.append((SizeRange(low, high, spelled_range(low, high), closed), i))
        low = border
    return ranges


def _round(low: int, high: int) -> int:
    """Return the roundest even number above ``low``, up to ``high``; ``high`` where there is none."""
    unit = int(10 ** len(str(high)))
    while unit > 1 and (low // unit + 1) * unit > high:
        unit //= 10
    size = (low // unit + 1) * unit
    return min(size + size % 2, high)


def _made_range(run: Compilation, members: Pool, member: int, asked: SizeRange, extent: SizeRange) -> Range:
    """Return the files of ``member`` for the part of ``extent`` in which the first program is of use."""
    topology, name, ranks = (
        members.candidates[member].chunking.topology,
        run.request.collective,
        members.bounds.ranks,
    )
    synthesis = member_files(run, members, member, extent)
    limit = carried(synthesis)
    if limit is not None and all(t.format.plan for t in run.request.targets):
        blocks = ranks if name in ("gather", "scatter") else 1
        if extent.high is None or limit * blocks < extent.high:
            extent = replace(extent, high=limit * blocks, closed=True)
            if any(program.carries != limit for program in synthesis.programs.values()):  # some go on for longer
                synthesis = member_files(run, members, member, extent)
    first = next((s for s in synthesis.programs if s not in synthesis.withheld), None)
    if first is None:
        return Range(asked, extent, member, synthesis)
    program = synthesis.programs[first]
    useful = synthesis.times[program.target.name].useful
    if useful is not None and not run.request.always:
        extent = narrowed(extent, useful)
    options = CostOptions.of(run.request)
    predictor = contents_predictor(program.data, first, program.target, topology, options)
    if predictor is None:
        return Range(asked, extent, member, synthesis)
    rates = predictor, predictor.repriced(topology, options.line_rate)
    inside = [size for size in members.sizes if extent.holds(size)]
    times = tuple((n, (rates[0].timeline(n).makespan, rates[1].timeline(n).makespan)) for n in inside)
    return Range(asked, extent, member, synthesis, limit, times)


def member_files(run: Compilation, members: Pool, member: int, extent: SizeRange) -> Synthesis:
    """Return a member's files for ``extent``, without MSCCL++ plans where the whole extent is past their limit."""
    candidate, entry = members.candidates[member], members.members[member]
    time_optimality = members.schedule_at(member, entry.made_for)
    spec = ProgramSpec(run.request.targets, extent, entry.steady)
    try:
        return finished(candidate.solved(run, spec, time_optimality))
    except HetesynthError as error:
        others = tuple(t for t in run.request.targets if not t.format.plan)
        if error.code != "HS509" or not others:
            raise
        return finished(candidate.solved(run, replace(spec, targets=others), time_optimality))
