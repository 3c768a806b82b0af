"""A cell that is deployed, checked: whether it is what a build would leave there. Runs in any process.

In: the job of the cell, what the folder holds. Out: a ``CellReport``. The judges read the files anew, the program
is simulated anew and its times compared with the record. Never writes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hetesynth.deploy.cluster_standing import named
from hetesynth.deploy.compute import calls
from hetesynth.deploy.figures import Figures, figures
from hetesynth.deploy.folder.folder import DeployedCell
from hetesynth.deploy.folder.programs import ProgramFile, program_file
from hetesynth.deploy.folder.records import INSTEAD_OF, MEASURED_ON
from hetesynth.deploy.folder.selection import check_selection
from hetesynth.deploy.gates import gate_verdict
from hetesynth.deploy.job import Job, unpickled
from hetesynth.deploy.keeping import Rules, settled
from hetesynth.deploy.outcome import CellReport
from hetesynth.deploy.provenance import plan_name, provenance
from hetesynth.deploy.result import CellResult
from hetesynth.deploy.standing import Place, measured_here, refusals, size_rows
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.processes import side_by_side

T = TypeVar("T")
SHARE = 4
"""Cells that a process gets at once."""
NEAR = 1e-6
"""Of a figure: machines may differ in the last digits of a simulation."""


@dataclass(frozen=True, slots=True)
class CheckedCell:
    """What is to be checked. ``old``: the cell that a folder holds, its files whole."""

    job: Job
    old: DeployedCell

    @classmethod
    def given(cls, job: Job, result: CellResult) -> CheckedCell:
        """``result``, which a cache or another machine gave for ``job``."""
        return cls(job, DeployedCell(job.cell.name, job.key, job.key, result.record, result.files))

    @property
    def at(self) -> Place:
        """Where it is."""
        return Place(self.job.cell, unpickled(self.job.topology), self.job.topology_sha256)


def by_key(checked: CheckedCell, rules: Rules) -> CellReport:
    """What keys, records and gates say, without any judge."""
    job, old = checked.job, checked.old
    if old.key != job.key:
        return CellReport(job.cell, "stale", job.key, old.record, old.record, None, tuple(changes(job, old)))
    try:
        figures(old.record)
    except ValueError as error:
        return CellReport(job.cell, "invalid", job.key, old.record, old.record, None, (str(error),))
    decision = settled(checked.at, job.key, old, rules)
    if decision is None:
        messages = ("what was decided for it no longer holds: a build decides anew",)
        return CellReport(job.cell, "stale", job.key, old.record, old.record, None, messages)
    return replace(decision.report, record=old.record)


def judged(checked: CheckedCell, rules: Rules) -> CellReport:
    """The same, and what the judges and the simulation say of the files as they are."""
    report, old = by_key(checked, rules), checked.old
    if report.status == "invalid":
        return report
    reasons = refusals(checked.at, old, rules.policy)
    if report.status == "stale":
        stands = _not_there(reasons) if reasons else _still_there(checked)
        return replace(report, messages=(*report.messages, stands))
    reasons = reasons or tuple(_wrong_record(checked))
    return replace(report, status="invalid", messages=reasons) if reasons else report


def objections(given: CheckedCell, rules: Rules) -> tuple[str, ...]:
    """Why what was given is not what the job asks for; empty: it is. The judges read its files, and its times are
    simulated again; that so many steps are the least, its record alone says."""
    try:
        wrong = tuple(_other_inputs(given)) or refusals(given.at, given.old, rules.policy)
        return wrong or tuple(_wrong_record(given))
    except (HetesynthError, InternalError, ValueError) as error:
        return (str(error),)


def _other_inputs(given: CheckedCell) -> Iterator[str]:
    """What the record says of the job that it was made for, and of this one is not so."""
    job, cell, record = given.job, given.job.cell, given.old.record
    stated = {
        "cell": cell.name, "cluster": cell.cluster, "target": cell.target, "extent": cell.extent_text,
        "topology_sha256": job.topology_sha256, "versions": dict(job.versions),
        "options": provenance(job)["options"],
    }  # fmt: skip
    other = [name for name, value in stated.items() if record.get(name) != value]
    if other:
        yield f"it was made for another job: {named(other)}"
    if record.keys() & {INSTEAD_OF, MEASURED_ON}:
        yield "it says what a folder says of an older one that stays"
    ending = ".json" if target(cell.target).format == "mscclpp-json" else ".xml"
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
    processes = min(jobs, -(-len(waiting) // SHARE))
    if processes <= 1:
        yield from ((one, judge(one)) for one in together)
        return
    try:
        yield from zip(together, side_by_side(judge, together, processes, share=SHARE), strict=True)
    except BrokenProcessPool as error:
        raise HetesynthError(
            "a process that judged was killed",
            code="HS855",
            help="raise the limit of memory, or use fewer --jobs",
            exit_code=3,
        ) from error


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


def _not_there(reasons: tuple[str, ...]) -> str:
    return f"on the cluster as it is it does not verify: {named(reasons)}"


def _still_there(checked: CheckedCell) -> str:
    """``it still verifies on the cluster as it is: 12.3 us for 64 KB, 11.2 us before``."""
    before = figures(checked.old.record)
    try:
        now = figures(measured_here(checked.at, checked.old, [row.size for row in before.sizes]))
    except (HetesynthError, ValueError) as error:
        return _not_there((str(error),))
    words = []
    for row in now.sizes:
        was = before.at(row.size)
        changed = was is not None and not math.isclose(was.us, row.us, rel_tol=NEAR)
        words.append(f"{row.text}, {was.us:,.4g} us before" if was is not None and changed else row.text)
    failures = gate_verdict(checked.job.cell, now).failures
    gates = f"; gates that it does not meet there: {named(failures)}" if failures else ""
    return f"it still verifies on the cluster as it is: {'; '.join(words)}{gates}"


def _wrong_record(checked: CheckedCell) -> Iterator[str]:
    """Figures of the record that its own files do not give."""
    record, stated = checked.old.record, figures(checked.old.record)
    if record.get("proven_optimal") is True and record.get("lower_bound") != stated.steps:
        yield f"its record says that {stated.steps} steps are proved to be the least, and another bound"
    if (record.get("lower_bound") or 0) > stated.steps:
        yield f"its record says that {record['lower_bound']} steps are the least, and it has {stated.steps}"
    programs = _programs(checked)
    if not _same_rows(record.get("programs"), [program.plain() for program in programs]):
        yield "its record says of its programs what is not in their files"
    yield from (f"{program.name} is for other calls" for program in programs if not _is_meant(program, checked))
    yield from _wrong_times(checked, stated)


def _same_rows(stated: object, rows: list[dict[str, Any]]) -> bool:
    """In whatever order."""
    return isinstance(stated, list) and len(stated) == len(rows) and all(row in stated for row in rows)


def _is_meant(program: ProgramFile, checked: CheckedCell) -> bool:
    """Whether the runtime takes ``program`` for calls of the cell alone, in the form that its name says."""
    at, (low, high) = checked.at, calls(checked.job.cell, checked.at.topology.ranks)
    is_plan = target(at.cell.target).format == "mscclpp-json"
    if is_plan and program.title != plan_name(at.cell.cluster, program.name):
        return False
    stated = program.collective, program.ranks, program.root, program.out_of_place
    inside = low <= program.min_bytes and (not high or 0 < program.max_bytes <= high)
    return inside and stated == (at.cell.collective, at.topology.ranks, at.root, ".inplace." not in program.name)


def _programs(checked: CheckedCell) -> list[ProgramFile]:
    """What the files say of the programs."""
    at, files = checked.at, checked.old.files
    programs = {name: data for name, data in files.items() if not name.endswith(SCHEDULE_SUFFIX)}
    return [program_file(name, data, target(at.cell.target), at.root) for name, data in programs.items()]


def _wrong_times(checked: CheckedCell, stated: Figures) -> Iterator[str]:
    extent, sizes = checked.job.cell.extent, tuple(row.size for row in stated.sizes)
    if sizes != extent.sizes if isinstance(extent, SizeRange) else len(sizes) != 1:
        yield "its record has times at other sizes than those of the cell"
        return
    rows = size_rows(checked.at, checked.old, sizes)
    for row, said in zip(rows, checked.old.record["sizes"], strict=True):
        names = [name for name in {**row, **said} if name != "verdict"]
        wrong = [name for name in names if name not in row or not _same(row[name], said.get(name))]
        if wrong:
            says, gives = _figure(said, wrong[0]), _figure(row, wrong[0])
            yield f"at {row['size']:,} bytes its record says {says}, the program gives {gives}"


def _figure(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}"


def _same(value: object, said: object) -> bool:
    numbers = isinstance(value, float) and isinstance(said, int | float) and not isinstance(said, bool)
    return math.isclose(value, said, rel_tol=NEAR) if numbers else value == said  # type: ignore[arg-type]
