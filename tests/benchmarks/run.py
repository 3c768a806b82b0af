"""Commands in processes of their own: seconds, peak memory, what they said; and the run of the cases on steps.

A command that fails, hangs or prints nonsense makes a row that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks.cases import Case, Goal
from benchmarks.clusters import topology
from benchmarks.machine import load, machine

WARM_UP = (
    Case("warm-up", "h20_8x16", 128, "allgather", 1, Goal(40), 40, schedule_only=True),  # compiles the kernel
    Case("warm-up", "h20_4p8", 12, "alltoall", 1, Goal(2), 2),
)


@dataclass(frozen=True, slots=True)
class Process:
    """A process as seen from outside: ``seconds`` on the wall, ``cpu`` seconds of all its cores together, peak
    ``megabytes``."""

    code: int
    seconds: float
    cpu: float
    megabytes: float
    output: str
    errors: str
    hung: bool


def run(command: Sequence[str], environment: dict[str, str], timeout: float) -> Process:
    """Run ``command``; after ``timeout`` seconds, or when interrupted, it is killed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)
        timer = threading.Timer(timeout, child.kill)
        timer.start()
        try:
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            raise
        finally:
            timer.cancel()
        seconds = time.perf_counter() - started
        child.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    cpu, megabytes = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 / 1e6
    return Process(child.returncode, seconds, cpu, megabytes, texts[0], texts[1], seconds >= timeout)


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case. Seconds: ``total`` of the whole command, ``first`` from its first look at the file to the
    first verified schedule, ``work`` of the command without starting Python, ``cpu`` of all cores together."""

    case: Case
    status: Literal["ok", "failed"]
    error: str = ""
    steps: int | None = None
    bound: int | None = None
    method: str = ""
    proof: str = ""
    within: int | None = None
    first: float | None = None
    work: float | None = None
    total: float | None = None
    cpu: float | None = None
    megabytes: float | None = None
    phases: dict[str, float] = field(default_factory=dict)

    @property
    def gap(self) -> int | None:
        """Steps over the bound."""
        return None if self.steps is None or self.bound is None else self.steps - self.bound

    @property
    def misses(self) -> tuple[str, ...]:
        """What of the goal is not reached; nothing for a case without one."""
        goal = self.case.goal
        if self.status != "ok":
            return (self.status,)
        if goal is None or self.steps is None or self.bound is None:
            return ()
        reached = (
            ("steps", self.steps, goal.allowed(self.bound)), ("seconds", self.total, goal.seconds),
            ("memory", self.megabytes, goal.megabytes),
        )  # fmt: skip
        return tuple(what for what, ours, most in reached if ours is not None and most is not None and ours > most)


def measure(case: Case, topology: Path, directory: Path) -> Row:
    """Run ``case`` on the cluster in ``topology``; the command writes into ``directory``."""
    command = [
        sys.executable, "-m", "hetesynth", "synth", str(topology), "--coll", case.collective,
        "--chunks", str(case.chunks), "--objective", "steps", "--time-budget", str(case.budget), "--json",
        "-o", str(directory), *(["--schedule-only"] if case.schedule_only else []),
    ]  # fmt: skip
    cold = {"NUMBA_CACHE_DIR": str(directory / "numba")} if case.cold else {}
    process = run(command, {**os.environ, **cold}, 2 * case.limit + 60)
    seen: dict[str, Any] = {"total": process.seconds, "cpu": process.cpu, "megabytes": process.megabytes}
    if process.hung:
        return Row(case, "failed", f"killed after {process.seconds:.0f} s", **seen)
    if process.code != 0:
        message = (process.errors.strip().splitlines() or ["no message"])[0]
        return Row(case, "failed", f"exit code {process.code}: {message}", **seen)
    said = json.loads(process.output)
    phases = said["seconds_by_phase"]
    before = sum(phases.get(name, 0.0) for name in ("parse", "chunking", "bound"))
    return Row(
        case, "ok", steps=said["steps"], bound=said["lower_bound"], method=said["bound_method"],
        proof=said["bound_proof"], within=said["bound_within_composition"],
        first=said["first_schedule_seconds"] + before, work=said["seconds"], phases=phases, **seen,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a run says. ``whole``: every case of the benchmark was asked for, not a selection."""

    rows: tuple[Row, ...]
    facts: dict[str, str]
    date: str
    seconds: float
    loads: tuple[str, str]
    whole: bool


def measured(
    cases: Sequence[Case],
    examples: Path,
    *,
    whole: bool,
    measure: Callable[[Case, Path, Path], Row] = measure,
    warm_up: tuple[Case, ...] = WARM_UP,
) -> Report:
    """Measure ``cases`` in turn, equal commands once, after ``warm_up``.

    Raises HetesynthError HS901 when the cluster of a case is not there.
    """
    started, before = time.monotonic(), load()
    rows: dict[object, Row] = {}
    with tempfile.TemporaryDirectory(prefix="hetesynth-bench-") as name:
        folder = Path(name)
        files = {c.cluster: topology(c.cluster, examples, folder) for c in (*cases, *warm_up)}
        for number, case in enumerate((*warm_up, *cases), -len(warm_up)):
            if number < 0 or case.command not in rows:
                with tempfile.TemporaryDirectory(dir=folder) as out:
                    rows[case.command if number >= 0 else number] = measure(case, files[case.cluster], Path(out))
    date, seconds = time.strftime("%Y-%m-%d"), time.monotonic() - started
    every = tuple(replace(rows[case.command], case=case) for case in cases)
    return Report(every, machine(), date, seconds, (before, load()), whole)
