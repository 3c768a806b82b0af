"""What the whole command takes in memory on a large cluster, in a process of its own."""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.clusters import source

LIMIT = 500 * 10**6  # bytes
STATUS = Path("/proc/self/status")
COMMAND = """
import sys
from pathlib import Path
from hetesynth.cli.main import run
code = run(sys.argv[1:])
print(Path("/proc/self/status").read_text(), file=sys.stderr)
sys.exit(code)
"""


def peak_of(*arguments: str | Path) -> int:
    """Bytes that `hetesynth ARGUMENTS` had resident at most; it has to end well."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"^VmHWM:\s+([0-9]+) kB$", done.stderr, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.slow
@pytest.mark.skipif(not STATUS.exists(), reason="the system does not tell what a process had resident at most")
def test_256_gpus_from_topology_to_judged_programs_in_under_500_mb(tmp_path: Path) -> None:
    text = source("h20_8x32")
    assert text is not None
    topology = tmp_path / "h20_8x32.dsl"
    topology.write_text(text)
    made = peak_of("synth", topology, "--coll", "allgather", "--strategy", "greedy", "-o", tmp_path / "made")
    program = tmp_path / "made.xml"
    assert program.stat().st_size > 10**7
    judged = peak_of("verify", program)
    assert made < LIMIT
    assert judged < LIMIT // 2
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    for more in ((), ("--topo", topology)):
        assert peak_of("import", program, *more, "-o", tmp_path / "again") < LIMIT
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before < 2 * 60
