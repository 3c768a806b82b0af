"""What libraries run, as schedules lowered step by step: rings, chains and sends."""

from __future__ import annotations

from collections.abc import Sequence

from support.solving import solved_by

from hetesynth.model.collective import CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.search.baselines.table import DOUBLE_TREE, RING, ring_strategy
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.search.search import Strategy


def program_along(
    strategy: Strategy, topology: Topology, name: CollectiveName, root: Rank | None, chunks: int,
    target: Target = PORTABLE,
) -> Program:  # fmt: skip
    """The schedule of ``strategy`` with ``chunks`` chunks per rank."""
    problem = chunk(topology).problem(collective(name, topology.ranks, chunks, root))
    options = LoweringOptions(strategy.name, target=target, servers=topology.servers)
    return lower(problem, solved_by(strategy, problem).schedule, options)


def ring_program(
    topology: Topology, name: CollectiveName, root: Rank | None, chunks: int, orders: Sequence[Sequence[Rank]] = ()
) -> Program:
    """Along rings in ``orders`` of ranks, or those that are found; sends where every chunk is for one rank."""
    first = topology.links[0]
    strategy = ring_strategy(orders, (first.src, first.dst)) if orders else RING
    return program_along(strategy, topology, name, root, chunks)


def tree_program(topology: Topology, chunks: int) -> Program:
    """An AllReduce along double binary trees."""
    return program_along(DOUBLE_TREE, topology, "allreduce", None, chunks)
