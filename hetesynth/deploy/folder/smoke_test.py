"""``smoke_test.sh``: runs each program of a folder on its cluster and says what to expect of it.

In: a target and the cells of its folder. Out: the text of a script for sh: for each cell and each size at which
it was simulated the command of nccl-tests or rccl-tests, or the check of ``load_plans.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from hetesynth.deploy.folder.cells import DeployedCell, Expectation
from hetesynth.deploy.folder.environment import Environment
from hetesynth.deploy.folder.log_lines import LOG_LINES, NAMES
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.target import Target

SMOKE_TEST = "smoke_test.sh"
BINARIES: dict[CollectiveName, str] = {
    "allreduce": "all_reduce_perf",
    "allgather": "all_gather_perf",
    "reducescatter": "reduce_scatter_perf",
    "broadcast": "broadcast_perf",
    "reduce": "reduce_perf",
    "alltoall": "alltoall_perf",
    "gather": "gather_perf",
    "scatter": "scatter_perf",
}
"""Of nccl-tests and rccl-tests."""
SELF_SENT: dict[str, frozenset[CollectiveName]] = {
    "rccl-6": frozenset({"gather", "scatter"}),
    "rccl-5": frozenset({"gather", "scatter"}),
    "msccl-executor": frozenset({"alltoall"}),
    "msccl": frozenset({"alltoall"}),
}
"""Collectives whose test calls ncclSend and ncclRecv in place of the collective, where it was built for a library
before NCCL 2.28: no program runs then."""


def smoke_test_text(
    target: Target, cells: Sequence[DeployedCell], stated: Environment, cluster: str, *, hosts: bool
) -> str:
    """The script. ``hosts``: mpirun is told of them; otherwise all ranks run here."""
    ranks = max((cell.ranks for cell in cells), default=1)
    lines = [_HEAD.format(cluster=cluster, runtime=target.runtime, alone="" if hosts else 1).rstrip("\n")]
    if target.format == "mscclpp-json":
        lines.append(_launch(ranks, ["HETESYNTH_DEPLOYMENT"], hosts=hosts))
        lines.append(_PLANS.rstrip("\n"))
        return "\n".join(lines) + "\n"
    debug = LOG_LINES[target.name].debug
    names = ["HETESYNTH_DEPLOYMENT", *(name for name, _, _ in stated.variables)]
    lines.append(_launch(ranks, [*names, *(name for name, _ in debug)], hosts=hosts))
    lines.append(_run(target))
    left_out = {entry.name: entry.reason for entry in stated.left_out}
    for cell in cells:
        lines += _cell_lines(cell, target, left_out)
    lines.append(_TAIL.rstrip("\n"))
    return "\n".join(lines) + "\n"


def _cell_lines(cell: DeployedCell, target: Target, left_out: dict[str, str]) -> list[str]:
    """The commands of one cell."""
    absent = [program.name for program in cell.programs if program.name in left_out]
    lines = [f"# {cell.name}: {_forms(cell)}"]
    if absent:
        lines += [f"skip {_quoted(cell.name, f'{name}: {left_out[name]}')}" for name in absent]
    self_sent = cell.collective in SELF_SENT.get(target.name, ())
    if self_sent and not LOG_LINES[target.name].ran:
        return [*lines, f"skip {_quoted(cell.name, _NEVER_CALLED.format(BINARIES[cell.collective]))}"]
    stems = {name.partition(".")[0] for name in absent}
    for expected in cell.expectations(target):
        if expected.program.partition(".")[0] in stems:
            continue
        if expected.test is None:
            reason = f"no size near {expected.size} bytes is a whole number of its chunks"
            lines.append(f"skip {_quoted(cell.name, reason)}")
            continue
        root = f" -r {cell.record.get('root') or 0}" if cell.collective in ROOTED else ""
        command = f"{BINARIES[cell.collective]} -b {expected.test} -e {expected.test} -g 1 -d float -c 1{root}"
        what = _quoted(cell.name, expectation_text(expected), NAMES[cell.collective])
        forms = "both" if all(_has(cell, in_place=form) for form in (False, True)) else "one"
        lines.append(f"run {what} {'sends' if self_sent else forms} {command}")
    return lines


def _has(cell: DeployedCell, *, in_place: bool) -> bool:
    return any(program.in_place if in_place else program.out_of_place for program in cell.programs)


def _quoted(*words: str) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _forms(cell: DeployedCell) -> str:
    both = _has(cell, in_place=True)
    return "out of place and in place" if both else "out of place only; in place a built-in algorithm runs"


def expectation_text(expected: Expectation) -> str:
    """``14.5 us, algbw 17.3 GB/s, busbw 15.1 GB/s; the library's own 17.7 us``."""
    speeds = f"algbw {expected.algorithm / 1e9:.4g} GB/s, busbw {expected.bus / 1e9:.4g} GB/s"
    rings = "" if expected.library_us is None else f"; the library's own {expected.library_us:.4g} us"
    return f"{expected.us:.4g} us, {speeds}{rings}"


def _launch(ranks: int, names: Sequence[str], *, hosts: bool) -> str:
    files = ' --hostfile "$folder/hostfile" --rankfile "$folder/rankfile"' if hosts else ""
    passed = "".join(f" -x {name}" for name in names)
    return _LAUNCH.format(ranks=ranks, files=files, passed=passed).rstrip("\n")


def _run(target: Target) -> str:
    lines = LOG_LINES[target.name]
    debug = " ".join(f"{name}={value}" for name, value in lines.debug)
    ran = lines.ran.replace("NAME", "$3") or lines.read.partition(" ...")[0]
    return _RUN.format(debug=debug, ran=ran, fell_back=lines.fell_back.replace("NAME", _ANY_NAME)).rstrip("\n")


_NEVER_CALLED = "{} sends and receives in place of a call of the collective, so no program runs"
_ANY_NAME = "[A-Z][A-Za-z]*"
_HEAD = """#!/bin/sh
# Runs the programs for {cluster} in {runtime} and says what to expect of them.
#   sh smoke_test.sh            all of them
#   sh smoke_test.sh allreduce  those whose name has this word in it
# TESTS: the folder with all_reduce_perf and so on, where they are not on PATH.
# LAUNCH: what starts the ranks in place of mpirun, as "srun --distribution=arbitrary".
# The folder has to have the same path on all hosts.
set -eu
folder=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
if [ "${{1:-}}" = --rank ]; then # what the ranks run: the host's visible devices, then the test
  shift
  host=$(hostname)
  alone={alone} # 1: all ranks run here, whatever the machine is called
  [ -f "$folder/devices" ] && while read -r machine setting; do
    if [ -n "$alone" ]; then machine=$host; fi
    if [ "$machine" = "$host" ] || [ "$machine" = "${{host%%.*}}" ] || [ "${{machine%%.*}}" = "$host" ]; then
      export "$setting"
    fi
  done <"$folder/devices"
  exec "$@"
fi
only=${{1:-}}
HETESYNTH_DEPLOYMENT=$folder
export HETESYNTH_DEPLOYMENT"""
_LAUNCH = """launch() {{
  if [ -n "${{LAUNCH:-}}" ]; then
    $LAUNCH sh "$folder/smoke_test.sh" --rank "$@"
  else
    mpirun -np {ranks}{files}{passed} \\
      sh "$folder/smoke_test.sh" --rank "$@"
  fi
}}"""
_PLANS = """launch "${PYTHON:-python3}" "$folder/load_plans.py" --check ${only:+--only "$only"}"""
_RUN = """. "$folder/environment.sh"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
bad=0
chosen=0
skip() {{
  case $1 in *"$only"*) ;; *) return 0 ;; esac
  chosen=$((chosen + 1))
  echo "$1: not tested: $2"
}}
run() {{ # cell, what to expect, the collective in logs, whether both forms have programs, command
  case $1 in *"$only"*) ;; *) return 0 ;; esac
  chosen=$((chosen + 1))
  echo "$1"
  echo "  expected, simulated: $2"
  line="{ran}"
  other="{fell_back}"
  forms=$4
  shift 4
  program=${{TESTS:+$TESTS/}}$1
  shift
  echo "  $program $*"
  export {debug}
  if ! launch "$program" "$@" -n 1 -w 0 >"$log" 2>&1; then
    tail -n 20 "$log"
    echo "  FAILED: it did not run, or gave wrong data"
    bad=$((bad + 1))
    return 0
  fi
  if [ "$forms" = both ] && [ -n "$other" ] && grep -q "$line" "$log" && grep -q "$other" "$log"; then
    echo "  FAILED: a built-in algorithm ran some of the calls"
    bad=$((bad + 1))
  elif grep -q "$line" "$log"; then
    echo "  the runtime has it: $(grep -c "$line" "$log") lines with \\"$line\\""
  elif [ "$forms" = sends ]; then
    echo "  not tested: no line with \\"$line\\": tests built before NCCL 2.28 send and receive here"
    return 0
  else
    echo "  FAILED: no line with \\"$line\\": a built-in algorithm ran"
    bad=$((bad + 1))
  fi
  NCCL_DEBUG=WARN
  if launch "$program" "$@" >"$log" 2>&1; then
    grep -E '^ *[0-9]' "$log" || true
  else
    tail -n 20 "$log"
    echo "  FAILED: it did not run, or gave wrong data"
    bad=$((bad + 1))
  fi
}}"""
_TAIL = """if [ "$chosen" -eq 0 ]; then
  echo "no cell has $only in its name"
  exit 1
fi
if [ "$bad" -gt 0 ]; then
  echo "$bad tests failed"
  exit 1
fi
echo "all ran"
"""
