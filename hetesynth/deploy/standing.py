"""Where a cell that was deployed before stands on its cluster as it is now: whether it verifies, what it takes.

In: a cell of the manifest, the cluster, what is in the folder. Out: reasons why it does not verify there, and its
record with figures of that cluster. Two judges decide: one replays the schedule with the capacities that the
cluster has now, one reads each program back and executes it, every connection a link. The cluster that it was made
for is not needed: the schedule document tells the ends of its links and which rank is which GPU.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.deploy import compute
from hetesynth.deploy.cluster_standing import named
from hetesynth.deploy.compute import calls, cell_request, root_of
from hetesynth.deploy.figures import figures
from hetesynth.deploy.folder.folder import DeployedCell, place
from hetesynth.deploy.folder.records import INSTEAD_OF, MEASURED_ON
from hetesynth.deploy.manifest.values import Cell
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.schedule_replay import asked_collective, stated_step
from hetesynth.engine.verify import Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import ScheduleDocument, read_schedule_json
from hetesynth.model.rank_places import places_document
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import ROUNDINGS, ChunkingOptions, Rounding, chunk

if TYPE_CHECKING:
    from hetesynth.policy import Policy


@dataclass(frozen=True, slots=True)
class Place:
    """A cell of the manifest and its cluster as it is now."""

    cell: Cell
    topology: Topology = field(repr=False)
    topology_sha256: str

    @property
    def root(self) -> int | None:
        """The rank that a rooted collective begins or ends at."""
        return root_of(self.cell)


def refusals(at: Place, old: DeployedCell, policy: Policy) -> tuple[str, ...]:
    """Why ``old`` does not verify at ``at``; empty: it does."""
    try:
        reasons = differences(at, old) or tuple(_wrong(at, old, policy))
    except HetesynthError as error:
        reasons = (error.message,)
    except ValueError as error:
        reasons = (str(error),)
    return tuple(dict.fromkeys(reasons))


def differences(at: Place, old: DeployedCell) -> tuple[str, ...]:
    """Why ``old`` is another cell than the one at ``at``, although it has its name: it is for other calls. Raises
    ValueError where its record is none."""
    return tuple(_differences(at, old))


def _differences(at: Place, old: DeployedCell) -> Iterator[str]:
    record, cell = old.record, at.cell
    stated = figures(record)
    if (record.get("collective"), record.get("target")) != (cell.collective, cell.target):
        yield "it is of another collective or for another target"
    if stated.ranks != at.topology.ranks:
        yield f"it is for {stated.ranks} ranks; there are {at.topology.ranks} now"
    elif stated.calls != calls(cell, at.topology.ranks):
        yield "it is for other sizes"
    if stated.root != at.root:
        yield f"it is for root {stated.root}, not {at.root}"
    if isinstance(cell.extent, int) and stated.chunks != cell.extent:
        yield f"it has {stated.chunks} chunks, not {cell.extent}"


def _wrong(at: Place, old: DeployedCell, policy: Policy) -> Iterator[str]:
    """What the judges say, of the schedule and of each program."""
    schedules = [name for name in old.files if name.endswith(SCHEDULE_SUFFIX)]
    if old.files and (not schedules or len(schedules) == len(old.files)):
        yield "it has no schedule" if not schedules else "it has no program"
    stated, steps = figures(old.record).steps, schedule_steps(old)
    if steps is not None and steps != stated:
        yield f"its record says {stated} steps, its schedule has {steps}"
    for name in schedules:
        yield from schedule_refusals(read_schedule_json(old.files[name], name), name, at, policy)
    question = Question(root=at.root, targets=(target(at.cell.target),), given=at.topology)
    with _on_disk(old) as folder:
        for name in old.files:
            if name not in schedules:
                judged = judge_file(folder / place(name), question)
                errors = dict.fromkeys(f.violation.message for f in judged.findings if f.level == "error")
                yield from [f"{name}: {named(list(errors))}"] if errors else []


@contextmanager
def _on_disk(old: DeployedCell) -> Iterator[Path]:
    """A folder of this run's own with the files of ``old``: what was read is judged."""
    with tempfile.TemporaryDirectory() as name:
        for file, data in old.files.items():
            path = Path(name) / place(file)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        yield Path(name)


def schedule_refusals(document: ScheduleDocument, name: str, at: Place, policy: Policy) -> Iterator[str]:
    """What the replay of a schedule says, over links of the cluster as it is now."""
    from hetesynth.judge.schedule.judge import schedule_violations

    goal, topology = asked_collective(document, name), at.topology
    if (document.collective, document.ranks, document.root) != (at.cell.collective, topology.ranks, at.root):
        yield "its schedule is of another collective"
        return
    moved = _moved(document, topology)
    if moved:
        yield moved
        return
    links, lost = _matching(document, topology)
    if lost:
        yield f"the link {named(lost)} is gone"
        return
    transfers = [Transfer(t.start, t.end, t.chunk, links[t.link], t.reduce) for t in document.schedule.transfers]
    schedule, wrong = Schedule.of(transfers, document.schedule.makespan), []
    for options in _steps(document, topology):
        wrong = schedule_violations(chunk(topology, options).problem(goal), schedule, policy.verify)
        if not wrong:
            return
    yield named(list(dict.fromkeys(w.message for w in wrong)))


def _moved(document: ScheduleDocument, topology: Topology) -> str:
    """Which rank is another GPU now; empty where none is."""
    before, now = document.header.get("ranks"), places_document(topology)
    if not isinstance(before, list) or len(before) != len(now):
        return "it does not say which rank is which GPU"
    for rank, (was, is_) in enumerate(zip(before, now, strict=True)):
        if was != is_:
            return f"rank {rank} is {_gpu(is_)} now, it was {_gpu(was)}"
    return ""


def _gpu(place_: Any) -> str:
    if not isinstance(place_, dict):
        return "unnamed"
    return f"{place_.get('host') or place_.get('server')}.gpu{place_.get('gpu')}"


def _matching(document: ScheduleDocument, topology: Topology) -> tuple[dict[int, int], list[str]]:
    """The link of the cluster for each of the document's: the one of the same number where its ends are the same,
    else the next between these two GPUs; and the pairs that have none left, in words."""
    free: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, link in enumerate(topology.links):
        free[link.src, link.dst].append(i)
    same: dict[int, int] = {}
    lost = []
    for i, src, dst in document.links:
        if i in free[src, dst]:
            free[src, dst].remove(i)
            same[i] = i
    for i, src, dst in document.links:
        if i not in same and free[src, dst]:
            same[i] = free[src, dst].pop(0)
        elif i not in same:
            lost.append(f"{topology.vertices[src].name} -> {topology.vertices[dst].name}")
    return same, lost


def _steps(document: ScheduleDocument, topology: Topology) -> Iterator[ChunkingOptions]:
    """How long a step is: as when it was made, or as the cluster has it now, where all is slower alike. A schedule
    that keeps every law in steps of one length is right; how long it takes is the simulation's."""
    size, rounding, before = (
        document.header.get("chunk_bytes"),
        document.header.get("rounding"),
        stated_step(document),
    )
    chunk_bytes = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    rule: Rounding = next((r for r in ROUNDINGS if r == rounding), "ceil")
    now = ChunkingOptions(chunk_bytes, "slowest", rule, document.header.get("latencies") is not False)
    if before is not None and abs(before / chunk(topology, now).tau_ref - 1) > Fraction(1, 10**9):
        yield replace(now, reference=before)
    yield now


def measured_here(at: Place, old: DeployedCell, sizes: Sequence[int]) -> dict[str, Any]:
    """The record of ``old`` with the times of its program on the cluster as it is now, at ``sizes``. No bound on
    steps was proved for it there."""
    record = {key: value for key, value in old.record.items() if key not in (INSTEAD_OF, MEASURED_ON)}
    rows = size_rows(at, old, sizes)
    if record.get("topology_sha256") == at.topology_sha256:
        return {**record, "sizes": rows}
    return {
        **record, "lower_bound": None, "proven_optimal": False, "sizes": rows, MEASURED_ON: at.topology_sha256,
    }  # fmt: skip


def size_rows(at: Place, old: DeployedCell, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """What the program of ``old`` takes on the cluster as it is now, as records say it."""
    options = CostOptions.of(cell_request(at.cell, at.topology))
    programs = [program for program in old.programs if program.name in old.files]
    return compute.size_rows(old.files, programs, at.topology, at.cell, sizes, options)


def without_notes(old: DeployedCell) -> DeployedCell:
    """``old`` as it was made, without what a build said of it later."""
    record = {key: value for key, value in old.record.items() if key not in (INSTEAD_OF, MEASURED_ON)}
    return dataclasses.replace(old, record=record)


def schedule_steps(old: DeployedCell) -> int | None:
    """How many steps the longest schedule of ``old`` has; None where it has none."""
    schedules = (name for name in old.files if name.endswith(SCHEDULE_SUFFIX))
    return max((read_schedule_json(old.files[n], n).schedule.makespan for n in schedules), default=None)
