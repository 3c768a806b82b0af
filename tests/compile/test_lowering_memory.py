"""What lowering a schedule for 256 GPUs takes in memory and time, in a process that does nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.clusters import source

LIMIT = 500 * 10**6  # bytes
SECONDS = 200.0  # of CPU: far above what it takes
STATUS = Path("/proc/self/status")
LOWER = """
import sys, time
from pathlib import Path
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.model.target import PORTABLE
from hetesynth.engine.import_file import read_schedule

problem, schedule, _ = read_schedule(Path(sys.argv[1]).read_bytes())
program = lower(problem, schedule, LoweringOptions("large"))
Path(sys.argv[2]).write_bytes(write_msccl_xml(program, PORTABLE))
print("CPU:", time.process_time())
print(Path("/proc/self/status").read_text())
"""


def lowered(schedule: Path, program: Path) -> tuple[int, float]:
    """Bytes that were resident at most, and seconds of CPU."""
    done = subprocess.run(
        [sys.executable, "-c", LOWER, str(schedule), str(program)], capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    peak = re.search(r"^VmHWM:\s+([0-9]+) kB$", done.stdout, re.MULTILINE)
    seconds = re.search(r"^CPU: ([0-9.]+)$", done.stdout, re.MULTILINE)
    assert peak is not None and seconds is not None
    return int(peak[1]) * 1024, float(seconds[1])


def hetesynth(*arguments: str | Path) -> None:
    subprocess.run([sys.executable, "-m", "hetesynth", *map(str, arguments)], check=True, timeout=1800)


def judged(tmp_path: Path, cluster: str, collective: str, strategy: str) -> tuple[int, float]:
    """Peak and seconds of lowering, after the program was judged right."""
    text = source(cluster)
    assert text is not None
    topology, base = tmp_path / f"{cluster}.dsl", tmp_path / "made"
    topology.write_text(text)
    wanted = ("--coll", collective, "--strategy", strategy, "--schedule-only")
    hetesynth("synth", topology, *wanted, "-o", base)
    program = tmp_path / "made.xml"
    taken = lowered(tmp_path / "made.schedule.json", program)
    hetesynth("verify", program)
    return taken


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell what a process had resident at most")
@pytest.mark.parametrize(("collective", "strategy"), [("allreduce", "greedy"), ("alltoall", "hierarchical")])
def test_256_gpus_are_lowered_in_under_500_mb(tmp_path: Path, collective: str, strategy: str) -> None:
    peak, seconds = judged(tmp_path, "h20_8x32", collective, strategy)
    assert peak < LIMIT
    assert seconds < SECONDS
