"""Reports of small clusters to test with, made once."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.page.report import report_of_synthesis
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.report.contents import Report

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def made(
    example: str,
    name: CollectiveName = "allgather",
    strategy: str = "greedy",
    targets: tuple[str, ...] = ("portable",),
) -> Synthesis:
    """A synthesis for an example."""
    path = EXAMPLES / example / "topo.dsl"
    root = 1 if name in ROOTED else None
    wanted = tuple(TARGETS[target] for target in targets)
    return synthesize(Request(path, name, root=root, strategy=strategy, targets=wanted, budget=Budget(effort=1.0)))


@cache
def report(
    example: str,
    name: CollectiveName = "allgather",
    strategy: str = "greedy",
    targets: tuple[str, ...] = ("portable",),
) -> Report:
    """Its report."""
    return report_of_synthesis(made(example, name, strategy, targets))


def cluster(example: str) -> Topology:
    """The topology of an example."""
    from hetesynth.topology.language import load_topology

    return load_topology(EXAMPLES / example / "topo.dsl")


def luminance(colour: str) -> float:
    """The relative luminance of a colour such as ``#0b6e99``, by WCAG."""
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
