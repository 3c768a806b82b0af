"""What is deployed of a cell: the newer result, or the older one where the newer is worse or fails its gates.

An older cell stays only where it still verifies on the cluster as it is now and meets the gates. Its record then
tells what was not deployed for it, so that the next build decides the same without making anything.
"""

import math
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetesynth.deploy import compute
from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.compute import calls, written_steps
from hetesynth.deploy.figures import Figures, errors_of, figures, gate_verdict, named
from hetesynth.deploy.folder.cells import INSTEAD_OF, MEASURED_ON, DeployedCell
from hetesynth.deploy.folder.folder import place
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.values import Cell
from hetesynth.deploy.outcome import CellReport, Status
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.verify import Question
from hetesynth.errors import HetesynthError
from hetesynth.model.target import target
from hetesynth.model.words import microseconds

WORSE = 0.01  # share of the time that a newer program may be slower: less is not worth one of another cluster


def differences(job: Job, old: DeployedCell) -> tuple[str, ...]:
    """Return why ``old``, which has the name of the cell of ``job``, is another cell: it is for other calls, or
    its record has other steps; empty: it is the same. Raises ValueError where its record is none."""
    cell, ranks, record = job.cell, job.cluster.ranks, old.record
    steps = figures(record).steps
    stated = [record.get(name) for name in ("collective", "target", "ranks", "calls", "root", "chunks")]
    chunks = cell.extent if isinstance(cell.extent, int) else record.get("chunks")
    if stated != [cell.collective, cell.target, ranks, [*calls(cell, ranks)], cell.root, chunks]:
        return ("it is for other calls",)
    if steps != max(written_steps(old.files), default=steps):
        return ("its record says other steps than its schedules have",)
    return ()


def refusals(job: Job, old: DeployedCell) -> tuple[str, ...]:
    """Return why ``old`` does not verify on the cluster of ``job`` as it is now; empty: it does. A schedule is
    replayed on that cluster only if it was made for it."""
    made_here, runtime = old.record.get("topology_sha256") == job.topology_sha256, target(job.cell.target)
    program = Question(root=job.cell.root, targets=(runtime,), given=job.cluster)
    schedule = Question(given=job.cluster if made_here else None, documents=True)
    schedules = {name for name in old.files if name.endswith(SCHEDULE_SUFFIX)}
    wrong = list[str]()
    try:
        if other := differences(job, old):
            return other
        if old.files and len(schedules) in (0, len(old.files)):
            return ("it has no schedule, or no program",)
        with tempfile.TemporaryDirectory() as folder:  # what was read is judged, not what stands there by now
            for name, data in old.files.items():
                path = Path(folder) / place(name)
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
                errors = errors_of(path, schedule if name in schedules else program)
                wrong += [f"{name}: {named(errors)}"] if errors else []
    except (HetesynthError, ValueError) as error:
        return (getattr(error, "message", str(error)),)
    return tuple(wrong)


def measured_here(job: Job, old: DeployedCell, sizes: Sequence[int]) -> dict[str, Any]:
    """The record of ``old`` as it was made, with the times of its program on the cluster as it is now, at
    ``sizes``. No bound on steps was proved for it there."""
    programs = [program for program in old.programs if program.name in old.files]
    rows = compute.size_rows(old.files, programs, job.cluster, job.cell, sizes)
    as_made = {key: value for key, value in old.record.items() if key not in (INSTEAD_OF, MEASURED_ON)}
    record = {**as_made, "sizes": rows}
    if record.get("topology_sha256") != job.topology_sha256:
        record |= {"lower_bound": None, "proven_optimal": False, MEASURED_ON: job.topology_sha256}
    return record


Decision = tuple[CellReport, DeployedCell | None]
"""The report on a cell, and the cell that the folder is to hold; None: no cell."""


def settled(job: Job, old: DeployedCell | None, accept_worse: bool = False) -> Decision | None:
    """Return the decision on ``job`` that the folder's cell ``old`` records; None: the result is needed."""
    key = job.key
    if old is None or old.key != key:
        return None
    if old.record.get(MEASURED_ON, old.record.get("topology_sha256")) != job.topology_sha256:
        return None  # it stayed while nothing could be made for another cluster
    try:
        verdict = gate_verdict(job.cell, figures(old.record))
        if old.made_for == key:
            if not verdict.failures:
                return CellReport(job.cell, "current", key, old.record, old.record, None, verdict.notes), old
            return CellReport(job.cell, "withheld", key, None, old.record, old.record, verdict.failures), None
        candidate = old.record[INSTEAD_OF]
        newer, older = figures(candidate), figures(old.record)
        why = _reasons_to_keep_older(job.cell, newer, older)
    except (KeyError, ValueError):
        return None
    failed_gates = gate_verdict(job.cell, newer).failures
    if verdict.failures or not why or (accept_worse and not failed_gates):
        return None
    status: Status = "withheld" if failed_gates else "kept"
    return CellReport(job.cell, status, key, old.record, old.record, candidate, (*why, *verdict.notes)), old


def decided(
    job: Job, result: CellResult, old: DeployedCell | None, *, accept_worse: bool, cached: bool
) -> Decision:
    """Return the decision on ``result``, where the folder holds ``old``."""
    previous, key = None if old is None else old.record, result.key
    newer = figures(result.record)
    verdict = gate_verdict(job.cell, newer)
    older, notes, why = None, verdict.notes, verdict.failures
    if old is not None:
        try:
            reasons = differences(job, old)
            if not reasons:
                older = replace(old, record=measured_here(job, old, [row.size for row in newer.sizes]))
                why = _reasons_to_keep_older(job.cell, newer, figures(older.record))
            if why and older is not None:
                reasons = refusals(job, older) or gate_verdict(job.cell, figures(older.record)).failures
        except (HetesynthError, ValueError) as error:
            reasons = (str(error),)
        if reasons:
            older, why, notes = None, verdict.failures, (*notes, *_not_staying(reasons))
    if not verdict.failures and (older is None or not why or accept_worse):
        done: Status = "cached" if cached else "built"
        report = CellReport(job.cell, done, key, result.record, previous, None, notes)
        return report, DeployedCell(job.cell.name, key, key, result.record, result.files)
    if older is None:
        return CellReport(job.cell, "withheld", key, None, previous, result.record, (*why, *notes)), None
    stays = replace(older, key=key, record={**older.record, INSTEAD_OF: result.record})
    status: Status = "withheld" if verdict.failures else "kept"
    report = CellReport(job.cell, status, key, stays.record, previous, result.record, (*why, *verdict.notes))
    return report, stays


def failed(job: Job, message: str, old: DeployedCell | None) -> Decision:
    """Return the decision on a cell for which nothing could be made: the older cell stays if it still verifies. It
    stays under its own key, so that the next build tries again."""
    stays, told = None, tuple[str, ...]()
    if old is not None:
        try:
            sizes = [row.size for row in figures(old.record).sizes]
            reasons = refusals(job, old)
            stays = None if reasons else replace(old, record=measured_here(job, old, sizes))
        except (HetesynthError, ValueError) as error:
            reasons = (str(error),)
        told = _not_staying(reasons) or ("the older one stays: it still verifies",)
    record, previous = None if stays is None else stays.record, None if old is None else old.record
    return CellReport(job.cell, "failed", job.key, record, previous, None, (message, *told)), stays


def _not_staying(reasons: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"the older one does not stay: {reason}" for reason in reasons)


def _reasons_to_keep_older(cell: Cell, newer: Figures, older: Figures) -> tuple[str, ...]:
    """Return why ``newer`` does not replace ``older``, which can stay: gates that it fails, or how it is worse."""
    failures, slower = gate_verdict(cell, newer).failures, worse(cell, newer, older)
    return failures or ((f"{slower}; --accept-worse deploys the newer",) if slower else ())


def worse(cell: Cell, newer: Figures, older: Figures) -> str:
    """Return how ``newer`` is worse than ``older``; empty where it is not. Times count by their geometric mean
    over the sizes; where chunks are stated, steps count where the newer is not quicker."""
    shares, at = [], {row.size: row for row in older.sizes}
    for row in newer.sizes:
        before = at.get(row.size)
        if before is None:
            raise ValueError("they were not measured at the same sizes")
        if math.isinf(before.us):
            continue
        if math.isinf(row.us):
            return f"the older takes {before.text}, the newer has nothing for it"
        shares.append((row.us / before.us, f"{before.text}, the newer takes {microseconds(row.us * 1e-6)}"))
    ratio = math.prod(share ** (1 / len(shares)) for share, _ in shares)
    if ratio > 1 + WORSE:
        return f"the newer is {100 * (ratio - 1):.2g} % slower: the older takes {max(shares)[1]}"
    longer = isinstance(cell.extent, int) and newer.steps > older.steps
    if longer and ratio >= 1 - WORSE:
        return f"the newer has {newer.steps} steps, the older {older.steps}, and is not quicker"
    return ""
