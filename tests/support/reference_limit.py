"""The throughput limit of a collective as one exact linear program over the links of a topology. For tests.

In: a topology of at most a dozen GPUs, a collective, its root. Out: the least seconds a byte of the buffer (the
size as nccl-tests prints it), where bytes may be cut as finely as one likes and latencies are nothing. No
trees, prices, cuts or chunks; it shares nothing with ``hetesynth.search.bounds`` or any engine, only the model's
nouns.

**Copies** (allgather, broadcast). The data of root s is a commodity that uses f(s, l) of link l. By Edmonds'
theorem on branchings f(s, .) contains spanning trees out of s of total weight d exactly where it admits a flow
of d from s to each other rank. So the program has, for each root and receiver, a flow below f; and resources
limit sums of f. The theorem is about one root's own f, so this is exact for stated groups and wires that links
share, too: they couple what roots use linearly, and a tree's load is the sum of its links' loads in both views.
``limit_by_trees`` checks that on tiny graphs by listing all trees.

**Reductions** (reducescatter, reduce) are copies on the reversed links. **Allreduce**: weights of the roots are
free; each root has an f for sums towards it and one for results away from it. Exact for algorithms that reduce
along trees and spread along trees of the same root; other algorithms might be quicker.

**Personalized** (alltoall, scatter, gather): the bytes of a source to all receivers are one flow with several
sinks; flows decompose into paths, so this is exact.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from scipy.optimize import linprog
from scipy.sparse import csr_matrix

from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank, Topology

Arcs = Sequence[tuple[Rank, Rank]]
Resource = tuple[float, tuple[int, ...]]  # GB/s, links; a link that crosses a wire twice is there twice


@dataclass
class Program:
    """Minimize the first variable, the seconds a byte times 10^9; all variables are at least 0."""

    size: int = 1
    entries: dict[str, list[tuple[int, int, float]]] = field(default_factory=lambda: defaultdict(list))
    sides: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def variables(self, count: int) -> range:
        """New ones."""
        first, self.size = self.size, self.size + count
        return range(first, self.size)

    def require(self, sense: str, coefficients: Iterator[tuple[int, float]], side: float) -> None:
        """A row: ``sense`` is ``<=`` or ``==``."""
        row = len(self.sides[sense])
        self.entries[sense] += [(row, column, value) for column, value in coefficients]
        self.sides[sense].append(side)

    def optimum(self) -> float:
        """The least first variable."""
        matrices = {}
        for sense, entries in self.entries.items():
            rows, columns, values = zip(*entries, strict=True)
            matrices[sense] = csr_matrix((values, (rows, columns)), (len(self.sides[sense]), self.size))
        result = linprog(
            [1.0] + [0.0] * (self.size - 1),
            A_ub=matrices.get("<="), b_ub=self.sides.get("<="), A_eq=matrices.get("=="), b_eq=self.sides.get("=="),
            method="highs",
        )  # fmt: skip
        assert result.status == 0, result.message
        return float(result.fun)


def reference_limit(topology: Topology, collective: CollectiveName, root: Rank | None = None) -> float:
    """The least seconds a byte of the buffer; a rooted collective needs its root."""
    n = topology.ranks
    forward: Arcs = [(link.src, link.dst) for link in topology.links]
    backward: Arcs = [(dst, src) for src, dst in forward]
    program = Program()
    everyone = dict.fromkeys(range(n), 1.0 / n)
    loads: list[range] = []
    match collective:
        case "allgather" | "reducescatter":
            loads = _copies(program, n, forward if collective == "allgather" else backward, everyone)
        case "broadcast" | "reduce":
            assert root is not None
            loads = _copies(program, n, forward if collective == "broadcast" else backward, {root: 1.0})
        case "allreduce":
            weights = program.variables(n)
            program.require("==", ((w, 1.0) for w in weights), 1.0)
            loads = _copies(program, n, forward, dict(enumerate(weights)))
            loads += _copies(program, n, backward, dict(enumerate(weights)))
        case "alltoall":
            loads = _paths(program, n, forward, everyone)
        case "scatter" | "gather":
            assert root is not None
            loads = _paths(program, n, forward if collective == "scatter" else backward, {root: 1.0 / n})
    for gigabytes, links in resources(topology):
        uses = [(load[link], 1.0) for load in loads for link in links]
        program.require("<=", iter([*_summed(uses), (0, -gigabytes)]), 0.0)
    return program.optimum() / 1e9


def resources(topology: Topology) -> Iterator[Resource]:
    """Wires with a rate and stated groups, each with the links that draw from it."""
    crossing: dict[int, list[int]] = defaultdict(list)
    for number, link in enumerate(topology.links):
        for wire in link.wires:
            crossing[wire].append(number)
    for wire, links in crossing.items():
        rate = topology.wires[wire].bandwidth
        if rate is not None:
            yield float(rate * topology.wires[wire].lanes) / 1e9, tuple(links)
    for group in topology.groups:
        yield float(group.bandwidth * group.lanes) / 1e9, group.links


def _copies(program: Program, ranks: int, arcs: Arcs, weights: Mapping[Rank, float | int]) -> list[range]:
    """What each root uses of each link: as much as the largest of its flows to the receivers.

    ``weights``: bytes of each root, or, where they are whole numbers, the variables that hold them.
    """
    loads = []
    for root, weight in weights.items():
        used = program.variables(len(arcs))
        loads.append(used)
        for receiver in range(ranks):
            if receiver == root:
                continue
            flow = program.variables(len(arcs))
            _conserved(program, ranks, arcs, flow, root, {receiver: weight})
            for f, u in zip(flow, used, strict=True):
                program.require("<=", iter([(f, 1.0), (u, -1.0)]), 0.0)
    return loads


def _paths(program: Program, ranks: int, arcs: Arcs, weights: Mapping[Rank, float]) -> list[range]:
    """What each source uses of each link to send as many bytes to each other rank."""
    loads = []
    for source, weight in weights.items():
        flow = program.variables(len(arcs))
        loads.append(flow)
        _conserved(program, ranks, arcs, flow, source, {r: weight for r in range(ranks) if r != source})
    return loads


def _conserved(
    program: Program, ranks: int, arcs: Arcs, flow: range, source: Rank, sinks: Mapping[Rank, float | int]
) -> None:
    """What enters a rank leaves it, but for what it keeps."""
    for rank in range(ranks):
        if rank == source:
            continue
        row = [(f, 1.0) for f, (_, dst) in zip(flow, arcs, strict=True) if dst == rank]
        row += [(f, -1.0) for f, (src, _) in zip(flow, arcs, strict=True) if src == rank]
        kept = sinks.get(rank, 0.0)
        if isinstance(kept, int):
            program.require("==", iter([*row, (kept, -1.0)]), 0.0)
        else:
            program.require("==", iter(row), kept)


def _summed(uses: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    total: dict[int, float] = defaultdict(float)
    for column, value in uses:
        total[column] += value
    return list(total.items())


def limit_by_trees(topology: Topology, collective: CollectiveName, root: Rank | None = None) -> float:
    """The same for copies and reductions by listing every spanning tree. For at most five GPUs."""
    n, program = topology.ranks, Program()
    backwards = collective in ("reducescatter", "reduce")
    arcs = [(link.dst, link.src) if backwards else (link.src, link.dst) for link in topology.links]
    loads: dict[int, list[tuple[int, float]]] = defaultdict(list)
    weights = {root: 1.0} if root is not None else dict.fromkeys(range(n), 1.0 / n)
    for start, weight in weights.items():
        trees = [*_trees(n, arcs, start)]
        columns = program.variables(len(trees))
        program.require("==", ((column, 1.0) for column in columns), weight)
        for column, tree in zip(columns, trees, strict=True):
            for link in tree:
                loads[link].append((column, 1.0))
    for gigabytes, links in resources(topology):
        uses = [use for link in links for use in loads[link]]
        program.require("<=", iter([*_summed(uses), (0, -gigabytes)]), 0.0)
    return program.optimum() / 1e9


def _trees(ranks: int, arcs: Arcs, root: Rank) -> Iterator[tuple[int, ...]]:
    """Every choice of a link into each rank but the root's by which the root reaches all of them."""
    others = [rank for rank in range(ranks) if rank != root]
    entering = [[number for number, (_, dst) in enumerate(arcs) if dst == rank] for rank in others]
    for tree in product(*entering):
        parent = {rank: arcs[link][0] for rank, link in zip(others, tree, strict=True)}
        if all(_leads_to(parent, rank, root) for rank in others):
            yield tree


def _leads_to(parent: Mapping[Rank, Rank], rank: Rank, root: Rank) -> bool:
    for _ in range(len(parent)):
        if rank == root:
            return True
        rank = parent[rank]
    return rank == root
