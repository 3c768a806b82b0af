"""A build report written by hand: every status once, figures of every kind, names and messages of any text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hetesynth.deploy.manifest.values import Cell
from hetesynth.deploy.outcome import BuildReport, CellReport, FolderFinding, Status
from hetesynth.deploy.reports.words import Places
from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.model.size_range import SizeRange

PLACES = Places(Path("/repository"), "ci/hetesynth.toml", {"alpha": 4, "beta": 7})
MB = 1_000_000


def record(
    us: float, *, size: int = 8 * MB, percent: float = 96.54, factor: float | None = 1.2604
) -> dict[str, Any]:
    """A record with what reports read of it."""
    row = {
        "size": size, "verdict": f"program {us:g} us", "program_us": us, "limit_us": us * percent / 100,
        "percent_of_limit": percent, "factor_over_library": factor,
    }  # fmt: skip
    return {"sizes": [row], "steps": 7, "proven_optimal": True, "files": {}}


def cell(cluster: str, collective: str, target: str = "rccl-6", low: int = MB, high: int = 64 * MB) -> Cell:
    """A cell that is made for 8 MB, where its range is not stated."""
    extent = SizeRange(low, high, f"{low // MB}MB..{high // MB}MB")
    return Cell(cluster, collective, extent, target)  # type: ignore[arg-type]  # any text, to see it escaped


def with_status(status: Status, at: Cell, *messages: str, **records: dict[str, Any]) -> CellReport:
    """A cell that came to ``status``."""
    return CellReport(at, status, "0" * 64, messages=messages, **records)  # type: ignore[arg-type]


def sample() -> BuildReport:
    """Every status once."""
    tuned = record(1152.5, size=32 * MB, percent=99.97, factor=None)
    cells = (
        with_status("current", cell("alpha", "allgather"), record=record(152.6), previous=record(152.6)),
        with_status("cached", cell("alpha", "allreduce"), record=record(290.0), previous=record(299.3)),
        with_status("built", cell("alpha", "alltoall", low=16 * MB), record=tuned),
        with_status(
            "kept", cell("alpha", "broadcast"), "slower than what stands",
            record=record(100.0), previous=record(100.0), candidate=record(104.1),
        ),
        with_status(
            "withheld", cell("alpha", "reduce"), "gate: 80 % of the limit, reached 71.2 %", "gate: proven",
            record=record(200.0, percent=85.0), previous=record(200.0, percent=85.0), candidate=record(239.0),
        ),
        with_status("failed", cell("beta", "allgather", "mscclpp"), "HS310: no program fits:\n  8 | 4 <&>"),
        with_status("unfinished", cell("beta", "gather", "mscclpp")),
        with_status("stale", cell("beta", "allreduce"), "the topology changed; verifies", record=record(50.0)),
        with_status("missing", cell("beta", "scatter")),
        with_status("invalid", cell("beta", "reducescatter"), "ar.xml: HS702: step 3 of GPU 1 ]]> waits"),
    )  # fmt: skip
    alpha, beta = "/repository/clusters/alpha.dsl", "/repository/clusters/b/topo.dsl"
    findings = (
        Diagnostic("HS241", Span(alpha, 3, 14), "200 Gbps: off by 8", "write GBps", "warning"),
        Diagnostic("HS246", Span(beta, 9, 1), "`n` is unused, 100%", severity="note"),
    )
    output = Path("/repository/ci/schedules")
    return BuildReport(
        Path("/repository/ci/hetesynth.toml"), output, cells, findings, (output / "alpha/rccl-6",),
        ("the cache is on a file system without locks",), seconds=12.3456, folders=(
            FolderFinding(output / "beta/rccl-6", "old.xml | is no part of it"),
            FolderFinding(output / "gamma", "the manifest does not name it", stale=False),
        ),
    )  # fmt: skip
