"""smoke_test.sh, run with an mpirun and tests of our own that write down what they are told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from support.deployments import cell, written

from hetesynth.deploy.folder.texts import BINARIES

MPIRUN = """#!/bin/sh
printf '%s\\n' "$*" >>"$RECORD"
while [ "$1" != sh ]; do shift; done
exec "$@"
"""
TEST = """#!/bin/sh
directory=${MSCCL_ALGO_DIR:-}${MSCCL_XML_FILES:-}
echo "$(basename "$0") $* dir=$directory devices=${HIP_VISIBLE_DEVICES:-none}" >>"$RECORD"
if [ -n "${FAIL:-}" ]; then echo "out of bounds values"; exit 3; fi
if [ "$NCCL_DEBUG" = INFO ]; then echo "$SAYS"; else echo "     1024  256  float  sum  12.6  0.08  0.07  0"; fi
"""


def ran(folder: Path, tools: Path, says: str, *arguments: str, **stated: str) -> tuple[int, str, list[str]]:
    """Exit code, output and what was written down."""
    tools.mkdir(exist_ok=True)
    for name, text in {"mpirun": MPIRUN, **dict.fromkeys([*BINARIES.values(), "python3"], TEST)}.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    record = tools / "record"
    record.write_text("")
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "RECORD": str(record),
        "SAYS": says,
        "NCCL_DEBUG": "",
        **stated,
    }
    done = subprocess.run(
        ["sh", str(folder / "smoke_test.sh"), *arguments], env=env, capture_output=True, check=False
    )
    assert done.stderr == b""
    return done.returncode, done.stdout.decode(), record.read_text().splitlines()


SAID = {
    "rccl-6": "h:1:1 [0] NCCL INFO mscclFuncAllGather: opCount 0 sendbuff",
    "rccl-5": "h:1:1 [0] NCCL INFO mscclFuncAllGather: opCount 0 sendbuff",
    "msccl-executor": "h:1:1 [0] NCCL INFO MSCCL: Setup Kernel finished, smem 0 needsFence 0",
    "msccl": "h:1:1 [0] NCCL INFO Parsed MSCCL Algorithm /x.xml successfully.",
}


@pytest.mark.parametrize("runtime", SAID)
def test_every_size_is_run_and_the_log_is_looked_at(runtime: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "a folder" / runtime, runtime)
    code, output, record = ran(folder, tmp_path / "tools", SAID[runtime])
    assert code == 0 and "all ran" in output and output.count("the runtime has it") == 4
    assert "expected, simulated: 12.5 us, algbw 5.12 GB/s" in output
    starts, tests = record[::2], record[1::2]
    assert all(line.startswith("-np 8 ") for line in starts) and len(starts) == 8
    sizes = [64_000, 999_936, 1_000_192, 8_000_000]
    for size, first, second in zip(sizes, tests[::2], tests[1::2], strict=True):
        assert first.startswith(
            f"all_gather_perf -b {size} -e {size} -g 1 -d float -c 1 -n 1 -w 0 dir={folder}/alg"
        )
        assert second.startswith(f"all_gather_perf -b {size} -e {size} -g 1 -d float -c 1 dir=")


def test_one_form_that_fell_back_fails(tmp_path: Path) -> None:
    """The in-place half of a test may run a built-in algorithm though the other half runs the program."""
    folder = written(tmp_path / "folder", "rccl-6")
    both = f"{SAID['rccl-6']}\nh:1:1 [0] NCCL INFO AllGather: opCount 1 sendbuff"
    code, output, _ = ran(folder, tmp_path / "tools", both)
    assert code == 1 and output.count("a built-in algorithm ran some") == 4


@pytest.mark.parametrize(("runtime", "collective"), [("rccl-6", "gather"), ("msccl-executor", "alltoall")])
def test_a_test_that_sends_and_receives_by_itself_is_no_failure(runtime: str, collective, tmp_path: Path) -> None:
    """As rccl-tests do for gather and scatter, and nccl-tests for alltoall, where NCCL is older than 2.28."""
    sent = cell(runtime, collective, 1024, 1 << 16, both=collective == "alltoall")
    folder = written(tmp_path / "folder", runtime, sent)
    code, output, _ = ran(folder, tmp_path / "tools", "h:1:1 [0] NCCL INFO Send: opCount 0 sendbuff")
    assert code == 0 and "not tested: no line" in output and "FAILED" not in output


def test_plans_are_checked_by_their_loader(tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", "mscclpp")
    code, _, record = ran(folder, tmp_path / "tools", "", "allgather")
    assert code == 0
    assert record[0].startswith("-np 8 -x HETESYNTH_DEPLOYMENT sh ")
    assert record[1].startswith(f"python3 {folder}/load_plans.py --check --only allgather")
