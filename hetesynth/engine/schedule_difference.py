"""What a repaired schedule does that the old one did not: rank by rank, step by step.

In: the changes of the cluster, the old document, the new problem and schedule. Out: a ``ScheduleDifference``.
A transfer is the same where its chunk, its link and its kind are; it may be in another step. Where there are more
or fewer chunks per rank than before, chunks are other data, and every transfer is new.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetesynth.engine.carry_over import CarryOver
from hetesynth.files.schedule_json import ScheduleDocument
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.search.collectives import collective


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
