"""``PYTHONPATH=tests python -m benchmarks.repairs``: docs/data/repairs.csv and its summary in docs/repair.md.

In: the examples of the repository, generated clusters, a journal from which a run that was stopped goes on. Out:
the section "Measured" of the page. Every loss is repaired from the schedule of the whole cluster and synthesized
anew, both in this process with empty caches after a run that fills those of machine code; seconds are of the
processor, so other work on the machine counts little.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.generated_clusters import generated_cluster
from benchmarks.journal import RowJournal
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

EXAMPLES = Path("examples")
HEAD = ["table", "cluster", "collective", "loss", "steps", "us", "repair_s", "fresh_s"]
MEASURED = "## Measured\n"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A loss on a cluster: ``without`` or ``degrade``, or ``to``, the example of the cluster that is left.
    ``programs``: with programs as well as schedules alone; ``text``: of a cluster that is no example."""

    cluster: str
    without: tuple[str, ...] = ()
    degrade: tuple[str, ...] = ()
    to: str = ""
    programs: bool = False
    text: str = ""

    def topology(self, folder: Path) -> Path:
        """Its file, in ``folder`` where it is no example."""
        if not self.text:
            return EXAMPLES / self.cluster / "topo.dsl"
        path = folder / f"{self.cluster}.dsl"
        path.write_text(self.text)
        return path

    def changed(self, folder: Path) -> os.PathLike[str]:
        """The cluster with the loss."""
        if self.to:
            return EXAMPLES / self.to / "topo.dsl"
        return overridden(self.topology(folder), self.without, self.degrade)

    @property
    def name(self) -> str:
        """In words."""
        slow = [text.replace("=", " at ") for text in self.degrade]
        return self.to or ", ".join([*self.without, *slow])


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
    us: tuple[float, float, float] | None = None
    refused: str = ""

    @property
    def share(self) -> float:
        """Of the seconds of the fresh run."""
        return self.seconds[0] / self.seconds[1]


class Journal(RowJournal[tuple[str, str, str, bool], Row]):
    """Rows in a file."""

    field = "repairs"

    def key(self, row: Row) -> tuple[str, str, str, bool]:
        """Cluster, loss, collective, schedules alone or not."""
        return row.cluster, row.loss, row.collective, row.bare

    def plain(self, row: Row) -> dict[str, Any]:
        """For JSON."""
        return asdict(row)

    def row(self, values: dict[str, Any]) -> Row:
        """Lists become tuples again."""
        tuples: dict[str, Any] = {n: tuple(v) if isinstance(v, list) else v for n, v in values.items()}
        return Row(**tuples)


APPENDIX_E = (
    Scenario("v100_4p8", to="v100_fail_one4", programs=True),
    Scenario("v100_4p8", to="v100_fail_one8", programs=True),
    Scenario("v100_4p8", to="v100_fail_both", programs=True),
    Scenario("v100_4x2p8", to="v100_fail_each4", programs=True),
    Scenario("v100_4p8", to="v100_4p8_slow18G", programs=True),
)
SINGLE = (
    Scenario("h20_64", ("b3.gpu7",)),
    Scenario("h20_64", ("b3.nic3",)),
    Scenario("h20_64", ("a6.gpu0",)),
    Scenario("h20_64", (), ("b0.nic0=50%",)),
    Scenario("h20_8x8", ("*.nic0",)),
    Scenario("v100_4x2p8x2", ("b1.gpu2",), programs=True),
    Scenario("v100_4x2p8x2", ("b1.nic2",), programs=True),
    Scenario("v100_4x2p8x2", ("b0.gpu0<->b0.gpu1",)),
    Scenario("mesh_8x8", ("a.gpu27",)),
    Scenario("torus_8x8", ("a.gpu0",)),
)
SEEDS = {2: False, 4: True, 5: False, 7: False, 9: True, 11: True}
"""Of generated clusters; with programs or not."""
NAMES: tuple[CollectiveName, ...] = ("allgather", "allreduce")


def sections(folder: Path) -> dict[str, list[Scenario]]:
    """All scenarios by the heading of their table."""
    return {
        "HeteCCL, Appendix E": list(APPENDIX_E),
        "Single losses": list(SINGLE),
        "Generated clusters, one loss each": [_generated(seed, folder) for seed in SEEDS],
    }


def _generated(seed: int, folder: Path) -> Scenario:
    """A cluster that nobody tuned for, with a loss that the seed says."""
    cluster = generated_cluster(seed)
    whole = Scenario(cluster.name, text=cluster.text)
    losses = [name for _, name in single_losses(load_topology(whole.topology(folder)), ("gpu", "nic", "link"))]
    chosen = losses[seed * 7 % len(losses)]
    return Scenario(cluster.name, (chosen,), programs=SEEDS[seed], text=cluster.text)


def _forget() -> None:
    """What a fresh process would not know."""
    from hetesynth.search.steady_state import EXPANSIONS

    EXPANSIONS.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("hetesynth."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _fresh(topology: os.PathLike[str], name: CollectiveName, *, bare: bool) -> Synthesis:
    budget = Budget(effort=1.0)
    return synthesize(
        Request(topology, name, budget=budget, schedule_only=bare, objective="time", runtime=NCCL_TABLES)
    )  # fmt: skip


def _measured(section: str, scenario: Scenario, name: CollectiveName, folder: Path, *, bare: bool) -> Row:
    """One row."""
    row = Row(section, scenario.cluster, scenario.name, name, bare)
    schedule = folder / f"{scenario.cluster}-{name}-{bare}{SCHEDULE_SUFFIX}"
    topology, changed = scenario.topology(folder), scenario.changed(folder)
    if not schedule.exists():
        stem = schedule.with_name(schedule.name.removesuffix(SCHEDULE_SUFFIX))
        _fresh(topology, name, bare=bare).write(stem)
    try:
        _forget()
        began = time.process_time()
        ours = repair(RepairRequest(schedule, topology, changed, Budget(effort=1.0), schedule_only=bare)).synthesis
        middle = time.process_time()
        _forget()
        restarted = time.process_time()
        fresh = _fresh(changed, name, bare=bare)
        seconds = (middle - began, time.process_time() - restarted)
    except HetesynthError as error:
        return Row(section, scenario.cluster, scenario.name, name, bare, refused=error.message)
    except SourceError as error:
        return Row(section, scenario.cluster, scenario.name, name, bare, refused=error.diagnostics[0].message)
    if bare:
        bound = ours.solution.bound.steps if ours.solution.within is None else ours.solution.within
        steps = (ours.solution.schedule.makespan, fresh.solution.schedule.makespan, bound)
        return Row(row.section, row.cluster, row.loss, name, bare, seconds, steps)
    limit = ours.time_optimality.bound_seconds
    us = tuple(0.0 if s is None else s * 1e6 for s in (ours.program_seconds, fresh.program_seconds, limit))
    return Row(row.section, row.cluster, row.loss, name, bare, seconds, us=us)  # type: ignore[arg-type]


def rows(journal: Journal, folder: Path) -> Iterator[Row]:
    """All rows, from the journal where they are there; new ones go into it at once."""
    warm = False
    for section, scenarios in sections(folder).items():
        for scenario in scenarios:
            for name in NAMES:
                for bare in (True, False) if scenario.programs else (True,):
                    row = journal.get((scenario.cluster, scenario.name, name, bare))
                    if row is None:
                        if not warm:
                            _measured(section, APPENDIX_E[0], "allgather", folder, bare=False)
                            warm = True
                        row = _measured(section, scenario, name, folder, bare=bare)
                        journal.add(row)
                        print(*_line(row), sep=" | ", file=sys.stderr)
                    yield row


def _line(row: Row) -> list[str]:
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
        shares = sorted(row.share for row in some)
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
    parser.add_argument("--page", type=Path, default=Path("docs/repair.md"))
    parser.add_argument("--journal", type=Path, help="measured rows, kept from run to run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        measured = list(rows(Journal(options.journal), Path(name)))
    before, heading, _ = options.page.read_text(encoding="utf-8").partition(MEASURED)
    if not heading:
        before = before.rstrip("\n") + "\n\n"
    write_atomically(options.page.parent / "data" / "repairs.csv", csv_text(HEAD, map(_line, measured)).encode())
    write_atomically(options.page, (before + measured_section(measured)).encode())


if __name__ == "__main__":
    main()
