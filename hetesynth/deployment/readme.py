"""``README.md`` and ``expected.json`` of a folder: how it is loaded, how one sees that it was, which times to expect.

In: a target, cells, what the environment leaves out. Out: the texts. Facts about runtimes come from ``model/target.py``
and ``log_lines.py``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from hetesynth.deployment.cells import DeployedCell
from hetesynth.deployment.environment import ENVIRONMENT, Environment
from hetesynth.deployment.log_lines import LOG_LINES, NAMES
from hetesynth.model.collective import ROOTED
from hetesynth.model.target import Target
from hetesynth.report.words import size_text

README, EXPECTED = "README.md", "expected.json"
DIGITS = 6  # of sizes


@dataclass(frozen=True, slots=True)
class Hosts:
    """What is known of the machines. ``problem``: why there are no files of them; ``unnamed``: servers whose names stand
    for their hosts."""

    problem: str = ""
    unnamed: tuple[str, ...] = ()


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
    target: Target, cells: Sequence[DeployedCell], stated: Environment, cluster: str, hosts: Hosts
) -> str:
    """The page."""
    parts = [
        f"# {cluster}: programs for {target.runtime}\n\nWritten by `hetesynth build`, which replaces the folder."
    ]
    parts.append(_loading(target))
    if stated.left_out:
        rows = [f"- `{entry.name}`: {entry.reason}." for entry in stated.left_out]
        parts.append(
            "The runtime is not told of these; its own algorithms run in their place:\n\n" + "\n".join(rows)
        )
    parts += [_log(target), _times(target, cells), _calls(target, cells), _hosts(hosts), _PROMISES]
    return "\n\n".join(part for part in parts if part) + "\n"


def _loading(target: Target) -> str:
    if target.name == "portable":
        return (
            "## Loading\n\nNo runtime reads this folder as it is: `portable` programs are for every reader of MSCCL XML and "
            "for simulators. Build for `rccl-6`, `rccl-5`, `msccl-executor` or `msccl` and load that folder."
        )
    if target.format == "mscclpp-json":
        return _PLANS
    steps = "\n".join(f"- {_sentence(step)}" for step in target.install)
    return (
        f"## Loading\n\nIn a shell on every host, or in the job's script, with the folder at one path everywhere:\n\n"
        f"    . FOLDER/{ENVIRONMENT}\n\n"
        "It exports `HETESYNTH_DEPLOYMENT`, the folder, and the variables that the runtime reads. Hand them on to the "
        "ranks (`mpirun -x NAME`, `srun --export=ALL`). There is no file of variables for containers: the paths in "
        f"it would be of one machine; start them with `sh -c '. FOLDER/{ENVIRONMENT} && exec JOB'`.\n\n{steps}"
    )


def _sentence(step: str) -> str:
    """A step of the table of targets for a folder that is complete."""
    if step.startswith("Put FILE alone"):
        return "Put nothing else into `algorithms`: every file there is read as a program, and the first that fits runs."
    return step


def _log(target: Target) -> str:
    if target.name not in LOG_LINES:
        return ""
    lines = LOG_LINES[target.name]
    settings = " ".join(f"{name}={value}" for name, value in lines.debug)
    rows = [
        ("it has read the files", lines.read),
        ("a call runs one of them", lines.ran),
        ("a call runs a built-in algorithm", lines.fell_back),
        ("it refuses a file", lines.refused),
    ]
    text = [f"- {what}: `{line}`" for what, line in rows if line]
    if not lines.ran:
        text.append("- nothing tells which calls run them: compare the times")
    names = f"NAME is {', '.join(NAMES.values())}; `...` is anything."
    named = f"\n\n{names}" if any("NAME" in line for _, line in rows) else ""
    return f"## What the log says\n\nWith `{settings}`:\n\n" + "\n".join(text) + named


def _times(target: Target, cells: Sequence[DeployedCell]) -> str:
    rows = [
        f"| {cell.collective} | {cell.record.get('extent', '')} | {size_text(expected.size, DIGITS)} "
        f"| {expected.us:.4g} | {expected.algorithm / 1e9:.4g} | {expected.bus / 1e9:.4g} "
        f"| {'-' if expected.ring_us is None else f'{expected.ring_us:.4g}'} |"
        for cell in cells
        for expected in cell.expectations(target)
    ]
    head = (
        "| collective | sizes | size | us | algbw | busbw | the library's own, us |\n|---|---|---|---|---|---|---|"
    )
    how = {True: "`load_plans.py --check` runs", False: "`smoke_test.sh` runs"}[target.format == "mscclpp-json"]
    tests = (
        "" if target.name == "portable" else f" {how} them at these sizes, or the nearest that are whole chunks."
    )
    return (
        f"## Times to expect\n\nSizes are of the whole buffer, bandwidths in GB/s.{tests}\n\n{head}\n"
        + "\n".join(rows)
    )


def _calls(target: Target, cells: Sequence[DeployedCell]) -> str:
    """Which calls run which program."""
    rows = []
    for cell in cells:
        for program in cell.programs:
            last = "no limit" if program.last is None else f"{program.last:,}"
            root = f", root {program.root}" if cell.collective in ROOTED and program.root is not None else ""
            form = "both" if program.in_place and program.out_of_place else "in" if program.in_place else "out of"
            rows.append(
                f"| `{program.name}` | {program.collective}{root} | {form} {'' if form == 'both' else 'place'} "
                f"| {program.min_bytes:,} | {last} | {program.unit:,} |".replace("  ", " ")
            )
    head = "| program | collective | form | from, bytes | to, bytes | multiples of |\n|---|---|---|---|---|---|"
    return (
        "## Which calls run them\n\nCalls of other sizes run the library's own algorithms, silently. Sizes that are multiples of "
        f"the last column always fit; others may.\n\n{head}\n" + "\n".join(rows)
    )


def _hosts(hosts: Hosts) -> str:
    text = "## Ranks\n\n"
    if hosts.problem:
        return f"{text}There are no host files: {hosts.problem}."
    text += (
        "Rank i has to run on the GPU that `ranks.txt` names: `hostfile` and `rankfile` are for Open MPI, `machinefile` for "
        "MPICH, `slurm_hosts` for `SLURM_HOSTFILE` with `srun --distribution=arbitrary`, `devices` says what each host "
        "sets."
    )
    if hosts.unnamed:
        named = ", ".join(hosts.unnamed[:8]) + (", ..." if len(hosts.unnamed) > 8 else "")
        text += (
            f"\n\nThe topology states no host for {named}: the servers' names stand in the files. State `host` in the "
            "topology, or replace them."
        )
    return text


_PROMISES = (
    "## What is not promised\n\nThe times are simulated from the rates in the topology; nothing was timed on the cluster. That "
    "each program delivers the right data was checked by executing its file. `index.json` says what each file was made "
    "from, and so does each file."
)
_PLANS = """## Loading

MSCCL++ loads no folder: a process registers its plans. On every rank, before the first communicator:

    import load_plans            # with this folder on PYTHONPATH
    load_plans.register(rank)

For torch, `LD_PRELOAD=libmscclpp_nccl.so MSCCLPP_NCCL_LIB_PATH=libnccl.so torchrun ...`, and the two lines before
`torch.distributed.init_process_group("nccl")`. Set LD_PRELOAD for the job alone, not in a shell. Plans for allreduce,
allgather, reducescatter and broadcast run so; those of other collectives through `mscclpp.Executor`, as
`load_plans.py` does in its check.

- The selector gives a plan the calls of its sizes, form and root. What it leaves goes to MSCCL++'s own algorithms, and
  from there to NCCL. It replaces a selector that was set before: `load_plans.selector(plans)` is there to be combined.
- Reductions are sums. A request does not say the operator, so an allreduce for a maximum would be summed too: do not
  register plans in jobs that have such calls of these sizes (`MSCCLPP_FORCE_NCCL_FALLBACK_OPERATION` names collectives
  that stay with NCCL).
- Buffers stand at the same offset of their allocation on every rank."""
