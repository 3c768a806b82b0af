"""The tables of docs/data/hetecclpaper about time: programs beside the others, training steps, appendix K."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.heteccl import clusters
from benchmarks.heteccl.cases import ProgramCase
from benchmarks.heteccl.cases import Table as Kind
from benchmarks.heteccl.published import CLAIMS, Rival
from benchmarks.heteccl.run import Entries, Entry
from benchmarks.heteccl.scores import allreduce_seconds, cases_of, of_table, shorter
from benchmarks.heteccl.step_tables import Table
from benchmarks.heteccl.sublinks import BatchedPath
from benchmarks.heteccl.training import MODELS
from hetesynth.model.words import size_text

NAMES: dict[Kind, str] = {
    "6-7": "figures_6_7",
    "8": "figure_8",
    "13": "figure_13",
    "15": "figure_15",
    "16": "figure_16",
    "17": "figure_17",
}
_HEAD = (
    "cluster|collective|size|ours|of the limit|x NCCL|paper, NCCL|x best rings|x TACCL|paper, TACCL"
    "|x TE-CCL HS, SE|paper, TE-CCL|limit x NCCL|our program|TACCL's sketch"
)
_TRAINING = (
    "model|GPUs|an allreduce|ours|NCCL|compute|iteration, ours|iteration, NCCL|shorter than with NCCL|TACCL"
    "|TE-CCL HS|TE-CCL SE"
)
_APPENDIX_K = "batches|T_seq (9)|simulated|T_HeteCCL (10)|simulated, (10)|ratio (11)|simulated, (11)"
HOPS, SUBLINKS = 4, 4
WHOLE = 1000.0  # microseconds from which no fractions are shown
BATCHES = (4, 16, 64, 256, 1024)


def tables(entries: Entries) -> Iterator[Table]:
    """Each table that something was measured for; appendix K always."""
    for kind, name in NAMES.items():
        found: list[Sequence[str]] = []
        for case in of_table(kind):
            if isinstance(case, ProgramCase) and (entry := entries.get(case.name)):
                found += rows(case, entry)
        if found:
            yield name, _HEAD, found
    if any(allreduce_seconds(model, entries) for model in MODELS):
        yield "figure_9", _TRAINING, list(_training(entries))
    yield "appendix_k", _APPENDIX_K, list(appendix_k())


def rows(case: ProgramCase, entry: Entry) -> list[Sequence[str]]:
    """The rows of a case, one for each size."""
    failed = [(case.cluster, case.collective, entry.error, *"-" * 12)] if entry.error else []
    return [*failed, *(_row(case, row) for row in entry.said.get("rows", ()))]


def _row(case: ProgramCase, row: dict[str, Any]) -> Sequence[str]:
    ours, limit = row["ours"], row["limit"]
    shown = {**clusters.FAILURES, **clusters.SLOW}.get(case.cluster)
    return (
        case.cluster if shown is None else f"{case.cluster}: {shown}", case.collective, size_text(row["size"]),
        _time(ours), f"{row['percent']:.1f} %",
        _ratio(row["NCCL"], ours), _paper(case, "NCCL"), _ratio(row["rings"], ours),
        _ratio(row["TACCL"], ours), _paper(case, "TACCL"),
        f"{_ratio(row['HS'], ours)}, {_ratio(row['SE'], ours)}", _paper(case, "TE-CCL"),
        _ratio(row["NCCL"], limit), row["candidate"], row["sketch"] or "-",
    )  # fmt: skip


def _time(seconds: float) -> str:
    """Microseconds with four digits, or all of them."""
    us = 1e6 * seconds
    return f"{us:,.0f} us" if us >= WHOLE else f"{us:.4g} us"


def _paper(case: ProgramCase, rival: Rival) -> str:
    """What the paper says of this cluster and collective."""
    for claim in CLAIMS:
        if claim.rival == rival and case in cases_of(claim):
            return "-".join(f"{number:g}" for number in claim.numbers)
    return "-"


def _ratio(theirs: float | None, ours: float) -> str:
    return "no program" if theirs is None else f"{theirs / ours:.2f}"


def _training(entries: Entries) -> Iterator[Sequence[str]]:
    for model in MODELS:
        seconds = allreduce_seconds(model, entries)
        if seconds:
            yield (
                model.name, str(model.gpus), size_text(model.size), _time(seconds["ours"]),
                _time(seconds["NCCL"]), f"{1e3 * model.compute:.0f} ms",
                *(f"{1e3 * model.iteration(seconds[name]):.0f} ms" for name in ("ours", "NCCL")),
                *(f"{shorter(model, seconds, name):.1f} %" for name in ("NCCL", "TACCL", "HS", "SE")),
            )  # fmt: skip


def appendix_k() -> Iterator[Sequence[str]]:
    """Equations 9 to 11 beside a simulated path."""
    for batches in BATCHES:
        path = BatchedPath(HOPS, SUBLINKS, batches)
        sequential, together = path.simulated(1), path.simulated()
        yield (
            f"{batches:,}", _time(path.sequential), _time(sequential),
            _time(path.heteccl), _time(together),
            f"{path.heteccl / path.sequential:.4f}", f"{together / sequential:.4f}",
        )  # fmt: skip
