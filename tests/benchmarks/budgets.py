"""Wall clock of ``synth`` against its budget: a row for each cluster, collective and budget.

    python tests/benchmarks/budgets.py [--budgets 5,10] [--collectives allgather] [--options=OPTIONS] TOPOLOGY ...

``--options`` are handed to ``synth``. Load of the machine counts in the wall clock, so the
processor's seconds stand beside it. The last line is the largest excess.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from hetesynth.model.collective import ROOTED
from hetesynth.topology.language import load_topology

COLLECTIVES = "allgather,reducescatter,allreduce,broadcast,reduce,alltoall,scatter,gather"
ALLOWED = 2.0  # seconds beyond the budget


def command(topology: Path, name: str, budget: str, options: list[str], output: Path) -> list[str]:
    """The command line of one row."""
    root = ["--root", "0", "--single-root"] if name in ROOTED else []
    return [
        sys.executable, "-m", "hetesynth", "synth", str(topology), "--coll", name, *root, "--time-budget",
        f"{budget}s", "-o", str(output), *options,
    ]  # fmt: skip


def measured(arguments: list[str]) -> tuple[float, float, str]:
    """Seconds of the wall and of the processor, and the first line that is printed."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    said = (done.stdout or done.stderr).splitlines() or [""]
    return wall, processor, said[0] if done.returncode == 0 else f"exit {done.returncode}: {said[0]}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("topologies", nargs="+", type=Path)
    parser.add_argument("--budgets", default="5,10,20")
    parser.add_argument("--collectives", default=COLLECTIVES)
    parser.add_argument("--options", default="", help="handed to synth, in one word")
    asked = parser.parse_args()
    worst = 0.0
    print(f"{'cluster':<32} {'GPUs':>4} {'collective':<13} {'budget':>6} {'wall':>6} {'cpu':>6} {'load':>5}")
    with tempfile.TemporaryDirectory() as folder:
        for topology in asked.topologies:
            ranks = load_topology(topology).ranks
            cluster = topology.parent.name if topology.stem == "topo" else topology.stem
            for name in asked.collectives.split(","):
                for budget in asked.budgets.split(","):
                    options = shlex.split(asked.options)
                    line = command(topology, name, budget, options, Path(folder) / "x")
                    wall, processor, said = measured(line)
                    worst = max(worst, wall - float(budget))
                    late = " LATE" if wall > float(budget) + ALLOWED else ""
                    verdict = re.sub(r"\s+", " ", said)[:90]
                    print(
                        f"{cluster[:32]:<32} {ranks:>4} {name:<13} {budget:>6} {wall:6.1f} {processor:6.1f} "
                        f"{os.getloadavg()[0]:5.1f}{late}  {verdict}",
                        flush=True,
                    )  # fmt: skip
    print(f"at most {worst:.1f} s beyond the budget")


if __name__ == "__main__":
    main()
