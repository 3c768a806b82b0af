"""Repair: an old schedule file and a changed cluster to a verified schedule with its programs, and what changed.

In: a ``RepairRequest``. Out: a ``Repaired``: judged files as of ``synth``, how far it is from the new bounds, and
what each rank sends and receives now that it did not before. Nothing is written here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn

from hetesynth.engine.addressing import demand_addressable, demand_carried
from hetesynth.engine.artifacts import Synthesis, demand_callable, finished
from hetesynth.engine.carry_over import CarryOver, demand_same_cluster
from hetesynth.engine.choice.repaired import Repair
from hetesynth.engine.compilation import compilation
from hetesynth.engine.formats import suffixes
from hetesynth.engine.recipe import Recipe, recipe_in
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.schedule_json import MAX_BYTES, ScheduleDocument, read_schedule_json
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import Target, target
from hetesynth.model.topology import Rank
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.collectives import collective
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.language import TopologySource, load_topology


@dataclass(frozen=True, slots=True)
class Changed:
    """In ``step``, chunk ``chunk`` to or from rank ``peer``; ``reduce``: it is added there."""

    step: int
    chunk: int
    peer: Rank
    reduce: bool


@dataclass(frozen=True)
class ScheduleDifference:
    """``sends[r]`` and ``receives[r]``: what rank r does now and did not before. ``same``: transfers that are in
    their step still, ``moved``: in another; ``new``; ``gone``: those of the old schedule that are not."""

    sends: tuple[tuple[Changed, ...], ...]
    receives: tuple[tuple[Changed, ...], ...]
    same: int
    moved: int
    new: int
    gone: int

    def plain(self, changes: CarryOver, problem: Problem) -> list[dict[str, Any]]:
        """For JSON: every rank with its name, its old number, and what it does now."""
        old = {new: before for before, new in enumerate(changes.ranks) if new is not None}
        chunks = problem.collective.chunks

        def rows(entries: tuple[Changed, ...]) -> list[dict[str, Any]]:
            return [
                {
                    "step": e.step,
                    "chunk": e.chunk,
                    "block": list(chunks[e.chunk].block),
                    "peer": e.peer,
                    "adds": e.reduce,
                }
                for e in entries
            ]

        return [
            {
                "rank": rank,
                "gpu": changes.after.vertices[rank].name,
                "old_rank": old.get(rank),
                "sends": rows(self.sends[rank]),
                "receives": rows(self.receives[rank]),
            }
            for rank in range(problem.ranks)
        ]


def schedule_difference(
    changes: CarryOver, document: ScheduleDocument, problem: Problem, schedule: Schedule
) -> ScheduleDifference:  # fmt: skip
    """From the schedule of ``document`` to ``schedule``, a solution of ``problem``."""
    before = collective(document.collective, document.ranks, document.chunks_per_rank, document.root)
    carried = changes.transfers(document.schedule, before, problem.collective)
    starts: dict[tuple[int, int, bool], list[int]] = {}
    for t in carried.transfers:
        starts.setdefault((t.chunk, t.link, t.reduce), []).append(t.start)
    others: list[Transfer] = []
    for t in schedule.transfers:
        old = starts.get((t.chunk, t.link, t.reduce), [])
        if t.start in old:
            old.remove(t.start)
        else:
            others.append(t)
    fresh = [t for t in others if not _taken_up(starts, t)]
    sends: list[list[Changed]] = [[] for _ in range(problem.ranks)]
    receives: list[list[Changed]] = [[] for _ in range(problem.ranks)]
    for t in fresh:
        arc = problem.arcs[t.link]
        sends[arc.src].append(Changed(t.start, t.chunk, arc.dst, t.reduce))
        receives[arc.dst].append(Changed(t.start, t.chunk, arc.src, t.reduce))
    same, moved, new = len(schedule.transfers) - len(others), len(others) - len(fresh), len(fresh)
    gone = len(document.schedule.transfers) - same - moved
    return ScheduleDifference(tuple(map(tuple, sends)), tuple(map(tuple, receives)), same, moved, new, gone)


def _taken_up(starts: dict[tuple[int, int, bool], list[int]], transfer: Transfer) -> bool:
    """Whether the old schedule has it in another step, which is then taken up."""
    old = starts.get((transfer.chunk, transfer.link, transfer.reduce))
    if not old:
        return False
    old.pop(0)
    return True


COMPOSITION = "hetesynth-composition"


@dataclass(frozen=True)
class RepairRequest:
    """What is asked for: the old schedule (None: it is at hand), the cluster it was made for, the changed one.

    ``targets``: empty: those of the old schedule. ``schedule_only``: no programs, as where the old one had none.
    """

    schedule: Path | None
    before: TopologySource
    after: TopologySource
    budget: Budget
    targets: tuple[Target, ...] = ()
    schedule_only: bool = False
    single_root: bool = False
    policy: Policy = DEFAULT


@dataclass(frozen=True)
class Repaired:
    """The files of the repaired schedule, and how it differs from the old one."""

    asked: RepairRequest
    document: ScheduleDocument
    changes: CarryOver
    synthesis: Synthesis
    difference: ScheduleDifference


def repair(asked: RepairRequest, progress: Progress = no_progress) -> Repaired:
    """Repair the schedule. Raises HetesynthError where files do not fit together or there is no schedule."""
    document, recipe = _read(asked)
    before = load_topology(asked.before)
    demand_same_cluster(document, before, str(asked.schedule))
    return repaired(asked, document, recipe, CarryOver(before, load_topology(asked.after)), progress)


def repaired(
    asked: RepairRequest, document: ScheduleDocument, recipe: Recipe, changes: CarryOver,
    progress: Progress = no_progress,
) -> Repaired:  # fmt: skip
    """The same where the files were read."""
    request = _request(asked, document, recipe, changes)
    demand_callable(request)
    run = compilation(request, progress)
    work = Repair(run, document, recipe, changes)
    if work.size is not None:
        demand_addressable(request, work.size)
    solved = work.solved()
    synthesis = finished(solved)
    if synthesis.programs and synthesis.program_seconds is None:
        synthesis = replace(synthesis, program_seconds=solved.programs.seconds)
    if work.size is not None:
        demand_carried(synthesis, work.size)
    difference = schedule_difference(changes, document, solved.problem, solved.solution.schedule)
    return Repaired(asked, document, changes, synthesis, difference)


def _request(asked: RepairRequest, document: ScheduleDocument, recipe: Recipe, changes: CarryOver) -> Request:
    """What the old schedule was asked for with, on the changed cluster."""
    targets = asked.targets or tuple(target(name) for name in recipe.targets)
    return Request(
        topology=asked.after, collective=document.collective, chunks=recipe.chunks,
        root=changes.root(document.root), budget=asked.budget, chunking=recipe.chunking,
        exclusion=recipe.exclusion, schedule_only=asked.schedule_only or not recipe.programs,
        max_peers=recipe.max_peers, targets=targets, single_root=asked.single_root, size=recipe.size,
        runtime=NCCL_TABLES if recipe.runtime_costs else None, objective="time", policy=asked.policy,
    )  # fmt: skip


def suffixes_of(asked: RepairRequest) -> list[str]:
    """Of the files that a repair writes."""
    document, recipe = _read(asked)
    targets = asked.targets or tuple(target(name) for name in recipe.targets)
    schedule_only = asked.schedule_only or not recipe.programs
    return [*suffixes(Request(asked.after, document.collective, schedule_only=schedule_only, targets=targets))]


def _read(asked: RepairRequest) -> tuple[ScheduleDocument, Recipe]:
    """The old schedule and how it was made."""
    if asked.schedule is None:
        raise InternalError("a repair of no schedule file")
    document = read_document(asked.schedule)
    return document, recipe_in(document, str(asked.schedule))


def read_document(path: Path) -> ScheduleDocument:
    """The schedule in the file. Raises HetesynthError HS520, HS540 or, for a composition, HS653."""
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(
            f"cannot read {path}: {reason}", code="HS540", help="give a schedule JSON that `hetesynth synth` wrote"
        ) from error
    if f'"{COMPOSITION}"'.encode() in data[:200]:
        _refuse_composition(path)
    return read_schedule_json(data, str(path))


def _refuse_composition(path: Path) -> NoReturn:
    raise HetesynthError(
        f"{path} is a composition of pods: the inside of a pod was solved once for all of its type",
        code="HS653",
        help="synthesize the changed cluster anew, with --strategy composition or without",
    )
