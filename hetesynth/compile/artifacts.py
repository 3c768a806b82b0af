"""From a schedule to judged files.

In: a request, a problem and a schedule for it. Out: a ``Synthesis``: the schedule replayed, its bound rechecked,
every program read back and executed, and the bytes of all files; nothing is written before all of it is there.
"""

from __future__ import annotations

import gc
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hetesynth import __version__
from hetesynth.chunking import Chunking
from hetesynth.compile.formats import FORMATS, SCHEDULE_SUFFIX, Emitted, demand_collective, variants
from hetesynth.compile.over_nics import network_warnings
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.problem import MANY_RANKS, RECHECK_SECONDS, recheck_bound
from hetesynth.compile.request import Request
from hetesynth.compile.roots import Warned, call_warnings, demand_single_root
from hetesynth.errors import InternalError
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.target import MAX_PROGRAM_NAME
from hetesynth.model.topology import Topology
from hetesynth.model.verdict import Violation
from hetesynth.synthesis.search import Ending, Progress, silent

if TYPE_CHECKING:
    from hetesynth.compile.time_optimality import TimeOptimality
    from hetesynth.lowering.msccl.throttling import Throttling
    from hetesynth.synthesis.solve import Solution
    from hetesynth.verify.bounds.judge import Recheck

PROGRAM_TRANSFERS = (150, 5_000)  # of a schedule whose program is simulated too: unasked, and for a size

UNFIT = frozenset({"HS501", "HS502", "HS503", "HS504", "HS508", "HS509"})  # a program past a limit of its target


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
    clock: PhaseTimer
    recheck: Recheck  # of the bound
    time_optimality: TimeOptimality
    choice: Choice | None = None  # for a size
    program_seconds: float | None = None  # what the first MSCCL program takes at the size of ``time_optimality``
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


def demand_callable(request: Request) -> None:
    """HetesynthError HS513 or HS514 when a target never runs what is asked for, or runs it for other roots too."""
    for wanted in request.targets:
        demand_collective(wanted, request.collective)
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=request.single_root or request.every_root)


def finished(
    request: Request, chunking: Chunking, problem: Problem, solution: Solution, clock: PhaseTimer,
    progress: Progress = silent, known: TimeOptimality | None = None, choice: Choice | None = None,
    throttling: Throttling | None = None,
) -> Synthesis:  # fmt: skip
    """A schedule that was found becomes judged files. ``known``: its time, where that was predicted already."""
    from hetesynth.compile.least_time import told_unasked
    from hetesynth.compile.time_optimality import implied_size, time_optimality
    from hetesynth.synthesis.interrupts import finishing
    from hetesynth.verify.schedule.judge import schedule_violations

    with finishing():  # the schedule is found: a first Ctrl-C no longer loses it
        with clock.phase("verify"):
            _demand_clean(schedule_violations(problem, solution.schedule, request.policy.verify), "schedule")
            seconds = min(RECHECK_SECONDS, request.budget.seconds or math.inf)
            rechecked = recheck_bound(problem, solution.bound, seconds, request.budget.cuts)
            _demand_clean(list(rechecked.violations), "bound")
        with clock.phase("predict"):
            size = implied_size(problem, chunking.chunk_bytes)
            unasked = told_unasked(request.budget.seconds)
            timed = known or time_optimality(chunking.topology, problem, solution.schedule, size, unasked)
        progress("lowering", solution.schedule.makespan)
        programs: dict[str, Emitted] = {}
        if not request.schedule_only:
            programs = _programs(problem, solution, chunking, request, clock, timed.size, throttling)
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
    from hetesynth.compile.plan_predictor import first_predictor
    from hetesynth.compile.predictors import CostOptions

    found = first_predictor(topology, programs, CostOptions())
    return None if found is None else found.timeline(size).makespan


def _programs(
    problem: Problem, solution: Solution, chunking: Chunking, request: Request, clock: PhaseTimer,
    size: int, throttling: Throttling | None = None,
) -> dict[str, Emitted]:  # fmt: skip
    """Lower, write to memory, read back and execute: every program, one after the other. ``size``: for which the
    quicker receives are taken."""
    from hetesynth.compile.fused_receives import emitted
    from hetesynth.lowering.msccl.lower import LoweringOptions

    programs: dict[str, Emitted] = {}
    for wanted, in_place, suffix in variants(request.targets, problem.collective.name):
        backend = FORMATS[wanted.format]
        name = _program_name(chunking.topology.name, problem, "inplace" if in_place else "")
        with clock.phase("lower"):
            servers = chunking.topology.servers
            options = LoweringOptions(
                name, in_place, not in_place, profile=wanted, servers=servers,
                min_bytes=request.min_bytes, max_bytes=request.max_bytes, throttling=throttling,
                policy=request.policy.lowering,
            )  # fmt: skip
            programs[suffix] = emitted(chunking.topology, problem, solution.schedule, size, options)
            if problem.ranks > MANY_RANKS:
                gc.collect()  # gives back what the lowering used before the judge needs as much
        with clock.phase("verify"):
            found = backend.judge(programs[suffix].data, name, problem, wanted, servers)
            _demand_clean(found, f"program {name}{suffix}")
    return programs


def _program_name(cluster: str, problem: Problem, kind: str) -> str:
    """Name of the program; of a long name of the cluster the beginning, as runtimes keep so many letters."""
    asked = problem.collective
    root = "" if asked.root is None else f"root{asked.root}"
    parts = [asked.name, f"c{asked.chunks_per_rank}", root, kind]
    what = "_".join(p for p in parts if p)
    return f"{cluster[: MAX_PROGRAM_NAME - 1 - len(what)]}_{what}"


def _demand_clean(found: list[Violation], what: str) -> None:
    if found:
        raise InternalError(f"the {what} does not verify ({len(found)} findings): {found[0].message}")


def _schedule_json(problem: Problem, solution: Solution, chunking: Chunking) -> bytes:
    from hetesynth.files.schedule_json import write_schedule_json

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
    from hetesynth.files.atomic import write_all

    paths = {stem.with_name(stem.name + suffix): data for suffix, data in synthesis.files.items()}
    with synthesis.clock.phase("write"):
        write_all(paths)
    return list(paths)
