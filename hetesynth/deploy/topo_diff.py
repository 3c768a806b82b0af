"""Two topologies compared, and what that means for schedules made for the first."""

import math
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hetesynth.deploy.figures import errors_of, named
from hetesynth.deploy.verify_files import is_meant
from hetesynth.engine.schedule_replay import chunking_of, problem_of, read_schedule
from hetesynth.engine.verify import Question, is_schedule
from hetesynth.errors import HetesynthError
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.report.topology_changes import TopologyChange, topology_changes
from hetesynth.search.chunking import chunk
from hetesynth.topology.language import load_topology

NOT_OF_THE_FIRST = "it was made for other ranks or links than the first file has"
Verdict = Literal[
    "valid", "slower", "over capacity", "lost link", "other ranks", "not of the first", "wrong", "unreadable"
]
MAX_FILES = 1000


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule or program on the second topology. Only ``valid`` and ``slower`` still run."""

    path: Path
    verdict: Verdict
    reason: str = ""

    @property
    def runs(self) -> bool:
        """True where it still delivers on the second topology within its capacities."""
        return self.verdict in ("valid", "slower")


def _matching_links(old: Topology, new: Topology, links: Iterable[int]) -> dict[int, int | None]:
    """Return the link of ``new`` for each of ``links``: over the same vertices, else the next of its two GPUs."""
    between: dict[tuple[int, int], list[int]] = defaultdict(list)
    ways = {_way(new, j) for j in range(len(new.links))}
    for j, link in enumerate(new.links):
        between[link.src, link.dst].append(j)
    same: dict[int, int | None] = {}
    for i in sorted(links, key=lambda i: _way(old, i) not in ways):
        candidates = between[old.links[i].src, old.links[i].dst]
        exact = (j for j in candidates if _way(new, j) == _way(old, i))
        same[i] = next(exact, candidates[0] if candidates else None)
        candidates[:] = [j for j in candidates if j != same[i]]
    return same


def _way(topology: Topology, link: int) -> tuple[str, ...]:
    ends = topology.links[link]
    vertices = (ends.src, *(topology.wires[w].dst for w in ends.wires))
    return tuple(topology.vertices[v].name for v in vertices)


def _link_words(topology: Topology, link: int) -> str:
    ends = topology.links[link]
    return f"{topology.vertices[ends.src].name} -> {topology.vertices[ends.dst].name} ({ends.kind})"


def _slower(old: Topology, new: Topology, links: Iterable[tuple[int, int]]) -> list[str]:
    """Wires that the schedule uses and that carry less than before, else links that are slower or begin later."""

    def rates(topology: Topology, used: Iterable[int]) -> dict[str, float]:
        wires = {w for link in used for w in topology.links[link].wires}
        limited = {w: topology.wires[w].bandwidth for w in sorted(wires)}
        return {
            topology.wire_name(w): math.inf if rate is None else float(rate * topology.wires[w].lanes) / 1e9
            for w, rate in limited.items()
        }

    pairs = list(links)
    before, after = rates(old, (i for i, _ in pairs)), rates(new, (j for _, j in pairs))
    slow = [
        f"{name} {before[name]:.4g} -> {rate:.4g} GB/s"
        for name, rate in after.items()
        if rate < before.get(name, 0.0)
    ]
    ends = [(j, old.links[i], new.links[j]) for i, j in pairs]
    dearer = (j for j, a, b in ends if b.bandwidth * b.lanes < a.bandwidth * a.lanes or b.latency > a.latency)
    return slow or [f"{_link_words(new, j)} is slower" for j in dearer]


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """The changes between two topologies, and the standing of every schedule."""

    before: Topology
    after: Topology
    changes: tuple[TopologyChange, ...]
    schedules: tuple[Standing, ...]


def topology_difference(
    before: os.PathLike[str], after: os.PathLike[str], schedules: Sequence[Path] = ()
) -> TopologyDifference:
    """Compare two files, and judge the schedules at ``schedules``. HetesynthError for what cannot be read."""
    paths: dict[Path, None] = {}  # of folders the files in them that say that they are schedules, by name
    for place in schedules:
        listed = sorted((*place.rglob("*.json"), *place.rglob("*.xml"))) if place.is_dir() else [place]
        paths |= dict.fromkeys(path for path in listed if path == place or is_meant(path))
    if len(paths) > MAX_FILES:
        message = f"{len(paths)} schedules are more than the {MAX_FILES} that are judged at once"
        raise HetesynthError(message, code="HS575", help="name a smaller folder, or the files")
    old, new = load_topology(before), load_topology(after)
    standings = []
    for path in paths:
        try:
            standings.append(Standing(path, *_standing(path, old, new)))
        except (HetesynthError, OSError) as error:
            reason = error.message if isinstance(error, HetesynthError) else error.strerror or str(error)
            standings.append(Standing(path, "unreadable", reason))
    return TopologyDifference(old, new, tuple(topology_changes(old, new)), tuple(standings))


def _standing(path: Path, old: Topology, new: Topology) -> tuple[Verdict, str]:
    """Return the verdict on the file at ``path``, made for ``old``, on ``new``, and the reason. Links are the same
    where their GPUs are and, of several between two GPUs, their vertices or else their order."""
    from hetesynth.judge.schedule.judge import schedule_violations

    ends = [(link.src, link.dst) for link in old.links]
    document = read_schedule(path) if is_schedule(path) else None
    if document is not None:
        used = [i for i, _, _ in document.links]
        fits = document.ranks == old.ranks and all(
            i < len(ends) and ends[i] == (u, v) for i, u, v in document.links
        )
    else:  # which links a program sends over is not looked at
        used = [*range(len(ends))]
        try:
            if errors := errors_of(path, Question(given=old)):
                return "wrong", named(errors)
            fits = True
        except HetesynthError as error:
            if error.code != "HS604":  # it is for other ranks
                raise
            fits = False
    if not fits:
        return "not of the first", NOT_OF_THE_FIRST
    names = [[topology.vertices[rank].name for rank in range(topology.ranks)] for topology in (old, new)]
    if names[0] != names[1]:
        return "other ranks", f"it is for {old.ranks} ranks; there are {new.ranks} now, or they are other GPUs"
    same = _matching_links(old, new, used)
    if document is not None:
        lost = [_link_words(old, i) for i, link in same.items() if link is None]
        if lost:
            return "lost link", named(lost)
        transfers = [
            Transfer(t.start, t.end, t.chunk, same[t.link] or 0, t.reduce) for t in document.schedule.transfers
        ]
        schedule = Schedule.of(transfers, document.schedule.makespan)
        problem = problem_of(document, chunk(new, chunking_of(document, old)), str(path))
        if wrong := schedule_violations(problem, schedule):
            return "over capacity", named(list(dict.fromkeys(w.message for w in wrong)))
    elif errors := errors_of(path, Question(given=new)):
        return "lost link", named(errors)
    slow = _slower(old, new, [(i, j) for i, j in same.items() if j is not None])
    return ("slower", named(slow)) if slow else ("valid", "")
