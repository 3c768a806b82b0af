"""The tables of docs/benchmarks_time.md: predicted time of programs against published figures and bounds.

In: the folder of examples, patterns of names. Out: rows, each from a ``hetesynth`` command in a process of its
own, and the page. All times are simulated with the figures that the sources state for their hardware.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks import time_clusters
from benchmarks.clusters import no_example

Unit = Literal["GB/s", "us", "%"]
BUDGET = 22.0  # seconds of the search that makes a schedule for the simulator
PATIENCE = 900.0
EXACT = 1e-9
DIGITS = 5e-5  # half of the last of those with which figures are stated
MIB, KB, MB, GB = 2**20, 10**3, 10**6, 10**9
SPEC = "--no-runtime-costs"  # the sources count neither starts of kernels nor copy rates of thread blocks


@dataclass(frozen=True, slots=True)
class TimeCase:
    """One figure to reach by a program: at least so many GB/s or percent of the bound, at most so many us.
    ``equal``: just so many, by the schedule of a stated ring."""

    table: str
    cluster: str
    collective: str
    size: int
    goal: float
    unit: Unit
    arguments: tuple[str, ...] = ()
    equal: bool = False

    @property
    def name(self) -> str:
        """For patterns."""
        return f"{self.table}: {self.cluster} {self.collective} {self.size}"


def _cases() -> Iterable[TimeCase]:
    te = "TE-CCL"
    for cluster, coll, goals in (
        ("ndv2_x4", "allgather", (15.4, 14.4, 5.45)),
        ("dgx2_x2", "allgather", (129.0, 93.0, 4.02)),
        ("dgx2_x2", "alltoall", (12.4, 11.9, 4.06)),
    ):
        yield TimeCase(te, cluster, coll, GB, goals[0], "GB/s")
        yield TimeCase(te, cluster, coll, MB, goals[1], "GB/s")
        yield TimeCase(te, cluster, coll, KB, goals[2], "us")
    for cluster in ("a100_x2", "mi250_x1", *H20, *V100):
        yield TimeCase("ForestColl", cluster, "allgather", GB, 98.0, "%")
    for cluster, ranks, goal in (
        ("mesh_8x8", 64, 641.0), ("torus_8x8", 64, 340.5), ("mesh_8x8_hetero", 64, 513.8),
        ("mesh_16x16", 256, 2564.0), ("torus_16x16", 256, 1302.0), ("mesh_16x16_hetero", 256, 2063.0),
    ):  # fmt: skip
        yield TimeCase("TACOS", cluster, "allgather", ranks * MIB, goal, "us")
    ring = ("--strategy", "ring", "--chunks", "1", *(f"--rings={a}={{folder}}/{a}.xml" for a in sorted(CENTRES)))
    yield TimeCase("SCALE-CCL", "two_dc_50km", "allgather", 3 * GB, 220_251.4, "us", ring, equal=True)
    yield TimeCase("SCALE-CCL", "two_dc_100km", "allgather", 187_500_000, 14_251.4, "us", ring, equal=True)


CENTRES = {"a0": (1, 2, 3, 4, 5, 0), "a1": (0, 5, 4, 3, 2, 1)}
"""A ring through examples/two_dc_50km that crosses between the centres twice and uses links only inside them."""
H20 = ("h20_4p8", "h20_4x2p8", "h20_4x3", "h20_4x3p8", "h20_8x2p4", "h20_4x2p8x2")
V100 = ("v100_4p8", "v100_4x2p8", "v100_4x3", "v100_4x3p8", "v100_8x2p4", "v100_4x2p8x2")
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
        seconds = self.said.get("predicted_us" if self.case.equal else "program_us")
        if seconds is None:
            return None
        return {
            "GB/s": self.case.size / float(seconds) / 1e3,
            "us": float(seconds),
            "%": 100.0 * float(self.said["bound_us"]) / float(seconds),
        }[self.case.unit]

    @property
    def share(self) -> float | None:
        """Percent of what the bound allows."""
        best, ours = self.best_possible, self.reached
        if best is None or ours is None:
            return None
        return 100.0 * (best / ours if self.case.unit == "us" else ours / best)

    @property
    def best_possible(self) -> float | None:
        """What the bound allows, in the unit of the goal."""
        if not self.said:
            return None
        least = float(self.said["bound_us"])
        return {"GB/s": self.case.size / least / 1e3, "us": least, "%": 100.0}[self.case.unit]

    @property
    def met(self) -> bool:
        """Whether the goal is reached, to the digits it is stated with."""
        ours, goal = self.reached, self.case.goal
        if ours is None:
            return False
        if self.case.equal:
            return abs(ours - goal) <= EXACT * goal
        return ours <= goal * (1 + DIGITS) if self.case.unit == "us" else ours >= goal * (1 - DIGITS)


@dataclass(frozen=True, slots=True)
class SpeedRow:
    """How long the simulator takes for a schedule: ``seconds``; ``whole``: of the command that reads it too."""

    cluster: str
    collective: str
    transfers: int = 0
    seconds: float = 0.0
    whole: float = 0.0
    error: str = ""


SPEED_CASES = (("torus_16x16", "allgather"), ("torus_16x16", "allreduce"))
SPEED_SIZE = 256 * MB

Announce = Callable[[str], None]


def time_rows(
    examples: Path, patterns: Sequence[str] = (), announce: Announce = lambda name: None
) -> list[TimeRow]:
    """Run the cases with a pattern in their name, all without patterns."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="hetesynth-time-") as name:
        for case in CASES:
            if patterns and not any(p in f"{case.name}$" for p in patterns):
                continue
            announce(case.name)
            rows.append(_row(case, _topology(case.cluster, examples, Path(name)), Path(name)))
    return rows


def _row(case: TimeCase, topology: Path, folder: Path) -> TimeRow:
    arguments = ["synth", str(topology), "--coll", case.collective, "--size", f"{case.size}B"]
    arguments += ["-o", str(folder / "made"), "--json", SPEC, *(["--schedule-only"] if case.equal else [])]
    arguments += [argument.format(folder=folder) for argument in case.arguments]
    for instance, order in CENTRES.items():
        (folder / f"{instance}.xml").write_text(time_clusters.ring_dump(order), encoding="utf-8")
    started = time.monotonic()
    said, error = _said(arguments)
    return TimeRow(case, time.monotonic() - started, said, error)


def speed_rows(
    examples: Path, patterns: Sequence[str] = (), announce: Announce = lambda name: None
) -> list[SpeedRow]:
    """The simulator on large schedules, in a process of its own after one that may compile."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="hetesynth-time-") as name:
        for cluster, coll in SPEED_CASES:
            if not patterns or any(p in f"simulator: {cluster} {coll}" for p in patterns):
                announce(f"simulator: {cluster} {coll}")
                rows.append(_speed(cluster, coll, _topology(cluster, examples, Path(name)), Path(name)))
    return rows


def _speed(cluster: str, coll: str, topology: Path, folder: Path) -> SpeedRow:
    stem = folder / f"{cluster}.{coll}"
    command = ["synth", str(topology), "--coll", coll, "--strategy", "greedy", "--schedule-only"]
    schedule, error = _said([*command, "--time-budget", f"{BUDGET:g}", "-o", str(stem), "--json"])
    if error:
        return SpeedRow(cluster, coll, error=error)
    simulated = ["simulate", f"{stem}.schedule.json", str(topology), "--size", f"{SPEED_SIZE}B", "--json", SPEC]
    whole = 0.0
    said: dict[str, Any] = {}
    for _ in range(2):
        started = time.monotonic()
        said, error = _said(simulated)
        whole = time.monotonic() - started
    if error:
        return SpeedRow(cluster, coll, error=error)
    return SpeedRow(cluster, coll, schedule["transfers"], said["seconds_by_phase"]["simulate"], whole)


def _said(arguments: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The JSON that a command prints, or why there is none."""
    command = [sys.executable, "-m", "hetesynth", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return {}, "no end"
    if done.returncode:
        return {}, (done.stderr.strip().splitlines() or ["failed"])[0]
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {}, "no JSON"
    return said, ""


def _topology(cluster: str, examples: Path, folder: Path) -> Path:
    """The cluster's example, or its text in ``folder``."""
    example = examples / cluster / "topo.dsl"
    if example.is_file():
        return example
    text = time_clusters.source(cluster, examples)
    if text is None:
        raise no_example(cluster, examples)
    path = folder / f"{cluster}.dsl"
    path.write_text(text, encoding="utf-8")
    return path
