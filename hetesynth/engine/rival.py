"""What the library of a cluster takes for a collective: the figure that results are held against.

In: a topology, a collective, bytes. Out: a ``Rival``: the quicker of two, the library's own choice by the formulas
of ``hetesynth.library``, and its rings or sends as a program, simulated as ours are with as many channels as pay.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.ring_baseline import Baseline, ring_baseline, ring_limit, seconds_of, tree_baseline
from hetesynth.library.machine import Machine, library_of, machine_of
from hetesynth.library.times import chosen
from hetesynth.model.collective import PERSONALIZED, CollectiveName
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.library_programs import fits


@dataclass(frozen=True, slots=True)
class Rival:
    """``library``: NCCL or RCCL, where there is one for these GPUs. ``how``: the algorithm, its channels and its
    protocol. ``checked``: whether its formulas were compared with published runs of such machines. ``program``:
    what was simulated; None where the time is that of a formula."""

    library: str
    how: str
    seconds: float
    checked: bool
    program: Baseline | None = None

    @property
    def name(self) -> str:
        """``NCCL (ring, 24 channels, Simple)``."""
        return f"{self.library} ({self.how})"


def library_rival(
    topology: Topology, name: CollectiveName, root: Rank | None, size: int, options: CostOptions, limit: float
) -> Rival | str:  # fmt: skip
    """The library's time for ``size`` bytes, or in words why there is none.

    ``limit``: seconds that only a switch that adds undercuts. A formula that does has not seen a part of the
    fabric and is left out; one of rings is held to what the rings of this fabric carry.
    """
    machine = machine_of_topology(topology)
    library, checked = library_of(topology) or "the library", machine is not None and machine.checked
    simulated = ring_baseline(topology, name, root, size, options)
    formula = None if machine is None else chosen(machine, name, size)
    by_switch = formula is not None and formula.algorithm == "NVLS"  # between nodes NICs limit as well
    if formula is not None and formula.expected < limit and not by_switch:
        formula = None
    if isinstance(simulated, str):
        if formula is None:
            return simulated
        return Rival(library, formula.label, formula.expected, checked)
    trees = tree_baseline(topology, size, options) if name == "allreduce" else None
    if trees is not None and trees.seconds < simulated.seconds:
        simulated = trees
    what = "sends" if name in PERSONALIZED else "tree" if simulated.trees else "ring"
    count = f"{simulated.channels} channel{'' if simulated.channels == 1 else 's'}"
    rival = Rival(library, f"{what}, {count}, Simple", simulated.seconds, checked, simulated)
    if formula is None:
        return rival
    seconds = formula.expected * _gain(topology, simulated, size, options)
    if not by_switch:
        seconds = max(limit, seconds)
    if formula.algorithm == "Ring":
        seconds = max(seconds, ring_limit(topology, name, size, options))
    if simulated.seconds <= seconds:
        return rival
    return replace(rival, how=formula.label, seconds=seconds, program=None)


def _gain(topology: Topology, simulated: Baseline, size: int, options: CostOptions) -> float:
    """The formulas hold at the rates that runs reach: what the same program takes at those of ``options``, of what
    it takes there."""
    if options.rates == "measured":
        return 1.0
    measured = seconds_of(topology, simulated, size, replace(options, calibration="measured"))
    return min(1.0, simulated.seconds / measured)


def held_by(rival: Rival, target: Target) -> str:
    """Whether ``target`` can run the same, in words for after its name."""
    if rival.program is None:
        return "by its own formulas"
    program = rival.program.program
    if target.format != "msccl-xml":
        return f"as a program of thread blocks, which {target.name} does not run"
    if fits(program, target):
        return "as a program"
    blocks = [gpu.thread_blocks for gpu in program.gpus]
    steps = max(len(block.instructions) for of in blocks for block in of)
    needs = f"{program.channels} channels, {max(map(len, blocks))} thread blocks a GPU, {steps} steps a block"
    return f"as a program that {target.name} cannot hold: {needs}"


@lru_cache(maxsize=8)
def machine_of_topology(topology: Topology) -> Machine | None:
    """``machine_of``, remembered: sizes and collectives of a topology follow each other."""
    return machine_of(topology)


def switch_reduces(topology: Topology, name: CollectiveName) -> bool:
    """Whether switches of ``topology`` can add what an AllReduce sums, which no time bound counts with."""
    machine = machine_of_topology(topology)
    return name == "allreduce" and machine is not None and any(node.nvls for node in machine.nodes)
