"""A cell that is deployed, checked: whether it is what a build would leave there. Runs in any process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.compute import calls, plan_name, record_of_files
from hetesynth.deploy.figures import figures, gate_verdict, named
from hetesynth.deploy.folder.cells import INSTEAD_OF, MEASURED_ON, DeployedCell, check_selection
from hetesynth.deploy.job import Job
from hetesynth.deploy.keeping import measured_here, refusals, settled
from hetesynth.deploy.outcome import CellReport
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.target import target
from hetesynth.processes import side_by_side

T = TypeVar("T")
SHARE = 4  # cells that a process gets at once
NEAR = 1e-6  # of a figure: machines may differ in the last digits of a simulation
OF_ITS_FILES = ("sizes", "programs", "files")
OF_THE_JOB = ("cell", "cluster", "extent", "topology_sha256", "options", "versions")


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """A cell to be checked against its job. ``old``: the cell that a folder holds, its files whole."""

    job: Job
    old: DeployedCell

    @classmethod
    def given(cls, job: Job, result: CellResult) -> CheckedCell:
        """Return ``result``, which a cache or another machine gave for ``job``, as a cell to be checked."""
        return cls(job, DeployedCell(job.cell.name, job.key, job.key, result.record, result.files))


def by_key(checked: CheckedCell) -> CellReport:
    """Return the report on a cell that follows from keys, records and gates, without any judge."""
    job, old = checked.job, checked.old

    def report(status: Any, *messages: str) -> CellReport:
        return CellReport(job.cell, status, job.key, old.record, old.record, None, messages)

    if old.key != job.key:
        changed = old.record.get("topology_sha256") != job.topology_sha256
        same = old.record.get("versions") == dict(job.versions)
        return report(
            "stale", "the cluster changed" if changed else "its options changed" if same else "versions changed"
        )
    try:
        figures(old.record)
    except ValueError as error:
        return report("invalid", str(error))
    decision = settled(job, old)
    if decision is None:
        return report("stale", "what was decided for it no longer holds: a build decides anew")
    return replace(decision[0], record=old.record)


def judged(checked: CheckedCell) -> CellReport:
    """Return the report of ``by_key`` with what judges and the simulation say of the files as they are."""
    report, old = by_key(checked), checked.old
    if report.status == "invalid":
        return report
    reasons = refusals(checked.job, old)
    if report.status != "stale":
        reasons = reasons or wrong_record(checked)
        return replace(report, status="invalid", messages=reasons) if reasons else report
    try:
        before = figures(old.record)
        now = None if reasons else figures(measured_here(checked.job, old, [row.size for row in before.sizes]))
    except (HetesynthError, ValueError) as error:
        now, reasons = None, (str(error),)
    if now is None:
        stands = f"on the cluster as it is it does not verify: {named(reasons)}"
    else:
        failures = gate_verdict(checked.job.cell, now).failures
        gates = f"; gates that it does not meet there: {named(failures)}" if failures else ""
        stands = f"it still verifies on the cluster as it is: {'; '.join(row.text for row in now.sizes)}{gates}"
    return replace(report, messages=(*report.messages, stands))


def objections(given: CheckedCell) -> tuple[str, ...]:
    """Return why a given cell is not what its job asks for; empty: it is. The judges read its files, and its times
    are simulated again; only its record says that its steps are the least."""
    job, cell = given.job, given.job.cell
    ending = f".{target(cell.target).format.extension}"
    stems = {name.partition(".")[0] for name in given.old.files}
    needed = {f"{stem}{end}" for stem in stems for end in (SCHEDULE_SUFFIX, ending)}
    allowed = {*needed, *(f"{stem}.inplace{ending}" for stem in stems)}
    if (isinstance(cell.extent, int) and stems != {cell.stem}) or not needed <= given.old.files.keys() <= allowed:
        return ("its files are called otherwise",)
    if given.old.record.keys() & {INSTEAD_OF, MEASURED_ON}:
        return ("it says what a folder says of an older one that stays",)
    try:
        check_selection([(cell.name, given.old.programs)], target(cell.target))
        return refusals(job, given.old) or wrong_record(given, OF_THE_JOB)
    except (HetesynthError, InternalError, ValueError) as error:
        return (str(error),)


def each(
    judge: Callable[[CheckedCell], T], waiting: Sequence[CheckedCell], jobs: int
) -> Iterator[tuple[CheckedCell, T]]:
    """Yield each cell and what ``judge`` says of it, by ``jobs`` processes. Cells of one cluster and collective
    are judged one after the other by one process, which then has the library's times at their sizes."""
    together = sorted(waiting, key=lambda one: (one.job.cell.cluster, one.job.cell.collective, one.job.cell.stem))
    help_ = "raise the limit of memory, or use fewer --jobs"
    killed = HetesynthError("a process that judged was killed", code="HS855", help=help_, exit_code=3)
    processes = min(jobs, -(-len(waiting) // SHARE))
    yield from zip(together, side_by_side(judge, together, processes, SHARE, killed), strict=True)


def wrong_record(checked: CheckedCell, also: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return messages on fields of the record that do not follow from its files or, in ``also``, from the job."""
    job, record, cell = checked.job, checked.old.record, checked.job.cell
    steps, bound = figures(record).steps, record.get("lower_bound") or 0
    if bound > steps or (record.get("proven_optimal") is True and bound != steps):
        return ("its record says that other steps are proved to be the least",)
    sizes = tuple(row["size"] for row in record["sizes"][:1])
    gives = record_of_files(job, job.cluster, checked.old.files, sizes)
    low, high = calls(cell, job.cluster.ranks)
    for program in gives["programs"]:
        name = program["name"]
        named_right = not target(cell.target).format.plan or program["title"] == plan_name(cell.cluster, name)
        inside = low <= program["min_bytes"] and (not high or 0 < program["max_bytes"] <= high)
        form = tuple(program[field] for field in ("collective", "ranks", "root", "out_of_place"))
        asked = cell.collective, job.cluster.ranks, cell.root, ".inplace." not in name
        if not (named_right and inside and form == asked):
            return (f"{name} is for other calls",)
    others = (name for name in (*OF_ITS_FILES, *also) if not _alike(gives[name], record.get(name)))
    return tuple(f"its record says other {name} than come out" for name in others)


def _alike(one: Any, other: Any) -> bool:
    """True where both are the same, but for the last digits of numbers, words about them, the order of rows."""
    if isinstance(one, float) and isinstance(other, int | float) and not isinstance(other, bool):
        return math.isclose(one, other, rel_tol=NEAR)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[key], other[key]) for key in one.keys() - {"verdict"})
    if isinstance(one, list) and isinstance(other, list):
        ordered = [
            sorted(rows, key=lambda row: str(isinstance(row, dict) and row.get("name"))) for rows in (one, other)
        ]
        return len(one) == len(other) and all(map(_alike, *ordered))
    return bool(one == other)
