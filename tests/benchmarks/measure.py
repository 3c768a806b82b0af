"""One case in a fresh process: seconds of the whole command, peak memory, and what the command said of itself.

In: a case, the file of its cluster, a directory for what the command writes. Out: a ``Row``. A command that fails,
hangs or prints nonsense makes a row that says so.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.cases import Case

Status = Literal["ok", "failed", "not run"]
_PATIENCE = 60.0  # seconds over twice the limit after which a command is taken to hang
_BEFORE_THE_SEARCH = ("parse", "chunking", "bound")


@dataclass(frozen=True, slots=True)
class Process:
    """What is seen of a process from outside. ``cpu`` and ``megabytes`` are None where the system does not tell.

    ``seconds`` on the wall, ``cpu`` seconds of all its cores together.
    """

    code: int
    seconds: float
    cpu: float | None
    megabytes: float | None
    output: str
    errors: str
    hung: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One measured case. Seconds: ``total`` of the whole command, ``first`` from its first look at the file to the
    first verified schedule, ``work`` of the command without starting Python, ``cpu`` of all cores together."""

    case: Case
    status: Status
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
        allowed = goal.allowed(self.bound)
        missed = []
        if allowed is not None and self.steps > allowed:
            missed.append("steps")
        if self.total is not None and self.total > goal.seconds:
            missed.append("seconds")
        if goal.megabytes is not None and self.megabytes is not None and self.megabytes > goal.megabytes:
            missed.append("memory")
        return tuple(missed)


def measure(case: Case, topology: Path, directory: Path) -> Row:
    """Run ``case`` on the cluster in ``topology``; the command writes into ``directory``."""
    environment = dict(os.environ)
    if case.cold:
        environment["NUMBA_CACHE_DIR"] = str(directory / "numba")
    process = run(arguments(case, topology, directory), environment, 2 * case.limit + _PATIENCE)
    return row(case, process)


def arguments(case: Case, topology: Path, directory: Path) -> list[str]:
    """The command line of ``case``."""
    return [
        sys.executable, "-m", "hetesynth", "synth", str(topology), "--coll", case.collective,
        "--chunks", str(case.chunks), "--objective", "steps", "--time-budget", str(case.budget), "--json",
        "-o", str(directory),
        *(["--schedule-only"] if case.schedule_only else []),
    ]  # fmt: skip


def run(command: Sequence[str], environment: dict[str, str], timeout: float) -> Process:
    """Run ``command``; after ``timeout`` seconds, or when interrupted, it is killed."""
    import tempfile

    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=environment)
        hung = threading.Event()

        def stop() -> None:
            hung.set()
            child.kill()

        timer = threading.Timer(timeout, stop)
        timer.start()
        try:
            code, cpu, megabytes = _wait(child)
        except BaseException:
            if child.returncode is None:
                child.kill()
                with suppress(ChildProcessError):  # the interrupt came after the system had told of its end
                    _wait(child)
            raise
        finally:
            timer.cancel()
        seconds = time.perf_counter() - started
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Process(code, seconds, cpu, megabytes, texts[0], texts[1], hung.is_set())


def _wait(child: subprocess.Popen[bytes]) -> tuple[int, float | None, float | None]:
    """Exit code, seconds of computing, megabytes of resident memory at the peak."""
    if not hasattr(os, "wait4"):
        return child.wait(), None, None
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes there, kibibytes elsewhere
    return child.returncode, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit / 1e6


def row(case: Case, process: Process) -> Row:
    """What ``process`` tells of ``case``."""
    seen: dict[str, Any] = {"total": process.seconds, "cpu": process.cpu, "megabytes": process.megabytes}
    if process.hung:
        return Row(case, "failed", f"killed after {process.seconds:.0f} s", **seen)
    if process.code != 0:
        lines = process.errors.strip().splitlines()
        message = lines[0] if lines else "no message"
        return Row(case, "failed", f"exit code {process.code}: {message}", **seen)
    try:
        said = json.loads(process.output)
        return Row(case, "ok", **seen, **_figures(said))
    except (ValueError, KeyError, TypeError) as error:
        return Row(case, "failed", f"its output is not understood: {type(error).__name__}: {error}", **seen)


def _figures(said: dict[str, Any]) -> dict[str, Any]:
    phases = {str(name): float(seconds) for name, seconds in said["seconds_by_phase"].items()}
    first = said["first_schedule_seconds"] + sum(phases.get(name, 0.0) for name in _BEFORE_THE_SEARCH)
    return {
        "steps": int(said["steps"]),
        "bound": int(said["lower_bound"]),
        "method": str(said["bound_method"]),
        "proof": str(said["bound_proof"]),
        "within": said["bound_within_composition"],
        "first": float(first),
        "work": float(said["seconds"]),
        "phases": phases,
    }
