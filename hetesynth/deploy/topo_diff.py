"""Two topologies compared, and what that means for schedules made for the first.

In: two topology files; schedules, programs and plans, or folders of them. Out: changes, and a standing for each
such file: its judge decides whether it still delivers and fits.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.cluster_standing import (
    NOT_OF_THE_FIRST,
    Standing,
    link_words,
    matching_links,
    moved_rank,
    named,
    ranks_words,
    slower,
)
from hetesynth.deploy.program_standing import program_standing
from hetesynth.engine.formats import kind_of
from hetesynth.engine.schedule_replay import asked_collective, chunking_of
from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.schedule_json import MAX_BYTES, ScheduleDocument, read_schedule_json
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.report.topology_changes import TopologyChange, topology_changes
from hetesynth.search.chunking import chunk
from hetesynth.topology.language import load_topology

MAX_FILES = 1000
HEAD = 1024  # bytes of a file that say what it is


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """What changed, and where every schedule stands."""

    before: Topology
    after: Topology
    changes: tuple[TopologyChange, ...]
    schedules: tuple[Standing, ...]


def topology_difference(
    before: os.PathLike[str], after: os.PathLike[str], schedules: Sequence[Path] = (), policy: Policy = DEFAULT
) -> TopologyDifference:
    """Compare two files, and judge the schedules at ``schedules``. HetesynthError for what cannot be read."""
    paths = _schedule_files(schedules)
    old, new = load_topology(before), load_topology(after)
    standings = tuple(_standing(path, old, new, policy) for path in paths)
    return TopologyDifference(old, new, tuple(topology_changes(old, new)), standings)


def _schedule_files(places: Iterable[Path]) -> list[Path]:
    """Files as stated; of folders the JSON files in them that say that they are schedules, by name."""
    paths: dict[Path, None] = {}
    for place in places:
        if not place.is_dir():
            paths[place] = None
            continue
        for path in sorted((*place.rglob("*.json"), *place.rglob("*.xml"))):
            if path.is_file() and _is_meant(path):
                paths[path] = None
    if len(paths) > MAX_FILES:
        raise HetesynthError(
            f"{len(paths)} schedules are more than the {MAX_FILES} that are judged at once",
            code="HS575",
            help="name a smaller folder, or the files",
        )
    return list(paths)


def _is_meant(path: Path) -> bool:
    """Whether a file of a folder is a schedule, MSCCL XML or an MSCCL++ plan."""
    try:
        with open_regular(path) as file:
            head = file.read(HEAD)
    except OSError:
        return True  # reading it will say why not
    if path.suffix == ".xml":
        return b"<algo" in head
    return b'"hetesynth-schedule"' in head or (b'"collective"' in head and kind_of(head, path) == "plan")


def _standing(path: Path, old: Topology, new: Topology, policy: Policy) -> Standing:
    try:
        with open_regular(path) as file:
            kind = kind_of(file.read(HEAD), path)
    except OSError as error:
        return Standing(path, "unreadable", error.strerror or str(error))
    if kind == "schedule":
        return _schedule_standing(path, old, new, policy)
    return program_standing(path, old, new)


def _schedule_standing(path: Path, old: Topology, new: Topology, policy: Policy) -> Standing:
    try:
        with open_regular(path) as file:
            document = read_schedule_json(file.read(MAX_BYTES + 1), str(path))
        asked_collective(document, str(path))
    except OSError as error:
        return Standing(path, "unreadable", error.strerror or str(error))
    except HetesynthError as error:
        return Standing(path, "unreadable", error.message)
    ends = [(link.src, link.dst) for link in old.links]
    if document.ranks != old.ranks or any(i >= len(ends) or ends[i] != (u, v) for i, u, v in document.links):
        return Standing(path, "not of the first", NOT_OF_THE_FIRST)
    if document.ranks != new.ranks:
        return Standing(path, "other ranks", ranks_words(old, new))
    moved = moved_rank(old, new)
    if moved:
        return Standing(path, "other ranks", moved)
    return _judged(path, document, (old, new), policy)


def _judged(
    path: Path, document: ScheduleDocument, clusters: tuple[Topology, Topology], policy: Policy
) -> Standing:
    """Links are the same where their GPUs are and, of several between two GPUs, their way or else their place."""
    from hetesynth.judge.schedule.judge import schedule_violations

    old, new = clusters
    same = matching_links(old, new, [i for i, _, _ in document.links])
    lost = [i for i, link in same.items() if link is None]
    if lost:
        return Standing(path, "lost link", named([link_words(old, i) for i in lost]))
    transfers = [
        Transfer(t.start, t.end, t.chunk, same[t.link] or 0, t.reduce) for t in document.schedule.transfers
    ]
    schedule = Schedule.of(transfers, document.schedule.makespan)
    goal = asked_collective(document, str(path))
    problem = chunk(new, chunking_of(document, old)).problem(goal)
    wrong = schedule_violations(problem, schedule, policy.verify)
    if wrong:
        return Standing(path, "over capacity", named(list(dict.fromkeys(w.message for w in wrong))))
    slow = slower(old, new, [(i, j) for i, j in same.items() if j is not None])
    return Standing(path, "slower", named(slow)) if slow else Standing(path, "valid")
