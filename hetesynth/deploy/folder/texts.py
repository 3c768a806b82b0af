"""``README.md``, ``expected.json`` and ``smoke_test.sh`` of a folder: how it is loaded, tested, how fast it is."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path

from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.deploy.folder.environment import LOG_LINES, NAMES, Environment
from hetesynth.deploy.rank_files import RankOrder
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.target import SHORT, Target
from hetesynth.model.words import size_text

README, EXPECTED = "README.md", "expected.json"
DIGITS = 6  # of sizes
SHOWN = 8  # servers by name
_SEEN_TO = (
    "At most four files",
    "On every rank make",
    "Choose it with",
    "For a broadcast",
    "Without registration",
)
"""How sentences begin of what a folder's own files see to."""
_ALONE, _ALL_READ = (
    "Put FILE alone",
    "Put nothing else into `algorithms`: every file there is read, and the first that fits runs.",
)
_ONE_ROOT, _OVER_NICS = "root of a call", "broadcast or reduce with proto Simple"
_WRITTEN = "Written by `hetesynth build`, which replaces the folder as a whole."
_LEFT_OUT = "The runtime is not told of these files; its own algorithms run in their place:"
_TESTED = " `smoke_test.sh` runs them at these sizes, or the nearest that are whole chunks."
_UNNAMED = """
The topology states no host for SERVERS: the servers' names stand in the files. State `host` in the topology, or
replace them.
"""
SMOKE_TEST = "smoke_test.sh"
_NEVER_CALLED = "sends and receives in place of a call of the collective, so no program runs"
_TESTS_BEGIN = '. "$folder/environment.sh"\n'
_CHECK_PLANS = """launch "${PYTHON:-python3}" "$folder/load_plans.py" --check ${only:+--only "$only"}\n"""


def expected_text(cells: Sequence[DeployedCell], target: Target) -> str:
    """The times of every cell at the sizes at which it was simulated, as JSON."""
    rows = [
        {
            "cell": cell.name,
            "collective": cell.collective,
            "ranks": cell.ranks,
            "root": cell.record.get("root"),
            "programs": [program.name for program in cell.programs],
            "sizes": [expected.plain() for expected in cell.expectations(target)],
        }
        for cell in cells
    ]
    document = {"target": target.name, "simulated": True, "bandwidths": "GB/s", "cells": rows}
    return json.dumps(document, indent=1) + "\n"


def readme_text(
    target: Target, cells: Sequence[DeployedCell], stated: Environment, cluster: str, ranks: RankOrder | str
) -> str:
    """The page. ``ranks``: their places, or why there are no files of them."""
    if target.name == "portable":
        loading = _PORTABLE
    elif target.format.plan:
        loading = _PLANS
    else:
        steps = cautions(target, {cell.collective for cell in cells})
        loading = _SHELL + "\n".join(f"- {step}" for step in steps)
    parts = [f"# {cluster}: programs for {target.runtime}", _WRITTEN, loading]
    if stated.left_out:
        rows = [f"- `{name}`: {reason}." for name, reason in stated.left_out.items()]
        parts.append(_LEFT_OUT + "\n\n" + "\n".join(rows))
    if log := LOG_LINES.get(target.name):
        settings = " ".join(f"{name}={value}" for name, value in log.debug)
        lines = {
            "it has read the files": log.read,
            "a call runs one of them": log.ran,
            "a call runs a built-in algorithm": log.fell_back,
            "it refuses a file": log.refused,
        }
        text = [f"- {what}: `{line}`" for what, line in lines.items() if line]
        if not log.ran:
            text.append("- nothing tells which calls run them: compare the times")
        if any("NAME" in line for line in lines.values()):
            names = ", ".join(NAMES.values())
            text.append(f"\nNAME is {names}; the last three, built in, are Send and Recv. `...` is anything.")
        parts.append(f"## What the log says\n\nWith `{settings}`:\n\n" + "\n".join(text))
    rows = [
        f"| {cell.collective} | {cell.record.get('extent', '')} | {size_text(expected.size, DIGITS)} "
        f"| {expected.us:.4g} | {expected.algorithm / 1e9:.4g} | {expected.bus / 1e9:.4g} "
        f"| {'-' if expected.library_us is None else f'{expected.library_us:.4g}'} |"
        for cell in cells
        for expected in cell.expectations(target)
    ]
    parts.append(_TIMES.replace("TESTED", "" if target.name == "portable" else _TESTED) + "\n".join(rows))
    rows = []
    for program in [program for cell in cells for program in cell.programs]:
        last = "no limit" if program.last is None else f"{program.last:,}"
        root = f", root {program.root}" if program.collective in ROOTED and program.root is not None else ""
        forms = [("out of place", program.out_of_place), ("in place", program.in_place)]
        form = " and ".join(name for name, has in forms if has)
        what = f"{program.collective}{root} | {form} | {program.min_bytes:,} | {last} | {program.unit:,}"
        rows.append(f"| `{program.name}` | {what} |")
    parts.append(_CALLS + "\n".join(rows))
    if isinstance(ranks, str):
        parts.append(f"## Ranks\n\nThere are no host files: {ranks}.")
    elif not ranks.unnamed:
        parts.append(_RANKS)
    else:  # servers whose names stand for their hosts
        servers = ", ".join(ranks.unnamed[:SHOWN]) + (", ..." if len(ranks.unnamed) > SHOWN else "")
        parts.append(_RANKS + _UNNAMED.replace("SERVERS", servers))
    parts.append(_PROMISES)
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def cautions(target: Target, collectives: Collection[str]) -> list[str]:
    """The sentences of the table of targets that are to be known of a folder with programs for ``collectives``."""
    steps = []
    for step in target.install:
        of_roots = _ONE_ROOT in step and ROOTED.isdisjoint(collectives)
        of_nics = _OVER_NICS in step and SHORT.isdisjoint(collectives)
        if step.startswith(_ALONE):
            steps.append(_ALL_READ)
        elif not (step.startswith(_SEEN_TO) or of_roots or of_nics):
            steps.append(step)
    return steps


_PORTABLE = """
## Loading

No runtime reads this folder as it is: `portable` programs are for every reader of MSCCL XML and for simulators.
Build for `rccl-6`, `rccl-5`, `msccl-executor` or `msccl` and load that folder.
"""
_SHELL = """
## Loading

In the job's script, or in a shell on every host, with the folder at the same path everywhere:

    . FOLDER/environment.sh

It exports `HETESYNTH_DEPLOYMENT`, the folder, and the variables that the runtime reads. Hand them on to the ranks
(`mpirun -x NAME`, `srun --export=ALL`). In a container start the job by
`sh -c '. FOLDER/environment.sh && exec JOB'`: the variables hold the folder's path there, so no file of fixed
values would do.

"""
_PLANS = """
## Loading

The plans are for MSCCL++ 0.9.0 and later (read in commit 1f5f065d of 2026-08-20, which is later than tag v0.10.0).
No package index has it; `load_plans.py` says so where it is missing. Built from source, for CUDA 12:

    git clone https://github.com/microsoft/mscclpp && cd mscclpp && git checkout 1f5f065d
    python3 -m pip install ".[cuda12]"     # AMD GPUs: CXX=/opt/rocm/bin/hipcc python3 -m pip install ".[rocm7]"

MSCCL++ loads no folder: a process registers its plans. On every rank, before the first communicator:

    import load_plans            # with this folder on PYTHONPATH
    load_plans.register(rank)    # only_sums=True: no call of this job reduces by anything but a sum

For torch, `LD_PRELOAD=libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so torchrun ...`, and the two lines before
`torch.distributed.init_process_group("nccl")`. Set LD_PRELOAD for the job alone, not in a shell. Plans for
allreduce, allgather, reducescatter and broadcast run so; those of other collectives through `mscclpp.Executor`, as
`load_plans.py` does in its check.

- The selector gives a plan the calls of its sizes, form and root. What it leaves goes to MSCCL++'s own
  algorithms, and from there to NCCL. It replaces a selector that was set before; `load_plans.selector(plans)` can
  be combined.
- Reductions are sums. A request does not say the operator, and the runtime ignores it for plans: an allreduce for
  a maximum or an average would be summed. So plans of allreduce, reducescatter and reduce are registered only with
  `only_sums=True`; else `register` says which it left out.
- Buffers stand at the same offset of their allocation on every rank.
"""
_TIMES = """
## Times to expect

Sizes are of the whole buffer, bandwidths in GB/s.TESTED

| collective | sizes | size | us | algbw | busbw | the library's own, us |
|---|---|---|---|---|---|---|
"""
_CALLS = """
## Which calls run them

Calls of other sizes run the library's own algorithms, silently. Buffers that are multiples of the last column
always fit; others may.

| program | collective | form | from, bytes | to, bytes | multiples of |
|---|---|---|---|---|---|
"""
_RANKS = """
## Ranks

Rank i has to run on the GPU that `ranks.txt` names: `hostfile` and `rankfile` are for Open MPI, `machinefile` for
MPICH, `slurm_hosts` for `SLURM_HOSTFILE` with `srun --distribution=arbitrary`; `devices` says what each host sets.
"""
_PROMISES = """
## What is not promised

The times are simulated from the rates in the topology; nothing was timed on the cluster. That each program
delivers the right data was checked by executing its file. `index.json` says what each file was made from, and so
does each file.
"""


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
    log = LOG_LINES[target.name]
    names = ["HETESYNTH_DEPLOYMENT"]
    is_plans = target.format.plan
    if not is_plans:
        names += [*(name for name, _, _ in stated.variables), *(name for name, _ in log.debug)]
    text = (Path(__file__).parent / "smoke_test.txt").read_text(encoding="utf-8")
    if is_plans:  # `load_plans.py` runs them all
        text = text[: text.index(_TESTS_BEGIN)] + _CHECK_PLANS
    lines = list[str]()
    for cell in () if is_plans else cells:
        absent = [program.name for program in cell.programs if program.name in stated.left_out]
        in_place = any(program.in_place for program in cell.programs)
        both = in_place and any(program.out_of_place for program in cell.programs)
        told = "and in place" if in_place else "only; in place a built-in algorithm runs"
        lines.append(f"# {cell.name}: out of place {told}")
        lines += [f"skip {shlex.join((cell.name, f'{name}: {stated.left_out[name]}'))}" for name in absent]
        self_sent = cell.collective in SELF_SENT.get(target.name, ())
        if self_sent and not log.ran:
            never = f"{BINARIES[cell.collective]} {_NEVER_CALLED}"
            lines.append(f"skip {shlex.join((cell.name, never))}")
            continue
        stems = {name.partition(".")[0] for name in absent}
        for expected in cell.expectations(target):
            if expected.program.partition(".")[0] in stems:
                continue
            if expected.test is None:
                reason = f"no size near {expected.size} bytes is a whole number of its chunks"
                lines.append(f"skip {shlex.join((cell.name, reason))}")
                continue
            root = f" -r {cell.record.get('root') or 0}" if cell.collective in ROOTED else ""
            command = f"{BINARIES[cell.collective]} -b {expected.test} -e {expected.test} -g 1 -d float -c 1{root}"
            speeds = f"algbw {expected.algorithm / 1e9:.4g} GB/s, busbw {expected.bus / 1e9:.4g} GB/s"
            library = expected.library_us
            rings = "" if library is None else f"; the library's own {library:.4g} us"
            what = shlex.join((cell.name, f"{expected.us:.4g} us, {speeds}{rings}", NAMES[cell.collective]))
            lines.append(f"run {what} {'sends' if self_sent else 'both' if both else 'one'} {command}")
    values = {
        "CLUSTER": cluster,
        "RUNTIME": target.runtime,
        "ALONE": "" if hosts else "1",
        "RANKS": str(max((cell.ranks for cell in cells), default=1)),
        "FILES": ' --hostfile "$folder/hostfile" --rankfile "$folder/rankfile"' if hosts else "",
        "PASSED": "".join(f" -x {name}" for name in names),
        "DEBUG": " ".join(f"{name}={value}" for name, value in log.debug),
        "RAN": log.ran.replace("NAME", "$3") or log.read.partition(" ...")[0],
        "FELL_BACK": log.fell_back.replace("NAME", "[A-Z][A-Za-z]*"),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    # without a cell nothing stands in its place, not even an empty line
    return text.replace("@CELLS@\n", "".join(f"{line}\n" for line in lines))
