"""``PYTHONPATH=tests python -m benchmarks.repairs``: docs/data/repairs.csv and its summary in docs/repair.md.

Every loss is repaired from the schedule of the whole cluster and synthesized anew, both in this process with empty
caches after a run that fills those of machine code; seconds are of the processor, so other work counts little.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.clusters import EXAMPLES, ROOT
from benchmarks.generated_clusters import generated_cluster
from benchmarks.machine import machine
from benchmarks.tables import csv_text
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.n_minus_one import single_losses
from hetesynth.engine.repair import RepairRequest, repair
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically
from hetesynth.model.collective import CollectiveName
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.overridden import overridden

HEAD = ["table", "cluster", "collective", "loss", "steps", "us", "repair_s", "fresh_s"]
MEASURED = "## Measured\n"
NAMES: tuple[CollectiveName, ...] = ("allgather", "allreduce")
LOSSES = {
    "HeteCCL, Appendix E": (
        "v100_4p8 to v100_fail_one4 +", "v100_4p8 to v100_fail_one8 +", "v100_4p8 to v100_fail_both +",
        "v100_4x2p8 to v100_fail_each4 +", "v100_4p8 to v100_4p8_slow18G +",
    ),
    "Single losses": (
        "h20_64 without b3.gpu7", "h20_64 without b3.nic3", "h20_64 without a6.gpu0", "h20_64 degrade b0.nic0=50%",
        "h20_8x8 without *.nic0", "v100_4x2p8x2 without b1.gpu2 +", "v100_4x2p8x2 without b1.nic2 +",
        "v100_4x2p8x2 without b0.gpu0<->b0.gpu1", "mesh_8x8 without a.gpu27", "torus_8x8 without a.gpu0",
    ),
    "Generated clusters, one loss each": ("2", "4 +", "5", "7", "9 +", "11 +"),
}  # fmt: skip
"""Cluster and loss, or the seed of both; with ``+`` programs too, not schedules alone."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured. ``bare``: of schedules alone; ``seconds``: of the repair and of the fresh run; ``steps``
    and ``us``: repaired, fresh, bound; ``refused``: why there is no schedule."""

    section: str
    cluster: str
    loss: str
    collective: CollectiveName
    bare: bool
    seconds: tuple[float, float] = (0.0, 0.0)
    steps: tuple[int, int, int] | None = None
    us: tuple[float, ...] | None = None
    refused: str = ""


def cells(folder: Path) -> Iterator[tuple[Row, Path, os.PathLike[str]]]:
    """Each row before it is measured, the cluster and what is left of it."""
    for section, losses in LOSSES.items():
        for loss in losses:
            words = loss.removesuffix(" +").split()
            if len(words) == 1:  # a cluster that nobody tuned for, with a loss that the seed says
                seed = int(words[0])
                generated = generated_cluster(seed)
                topology = folder / f"{generated.name}.dsl"
                topology.write_text(generated.text)
                every = [name for _, name in single_losses(load_topology(topology), ("gpu", "nic", "link"))]
                words = [generated.name, "without", every[seed * 7 % len(every)]]
            else:
                topology = EXAMPLES / words[0] / "topo.dsl"
            cluster, how, what = words
            for name in NAMES:
                for bare in (True, False) if loss.endswith("+") else (True,):
                    changed: os.PathLike[str] = EXAMPLES / what / "topo.dsl"
                    if how != "to":
                        without, degrade = ((what,) if how == word else () for word in ("without", "degrade"))
                        changed = overridden(topology, without, degrade)
                    yield Row(section, cluster, what.replace("=", " at "), name, bare), topology, changed


def rows(folder: Path) -> Iterator[Row]:
    """Everything; the first is measured twice, to compile."""
    for number, (row, *clusters) in enumerate(cells(folder)):
        if not number:
            measured(replace(row, bare=False), *clusters, folder)
        one = measured(row, *clusters, folder)
        print(*line(one), sep=" | ", file=sys.stderr)
        yield one


def _forget() -> None:
    """Empty the caches: what a fresh process would not know but its machine code."""
    from hetesynth.search.steady_state import EXPANSIONS

    EXPANSIONS.clear()
    for module_name, module in list(sys.modules.items()):
        if module_name.startswith("hetesynth."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _fresh(topology: os.PathLike[str], row: Row) -> Synthesis:
    budget = Budget(effort=1.0)
    return synthesize(Request(
        topology, row.collective, budget=budget, schedule_only=row.bare, objective="time", runtime=NCCL_TABLES
    ))  # fmt: skip


def measured(row: Row, topology: Path, changed: os.PathLike[str], folder: Path) -> Row:
    """``row`` with its figures."""
    stem = folder / f"{row.cluster}-{row.collective}-{row.bare}"
    schedule = Path(f"{stem}{SCHEDULE_SUFFIX}")
    if not schedule.exists():
        _fresh(topology, row).write(stem)
    try:
        _forget()
        began = time.process_time()
        budget = Budget(effort=1.0)
        ours = repair(RepairRequest(schedule, topology, changed, budget, schedule_only=row.bare)).synthesis
        middle = time.process_time()
        _forget()
        restarted = time.process_time()
        fresh = _fresh(changed, row)
        seconds = (middle - began, time.process_time() - restarted)
    except HetesynthError as error:
        return replace(row, refused=error.message)
    except SourceError as error:
        return replace(row, refused=error.diagnostics[0].message)
    if row.bare:
        bound = ours.solution.bound.steps if ours.solution.within is None else ours.solution.within
        steps = (ours.solution.schedule.makespan, fresh.solution.schedule.makespan, bound)
        return replace(row, seconds=seconds, steps=steps)
    programs = (ours.program_seconds, fresh.program_seconds, ours.time_optimality.bound_seconds)
    return replace(row, seconds=seconds, us=tuple(0.0 if s is None else s * 1e6 for s in programs))


def line(row: Row) -> list[str]:
    """Of the table: steps and times are those of the repair, of a fresh run, and the bound."""
    steps = "" if row.steps is None else ", ".join(map(str, row.steps))
    us = "" if row.us is None else ", ".join(f"{value:,.0f}" if value else "-" for value in row.us)
    seconds = [f"{row.seconds[0]:.2f}", f"{row.seconds[1]:.2f}"]
    return [row.section, row.cluster, row.collective, row.loss, row.refused or steps, us, *seconds]


def _summary(measured: Sequence[Row]) -> Iterator[str]:
    """What the tables say, in numbers."""
    for bare, what in ((True, "schedules alone"), (False, "with programs")):
        some = [row for row in measured if row.bare is bare and not row.refused]
        if not some:
            continue
        shares = sorted(row.seconds[0] / row.seconds[1] for row in some)
        third = sum(3 * share <= 1 for share in shares)
        ours, fresh = sum(row.seconds[0] for row in some), sum(row.seconds[1] for row in some)
        middle = 100 * shares[len(shares) // 2]
        yield (
            f"- {what}: {len(some)} repairs take {100 * shares[0]:.0f} to {100 * shares[-1]:.0f} % of the time of "
            f"the fresh runs, {middle:.0f} % in the middle, {100 * ours / fresh:.0f} % over all; {third} take a "
            "third or less."
        )
    steps = [row.steps for row in measured if row.steps]
    more = [ours - fresh for ours, fresh, _ in steps]
    us = [row.us[0] / row.us[1] for row in measured if row.us and row.us[0] and row.us[1]]
    yield (
        f"- steps: as many as the fresh schedule or fewer in {sum(m <= 0 for m in more)} of {len(more)}, at most "
        f"{max(more, default=0)} more."
    )
    if us:
        equal = sum(ratio <= 1.001 for ratio in us)
        yield (
            f"- programs, in these tables: as quick as the fresh one or quicker in {equal} of {len(us)}, at most "
            f"{100 * (max(us) - 1):.0f} % slower."
        )


def measured_section(measured: Sequence[Row]) -> str:
    """The section of the page."""
    said = (textwrap.fill(line, width=115, subsequent_indent="  ") for line in _summary(measured))
    facts = textwrap.fill("Measured on: " + ", ".join(f"{what} {value}" for what, value in machine().items()), 115)
    return "\n".join([MEASURED, *said, "", _DATA, facts, ""])


_DATA = """\
Every repair is a row of [data/repairs.csv](data/repairs.csv), written by `PYTHONPATH=tests python -m
benchmarks.repairs`: steps (schedules alone) or microseconds of the program: of the repair, of a fresh run, and
the bound; processor seconds of both. A repair saves little where a fresh run finds its answer at once, as it
proves the new bound and judges its files like any other.
"""


def main() -> None:
    """Measure and write the section into the page."""
    parser = argparse.ArgumentParser(prog="PYTHONPATH=tests python -m benchmarks.repairs", description=__doc__)
    parser.add_argument("--page", type=Path, default=ROOT / "docs" / "repair.md")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        every = list(rows(Path(name)))
    before, heading, _ = options.page.read_text(encoding="utf-8").partition(MEASURED)
    if not heading:
        before = before.rstrip("\n") + "\n\n"
    write_atomically(options.page.parent / "data" / "repairs.csv", csv_text(HEAD, map(line, every)).encode())
    write_atomically(options.page, (before + measured_section(every)).encode())


if __name__ == "__main__":
    main()
