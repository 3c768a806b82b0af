"""A cell that is deployed, checked: whether it is what a build would leave there. Runs in any process."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.compute import calls, plan_name, provenance
from hetesynth.deploy.figures import figures, gate_verdict, named
from hetesynth.deploy.folder.cells import INSTEAD_OF, MEASURED_ON, DeployedCell, check_selection, program_file
from hetesynth.deploy.job import Job
from hetesynth.deploy.keeping import measured_here, refusals, settled, size_rows
from hetesynth.deploy.outcome import CellReport
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.processes import side_by_side

T = TypeVar("T")
SHARE = 4  # cells that a process gets at once
NEAR = 1e-6  # of a figure: machines may differ in the last digits of a simulation


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """What is to be checked. ``old``: the cell that a folder holds, its files whole."""

    job: Job
    old: DeployedCell

    @classmethod
    def given(cls, job: Job, result: CellResult) -> CheckedCell:
        """``result``, which a cache or another machine gave for ``job``."""
        return cls(job, DeployedCell(job.cell.name, job.key, job.key, result.record, result.files))


def by_key(checked: CheckedCell) -> CellReport:
    """What keys, records and gates say, without any judge."""
    job, old = checked.job, checked.old
    if old.key != job.key:
        return CellReport(job.cell, "stale", job.key, old.record, old.record, None, tuple(changes(job, old)))
    try:
        figures(old.record)
    except ValueError as error:
        return CellReport(job.cell, "invalid", job.key, old.record, old.record, None, (str(error),))
    decision = settled(job, old)
    if decision is None:
        messages = ("what was decided for it no longer holds: a build decides anew",)
        return CellReport(job.cell, "stale", job.key, old.record, old.record, None, messages)
    return replace(decision.report, record=old.record)


def judged(checked: CheckedCell) -> CellReport:
    """The same, and what the judges and the simulation say of the files as they are."""
    report, old = by_key(checked), checked.old
    if report.status == "invalid":
        return report
    reasons = refusals(checked.job, old)
    if report.status != "stale":
        reasons = reasons or tuple(_wrong_record(checked))
        return replace(report, status="invalid", messages=reasons) if reasons else report
    stands, before = "", figures(old.record)
    try:
        now = None if reasons else figures(measured_here(checked.job, old, [row.size for row in before.sizes]))
    except (HetesynthError, ValueError) as error:
        now, reasons = None, (str(error),)
    if now is None:
        stands = f"on the cluster as it is it does not verify: {named(reasons)}"
    else:  # it still verifies on the cluster as it is: 12.3 us for 64 KB, 11.2 us before
        words = []
        for row in now.sizes:
            was = before.at(row.size)
            changed = was is not None and not math.isclose(was.us, row.us, rel_tol=NEAR)
            words.append(f"{row.text}, {was.us:,.4g} us before" if was is not None and changed else row.text)
        failures = gate_verdict(checked.job.cell, now).failures
        gates = f"; gates that it does not meet there: {named(failures)}" if failures else ""
        stands = f"it still verifies on the cluster as it is: {'; '.join(words)}{gates}"
    return replace(report, messages=(*report.messages, stands))


def objections(given: CheckedCell) -> tuple[str, ...]:
    """Why what was given is not what the job asks for; empty: it is. The judges read its files, and its times are
    simulated again; that so many steps are the least, its record alone says."""
    try:
        wrong = tuple(_other_inputs(given)) or refusals(given.job, given.old)
        return wrong or tuple(_wrong_record(given))
    except (HetesynthError, InternalError, ValueError) as error:
        return (str(error),)


def _other_inputs(given: CheckedCell) -> Iterator[str]:
    """What the record says of the job that it was made for, and of this one is not so."""
    job, cell, record = given.job, given.job.cell, given.old.record
    stated = provenance(job) | {"cluster": cell.cluster, "target": cell.target, "extent": cell.extent_text}
    del stated["key"]
    other = [name for name, value in stated.items() if record.get(name) != value]
    if other:
        yield f"it was made for another job: {named(other)}"
    if record.keys() & {INSTEAD_OF, MEASURED_ON}:
        yield "it says what a folder says of an older one that stays"
    ending = ".json" if target(cell.target).format.plan else ".xml"
    stems = {name.partition(".")[0] for name in given.old.files}
    needed = {f"{stem}{end}" for stem in stems for end in (SCHEDULE_SUFFIX, ending)}
    allowed = {*needed, *(f"{stem}.inplace{ending}" for stem in stems)}
    if (isinstance(cell.extent, int) and stems != {cell.stem}) or not needed <= given.old.files.keys() <= allowed:
        yield "its files are called otherwise"
    check_selection([(cell.name, given.old.programs)], target(cell.target))


def each(
    judge: Callable[[CheckedCell], T], waiting: Sequence[CheckedCell], jobs: int
) -> Iterator[tuple[CheckedCell, T]]:
    """What ``judge`` says of each cell, by ``jobs`` processes. Cells of one cluster and collective are judged one
    after the other by the same process, which has the library's times at their sizes then."""
    together = sorted(waiting, key=lambda one: (one.job.cell.cluster, one.job.cell.collective, one.job.cell.stem))
    help_ = "raise the limit of memory, or use fewer --jobs"
    killed = HetesynthError("a process that judged was killed", code="HS855", help=help_, exit_code=3)
    processes = min(jobs, -(-len(waiting) // SHARE))
    yield from zip(together, side_by_side(judge, together, processes, SHARE, killed), strict=True)


def changes(job: Job, old: DeployedCell) -> Iterator[str]:
    """Why the key of ``old`` is no longer that of ``job``, as far as its record tells."""
    stated = old.record.get("versions")
    before = stated if isinstance(stated, dict) else {}
    other = [f"{name} {before.get(name)} -> {now}" for name, now in job.versions if before.get(name) != now]
    changed = old.record.get("topology_sha256") != job.topology_sha256
    if changed:
        yield "the cluster changed"
    if other:
        yield f"it was made by other versions ({named(other)})"
    if not changed and not other:
        yield "its options changed" if old.key == old.made_for else "something changed since the older one stayed"


def _wrong_record(checked: CheckedCell) -> Iterator[str]:
    """Figures of the record that its own files do not give."""
    record, stated = checked.old.record, figures(checked.old.record)
    if record.get("proven_optimal") is True and record.get("lower_bound") != stated.steps:
        yield f"its record says that {stated.steps} steps are proved to be the least, and another bound"
    if (record.get("lower_bound") or 0) > stated.steps:
        yield f"its record says that {record['lower_bound']} steps are the least, and it has {stated.steps}"
    cell, ranks = checked.job.cell, checked.job.cluster.ranks
    runtime = target(cell.target)
    programs = [
        program_file(name, data, runtime, cell.root)
        for name, data in checked.old.files.items()
        if not name.endswith(SCHEDULE_SUFFIX)
    ]
    said = record.get("programs")  # in whatever order
    if not isinstance(said, list) or len(said) != len(programs) or any(p.plain() not in said for p in programs):
        yield "its record says of its programs what is not in their files"
    low, high = calls(cell, ranks)
    for program in programs:
        is_plan = runtime.format.plan
        named_right = not is_plan or program.title == plan_name(cell.cluster, program.name)
        inside = low <= program.min_bytes and (not high or 0 < program.max_bytes <= high)
        form = program.collective, program.ranks, program.root, program.out_of_place
        meant = cell.collective, ranks, cell.root, ".inplace." not in program.name
        if not (named_right and inside and form == meant):
            yield f"{program.name} is for other calls"
    sizes = tuple(row.size for row in stated.sizes)
    if sizes != cell.extent.sizes if isinstance(cell.extent, SizeRange) else len(sizes) != 1:
        yield "its record has times at other sizes than those of the cell"
        return
    for row, said in zip(size_rows(checked.job, checked.old, sizes), record["sizes"], strict=True):
        for name in (name for name in {**row, **said} if name != "verdict"):
            gives: Any = row.get(name)
            says: Any = said.get(name)
            numbers = isinstance(gives, float) and isinstance(says, int | float) and not isinstance(says, bool)
            same = math.isclose(gives, says, rel_tol=NEAR) if numbers else gives == says
            if name not in row or not same:
                texts = [
                    f"{name} {one:.6g}" if isinstance(one, float) else f"{name} {one}" for one in (says, gives)
                ]
                yield f"at {row['size']:,} bytes its record says {texts[0]}, the program gives {texts[1]}"
                break
