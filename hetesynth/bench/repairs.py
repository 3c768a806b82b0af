"""``python -m hetesynth.bench.repairs`` writes the table of docs/repair.md: repairs beside fresh runs.

In: the examples of the repository. Out: Markdown on standard output. Every loss is repaired from the schedule of
the whole cluster and synthesized anew, both in this process with empty caches after a run that fills those of
machine code; seconds are of the processor, so other work on the machine counts little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.bench.machine import load, machine
from hetesynth.commands.repair import Repaired, RepairRequest, repair
from hetesynth.commands.synth import synthesize
from hetesynth.compile.artifacts import Synthesis, write
from hetesynth.compile.formats import SCHEDULE_SUFFIX
from hetesynth.compile.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.frontend.overridden import OverriddenFile, overridden
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES

EXAMPLES = Path("examples")
HEAD = "cluster | loss | steps: repaired, fresh, bound | program us: the same, limit | CPU s: the same, share"


@dataclass(frozen=True, slots=True)
class Scenario:
    """A loss on a cluster. ``programs``: with programs as well as schedules alone."""

    example: str
    without: tuple[str, ...] = ()
    degrade: tuple[str, ...] = ()
    programs: bool = False

    @property
    def changed(self) -> OverriddenFile:
        """The cluster with the loss."""
        return overridden(self.topology, self.without, self.degrade)

    @property
    def topology(self) -> Path:
        """Its file."""
        return EXAMPLES / self.example / "topo.dsl"

    @property
    def name(self) -> str:
        """In words."""
        slow = [text.replace("=", " at ") for text in self.degrade]
        return ", ".join([*self.without, *slow])


APPENDIX_E = (
    Scenario("v100_4p8", ("a.gpu3", "a.nic3"), programs=True),  # one of the 4 GPUs, and its NIC
    Scenario("v100_4p8", ("b.gpu7",), programs=True),
    Scenario("v100_4p8", ("a.gpu3", "a.nic3", "b.gpu7"), programs=True),
    Scenario("v100_4p8", (), ("a.nic*=18Gbps",), programs=True),
    Scenario("v100_4x3p8", ("*.gpu3",), programs=True),
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
NAMES: tuple[CollectiveName, ...] = ("allgather", "allreduce")


def _forget() -> None:
    """What a fresh process would not know."""
    from hetesynth.synthesis.steady.steady_state import EXPANSIONS

    EXPANSIONS.clear()
    for name, module in list(sys.modules.items()):
        if name.startswith("hetesynth."):
            for value in list(vars(module).values()):
                if hasattr(value, "cache_clear"):
                    value.cache_clear()


def _fresh(topology: Path | OverriddenFile, name: CollectiveName, *, bare: bool) -> Synthesis:
    budget = Budget(effort=1.0)
    return synthesize(
        Request(topology, name, budget=budget, schedule_only=bare, objective="time", runtime=NCCL_TABLES)
    )  # fmt: skip


def _row(scenario: Scenario, name: CollectiveName, folder: Path, *, bare: bool) -> str | None:
    """One line; None where the cluster with the loss has no schedule."""
    schedule = folder / f"{scenario.example}-{name}-{bare}{SCHEDULE_SUFFIX}"
    if not schedule.exists():
        stem = schedule.with_name(schedule.name.removesuffix(SCHEDULE_SUFFIX))
        write(_fresh(scenario.topology, name, bare=bare), stem)
    try:
        _forget()
        began = time.process_time()
        repaired = repair(
            RepairRequest(schedule, scenario.topology, scenario.changed, Budget(effort=1.0), schedule_only=bare)
        )
        seconds = [time.process_time() - began]
        _forget()
        began = time.process_time()
        fresh = _fresh(scenario.changed, name, bare=bare)
        seconds.append(time.process_time() - began)
    except HetesynthError as error:
        return f"{scenario.example} {name} | {scenario.name} | {error.message} | | "
    return f"{scenario.example} {name} | {scenario.name} | {_figures(repaired, fresh, seconds, bare=bare)}"


def _figures(repaired: Repaired, fresh: Synthesis, seconds: Sequence[float], *, bare: bool) -> str:
    ours, share = repaired.synthesis, seconds[0] / seconds[1]
    steps, times = "", ""
    if bare:
        bound = ours.solution.bound.steps if ours.solution.within is None else ours.solution.within
        steps = f"{ours.solution.schedule.makespan}, {fresh.solution.schedule.makespan}, {bound}"
    else:
        limit = ours.time_optimality.bound_seconds
        times = f"{_us(ours.program_seconds)}, {_us(fresh.program_seconds)}, {_us(limit)}"
    return f"{steps} | {times} | {seconds[0]:.2f}, {seconds[1]:.2f}, {100 * share:.0f} %"


def _us(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1e6:,.0f}"


def _table(scenarios: Sequence[Scenario], folder: Path) -> Iterator[str]:
    yield HEAD
    yield " | ".join(["---"] * 5)
    for scenario in scenarios:
        for name in NAMES:
            for bare in (True, False):
                if bare or scenario.programs:
                    row = _row(scenario, name, folder, bare=bare)
                    if row is not None:
                        yield row


def page() -> Iterator[str]:
    """The lines of the tables, and what they were measured on."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _row(APPENDIX_E[0], "allgather", folder, bare=False)
        yield "### HeteCCL, Appendix E\n"
        yield from (f"| {line} |" for line in _table(APPENDIX_E, folder))
        yield "\n### Single losses\n"
        yield from (f"| {line} |" for line in _table(SINGLE, folder))
    yield "\n### Measured on\n"
    yield from (f"- {what}: {value}" for what, value in machine().items())
    yield f"- load at the end: {load()}"


if __name__ == "__main__":
    for line in page():
        sys.stdout.write(line + "\n")
        sys.stdout.flush()
