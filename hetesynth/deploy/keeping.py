"""What is deployed of a cell: the newer result, or the older one where the newer is worse or fails its gates.

An older cell stays only where it still verifies on the cluster as it is now and meets the gates. Its record then
tells what was not deployed for it, so that the next build decides the same without making anything.
"""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hetesynth.deploy import compute
from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.compute import calls
from hetesynth.deploy.figures import Figures, errors_of, figures, gate_verdict, named
from hetesynth.deploy.folder.cells import INSTEAD_OF, MEASURED_ON, DeployedCell
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.clusters import ASIDE
from hetesynth.deploy.manifest.values import Cell
from hetesynth.deploy.outcome import CellReport, Status
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.schedule_replay import asked_collective, stated_step
from hetesynth.engine.verify import Question
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import ScheduleDocument, read_schedule_json
from hetesynth.model.rank_places import places_document
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import target
from hetesynth.search.chunking import ROUNDINGS, ChunkingOptions, Rounding, chunk

WORSE = 0.01  # share of the time that a newer program may be slower: less is not worth one of another cluster


def refusals(job: Job, old: DeployedCell) -> tuple[str, ...]:
    """Why ``old`` does not verify on the cluster of ``job`` as it is now; empty: it does."""
    try:
        reasons = differences(job, old) or tuple(_wrong(job, old))
    except (HetesynthError, ValueError) as error:
        reasons = (getattr(error, "message", str(error)),)
    return tuple(dict.fromkeys(reasons))


def differences(job: Job, old: DeployedCell) -> tuple[str, ...]:
    """Why ``old`` is another cell than that of ``job``, although it has its name: it is for other calls. Raises
    ValueError where its record is none."""
    record, cell, reasons = old.record, job.cell, list[str]()
    stated = figures(record)
    if (record.get("collective"), record.get("target")) != (cell.collective, cell.target):
        reasons.append("it is of another collective or for another target")
    if stated.ranks != job.cluster.ranks:
        reasons.append(f"it is for {stated.ranks} ranks; there are {job.cluster.ranks} now")
    elif stated.calls != calls(cell, job.cluster.ranks):
        reasons.append("it is for other sizes")
    if stated.root != job.cell.root:
        reasons.append(f"it is for root {stated.root}, not {job.cell.root}")
    if isinstance(cell.extent, int) and stated.chunks != cell.extent:
        reasons.append(f"it has {stated.chunks} chunks, not {cell.extent}")
    return tuple(reasons)


def _wrong(job: Job, old: DeployedCell) -> Iterator[str]:
    """What the judges say, of the schedule and of each program."""
    schedules = [name for name in old.files if name.endswith(SCHEDULE_SUFFIX)]
    if old.files and (not schedules or len(schedules) == len(old.files)):
        yield "it has no schedule" if not schedules else "it has no program"
    documents = {name: read_schedule_json(old.files[name], name) for name in schedules}
    stated = figures(old.record).steps
    steps = max((document.schedule.makespan for document in documents.values()), default=stated)
    if steps != stated:
        yield f"its record says {stated} steps, its schedule has {steps}"
    for name, document in documents.items():
        yield from _schedule_refusals(document, name, job)
    question = Question(root=job.cell.root, targets=(target(job.cell.target),), given=job.cluster)
    with tempfile.TemporaryDirectory() as folder:  # what was read is judged, not what stands there by now
        for name, data in old.files.items():
            path = Path(folder) / place(name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(data)
        for name in old.files:
            if name not in schedules:
                errors = errors_of(Path(folder) / place(name), question)
                yield from [f"{name}: {named(errors)}"] if errors else []


def _schedule_refusals(document: ScheduleDocument, name: str, job: Job) -> Iterator[str]:
    """What the replay of a schedule says, over links of the cluster as it is now."""
    from hetesynth.judge.schedule.judge import schedule_violations

    goal, topology = asked_collective(document, name), job.cluster
    asked = job.cell.collective, topology.ranks, job.cell.root
    if (document.collective, document.ranks, document.root) != asked:
        yield "its schedule is of another collective"
        return
    before, now = document.header.get("ranks"), places_document(topology)
    if not isinstance(before, list) or len(before) != len(now):
        yield "it does not say which rank is which GPU"
        return
    for rank, pair in enumerate(zip(before, now, strict=True)):
        if pair[0] != pair[1]:
            was, is_ = (
                f"{one.get('host') or one.get('server')}.gpu{one.get('gpu')}"
                if isinstance(one, dict)
                else "unnamed"
                for one in pair
            )
            yield f"rank {rank} is {is_} now, it was {was}"
            return
    # the link of the same number where its ends are the same, else the next between these two GPUs
    free: dict[tuple[int, int], list[int]] = defaultdict(list)
    for i, link in enumerate(topology.links):
        free[link.src, link.dst].append(i)
    same = {i: i for i, src, dst in document.links if i in free[src, dst]}
    for i in same:
        free[topology.links[i].src, topology.links[i].dst].remove(i)
    lost = []
    for i, src, dst in document.links:
        if i not in same and free[src, dst]:
            same[i] = free[src, dst].pop(0)
        elif i not in same:
            lost.append(f"{topology.vertices[src].name} -> {topology.vertices[dst].name}")
    if lost:
        yield f"the link {named(lost)} is gone"
        return
    # a step is as long as when it was made, or as the cluster has it now: a schedule that keeps every law in steps
    # of one length is right; how long it takes is the simulation's
    size, step = document.header.get("chunk_bytes"), stated_step(document)
    chunk_bytes = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    rule: Rounding = next((r for r in ROUNDINGS if r == document.header.get("rounding")), "ceil")
    steps = [ChunkingOptions(chunk_bytes, "slowest", rule, document.header.get("latencies") is not False)]
    if step is not None and abs(step / chunk(topology, steps[0]).tau_ref - 1) > Fraction(1, 10**9):
        steps.insert(0, replace(steps[0], reference=step))
    transfers = [Transfer(t.start, t.end, t.chunk, same[t.link], t.reduce) for t in document.schedule.transfers]
    schedule, wrong = Schedule.of(transfers, document.schedule.makespan), []
    for options in steps:
        wrong = schedule_violations(chunk(topology, options).problem(goal), schedule)
        if not wrong:
            return
    yield named(list(dict.fromkeys(w.message for w in wrong)))


def measured_here(job: Job, old: DeployedCell, sizes: Sequence[int]) -> dict[str, Any]:
    """The record of ``old`` with the times of its program on the cluster as it is now, at ``sizes``. No bound on
    steps was proved for it there."""
    record = {**without_notes(old).record, "sizes": size_rows(job, old, sizes)}
    if record.get("topology_sha256") != job.topology_sha256:
        record |= {"lower_bound": None, "proven_optimal": False, MEASURED_ON: job.topology_sha256}
    return record


def size_rows(job: Job, old: DeployedCell, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """What the program of ``old`` takes on the cluster as it is now, as records say it."""
    programs = [program for program in old.programs if program.name in old.files]
    return compute.size_rows(old.files, programs, job.cluster, job.cell, sizes)


def without_notes(old: DeployedCell) -> DeployedCell:
    """``old`` as it was made, without what a build said of it later."""
    record = {key: value for key, value in old.record.items() if key not in (INSTEAD_OF, MEASURED_ON)}
    return replace(old, record=record)


@dataclass(frozen=True, slots=True)
class Decision:
    """``cell``: what the folder is to hold, None: nothing. ``aside``: whether what was made belongs aside;
    ``result``: it, None where it was made by an earlier build."""

    report: CellReport
    cell: DeployedCell | None
    aside: bool = False
    result: CellResult | None = None


def aside_folder(cell: Cell) -> Path:
    """Where the result of ``cell`` is that is not deployed, relative to the output."""
    return Path(ASIDE, cell.cluster, cell.target)


def settled(job: Job, old: DeployedCell | None, accept_worse: bool = False) -> Decision | None:
    """What was decided for ``job`` before, from what the folder says of it; None: the result is needed."""
    key = job.key
    if old is None or old.key != key:
        return None
    if old.record.get(MEASURED_ON, old.record.get("topology_sha256")) != job.topology_sha256:
        return None  # it stayed while nothing could be made for another cluster
    try:
        verdict = gate_verdict(job.cell, figures(old.record))
        if old.made_for == key:
            if verdict.met:
                report = CellReport(job.cell, "current", key, old.record, old.record, None, verdict.notes)
                return Decision(report, old)
            report = CellReport(job.cell, "withheld", key, None, old.record, old.record, verdict.failures)
            return Decision(report, None, aside=True, result=CellResult(key, old.files, old.record))
        candidate = old.record[INSTEAD_OF]
        newer, older = figures(candidate), figures(old.record)
        failures = gate_verdict(job.cell, newer).failures
        slower = worse(job.cell, newer, older)
    except (KeyError, TypeError, ValueError):
        return None
    if not verdict.met or (not failures and (not slower or accept_worse)):
        return None
    why = failures or (f"{slower}; {_way_out(job.cell)}",)
    status: Status = "withheld" if failures else "kept"
    report = CellReport(job.cell, status, key, old.record, old.record, candidate, (*why, *verdict.notes))
    return Decision(report, old, aside=True)


def decided(
    job: Job, result: CellResult, old: DeployedCell | None, *, accept_worse: bool, cached: bool
) -> Decision:
    """What becomes of ``result``, where the folder holds ``old``."""
    previous, key = None if old is None else old.record, result.key
    newer = figures(result.record)
    verdict = gate_verdict(job.cell, newer)
    sizes = [row.size for row in newer.sizes]
    older, reasons = (None, ()) if old is None else _measured(job, old, sizes)
    slower = "" if older is None else worse(job.cell, newer, figures(older.record))
    if older is not None and (slower or not verdict.met):
        reasons = refusals(job, older) or gate_verdict(job.cell, figures(older.record)).failures
    notes = (*verdict.notes, *_not_staying(reasons))
    if verdict.met and (not slower or reasons or accept_worse):
        done: Status = "cached" if cached else "built"
        report = CellReport(job.cell, done, key, result.record, previous, None, notes)
        return Decision(report, DeployedCell(job.cell.name, key, key, result.record, result.files))
    if older is None or reasons:
        report = CellReport(job.cell, "withheld", key, None, previous, result.record, (*verdict.failures, *notes))
        return Decision(report, None, aside=True, result=result)
    stays = replace(older, key=key, record={**older.record, INSTEAD_OF: result.record})
    why = verdict.failures or (f"{slower}; {_way_out(job.cell)}",)
    status: Status = "kept" if verdict.met else "withheld"
    report = CellReport(job.cell, status, key, stays.record, previous, result.record, (*why, *verdict.notes))
    return Decision(report, stays, aside=True, result=result)


def failed(job: Job, message: str, old: DeployedCell | None) -> Decision:
    """What becomes of a cell for which nothing could be made: the older one stays where it still verifies. It
    stays under its own key, so that the next build tries again."""
    older, reasons = None, tuple[str, ...]()
    if old is not None:
        try:
            sizes = [row.size for row in figures(old.record).sizes]
        except ValueError:
            sizes = []
        older, reasons = _measured(job, old, sizes)
    if older is not None:
        reasons = refusals(job, older)
    stays = None if reasons else older
    told = _not_staying(reasons) if stays is None else ("the older one stays: it still verifies",)
    record, previous = None if stays is None else stays.record, None if old is None else old.record
    return Decision(CellReport(job.cell, "failed", job.key, record, previous, None, (message, *told)), stays)


def _not_staying(reasons: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"the older one does not stay: {reason}" for reason in reasons)


def worse(cell: Cell, newer: Figures, older: Figures) -> str:
    """In which way ``newer`` is worse than ``older``; empty where it is not. Times count by their geometric mean
    over the sizes; where chunks are stated, steps count where the newer is not quicker."""
    ratio, most = 1.0, (0.0, "")
    for row in newer.sizes:
        before = older.at(row.size)
        if before is None:
            raise ValueError("they were not measured at the same sizes")
        if math.isinf(row.us) or math.isinf(before.us):
            continue
        share = row.us / before.us
        ratio *= share ** (1 / len(newer.sizes))
        words = f"{before.text}, the newer takes {row.us:,.4g} us"
        most = max(most, (share, words), key=lambda pair: pair[0])
    if ratio > 1 + WORSE:
        share = ratio - 1
        much = f"{100 * share:.2g} %" if share < 1 else f"{1 + share:.3g} times"
        return f"the newer is {much} slower: the older takes {most[1]}"
    longer = isinstance(cell.extent, int) and newer.steps > older.steps
    if longer and ratio >= 1 - WORSE:
        return f"the newer has {newer.steps} steps, the older {older.steps}, and is not quicker"
    return ""


def _way_out(cell: Cell) -> str:
    return f"it is in {aside_folder(cell).as_posix()}, --accept-worse deploys it"


def _measured(job: Job, old: DeployedCell, sizes: list[int]) -> tuple[DeployedCell | None, tuple[str, ...]]:
    """``old`` with its times on the cluster as it is now, or why it has none."""
    try:
        reasons = differences(job, old)
        if reasons:
            return None, reasons
        return replace(without_notes(old), record=measured_here(job, old, sizes)), ()
    except (HetesynthError, ValueError) as error:
        return None, (getattr(error, "message", str(error)),)
