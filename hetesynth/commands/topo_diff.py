"""Two topologies compared, and what that means for schedules made for the first.

In: two topology files, schedule files or folders of them. Out: changes, and a standing for each schedule: the
judge of schedules decides whether it still delivers and fits.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

from hetesynth.chunking import ROUNDINGS, ChunkingOptions, Rounding, chunk
from hetesynth.compile.schedule_sizes import asked_collective
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import MAX_BYTES, ScheduleDocument, read_schedule_json
from hetesynth.frontend import load_topology
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.report.topology_changes import TopologyChange, topology_changes

MAX_FILES = 1000
SHOWN = 3  # wires and links that a reason names

Verdict = Literal["valid", "slower", "over capacity", "lost link", "other ranks", "not of the first", "unreadable"]


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule on the second topology. Only ``valid`` and ``slower`` still run."""

    path: Path
    verdict: Verdict
    reason: str = ""

    @property
    def runs(self) -> bool:
        """Whether the schedule still delivers on the second topology within its capacities."""
        return self.verdict in ("valid", "slower")


@dataclass(frozen=True, slots=True)
class TopologyDifference:
    """What changed, and where every schedule stands."""

    before: Topology
    after: Topology
    changes: tuple[TopologyChange, ...]
    schedules: tuple[Standing, ...]


def topology_difference(
    before: Path, after: Path, schedules: Sequence[Path] = (), policy: Policy = DEFAULT
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
        for path in sorted(place.rglob("*.json")):
            if path.is_file() and _is_schedule(path):
                paths[path] = None
    if len(paths) > MAX_FILES:
        raise HetesynthError(
            f"{len(paths)} schedules are more than the {MAX_FILES} that are judged at once",
            code="HS575",
            help="name a smaller folder, or the files",
        )
    return list(paths)


def _is_schedule(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return b'"hetesynth-schedule"' in file.read(200)
    except OSError:
        return True  # reading it will say why not


def _standing(path: Path, old: Topology, new: Topology, policy: Policy) -> Standing:
    try:
        with path.open("rb") as file:
            document = read_schedule_json(file.read(MAX_BYTES + 1), str(path))
        asked_collective(document, str(path))
    except OSError as error:
        return Standing(path, "unreadable", error.strerror or str(error))
    except HetesynthError as error:
        return Standing(path, "unreadable", error.message)
    ends = [(link.src, link.dst) for link in old.links]
    if document.ranks != old.ranks or any(i >= len(ends) or ends[i] != (u, v) for i, u, v in document.links):
        return Standing(path, "not of the first", "it was made for other ranks or links than the first file has")
    if document.ranks != new.ranks:
        return Standing(path, "other ranks", f"it is for {old.ranks} ranks; there are {new.ranks} now")
    moved = next((r for r in range(old.ranks) if old.vertices[r].name != new.vertices[r].name), None)
    if moved is not None:
        names = f"{new.vertices[moved].name} now, it was {old.vertices[moved].name}"
        return Standing(path, "other ranks", f"rank {moved} is {names}")
    return _judged(path, document, (old, new), policy)


def _judged(
    path: Path, document: ScheduleDocument, clusters: tuple[Topology, Topology], policy: Policy
) -> Standing:
    """Links are the same where their GPUs are and, of several between two GPUs, their way or else their place."""
    from hetesynth.verify.schedule.judge import schedule_violations

    old, new = clusters
    same = _matching_links(old, new, [i for i, _, _ in document.links])
    lost = [i for i, link in same.items() if link is None]
    if lost:
        return Standing(path, "lost link", _named([_link_words(old, i) for i in lost]))
    transfers = [
        Transfer(t.start, t.end, t.chunk, same[t.link] or 0, t.reduce) for t in document.schedule.transfers
    ]
    schedule = Schedule.of(transfers, document.schedule.makespan)
    goal = asked_collective(document, str(path))
    problem = chunk(new, _options(document, old)).problem(goal)
    wrong = schedule_violations(problem, schedule, policy.verify)
    if wrong:
        return Standing(path, "over capacity", _named(list(dict.fromkeys(w.message for w in wrong))))
    slow = _slower(old, new, [(i, j) for i, j in same.items() if j is not None])
    return Standing(path, "slower", _named(slow)) if slow else Standing(path, "valid")


def _options(document: ScheduleDocument, old: Topology) -> ChunkingOptions:
    """Chunks and steps as the schedule has them on the first topology."""
    size, rounding, told = (document.header.get(key) for key in ("chunk_bytes", "rounding", "tau_ref_us"))
    chunk_bytes = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    rule: Rounding = next((r for r in ROUNDINGS if r == rounding), "ceil")
    tau_ref = chunk(old, ChunkingOptions(chunk_bytes, "slowest", rule)).tau_ref
    if isinstance(told, (int, float)) and not isinstance(told, bool) and told > 0:
        stated = Fraction(str(told)) / 1_000_000
        tau_ref = tau_ref if abs(float(stated / tau_ref) - 1) < 1e-9 else stated
    return ChunkingOptions(chunk_bytes or chunk(old).chunk_bytes, tau_ref, rule)


def _matching_links(old: Topology, new: Topology, links: Iterable[int]) -> dict[int, int | None]:
    """The link of ``new`` for each of ``links``: over the same way, else the next of these two GPUs."""
    ways: dict[tuple[int, int], list[int]] = defaultdict(list)
    for j, link in enumerate(new.links):
        ways[link.src, link.dst].append(j)
    same: dict[int, int | None] = {}
    rest = []
    for i in links:
        candidates = ways[old.links[i].src, old.links[i].dst]
        way = _way(old, i)
        match = next((j for j in candidates if _way(new, j) == way), None)
        if match is None:
            rest.append(i)
        else:
            same[i] = match
            candidates.remove(match)
    for i in rest:
        candidates = ways[old.links[i].src, old.links[i].dst]
        same[i] = candidates.pop(0) if candidates else None
    return same


def _way(topology: Topology, link: int) -> tuple[str, ...]:
    return tuple(topology.vertices[topology.wires[w].dst].name for w in topology.links[link].wires)


def _slower(old: Topology, new: Topology, links: Iterable[tuple[int, int]]) -> list[str]:
    """Wires that the schedule uses and that carry less than before, or links that take longer to begin with."""
    before, slow = {}, {}
    for i, j in links:
        for w in old.links[i].wires:
            before[old.wire_name(w)] = old.wires[w]
        for w in new.links[j].wires:
            name, wire = new.wire_name(w), new.wires[w]
            was = before.get(name)
            if was is None or name in slow or wire.bandwidth is None:
                continue
            rate = wire.bandwidth * wire.lanes
            if was.bandwidth is None or rate < was.bandwidth * was.lanes:
                limit = "no limit" if was.bandwidth is None else f"{float(was.bandwidth * was.lanes) / 1e9:.4g}"
                slow[name] = f"{name} {limit} -> {float(rate) / 1e9:.4g} GB/s"
        a, b = old.links[i], new.links[j]
        if _way(old, i) != _way(new, j) and (
            b.bandwidth * b.lanes < a.bandwidth * a.lanes or b.latency > a.latency
        ):
            slow[_link_words(new, j)] = f"{_link_words(new, j)} goes another, slower way"
    return list(slow.values())


def _link_words(topology: Topology, link: int) -> str:
    ends = topology.links[link]
    return f"{topology.vertices[ends.src].name} -> {topology.vertices[ends.dst].name} ({ends.kind})"


def _named(words: Sequence[str]) -> str:
    more = f"; and {len(words) - SHOWN} more" if len(words) > SHOWN else ""
    return "; ".join(words[:SHOWN]) + more
