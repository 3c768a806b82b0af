"""The protocol with which a program is quickest for a size.

A program is the same with each protocol. What differs: what a message carries, the messages that a connection
holds, bytes on the wire, the start, what a thread block copies, and what a hop takes. A program that was fitted to
the two messages of Simple runs with the eight of the others."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import Costs
from hetesynth.model.program import Program, Protocol
from hetesynth.model.runtime_costs import PROTOCOLS
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.bounds.regions import components


def runnable(program: Program, costs: Costs, target: Target, servers: Sequence[str] = ()) -> list[Protocol]:
    """Return the protocols that are known to work over every link of ``program``; its own where hops are not
    counted. ``servers``: of each rank, given to leave out what hangs between servers (``Fifo.proxy_agrees``)."""
    if not costs.hops:
        return [program.protocol]
    pairs = {(gpu.rank, block.send_peer) for gpu in program.gpus for block in gpu.thread_blocks}
    used: dict[tuple[Rank, Rank], tuple[float, bool]] = {}  # the fastest link of a pair
    for ends, rate, safe in zip(costs.link_ends, costs.link_rate, costs.ll128, strict=True):
        used[ends] = max(used.get(ends, (rate, safe)), (rate, safe))
    near = all(safe for ends, (_, safe) in used.items() if ends in pairs)
    far = bool(servers) and any(to is not None and servers[at] != servers[to] for at, to in pairs)
    return _working(target, program.collective, between=far, ll128=near)


def supported(costs: Costs, target: Target, name: CollectiveName, servers: Sequence[str]) -> list[Protocol]:
    """Return the protocols with which some program of the collective is ``runnable`` on these ``servers``."""
    pairs = (ends for ends, safe in zip(costs.link_ends, costs.ll128, strict=True) if safe)
    joined = len(components(len(servers), pairs)) == 1
    return _working(target, name, between=len({*servers}) > 1, ll128=joined)


def _working(target: Target, name: str, *, between: bool, ll128: bool) -> list[Protocol]:
    """Return the target's protocols that do not hang ``between`` servers, LL128 only where ``ll128`` allows it."""
    own = [p for p in PROTOCOLS if p in dict(target.fifos)]
    agreeing = [p for p in own if not between or target.fifo(p, name).proxy_agrees]
    return [p for p in agreeing if ll128 or p != "LL128"]


def quickest_protocol(
    topology: Topology,
    program: Program,
    size: int,
    options: CostOptions,
    target: Target = PORTABLE,
    servers: Sequence[str] = (),
) -> ProgramPredictor:
    """Return the predictor of ``program`` with the ``runnable`` protocol that is quickest for ``size`` bytes.
    Protocols that take longer than another by their start and bytes alone are not tried."""
    stated = ProgramPredictor(topology, program, options, target)
    protocols, costs = runnable(program, stated.costs, target, servers), stated.costs
    if protocols == [program.protocol]:
        return stated
    wire = {p: float(target.fifo(p, program.collective).overhead) for p in protocols}
    bytes_alone = _fullest(stated, size) / float(target.fifo(program.protocol, program.collective).overhead)
    best, seconds = stated, math.inf
    for protocol in sorted(protocols, key=wire.__getitem__):
        if costs.start(protocol) + wire[protocol] * bytes_alone >= seconds:
            continue
        tried = stated
        if protocol != program.protocol:
            tried = ProgramPredictor(topology, replace(program, protocol=protocol), options, target)
        if (took := tried.run(size)[0].makespan) < seconds:
            best, seconds = tried, took
    return best


def _fullest(predictor: ProgramPredictor, size: int) -> float:
    """Return the seconds that the bytes alone take on the fullest resource of the wires."""
    tasks = predictor.tasks(size)
    graph, wires = tasks.tasks.graph(1.0), len(predictor.costs.resource_rate)
    load = np.bincount(graph.uses, np.repeat(graph.size, np.diff(graph.uses_start)), len(graph.rate))[:wires]
    return float((load / graph.rate[:wires]).max(initial=0.0)) * tasks.loops / tasks.simulated
