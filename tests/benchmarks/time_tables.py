"""docs/benchmarks_time.md and its table: predicted time of programs against published figures and bounds.

In: the folder of examples, patterns of names. Out: rows, each from a ``hetesynth`` command in a process of its
own, and the page. All times are simulated with the figures that the sources state for their hardware.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.clusters import topology
from benchmarks.run import run
from benchmarks.tables import csv_text, markdown
from hetesynth.model.words import size_text

DIGITS = 5e-5  # half of the last of those with which figures are stated
MIB, KB, MB, GB = 2**20, 10**3, 10**6, 10**9
SPEC = "--no-runtime-costs"  # the sources count neither starts of kernels nor copy rates of thread blocks
CENTRES = {"a0": (1, 2, 3, 4, 5, 0), "a1": (0, 5, 4, 3, 2, 1)}
"""A ring through examples/two_dc_50km that crosses between the centres twice and uses links only inside them."""


@dataclass(frozen=True, slots=True)
class TimeCase:
    """One figure to reach by a program: at least so many GB/s or percent of the bound, at most so many us.
    ``equal``: just so many, by the schedule of a stated ring."""

    table: str
    cluster: str
    collective: str
    size: int
    goal: float
    unit: Literal["GB/s", "us", "%"]
    arguments: tuple[str, ...] = ()
    equal: bool = False

    @property
    def name(self) -> str:
        """For patterns."""
        return f"{self.table}: {self.cluster} {self.collective} {self.size}"


def _cases() -> Iterable[TimeCase]:
    for cluster, coll, goals in (
        ("ndv2_x4", "allgather", (15.4, 14.4, 5.45)), ("dgx2_x2", "allgather", (129.0, 93.0, 4.02)),
        ("dgx2_x2", "alltoall", (12.4, 11.9, 4.06)),
    ):  # fmt: skip
        yield TimeCase("TE-CCL", cluster, coll, GB, goals[0], "GB/s")
        yield TimeCase("TE-CCL", cluster, coll, MB, goals[1], "GB/s")
        yield TimeCase("TE-CCL", cluster, coll, KB, goals[2], "us")
    shapes = ("4p8", "4x2p8", "4x3", "4x3p8", "8x2p4", "4x2p8x2")
    for cluster in ("a100_x2", "mi250_x1", *(f"{gpu}_{shape}" for gpu in ("h20", "v100") for shape in shapes)):
        yield TimeCase("ForestColl", cluster, "allgather", GB, 98.0, "%")
    for cluster, ranks, goal in (
        ("mesh_8x8", 64, 641.0), ("torus_8x8", 64, 340.5), ("mesh_8x8_hetero", 64, 513.8),
        ("mesh_16x16", 256, 2564.0), ("torus_16x16", 256, 1302.0), ("mesh_16x16_hetero", 256, 2063.0),
    ):  # fmt: skip
        yield TimeCase("TACOS", cluster, "allgather", ranks * MIB, goal, "us")
    ring = ("--strategy", "ring", "--chunks", "1", *(f"--rings={a}={{folder}}/{a}.xml" for a in sorted(CENTRES)))
    yield TimeCase("SCALE-CCL", "two_dc_50km", "allgather", 3 * GB, 220_251.4, "us", ring, equal=True)
    yield TimeCase("SCALE-CCL", "two_dc_100km", "allgather", 187_500_000, 14_251.4, "us", ring, equal=True)


CASES = tuple(_cases())


@dataclass(frozen=True, slots=True)
class TimeRow:
    """A case and what the command said; ``error`` when it failed."""

    case: TimeCase
    seconds: float = 0.0
    said: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    @property
    def reached(self) -> float | None:
        """Ours, in the unit of the goal."""
        return self._in_unit("predicted_us" if self.case.equal else "program_us")

    @property
    def best_possible(self) -> float | None:
        """What the bound allows, in the unit of the goal."""
        return self._in_unit("bound_us")

    def _in_unit(self, field: str) -> float | None:
        if (us := self.said.get(field)) is None:
            return None
        return {"GB/s": self.case.size / us / 1e3, "us": us, "%": 100.0 * self.said["bound_us"] / us}[
            self.case.unit
        ]

    @property
    def met(self) -> bool:
        """Whether the goal is reached, to the digits it is stated with."""
        ours, goal = self.reached, self.case.goal
        if ours is None:
            return False
        if self.case.equal:
            return abs(ours - goal) <= 1e-9 * goal
        return ours <= goal * (1 + DIGITS) if self.case.unit == "us" else ours >= goal * (1 - DIGITS)


def time_rows(examples: Path, patterns: Sequence[str] = ()) -> list[TimeRow]:
    """Run the cases with a pattern in their name, all without patterns."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="hetesynth-time-") as folder:
        for instance, order in CENTRES.items():
            gpus = "".join(f'<gpu dev="{gpu}"/>' for gpu in order)  # as NCCL dumps its graph
            ring = f'<graphs version="1"><graph id="0" pattern="4"><channel>{gpus}</channel></graph></graphs>\n'
            Path(folder, f"{instance}.xml").write_text(ring, encoding="utf-8")
        for case in CASES:
            if patterns and not any(p in f"{case.name}$" for p in patterns):
                continue
            file = topology(case.cluster, examples, Path(folder))
            arguments = ["synth", str(file), "--coll", case.collective, "--size", f"{case.size}B"]
            arguments += ["-o", f"{folder}/made", "--json", SPEC, *(["--schedule-only"] if case.equal else [])]
            said, error, seconds = _said([*arguments, *(word.format(folder=folder) for word in case.arguments)])
            rows.append(TimeRow(case, seconds, said, error))
    return rows


def _said(arguments: Sequence[str]) -> tuple[dict[str, Any], str, float]:
    """The JSON that a command prints, or why there is none; its seconds."""
    process = run([sys.executable, "-m", "hetesynth", *arguments], dict(os.environ), 900.0)
    if process.hung:
        return {}, "no end", process.seconds
    if process.code:
        return {}, (process.errors.strip().splitlines() or ["failed"])[0], process.seconds
    return json.loads(process.output), "", process.seconds


# -- the page

_TITLES = {
    "TE-CCL": "TE-CCL's published results, with its alphas and betas",
    "ForestColl": "98 % of the exact throughput optimum of ForestColl, AllGather of 1 GB",
    "TACOS": "TACOS on its meshes and tori, AllGather of 1 MiB a rank",
    "SCALE-CCL": "the ring values of SCALE-CCL, to be met exactly (`--rings`; times of the schedule)",
}
HEAD = [
    "table", "cluster", "collective", "size", "figure", "program", "bound_allows", "of_the_bound", "chunks",
    "hops", "candidate", "s", "met",
]  # fmt: skip
_TEXT = """\
# Predicted time against published figures

Made by `PYTHONPATH=tests python -m benchmarks time`. Times are of the programs that `synth --size` writes by
default, **simulated** on the model of [model.md](model.md), not measured on GPUs, without what runtimes cost
(`--no-runtime-costs`), as the sources publish schedules. Bounds are exact and rechecked. Every figure is a row of
[data/benchmarks_time.csv](data/benchmarks_time.csv) (`s`: the whole command; `hops`: the most links that data
crosses one after another). Beside NCCL: [data/ranges.csv](data/ranges.csv); HeteCCL's own figures:
[hetecclpaper.md](hetecclpaper.md)."""


def time_page(rows: Sequence[TimeRow]) -> str:
    """The page."""
    of = {name: [row for row in rows if row.case.table == name] for name in _TITLES}
    counts = [
        (_TITLES[name], str(sum(row.met for row in some)), str(len(some))) for name, some in of.items() if some
    ]
    lines = [_TEXT, "", markdown(("against", "met", "figures"), counts)]
    missed = [row for row in rows if not row.met]
    lines += ["", "Missed:", ""] if missed else []
    for row in missed:
        case, possible = row.case, row.best_possible
        if possible is None:
            why = row.error or "nothing was found"
        elif possible > case.goal if case.unit == "us" else possible < case.goal:
            why = f"out of reach, the bound allows {_figure(possible, case.unit)}"
        else:
            goal, most = _figure(case.goal, case.unit), _figure(possible, case.unit)
            why = f"{_figure(row.reached, case.unit)}; asked {goal}, the bound allows {most}"
        lines.append(f"- {case.table}: {case.cluster} {case.collective} {size_text(case.size)}: {why}")
    return "\n".join([*lines, ""])


def time_table(rows: Sequence[TimeRow]) -> str:
    """CSV: a line for every figure."""
    lines = []
    for row in rows:
        case, ours, best = row.case, row.reached, row.best_possible
        sign = "" if case.equal else ("<= " if case.unit == "us" else ">= ")
        share = "-"
        if ours is not None and best is not None:
            share = f"{100.0 * (best / ours if case.unit == 'us' else ours / best):.1f} %"
        lines.append([
            case.table, case.cluster, case.collective, size_text(case.size), f"{sign}{case.goal:,g} {case.unit}",
            row.error or _figure(ours, case.unit), _figure(best, case.unit), share,
            str(row.said.get("chunks", "-")), str(row.said.get("hops", "-")),
            str((row.said.get("choice") or {}).get("candidate", "-")), f"{row.seconds:.0f}",
            "yes" if row.met else "no",
        ])  # fmt: skip
    return csv_text(HEAD, lines)


def _figure(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    return f"{value:,.1f} {unit}" if value >= 1000 else f"{value:.5g} {unit}"
