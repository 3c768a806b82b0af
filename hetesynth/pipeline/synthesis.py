"""From text to judged files: the whole compiler in reading order.

text -> Topology -> capacities -> Problem -> Schedule -> Program -> XML and JSON, each result judged before
anything is written.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hetesynth import __version__
from hetesynth.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.collectives.library import collective
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.frontend import load_topology
from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.deadline import Cuts, Deadline, now
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.verdict import GaveUp, Infeasible, Violation
from hetesynth.pipeline.addressing import demand_addressable, demand_carried
from hetesynth.pipeline.formats import FORMATS, Emitted, demand_collective, forms
from hetesynth.pipeline.over_nics import network_warnings
from hetesynth.pipeline.roots import Warned, call_warnings, demand_single_root
from hetesynth.synthesis.search import Ending, Progress, silent

if TYPE_CHECKING:
    from hetesynth.emitter.pacing import Pacing
    from hetesynth.frontend.nccl_graph import RingFile
    from hetesynth.pipeline.least_time import LeastTime
    from hetesynth.pipeline.pace import Pace
    from hetesynth.pipeline.program_choice import Ranked
    from hetesynth.pipeline.sizing import Contender
    from hetesynth.synthesis.solve import Solution
    from hetesynth.verify.certificate import Recheck

PROGRAM_TRANSFERS = (150, 5_000)  # of a schedule whose program is simulated too: unasked, and for a size
FOR_SCHEDULES = 0.75  # of the budget for a size; the rest is for their programs
MANY_RANKS = 64  # up to here a program has a thread block for every peer
PEER_SHARE = Fraction(3, 4)  # of the thread blocks, beyond: leaves some for second channels and copies

SCHEDULE_SUFFIX = ".schedule.json"
RECHECK_SECONDS = 10.0  # what a second solver gets for the query that proves a bound

UNFIT = frozenset({"HS501", "HS502", "HS503", "HS504", "HS508", "HS509"})  # a program past a limit of its target

Warn = Callable[[str], None]
Exclusion = Literal["auto", "step", "program"]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asks for.

    ``exclusion``: where HeteCCL's eq. 8 holds, which forbids two additions to one chunk at a rank at once.
    ``step``: in the schedule, as the paper does for allreduce. ``program``: only in the program, which orders
    the additions, so the schedule may take fewer steps. ``auto``: step for allreduce, program for the others.
    ``targets``: the runtimes to write for; one schedule serves them all.
    ``single_root``: the user's promise that all calls have this root, which is demanded where a runtime does not
    look at it; ``every_root``: there are requests for the other roots as well.
    ``size``: of the collective's buffer; what is not stated is then chosen by predicted time, chunks too unless
    ``chunks_stated``. ``rings``: NCCL's own, for strategy ring. ``min_bytes``, ``max_bytes`` (0: no limit): what
    programs are to be used for, both ends included, as the runtime counts.
    """

    topology: Path
    collective: CollectiveName
    chunks: int = 1
    root: Rank | None = None
    strategy: str = "auto"
    budget: Budget = field(default_factory=Budget)
    chunking: ChunkingOptions = field(default_factory=ChunkingOptions)
    exclusion: Exclusion = "auto"
    schedule_only: bool = False  # no programs: for clusters past what a program can hold
    max_peers: int | None = None  # of a rank; by default what thread blocks allow, past MANY_RANKS ranks
    targets: tuple[Target, ...] = (PORTABLE,)
    single_root: bool = False
    every_root: bool = False
    size: int | None = None
    chunks_stated: bool = False
    rings: tuple[RingFile, ...] = ()
    min_bytes: int = 0
    max_bytes: int = 0


@dataclass
class Clock:
    """Wall seconds by phase, and what these were expected to be at least."""

    phases: dict[str, float] = field(default_factory=dict)
    least: LeastTime | None = None

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time inside to phase ``name``."""
        started = now()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + now() - started

    @property
    def total(self) -> float:
        """All phases together."""
        return sum(self.phases.values())

    def beyond(self, budget: Budget) -> float:
        """Seconds spent beyond ``budget``."""
        return 0.0 if budget.seconds is None else max(0.0, self.total - budget.seconds)

    def expect(self, request: Request, ranks: int, warn: Warn) -> None:
        """Work out the least time of ``request``, and say so where the budget is less."""
        from hetesynth.pipeline.least_time import least_time, warning

        self.least = least_time(request, ranks)
        text = warning(request, ranks, self.least)
        if text is not None:
            warn(text)


@dataclass(frozen=True, slots=True)
class Choice:
    """How a schedule for a size was chosen: what won of how many, and what would have been quicker but fits no
    target: its label, its seconds, and why."""

    label: str
    tried: int
    cut_short: bool
    unfit: tuple[tuple[str, float, str], ...] = ()
    ending: Ending = "tried"


@dataclass(frozen=True)
class Synthesis:
    """A verified schedule and its verified programs, ready to be written."""

    request: Request
    topology: Topology
    chunking: Chunking
    problem: Problem
    solution: Solution
    programs: dict[str, Emitted]  # suffix -> a program
    files: dict[str, bytes]  # suffix -> contents of every file, programs first
    clock: Clock
    recheck: Recheck  # of the bound
    pace: Pace
    choice: Choice | None = None  # for a size
    program_seconds: float | None = None  # what the first MSCCL program takes at the size of ``pace``
    cut_short: bool = False  # the clock or Ctrl-C decided something: another run may give other files
    ending: Ending = "tried"
    decided_by_clock: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[Warned, ...]:
        """Where the programs hang, and which calls run them that should not."""
        if not self.programs:
            return ()
        asked, root = self.request, self.problem.collective.root
        hangs = network_warnings(self.programs.values())
        return call_warnings(asked.targets, asked.collective, root, every=asked.every_root) + hangs


def load_chunking(path: Path, options: ChunkingOptions) -> Chunking:
    """Parse and quantize, for a look at the graph."""
    return chunk(load_topology(path), options)


def load_problem(request: Request, clock: Clock) -> tuple[Chunking, Problem]:
    """Parse and quantize: from the topology file to the problem."""
    with clock.phase("parse"):
        topology = load_topology(request.topology)
    with clock.phase("chunking"):
        collective(request.collective, topology.ranks, request.chunks, request.root)  # does the root fit?
        demand_several_ranks(topology)
        chunking = chunk(topology, request.chunking)
        return chunking, problem_of(request, chunking)


def demand_several_ranks(topology: Topology) -> None:
    """HetesynthError HS404 for a cluster of one GPU."""
    if topology.ranks == 1:
        raise HetesynthError(
            "this cluster has one GPU: nothing to communicate", code="HS404", help="add GPUs or instances"
        )


def problem_of(request: Request, chunking: Chunking) -> Problem:
    """The problem of ``request`` with these capacities."""
    ranks = chunking.topology.ranks
    wanted = collective(request.collective, ranks, request.chunks, request.root)
    step = request.exclusion == "step" or (request.exclusion == "auto" and wanted.name == "allreduce")
    peers = request.max_peers
    if peers is None and ranks > MANY_RANKS and not request.schedule_only:
        peers = int(PEER_SHARE * min(t.thread_blocks for t in request.targets))
    return chunking.problem(wanted, exclusive_reduction=step and wanted.reduces, max_peers=peers)


def bounds(request: Request) -> tuple[Problem, list[LowerBound]]:
    """Every lower bound for ``request``, best first, without a search."""
    from hetesynth.bounds.distance import reach
    from hetesynth.synthesis.solve import bounds_of

    _, problem = load_problem(request, Clock())
    stranded = reach(problem).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")
    return problem, bounds_of(problem)


def recheck_bound(
    problem: Problem, bound: LowerBound, seconds: float = RECHECK_SECONDS, cuts: Cuts | None = None
) -> Recheck:  # fmt: skip
    """What the judge of bounds says of ``bound``; a solver's query is put to a fresh solver for ``seconds``.

    ``cuts``: is told where these were not enough.
    """
    from hetesynth.verify.certificate import recheck

    def unsat(query: str) -> bool | None:
        from hetesynth.synthesis.requery import unsatisfiable

        answer = unsatisfiable(query, seconds)
        if answer is None and cuts is not None:
            cuts.note("recheck of the bound")
        return answer

    return recheck(problem, bound, unsat=unsat)


def unheard(text: str) -> None:
    """Nobody wants to be warned."""


def synthesize(request: Request, progress: Progress = silent, warn: Warn = unheard) -> Synthesis:
    """The main job. Raises HetesynthError when there is no schedule (exit 1) or none was found (exit 3).

    ``warn`` is told before the search where the budget is less than the least time of the other phases.
    """
    from hetesynth.pipeline.ways import strategy_of
    from hetesynth.synthesis.registry import demand_strategy
    from hetesynth.synthesis.solve import Solver
    from hetesynth.verify.schedule import schedule_violations

    demand_strategy(request.strategy, sized=request.size is not None)
    demand_callable(request)
    clock = Clock()
    request = replace(request, budget=replace(request.budget, cuts=Cuts()))
    if request.size is not None:
        return _for_size(request, request.size, clock, progress, warn)
    chunking, problem = load_problem(request, clock)
    clock.expect(request, problem.ranks, warn)
    chosen = strategy_of(request, chunking.topology)
    with clock.phase("search"):
        outcome = Solver(chosen, request.budget, schedule_violations, progress).solve(problem)
    match outcome:
        case Infeasible(reason=reason):
            raise no_schedule(reason)
        case GaveUp(reason=reason):
            way_out = "raise --time-budget or --max-peers, or use --strategy auto"
            late = " in the time budget" if request.budget.cuts else ""
            raise HetesynthError(f"{reason}{late}", code="HS602", exit_code=3, help=way_out)
    clock.phases["bound"] = outcome.bound_seconds
    clock.phases["search"] -= outcome.bound_seconds
    return finished(request, chunking, problem, outcome, clock, progress)


def demand_callable(request: Request) -> None:
    """HetesynthError HS513 or HS514 when a target never runs what is asked for, or runs it for other roots too."""
    for wanted in request.targets:
        demand_collective(wanted, request.collective)
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=request.single_root or request.every_root)


def _for_size(request: Request, size: int, clock: Clock, progress: Progress, warn: Warn) -> Synthesis:
    """The contender with the quickest program for ``size`` whose programs fit every target."""
    from hetesynth.pipeline.sizing import contest
    from hetesynth.synthesis.interrupts import finishing

    started = now()
    demand_addressable(request, size)
    with clock.phase("parse"):
        topology = load_topology(request.topology)
    clock.expect(request, topology.ranks, warn)
    with clock.phase("search"):
        programs = timed_target(request) is not None
        held = contest(topology, sparing(request), size, progress, programs=programs)
    unfit: list[tuple[str, float, str]] = []
    refusal: HetesynthError | None = None
    with finishing(), clock.phase("predict"):
        deadline = _for_programs(request.budget, started)
        ranked = ranked_programs(topology, request, held.contenders, held.size, deadline)
    for found in ranked:
        contender, pacing = found.contender, found.pacing
        short = held.interrupted or bool(request.budget.cuts)
        ending = "time" if short and not held.cut_short else held.ending
        choice = Choice(contender.label, len(held.tried), short, tuple(unfit), ending)
        try:
            made = for_contender(request, contender, held.pace(contender), clock, choice, progress, pacing)
            demand_carried(made, size)
            return made if made.program_seconds else replace(made, program_seconds=found.seconds)
        except HetesynthError as error:
            if error.code not in UNFIT:
                raise
            refusal = refusal or error
            unfit.append((contender.label, contender.seconds, error.message))
    raise refusal or InternalError("a contest without contenders")


def _for_programs(budget: Budget, started: float) -> Deadline:
    """When no other program is timed: at the end of ``budget``, but its last part is there in any case."""
    whole = budget.deadline(started)
    last = now() + (1 - FOR_SCHEDULES) * (budget.seconds or 0.0)
    return replace(whole, at=max(whole.at, last))


def timed_target(request: Request) -> Target | None:
    """The target whose programs are timed: the first in MSCCL XML."""
    found = (target for target in request.targets if target.format == "msccl-xml")
    return None if request.schedule_only else next(found, None)


def sparing(request: Request) -> Request:
    """``request`` with the part of its budget that is for schedules where their programs are to be timed too."""
    budget = request.budget
    if budget.seconds is None or timed_target(request) is None:
        return request
    return replace(request, budget=replace(budget, seconds=FOR_SCHEDULES * budget.seconds))


def ranked_programs(
    topology: Topology, request: Request, contenders: Sequence[Contender], size: int, deadline: Deadline
) -> list[Ranked]:  # fmt: skip
    """The contenders by the time of their programs for ``timed_target``; as they are without one."""
    from hetesynth.emitter.lower import LoweringOptions
    from hetesynth.pipeline.program_choice import Ranked, by_program

    target = timed_target(request)
    if target is None:
        return [Ranked(contender) for contender in contenders]
    options = LoweringOptions("timed", profile=target, servers=topology.servers)
    return by_program(topology, contenders, size, options, deadline)


def for_contender(
    request: Request, contender: Contender, pace: Pace, clock: Clock, choice: Choice | None = None,
    progress: Progress = silent, pacing: Pacing | None = None,
) -> Synthesis:  # fmt: skip
    """What ``contender`` becomes. Raises HetesynthError with a code of ``UNFIT`` when it does not fit a target."""
    stated = replace(
        request, chunks=contender.chunks, strategy=contender.name, chunking=contender.chunking.options
    )
    return finished(
        stated, contender.chunking, contender.problem, contender.solution, clock, progress, pace, choice, pacing
    )


def finished(
    request: Request, chunking: Chunking, problem: Problem, solution: Solution, clock: Clock,
    progress: Progress = silent, known: Pace | None = None, choice: Choice | None = None,
    pacing: Pacing | None = None,
) -> Synthesis:  # fmt: skip
    """A schedule that was found becomes judged files. ``known``: its time, where that was predicted already."""
    from hetesynth.pipeline.least_time import told_unasked
    from hetesynth.pipeline.pace import implied_size, pace
    from hetesynth.synthesis.interrupts import finishing
    from hetesynth.verify.schedule import schedule_violations

    with finishing():  # the schedule is found: a first Ctrl-C no longer loses it
        with clock.phase("verify"):
            _demand_clean(schedule_violations(problem, solution.schedule), "schedule")
            seconds = min(RECHECK_SECONDS, request.budget.seconds or math.inf)
            rechecked = recheck_bound(problem, solution.bound, seconds, request.budget.cuts)
            _demand_clean(list(rechecked.violations), "bound")
        with clock.phase("predict"):
            size = implied_size(problem, chunking.chunk_bytes)
            unasked = told_unasked(request.budget.seconds)
            timed = known or pace(chunking.topology, problem, solution.schedule, size, unasked)
        progress("lowering", solution.schedule.makespan)
        programs: dict[str, Emitted] = {}
        if not request.schedule_only:
            programs = _programs(problem, solution, chunking, request, clock, timed.size, pacing)
        files = {suffix: program.data for suffix, program in programs.items()}
        with clock.phase("lower"):
            files[SCHEDULE_SUFFIX] = _schedule_json(problem, solution, chunking)
        with clock.phase("predict"):
            most = PROGRAM_TRANSFERS[request.size is not None]
            told = len(solution.schedule.transfers) <= most
            taken = _program_seconds(chunking.topology, programs, timed.size) if told else None
        return Synthesis(
            request, chunking.topology, chunking, problem, solution, programs, files, clock, rechecked, timed,
            choice, taken, *_ended(request.budget, solution, choice),
        )  # fmt: skip


def _ended(budget: Budget, solution: Solution, choice: Choice | None) -> tuple[bool, Ending, tuple[str, ...]]:
    """Whether the clock or Ctrl-C decided anything, what ended the search, and what the clock decided."""
    ending = solution.ending if choice is None else choice.ending
    short = solution.cut_short or (choice is not None and choice.cut_short) or bool(budget.cuts)
    return short, ending, budget.cuts.told()


def _program_seconds(topology: Topology, programs: dict[str, Emitted], size: int) -> float | None:
    """What the first program takes, simulated from its bytes; None where there is none."""
    from hetesynth.pipeline.plan_clock import first_clock
    from hetesynth.pipeline.simulation import CostOptions

    found = first_clock(topology, programs, CostOptions())
    return None if found is None else found.timeline(size).makespan


def no_schedule(reason: str) -> HetesynthError:
    """The answer is no."""
    return HetesynthError(
        f"there is no schedule: {reason}",
        code="HS601",
        exit_code=1,
        help="check the direction of the links; `hetesynth topo show --all` lists them",
    )


def suffixes(request: Request) -> list[str]:
    """What follows the common part of the name of every file that ``request`` makes, programs first."""
    programs = [] if request.schedule_only else [s for _, _, s in variants(request.targets, request.collective)]
    return [*programs, SCHEDULE_SUFFIX]


def variants(targets: tuple[Target, ...], collective: CollectiveName) -> Iterator[tuple[Target, bool, str]]:
    """(target, in place, suffix) of every program that the collective can have."""
    for wanted in targets:
        for in_place in forms(wanted, collective):
            backend = FORMATS[wanted.format]
            yield wanted, in_place, backend.suffix(wanted, in_place=in_place, several=len(targets) > 1)


def _programs(
    problem: Problem, solution: Solution, chunking: Chunking, request: Request, clock: Clock,
    size: int, pacing: Pacing | None = None,
) -> dict[str, Emitted]:  # fmt: skip
    """Lower, write to memory, read back and execute: every program, one after the other. ``size``: for which the
    quicker receives are taken."""
    from hetesynth.emitter.lower import LoweringOptions
    from hetesynth.pipeline.fused_receives import emitted

    programs: dict[str, Emitted] = {}
    for wanted, in_place, suffix in variants(request.targets, problem.collective.name):
        backend = FORMATS[wanted.format]
        name = _program_name(chunking.topology.name, problem, "inplace" if in_place else "")
        with clock.phase("lower"):
            servers = chunking.topology.servers
            options = LoweringOptions(
                name, in_place, not in_place, profile=wanted, servers=servers,
                min_bytes=request.min_bytes, max_bytes=request.max_bytes, pacing=pacing,
            )  # fmt: skip
            programs[suffix] = emitted(chunking.topology, problem, solution.schedule, size, options)
            if problem.ranks > MANY_RANKS:
                gc.collect()  # gives back what the lowering used before the judge needs as much
        with clock.phase("verify"):
            found = backend.judge(programs[suffix].data, name, problem, wanted, servers)
            _demand_clean(found, f"program {name}{suffix}")
    return programs


def _program_name(cluster: str, problem: Problem, kind: str) -> str:
    """Name of the program; of a long name of the cluster the beginning, as runtimes keep 63 letters in all."""
    from hetesynth.emitter.msccl_xml import MAX_NAME

    asked = problem.collective
    root = "" if asked.root is None else f"root{asked.root}"
    parts = [asked.name, f"c{asked.chunks_per_rank}", root, kind]
    what = "_".join(p for p in parts if p)
    return f"{cluster[: MAX_NAME - 1 - len(what)]}_{what}"


def _demand_clean(found: list[Violation], what: str) -> None:
    if found:
        raise InternalError(f"the {what} does not verify ({len(found)} findings): {found[0].message}")


def _schedule_json(problem: Problem, solution: Solution, chunking: Chunking) -> bytes:
    from hetesynth.emitter.schedule_json import write_schedule_json

    header: dict[str, str | int | float | bool] = {
        "cluster": chunking.topology.name,
        "generator": f"hetesynth {__version__}",
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "rounding": chunking.options.rounding,
        "lower_bound": solution.bound.steps,
        "bound_method": solution.bound.method,
        "bound_proof": solution.bound.proof,
        "proven_optimal": solution.certificate.proven_optimal,
    }
    return write_schedule_json(problem, solution.schedule, header)


def write(synthesis: Synthesis, stem: Path) -> list[Path]:
    """Write every file of ``synthesis`` next to each other, all or none; the paths, XML first."""
    from hetesynth.emitter.outputs import write_all

    paths = {stem.with_name(stem.name + suffix): data for suffix, data in synthesis.files.items()}
    with synthesis.clock.phase("write"):
        write_all(paths)
    return list(paths)
