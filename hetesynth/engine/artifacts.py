"""Judged files of a schedule: it is replayed, its bound rechecked, every program read back and executed before."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

from hetesynth import __version__
from hetesynth.engine.bounds import recheck_bound
from hetesynth.engine.compilation import Compilation, PhaseTimer
from hetesynth.engine.formats import FORMATS, SCHEDULE_SUFFIX, Emitted, demand_collective, restated, variants
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions, contents_predictor
from hetesynth.engine.program_warnings import Warned, demand_single_root, program_warnings, runtime_advice
from hetesynth.engine.recipe import recipe_of, topology_hash
from hetesynth.engine.request import MANY_RANKS, Request
from hetesynth.engine.rival import useful_sizes
from hetesynth.engine.steady_programs import Pipeline
from hetesynth.engine.time_verdict import (
    TimeOptimality,
    TimeVerdict,
    implied_size,
    library_seconds,
    time_optimality,
)
from hetesynth.errors import InternalError
from hetesynth.files.schedule_json import JsonValue, write_schedule_json
from hetesynth.judge.bounds.judge import Recheck
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.bound import Certificate
from hetesynth.model.cegis_trace import CegisEntry
from hetesynth.model.collective import Collective
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.decisions import Decision
from hetesynth.model.plan import MAX_BUFFER_BYTES
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.rank_places import places_comment, places_document
from hetesynth.model.size_range import SizeRange, spelled_range
from hetesynth.model.target import MAX_PROGRAM_NAME, Target
from hetesynth.model.topology import Topology
from hetesynth.model.verdict import Violation
from hetesynth.model.words import EXACT, short_time, size_text
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.programs.mscclpp.lower import too_large
from hetesynth.search.chunking import Chunking
from hetesynth.search.interrupts import abandoned, finishing
from hetesynth.search.search import Ending
from hetesynth.search.solve import Solution, bounded


def addressable(request: Request, size: int) -> bool:
    """Return True if some file of ``request`` may be of use for a buffer of ``size`` bytes."""
    kept_short = [t.format.plan for t in request.targets]
    return size <= MAX_BUFFER_BYTES or request.schedule_only or not all(kept_short)


def demand_addressable(request: Request, size: int) -> None:
    """Raise HetesynthError HS509 where a target of ``request`` cannot address a buffer of ``size`` bytes."""
    plans = not request.schedule_only and any(t.format.plan for t in request.targets)
    if plans and size > MAX_BUFFER_BYTES:
        raise too_large(size)


def demand_carried(synthesis: Synthesis, size: int) -> None:
    """Raise HetesynthError HS509 where a program is of no use for a buffer of ``size`` bytes."""
    call = runtime_bytes(synthesis.problem.collective.name, synthesis.problem.ranks, size)
    limit = carried(synthesis)
    if limit is not None and call > limit:
        raise too_large(size, limit if call == size else limit * synthesis.problem.ranks)


def carried(synthesis: Synthesis) -> int | None:
    """Return the bytes of the largest call, as runtimes count, for which all programs are of use; None: any."""
    return min((p.carries for p in synthesis.programs.values() if p.carries is not None), default=None)


ABANDONED = "ended by Ctrl-C before all programs were judged: those that are missing are not written"
UNFIT = frozenset({"HS501", "HS502", "HS503", "HS504", "HS508", "HS509"})  # a program past a limit of its target


@dataclass(frozen=True, slots=True)
class Choice:
    """The choice of a schedule for a size. ``trees``: of a schedule in steady state the number of its trees, in
    all or of each root. ``runner_up``: the next best program's label and seconds."""

    label: str
    tried: int
    cut_short: bool
    ending: Ending = "tried"
    trees: int | None = None
    runner_up: tuple[str, float] | None = None


@dataclass(frozen=True, slots=True)
class ProgramSpec:
    """The targets for which programs of a schedule are written, the ``extent`` of the buffer in bytes that they
    are for (None: no limit), and the pipeline by which they run in steady state."""

    targets: tuple[Target, ...]
    extent: SizeRange | None = None
    steady: Pipeline | None = None


@dataclass(frozen=True, slots=True)
class FileTimes:
    """The estimated ``seconds`` of a file, its seconds at line rate (None: not simulated), and the first and last
    size of the buffer for which it is no slower than the library. ``compared``: the library's time is known, so
    that ``useful`` None means that the library is quicker at all sizes."""

    seconds: float | None = None
    line_seconds: float | None = None
    useful: tuple[int, int] | None = None
    compared: bool = False

    @property
    def lost(self) -> bool:
        """True where the library is quicker at all sizes."""
        return self.compared and self.useful is None


UNKNOWN = FileTimes()
ANY = SizeRange(0, None, "")


@dataclass(frozen=True)
class SolvedRequest:
    """A schedule that was found, from which files are made. ``strategy``: what found it. ``time_optimality``,
    ``choice``: of a schedule for a size; else None, and the time is that of the size that the chunks make."""

    compilation: Compilation
    strategy: str
    chunking: Chunking
    problem: Problem
    solution: Solution
    programs: ProgramSpec
    time_optimality: TimeOptimality | None = None
    choice: Choice | None = None


@dataclass(frozen=True)
class StepModel:
    """The schedule of the fewest steps, judged, where the program that is written is of another schedule."""

    strategy: str
    chunking: Chunking
    problem: Problem
    solution: Solution
    recheck: Recheck  # of the bound
    time_optimality: TimeOptimality

    @property
    def chunks(self) -> int:
        """The number of chunks per rank."""
        return self.problem.collective.chunks_per_rank


@dataclass(frozen=True)
class Synthesis:
    """A verified schedule and its verified programs, ready to be written. ``step_model``: the result of the step
    search, where another schedule is written. ``abandoned``: Ctrl-C left no time for some programs, or for all of
    them where there is only the schedule. ``cegis``: what CEGIS did, in all searches."""

    request: Request
    strategy: str
    targets: tuple[Target, ...]
    budget: Budget
    topology: Topology
    chunking: Chunking
    problem: Problem
    solution: Solution
    programs: dict[str, Emitted]  # suffix -> a program
    files: dict[str, bytes]  # suffix -> contents of every file, programs first
    timer: PhaseTimer
    recheck: Recheck  # of the bound
    time_optimality: TimeOptimality
    choice: Choice | None = None  # for a size
    times: dict[str, FileTimes] = field(default_factory=dict)  # by the name of the target
    cut_short: bool = False  # the clock or Ctrl-C decided something: another run may give other files
    ending: Ending = "tried"
    decided_by_clock: tuple[str, ...] = ()
    decisions: tuple[Decision, ...] = ()
    every_root: bool = False
    verdict: TimeVerdict | None = None
    step_model: StepModel | None = None
    abandoned: bool = False
    cegis: tuple[CegisEntry, ...] = ()

    @property
    def chunks(self) -> int:
        """The number of chunks per rank."""
        return self.problem.collective.chunks_per_rank

    @property
    def first_times(self) -> FileTimes:
        """The times of the first program; ``UNKNOWN`` where there is none."""
        return next(iter(self.times.values()), UNKNOWN)

    @property
    def program_seconds(self) -> float | None:
        """The estimated seconds of the first program at the size of ``time_optimality``, read from its file."""
        return self.first_times.seconds

    @property
    def withheld(self) -> tuple[str, ...]:
        """The suffixes of programs that are not written, as the library is expected to be quicker at all sizes."""
        return tuple(suffix for suffix in self.programs if suffix not in self.files)

    @property
    def name(self) -> str:
        """The common part of the names of the files, where the user states none."""
        chunks = f"-c{self.by_steps.chunks}" if self.by_steps.chunks > 1 else ""
        return f"{self.topology.name}-{self.request.collective}{chunks}"

    @property
    def by_steps(self) -> Synthesis | StepModel:
        """The result whose steps are reported: ``step_model``, or this one if None, as for a stated size."""
        return self.step_model or self

    @cached_property
    def warnings(self) -> tuple[Warned, ...]:
        """The warnings of what may go wrong with programs, of a quicker library, an interrupt and the sketch."""
        left: tuple[Warned, ...] = ()
        if self.abandoned:
            left = (Warned(tuple(t.name for t in self.targets), ABANDONED, "the same command again makes them"),)
        if self.abandoned and not self.programs:
            return left
        slower = () if self.verdict is None else library_warnings(self.verdict, self.targets, self.request.always)
        programs, goal = self.programs.values(), self.problem.collective
        of_programs = program_warnings(programs, self.targets, self.topology.models, goal, self.every_root)
        return of_programs + slower + left + self._of_sketch

    @property
    def _of_sketch(self) -> tuple[Warned, ...]:
        """The warnings of what the sketch says that the schedule does not keep, or that is not used."""
        sketch, names = self.request.sketch, tuple(t.name for t in self.targets)
        if sketch is None:
            return ()
        kept = sketch.breaches(self.topology, self.problem.collective, self.solution.schedule)
        way_out = "--objective steps, or a --strategy that counts steps, keeps what one can (docs/sketches.md)"
        unused = "leave it out where it does not matter (docs/sketches.md)"
        return (
            *(Warned(names, f"the sketch is not kept: {breach}", way_out) for breach in kept),
            *(Warned(names, f"the sketch says what is not used: {one}", unused) for one in sketch.unused),
        )

    def write(self, stem: Path) -> list[Path]:
        """Write all files next to each other, all or none, and return their paths, programs first."""
        from hetesynth.files.atomic import write_all

        paths = {stem.with_name(stem.name + suffix): data for suffix, data in self.files.items()}
        with self.timer.phase("write"):
            write_all(paths)
        return list(paths)

    @property
    def advice(self) -> str | None:
        """A sentence on which runtime to write for, where the programs are for none; else None."""
        models = self.topology.models
        return runtime_advice(self.targets, models, self.request.collective) if self.programs else None


def library_warnings(verdict: TimeVerdict, targets: Sequence[Target], always: bool) -> tuple[Warned, ...]:
    """Return a warning where the library is quicker; ``always``: the program is written all the same."""
    rival, names = verdict.rival, tuple(t.name for t in targets)
    if isinstance(rival, str) or not verdict.slower_than_library:
        return ()
    size = size_text(verdict.size, EXACT)
    message = f"{rival.library} is expected to be quicker: {short_time(rival.seconds)} for {size}"
    way_out = "leave such calls to it, raise --effort, or try another --strategy or --target"
    if verdict.ranged and verdict.useful is None and not always:
        message, way_out = (
            f"{message}, and at all other sizes; no program is written",
            f"--always writes it; else {way_out}",
        )
    return (Warned(names, message, way_out),)


def demand_callable(request: Request, *, every_root: bool = False) -> None:
    """Raise HetesynthError HS513, HS514 if a target never runs the collective, or runs it for other roots too."""
    for target in request.targets:
        demand_collective(target, request.collective)
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=request.single_root or every_root)


def finished(solved: SolvedRequest) -> Synthesis:
    """Return the judged files of a schedule; after a second Ctrl-C the schedule without programs."""
    if not abandoned():
        try:
            return judged_files(solved)
        except KeyboardInterrupt:
            pass
    with finishing(however_often=True):
        return _files(solved, bare=True)


def judged_files(solved: SolvedRequest) -> Synthesis:
    """Return the judged files of a schedule; a second Ctrl-C raises KeyboardInterrupt."""
    with finishing():
        return _files(solved, bare=solved.compilation.request.schedule_only)


def _files(solved: SolvedRequest, *, bare: bool) -> Synthesis:
    """Return the judged files of a schedule. ``bare``: the schedule and no programs."""
    with solved.compilation.timer.phase("bound"):
        solution = bounded(solved.problem, solved.solution, solved.compilation.request.policy)
        solved = replace(solved, solution=solution)
    run, problem, solution, choice = solved.compilation, solved.problem, solved.solution, solved.choice
    timer, request = run.timer, run.request
    rechecked = _verified(solved)
    with timer.phase("predict"):
        optimality = solved.time_optimality or _implied_time(solved, simulated=not abandoned())
    run.progress("lowering", solution.schedule.makespan)
    programs, times = ({}, {}) if bare else _programs(solved, optimality.size)
    forms = [] if request.schedule_only else list(variants(solved.programs.targets, problem.collective.name))
    unmade = len(programs) < len(forms)
    files = {s: p.data for s, p in programs.items() if request.always or not times[p.target.name].lost}
    with timer.phase("lower"):
        trees = None if choice is None else choice.trees
        spec, chunking = solved.programs, solved.chunking
        timed = solved.time_optimality  # of a schedule for a size, that of an atlas too
        size = request.size if timed is None or choice is not None else timed.size
        by_time = choice is not None or timed is not None
        recipe = recipe_of(request, spec.steady, size, by_time=by_time, trees=trees)
        header: dict[str, JsonValue] = {
            **header_of(chunking, solution.certificate),
            "recipe": recipe.plain(),
            "topology_sha256": topology_hash(chunking.topology),
            **({} if chunking.options.latencies else {"latencies": False}),
            **({"links_left_out": True} if chunking.topology.numbers else {}),
            **({"losses": list(chunking.topology.notes)} if chunking.topology.notes else {}),
        }
        numbers = chunking.topology.numbers
        files[SCHEDULE_SUFFIX] = write_schedule_json(problem, solution.schedule, header, numbers)
    clock_decisions, ended = run.budget.clock_decisions, solution if choice is None else choice
    cut_short = solution.cut_short or ended.cut_short or bool(clock_decisions) or unmade
    return Synthesis(
        request=request,
        strategy=solved.strategy,
        targets=solved.programs.targets,
        budget=run.budget,
        topology=solved.chunking.topology,
        chunking=solved.chunking,
        problem=problem,
        solution=solution,
        programs=programs,
        files=files,
        timer=timer,
        recheck=rechecked,
        time_optimality=optimality,
        choice=choice,
        times=times,
        cut_short=cut_short,
        ending="interrupt" if unmade else ended.ending,
        decided_by_clock=clock_decisions.told(),
        decisions=tuple(run.decisions.entries),
        every_root=run.every_root,
        abandoned=unmade,
        cegis=run.trace.own,
    )


def header_of(chunking: Chunking, certificate: Certificate) -> dict[str, JsonValue]:
    """Return the fields in the header of every schedule that was made, or checked, on a cluster."""
    return {
        "cluster": chunking.topology.name,
        "ranks": [dict(place) for place in places_document(chunking.topology)],
        "generator": f"hetesynth {__version__}",
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "lower_bound": certificate.bound.steps,
        "bound_method": certificate.bound.method,
        "bound_proof": certificate.bound.proof,
        "proven_optimal": certificate.proven_optimal,
    }


def step_model(solved: SolvedRequest) -> StepModel:
    """Return the result of the step search, judged like a schedule that is written."""
    rechecked = _verified(solved)
    with solved.compilation.timer.phase("predict"):
        optimality = _implied_time(solved, simulated=True)
    return StepModel(solved.strategy, solved.chunking, solved.problem, solved.solution, rechecked, optimality)


def _verified(solved: SolvedRequest) -> Recheck:
    """Replay the schedule and return the recheck of its bound. Raises InternalError where either is wrong."""
    run, problem, solution = solved.compilation, solved.problem, solved.solution
    timer, budget = run.timer, run.budget
    with timer.phase("verify"):
        demand_clean(schedule_violations(problem, solution.schedule), "schedule")
        timed = budget.seconds is not None
        seconds = min(10.0, max(0.1, run.deadline.left())) if timed else math.inf
        units = 0 if timed else 20_000_000  # as much as strategy cegis spends on one number of steps
        rechecked = recheck_bound(problem, solution.bound, seconds, budget.clock_decisions, units)
        demand_clean(rechecked.violations, "bound")
    return rechecked


def _implied_time(solved: SolvedRequest, *, simulated: bool) -> TimeOptimality:
    """Return the time for the size that the chunks make; not simulated where the schedule is too large for it."""
    request, problem = solved.compilation.request, solved.problem
    size = implied_size(problem, solved.chunking.chunk_bytes)
    options = CostOptions.of(request)
    question = solved.chunking.topology, problem, solved.solution.schedule, size, options
    return time_optimality(*question) if simulated else time_optimality(*question, -1)


def _programs(solved: SolvedRequest, size: int) -> tuple[dict[str, Emitted], dict[str, FileTimes]]:
    """Return every program by its suffix, lowered, its range of sizes stated, and judged, and the times of each
    target's first program; after a second Ctrl-C the programs that are judged by then."""
    timer, request = solved.compilation.timer, solved.compilation.request
    problem, solution = solved.problem, solved.solution
    spec, topology = solved.programs, solved.chunking.topology
    comment = places_comment(topology)  # where each rank runs; readers of MSCCL XML skip it
    goal, programs, times = problem.collective, dict[str, Emitted](), dict[str, FileTimes]()
    extent = spec.extent or ANY
    least, most = extent.calls(goal.name, goal.ranks)
    said = [goal.name, f"c{goal.chunks_per_rank}", *([] if goal.root is None else [f"root{goal.root}"])]
    try:
        for target, in_place, suffix in variants(spec.targets, problem.collective.name):
            what = "_".join([*said, "inplace"] if in_place else said)
            name = f"{topology.name[: MAX_PROGRAM_NAME - 1 - len(what)]}_{what}"
            with timer.phase("lower"):
                options = LoweringOptions(
                    name, in_place, target=target, servers=topology.servers, min_bytes=least, max_bytes=most
                )
                costs = CostOptions.of(request)
                lowering = Lowering(topology, problem, solution.schedule.stepwise, size, options, costs)
                program = lowering.emitted(spec.steady)
                if target.format.program and comment:
                    program = replace(program, data=program.data + comment)
                if problem.ranks > MANY_RANKS:
                    gc.collect()  # gives back what the lowering used before the judge needs as much
            with timer.phase("predict"):
                if target.name not in times:
                    times[target.name] = file_times(topology, goal, program, size, costs, extent)
                if not request.always:
                    program = where_useful(program, goal, extent, times[target.name])
            with timer.phase("verify"):
                programs[suffix] = judged(program, problem, options, suffix)
    except KeyboardInterrupt:
        if not programs or not abandoned():
            raise
    return programs, times


def where_useful(program: Emitted, goal: Collective, extent: SizeRange, times: FileTimes) -> Emitted:
    """Return ``program`` for the part of ``extent`` in which it is no slower than the library."""
    if times.useful is None:
        return program
    before = extent.calls(goal.name, goal.ranks)[1]
    return restated(program, before, *narrowed(extent, times.useful).calls(goal.name, goal.ranks))


def narrowed(extent: SizeRange, useful: tuple[int, int]) -> SizeRange:
    """Return the part of ``extent`` from the first to the last size of ``useful``."""
    return SizeRange(*useful, spelled_range(*useful), closed=extent.closed or useful[1] != extent.high)


def file_times(
    topology: Topology,
    goal: Collective,
    program: Emitted,
    size: int,
    options: CostOptions,
    extent: SizeRange = ANY,
) -> FileTimes:
    """Return the seconds of the file of ``program``, read back, for ``size`` bytes, and the sizes in ``extent`` at
    which it is no slower than the library."""
    target, largest = program.target, program.carries
    predictor = contents_predictor(program.data, target.name, target, topology, options)
    if predictor is None:
        return UNKNOWN
    line_seconds = predictor.repriced(topology, options.line_rate).timeline(size).makespan

    def seconds(n: int) -> float:
        usable = largest is None or runtime_bytes(goal.name, goal.ranks, n) <= largest
        return predictor.timeline(n).makespan if usable else math.inf

    library = partial(library_seconds, topology, goal.name, goal.root, options)
    if largest is not None:
        largest_size = largest * (goal.ranks if goal.name in ("gather", "scatter") else 1)
        extent = replace(extent, high=min(largest_size, extent.high or largest_size), closed=True)
    compared = math.isfinite(library(size))
    useful = useful_sizes(seconds, library, size, extent) if compared else None
    return FileTimes(seconds(size), line_seconds, useful, compared)


def judged(program: Emitted, problem: Problem, options: LoweringOptions, suffix: str) -> Emitted:
    """Return ``program``, made of ``problem`` as ``options`` say. Raises InternalError if its judge refuses it."""
    judge = FORMATS[options.target.format].judge
    violations = judge(program.data, options.name, problem, options.target, options.servers)
    demand_clean(violations, f"program {options.name}{suffix}")
    return program


def demand_clean(violations: Sequence[Violation], what: str) -> None:
    """Raise InternalError if a judge found ``violations`` in ``what``, which was made here."""
    if violations:
        raise InternalError(f"the {what} does not verify ({len(violations)} findings): {violations[0].message}")
