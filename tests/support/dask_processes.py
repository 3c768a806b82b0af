"""A Dask scheduler and workers as processes of their own, as users start them; they end with the ``with``."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0


def eventually(true: Callable[[], object], seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.02)


@dataclass
class DaskProcesses:
    """``address``: of the scheduler. Logs are in ``folder``."""

    folder: Path
    address: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str, arguments: Sequence[str], python_path: Path = ROOT) -> None:
        """A process called ``name`` that finds modules in ``python_path``; its words go to a log."""
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", *arguments, "--no-dashboard"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                cwd=self.folder, env={**os.environ, "PYTHONPATH": str(python_path)},
            )  # fmt: skip

    def start_scheduler(self) -> None:
        self.start("scheduler", ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"])
        eventually(lambda: re.search(r"Scheduler at: +(tcp://\S+)", self.log("scheduler")))
        self.address = re.findall(r"Scheduler at: +(tcp://\S+)", self.log("scheduler"))[0]

    def start_worker(self, name: str, *options: str, python_path: Path = ROOT) -> None:
        """Without a nanny, unless ``options`` say so, so that what is killed stays away."""
        where = [
            "--nthreads",
            "1",
            *(options or ["--no-nanny"]),
            "--name",
            name,
            "--local-directory",
            str(self.folder / name),
        ]
        self.start(name, ["distributed.cli.dask_worker", self.address, *where], python_path)

    def joined(self, name: str) -> bool:
        return "Registered to" in self.log(name)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def signal(self, name: str, number: int) -> None:
        os.killpg(self.processes[name].pid, number)

    def kill(self, name: str) -> None:
        process = self.processes[name]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def dask_processes(folder: Path, *workers: str) -> Iterator[DaskProcesses]:
    """A scheduler with ``workers``, all of them there."""
    processes = DaskProcesses(folder)
    try:
        processes.start_scheduler()
        for name in workers:
            processes.start_worker(name)
        for name in workers:
            eventually(lambda name=name: processes.joined(name))  # type: ignore[misc]
        yield processes
    finally:
        for name, process in processes.processes.items():
            if process.poll() is None:
                processes.kill(name)
