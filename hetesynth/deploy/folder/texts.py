"""``README.md``, ``expected.json`` and ``smoke_test.sh`` of a folder: how it is loaded, tested, how fast it is."""

import json
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.deploy.folder.environment import LOG_LINES, NAMES, Environment
from hetesynth.deploy.rank_files import RankOrder
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.target import SHORT, Target
from hetesynth.model.words import EXACT, size_text

README, EXPECTED, SMOKE_TEST = "README.md", "expected.json", "smoke_test.sh"
_SEEN_TO = (
    "At most four files",
    "On every rank make",
    "Choose it with",
    "For a broadcast",
    "Without registration",
)
"""The beginnings of sentences about steps that a folder's own files take."""
_ALONE, _ALL_READ = (
    "Put FILE alone",
    "Put nothing else into `algorithms`: every file there is read, and the first that fits runs.",
)
_ONE_ROOT, _OVER_NICS = "root of a call", "broadcast or reduce with proto Simple"
_NEVER_CALLED = "sends and receives in place of a call of the collective, so no program runs"
_TESTS_BEGIN = '. "$folder/environment.sh"\n'
_CHECK_PLANS = """launch "${PYTHON:-python3}" "$folder/load_plans.py" --check ${only:+--only "$only"}\n"""
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
"""The programs of nccl-tests and rccl-tests for the collectives."""
SELF_SENT: dict[str, frozenset[CollectiveName]] = {
    "rccl-6": frozenset({"gather", "scatter"}),
    "rccl-5": frozenset({"gather", "scatter"}),
    "msccl-executor": frozenset({"alltoall"}),
    "msccl": frozenset({"alltoall"}),
}
"""Collectives whose test calls ncclSend and ncclRecv in place of the collective, where it was built for a library
before NCCL 2.28: no program runs then."""


def expected_text(cells: Sequence[DeployedCell], target: Target) -> str:
    """The times of every cell at the sizes at which it was simulated, as JSON."""
    rows = [
        {
            "cell": cell.name,
            "collective": cell.collective,
            "ranks": cell.ranks,
            "root": cell.record.get("root"),
            "programs": [program.name for program in cell.programs],
            "sizes": [
                {
                    "size": expected.size,
                    "test_size": expected.test,
                    "microseconds": round(expected.us, 3),
                    "algbw": round(expected.algorithm / 1e9, 3),
                    "busbw": round(expected.bus / 1e9, 3),
                    "library_microseconds": expected.library_us and round(expected.library_us, 3),
                }
                for expected in cell.expectations()
            ],
        }
        for cell in cells
    ]
    document = {"target": target.name, "simulated": True, "bandwidths": "GB/s", "cells": rows}
    return json.dumps(document, indent=1) + "\n"


def readme_text(
    target: Target, cells: Sequence[DeployedCell], stated: Environment, cluster: str, ranks: RankOrder | str
) -> str:
    """Return the text of ``README.md``. ``ranks``: places of the ranks, or why there are no files of them."""
    written = (Path(__file__).parent / "readme.txt").read_text(encoding="utf-8")
    prose = dict(re.findall(r"^@([\w-]+)\n(.*?)(?=^@|\Z)", written, re.MULTILINE | re.DOTALL))
    kind = "plans" if target.format.plan else "shell" if target.environment else target.name
    kind = "tables" if target.format.table else kind
    parts = [f"# {cluster}: programs for {target.runtime}", prose["written"], prose[kind]]
    if kind in ("shell", "nccl-device"):
        parts.append("\n".join(f"- {step}" for step in cautions(target, {cell.collective for cell in cells})))
    if stated.left_out:
        rows = [f"- `{name}`: {reason}." for name, reason in stated.left_out.items()]
        parts.append("\n".join(["Left out, so that the runtime's own algorithms run in their place:", "", *rows]))
    if log := LOG_LINES.get(target.name):
        lines = {
            "it has read the files": log.read,
            "a call runs one of them": log.ran,
            "a call runs a built-in algorithm": log.fell_back,
            "it refuses a file": log.refused,
        }
        settings = " ".join(f"{name}={value}" for name, value in log.debug)
        rows = [f"- {what}: `{line}`" for what, line in lines.items() if line]
        parts.append(f"## What the log says\n\nWith `{settings}`; NAME is a collective, `...` anything:")
        parts.append("\n".join(rows))
    rows = [
        f"| {cell.collective} | {cell.record.get('extent', '')} | {size_text(expected.size, EXACT)} "
        f"| {expected.us:.4g} | {expected.algorithm / 1e9:.4g} | {expected.bus / 1e9:.4g} "
        f"| {'-' if expected.library_us is None else f'{expected.library_us:.4g}'} |"
        for cell in cells
        for expected in cell.expectations()
    ]
    parts.append(prose["times"].rstrip("\n") + "\n" + "\n".join(rows))
    unnamed = () if isinstance(ranks, str) else ranks.unnamed
    parts.append(f"## Ranks\n\nThere are no host files: {ranks}." if isinstance(ranks, str) else prose["ranks"])
    if unnamed:
        servers = ", ".join(unnamed[:8]) + (", ..." if len(unnamed) > 8 else "")
        parts.append(f"The topology states no host for {servers}: the servers' names stand in the files.")
    parts.append(prose["promises"])
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def cautions(target: Target, collectives: Collection[str]) -> list[str]:
    """Return the sentences of the table of targets that are to be known of a folder of `build` with programs for
    ``collectives``."""
    steps = [step for step in _sentences(target, collectives) if not step.startswith(_SEEN_TO)]
    return [_ALL_READ if step.startswith(_ALONE) else step for step in steps]


def atlas_steps(target: Target, collectives: Collection[str], folder: Path) -> list[str]:
    """Return the sentences about installing an atlas in ``folder``, whose programs are in a folder called after
    the target: tables are loaded together, by the index, and others are installed or given file by file."""
    place = folder / target.name
    file = str(folder) if target.format.table else f"{place}/NAME.{target.format.extension}"
    steps = [step.replace("FILE", file) for step in _sentences(target, collectives)]
    nothing_else = _ALL_READ.replace("`algorithms`", str(place))
    return [nothing_else if step.startswith(_ALONE.replace("FILE", file)) else step for step in steps]


def _sentences(target: Target, collectives: Collection[str]) -> Iterator[str]:
    """Yield how programs for ``collectives`` are installed."""
    for step in target.install:
        of_roots = _ONE_ROOT in step and ROOTED.isdisjoint(collectives)
        of_nics = _OVER_NICS in step and SHORT.isdisjoint(collectives)
        if not of_roots and not of_nics:
            yield step


def smoke_test_text(
    target: Target, cells: Sequence[DeployedCell], stated: Environment, cluster: str, *, hosts: bool
) -> str:
    """Return the text of ``smoke_test.sh``. ``hosts``: mpirun gets the host files; else all ranks run here."""
    log, is_plans = LOG_LINES[target.name], target.format.plan
    names = ["HETESYNTH_DEPLOYMENT", *(name for name, _, _ in stated.variables)]
    names += [] if is_plans else [name for name, _ in log.debug]
    text = (Path(__file__).parent / "smoke_test.txt").read_text(encoding="utf-8")
    if is_plans:  # `load_plans.py` runs them all
        text = text[: text.index(_TESTS_BEGIN)] + _CHECK_PLANS
    lines = list[str]()
    for cell in () if is_plans else cells:
        absent = {program.name for program in cell.programs if program.name in stated.left_out}
        lines += [f"skip {shlex.join((cell.name, f'{name}: {stated.left_out[name]}'))}" for name in sorted(absent)]
        self_sent, binary = cell.collective in SELF_SENT.get(target.name, ()), BINARIES[cell.collective]
        if self_sent and not log.ran:
            lines.append(f"skip {shlex.join((cell.name, f'{binary} {_NEVER_CALLED}'))}")
            continue
        forms = {program.in_place for program in cell.programs}
        runs = "sends" if self_sent else "both" if len(forms) == 2 else "one"
        for expected in cell.expectations():
            if expected.program.partition(".")[0] in {name.partition(".")[0] for name in absent}:
                continue
            if expected.test is None:
                reason = f"no size near {expected.size} bytes is a whole number of its chunks"
                lines.append(f"skip {shlex.join((cell.name, reason))}")
                continue
            root = f" -r {cell.record.get('root') or 0}" if cell.collective in ROOTED else ""
            command = f"{binary} -b {expected.test} -e {expected.test} -g 1 -d float -c 1{root}"
            times = f"{expected.us:.4g} us, algbw {expected.algorithm / 1e9:.4g} GB/s"
            what = shlex.join((cell.name, times, NAMES[cell.collective]))
            lines.append(f"run {what} {runs} {command}")
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
