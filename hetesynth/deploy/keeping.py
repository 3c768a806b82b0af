"""What is deployed of a cell: the newer result, or the older one where the newer is worse or fails its gates.

In: a cell's place, what was made for it, what is in the folder. Out: a ``Decision``. An older cell stays only
where it still verifies on the cluster as it is now and meets the gates. Its record then tells what was not
deployed for it, so that the next build decides the same without making anything. Never writes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth.deploy.figures import Figures, figures
from hetesynth.deploy.folder.folder import DeployedCell
from hetesynth.deploy.folder.records import INSTEAD_OF, MEASURED_ON
from hetesynth.deploy.gates import GateVerdict, gate_verdict
from hetesynth.deploy.manifest.layout import ASIDE
from hetesynth.deploy.manifest.values import Cell
from hetesynth.deploy.outcome import CellReport, Status
from hetesynth.deploy.result import CellResult
from hetesynth.deploy.standing import Place, differences, measured_here, refusals, without_notes
from hetesynth.errors import HetesynthError
from hetesynth.policy import DEFAULT, Policy


@dataclass(frozen=True, slots=True)
class Rules:
    """``accept_worse``: a newer result is deployed although the older one is better."""

    policy: Policy
    accept_worse: bool = False


NORMAL = Rules(DEFAULT)


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


def settled(at: Place, key: str, old: DeployedCell | None, rules: Rules) -> Decision | None:
    """What was decided for ``key`` before, from what the folder says of it; None: the result is needed."""
    if old is None or old.key != key:
        return None
    if old.record.get(MEASURED_ON, old.record.get("topology_sha256")) != at.topology_sha256:
        return None  # it stayed while nothing could be made for another cluster
    try:
        verdict = gate_verdict(at.cell, figures(old.record))
        if old.made_for == key:
            return _current(at.cell, key, old, verdict)
        candidate = old.record[INSTEAD_OF]
        newer, older = figures(candidate), figures(old.record)
        failures = gate_verdict(at.cell, newer).failures
        slower = worse(at.cell, newer, older, rules.policy)
    except (KeyError, TypeError, ValueError):
        return None
    if not verdict.met or (not failures and (not slower or rules.accept_worse)):
        return None
    why = failures or (f"{slower}; {_way_out(at.cell)}",)
    status: Status = "withheld" if failures else "kept"
    report = CellReport(at.cell, status, key, old.record, old.record, candidate, (*why, *verdict.notes))
    return Decision(report, old, aside=True)


def _current(cell: Cell, key: str, old: DeployedCell, verdict: GateVerdict) -> Decision:
    if verdict.met:
        return Decision(CellReport(cell, "current", key, old.record, old.record, None, verdict.notes), old)
    report = CellReport(cell, "withheld", key, None, old.record, old.record, verdict.failures)
    return Decision(report, None, aside=True, result=CellResult(key, old.files, old.record))


def decided(
    at: Place, result: CellResult, old: DeployedCell | None, rules: Rules, *, cached: bool
) -> Decision:  # fmt: skip
    """What becomes of ``result``, where the folder holds ``old``."""
    previous, key = None if old is None else old.record, result.key
    newer = figures(result.record)
    verdict = gate_verdict(at.cell, newer)
    sizes = [row.size for row in newer.sizes]
    older, reasons = (None, ()) if old is None else _measured(at, old, sizes)
    slower = "" if older is None else worse(at.cell, newer, figures(older.record), rules.policy)
    if older is not None and (slower or not verdict.met):
        reasons = _objections(at, older, rules)
    notes = (*verdict.notes, *_not_staying(reasons))
    if verdict.met and (not slower or reasons or rules.accept_worse):
        return _newer(at, result, previous, notes, cached=cached)
    if older is None or reasons:
        report = CellReport(at.cell, "withheld", key, None, previous, result.record, (*verdict.failures, *notes))
        return Decision(report, None, aside=True, result=result)
    stays = replace(older, key=key, record={**older.record, INSTEAD_OF: result.record})
    why = verdict.failures or (f"{slower}; {_way_out(at.cell)}",)
    status: Status = "kept" if verdict.met else "withheld"
    report = CellReport(at.cell, status, key, stays.record, previous, result.record, (*why, *verdict.notes))
    return Decision(report, stays, aside=True, result=result)


def failed(at: Place, key: str, message: str, old: DeployedCell | None, rules: Rules) -> Decision:
    """What becomes of a cell for which nothing could be made: the older one stays where it still verifies. It
    stays under its own key, so that the next build tries again."""
    previous = None if old is None else old.record
    if old is None:
        return Decision(CellReport(at.cell, "failed", key, None, previous, None, (message,)), None)
    older, reasons = _measured(at, old, _sizes(old))
    if older is not None:
        reasons = refusals(at, older, rules.policy)
    if older is None or reasons:
        messages = (message, *_not_staying(reasons))
        return Decision(CellReport(at.cell, "failed", key, None, previous, None, messages), None)
    messages = (message, "the older one stays: it still verifies")
    report = CellReport(at.cell, "failed", key, older.record, previous, None, messages)
    return Decision(report, older)


def _not_staying(reasons: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"the older one does not stay: {reason}" for reason in reasons)


def worse(cell: Cell, newer: Figures, older: Figures, policy: Policy) -> str:
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
    if ratio > 1 + policy.building.worse:
        return f"the newer is {_percent(ratio - 1)} slower: the older takes {most[1]}"
    longer = isinstance(cell.extent, int) and newer.steps > older.steps
    if longer and ratio >= 1 - policy.building.worse:
        return f"the newer has {newer.steps} steps, the older {older.steps}, and is not quicker"
    return ""


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if math.isfinite(share) and share < 1 else f"{1 + share:.3g} times"


def _way_out(cell: Cell) -> str:
    return f"it is in {aside_folder(cell).as_posix()}, --accept-worse deploys it"


def _newer(
    at: Place, result: CellResult, previous: dict[str, Any] | None, messages: tuple[str, ...], *, cached: bool
) -> Decision:  # fmt: skip
    status: Status = "cached" if cached else "built"
    report = CellReport(at.cell, status, result.key, result.record, previous, None, messages)
    return Decision(report, DeployedCell(at.cell.name, result.key, result.key, result.record, result.files))


def _measured(at: Place, old: DeployedCell, sizes: list[int]) -> tuple[DeployedCell | None, tuple[str, ...]]:
    """``old`` with its times on the cluster as it is now, or why it has none."""
    try:
        reasons = differences(at, old)
        if reasons:
            return None, reasons
        return replace(without_notes(old), record=measured_here(at, old, sizes)), ()
    except HetesynthError as error:
        return None, (error.message,)
    except ValueError as error:
        return None, (str(error),)


def _objections(at: Place, older: DeployedCell, rules: Rules) -> tuple[str, ...]:
    """Why ``older`` may not stay: the judges, or the gates."""
    return refusals(at, older, rules.policy) or gate_verdict(at.cell, figures(older.record)).failures


def _sizes(old: DeployedCell) -> list[int]:
    try:
        return [row.size for row in figures(old.record).sizes]
    except ValueError:
        return []
