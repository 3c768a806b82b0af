"""How far published runs are from what the formulas expect, by kind of machine, collective and size.

``bands.csv`` is written by tests/benchmarks/reality.py from the runs of docs/reality.md."""

import csv
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal

from hetesynth.library.machine import Machine
from hetesynth.model.collective import COLLECTIVES, CollectiveName

Family = Literal["rings", "chains", "sends"]
"""Rings, trees and NVLS; Broadcast and Reduce; AllToAll, Gather and Scatter."""
CLASSES = ((2**20, "to 1 MiB"), (2**26 - 1, "1 to 64 MiB"), (2**62, "from 64 MiB"))
"""The largest size of each class, in bytes, and its name."""
ANY = "any"
"""The generation of a row that holds for all machines."""


@dataclass(frozen=True, slots=True)
class Band:
    """The range of published times, ``low`` to ``high`` times the expected ones. ``points``: the number of
    measurements. ``unchecked``: why none are of such a machine, collective and size; empty where some are."""

    low: float
    high: float
    points: int
    unchecked: str = ""


def family_of(collective: CollectiveName) -> Family:
    """Return the family of collectives that have their errors in common with ``collective``."""
    kind = COLLECTIVES[collective]
    return "sends" if kind.personalized else "chains" if kind.chain else "rings"


def class_of(size: int) -> str:
    """Return the class of sizes that ``size`` bytes belong to."""
    return next(name for most, name in CLASSES if size <= most)


def fabric_name(machine: Machine) -> str:
    """Return the name of the fabric that joins the nodes of ``machine``; ``one node`` where there is one."""
    return machine.fabric.name if len(machine.nodes) > 1 else "one node"


def band_of(machine: Machine, collective: CollectiveName, size: int) -> Band:
    """Return the band of the time expected for ``size`` bytes: that of the kind of machine where published runs
    are of it, else that of all machines."""
    node, family, sizes = machine.nodes[0], family_of(collective), class_of(size)
    kind = node.generation.name, node.joined, fabric_name(machine)
    own, models = _rows().get((*kind, family, sizes)), _models(*kind)
    unchecked = ""
    if len({*machine.nodes}) > 1:
        unchecked = "unchecked on mixed servers"
    elif not machine.plain:
        unchecked = "unchecked on this fabric"
    elif machine.model not in models:
        unchecked = "unchecked on such machines"
    elif own is None or machine.model not in own[1]:
        unchecked = "unchecked at such sizes" if family == "rings" else f"unchecked for {collective}"
    if own is not None and not unchecked:
        return own[0]
    pooled = _rows()[ANY, "", "", family, sizes][0]
    return Band(pooled.low, pooled.high, 0, unchecked)


def _models(generation: str, joined: str, fabric: str) -> set[str]:
    """Return the models of GPUs with published runs on machines of this kind."""
    kind = generation, joined, fabric
    return {model for row, (_, models) in _rows().items() if row[:3] == kind for model in models}


@lru_cache(maxsize=1)
def _rows() -> dict[tuple[str, ...], tuple[Band, frozenset[str]]]:
    """Return the bands by generation, what joins GPUs, what joins nodes, family and class of sizes."""
    text = files("hetesynth.library").joinpath("bands.csv").read_text("utf-8")
    return {
        (row["generation"], row["joined"], row["fabric"], row["family"], row["sizes"]): (
            Band(float(row["low"]), float(row["high"]), int(row["points"] or 0)),
            frozenset(row["models"].split()),
        )
        for row in csv.DictReader(text.splitlines())
    }
