"""The protocol with which a program is quickest for a size.

A program is the same with each. What differs: what a message carries, the messages that a connection holds, bytes
on the wire, the start, what a thread block copies, and what a hop takes. One that was fitted to the two messages
of Simple runs with the eight of the others.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.model.cost import Costs
from hetesynth.model.program import Program, Protocol
from hetesynth.model.runtime_costs import PROTOCOLS
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Topology


def runnable(program: Program, costs: Costs) -> Iterator[Protocol]:
    """The protocols that are known to work over every link of ``program``; none where hops are not counted."""
    if not costs.hops:
        return
    pairs = {(gpu.rank, block.send_peer) for gpu in program.gpus for block in gpu.thread_blocks}
    unsafe = {ends for ends, safe in zip(costs.link_ends, costs.ll128, strict=True) if not safe}
    yield from (p for p in PROTOCOLS if p != "LL128" or not pairs & unsafe)


def quickest_protocol(
    topology: Topology,
    program: Program,
    size: int,
    options: CostOptions,
    target: Target = PORTABLE,
    alike: int = 1,
) -> ProgramPredictor:
    """The predictor of ``program`` with the protocol that is quickest for ``size`` bytes. Not tried is what loses
    more on the wire than all latency of the program, or takes longer than another by its bytes alone. ``alike``:
    so many programs share all."""
    stated = ProgramPredictor(topology, program, options, target)
    others = [p for p in runnable(program, stated.costs) if p != program.protocol]
    if not others:
        return stated
    bytes_alone, costs = _fullest(stated, size, alike), stated.costs
    wire = float(target.fifo(program.protocol, program.collective).overhead)
    slower = {p: float(target.fifo(p, program.collective).overhead) / wire for p in others}
    latency = stated.run(program.chunks_per_loop * alike, alike)[0].makespan
    if all((factor - 1) * bytes_alone > latency for factor in slower.values()):
        return stated
    best, least = stated, stated.run(size, alike)[0].makespan
    for protocol in others:
        if costs.start(protocol) + slower[protocol] * bytes_alone >= least:
            continue
        tried = ProgramPredictor(topology, replace(program, protocol=protocol), options, target)
        seconds = tried.run(size, alike)[0].makespan
        if seconds < least:
            best, least = tried, seconds
    return best


def _fullest(predictor: ProgramPredictor, size: int, alike: int) -> float:
    """Seconds that the bytes alone take on the fullest resource of the wires."""
    tasks = predictor.tasks(size, alike)
    graph, wires = tasks.tasks.graph(1.0), len(predictor.costs.resource_rate)
    load = np.bincount(graph.uses, np.repeat(graph.size, np.diff(graph.uses_start)), len(graph.rate))[:wires]
    return float((load / graph.rate[:wires]).max(initial=0.0)) * tasks.loops / tasks.simulated
