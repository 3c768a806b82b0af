"""A schedule for a cluster of pods: between pods, inside pods, and both together (HeteCCL, section 7).

In: a ``PodCluster``, a collective, the search for what is inside. Out: a ``Composition``, the quickest of a few
ways to send between pods. The work inside is done once for each type of pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.pods import PodCluster
from hetesynth.policy.pods import PodsPolicy
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.search.pods.entry import Entries, entries, gpus_of_slots, home_of
from hetesynth.search.pods.gates import gates_of
from hetesynth.search.pods.loads import Crossings, Inside, NoPath
from hetesynth.search.pods.rounds import Round, doubling, ring
from hetesynth.search.pods.spread import Spreads
from hetesynth.search.pods.timeline import Phase, Timer, backwards
from hetesynth.search.search import Progress
from hetesynth.search.solve import Solver

ComposedName = Literal["allgather", "reducescatter", "allreduce"]
COMPOSED: tuple[ComposedName, ...] = ("allgather", "reducescatter", "allreduce")


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be composed. ``options`` states the size of a chunk."""

    cluster: PodCluster
    collective: ComposedName
    chunks: int
    chunk_bytes: int
    options: ChunkingOptions
    exclusive: bool


@dataclass(frozen=True)
class Composition:
    """Phases one after another; ``ways``: how each sends between pods."""

    task: Task
    phases: tuple[Phase, ...]
    ways: tuple[str, ...]

    @property
    def picoseconds(self) -> int:
        """How long all of it takes."""
        return sum(phase.end for phase in self.phases)

    @property
    def inside_optimal(self) -> bool:
        """Whether every schedule inside a pod has the least number of steps."""
        return all(s.optimal for phase in self.phases for s in (*phase.home, *phase.entered))


def compose(task: Task, solvers: tuple[Solver, ...], policy: PodsPolicy, progress: Progress) -> Composition:
    """The composition for ``task``; ``solvers`` search inside pods, the first for all of them. HetesynthError: no
    pods, no gates, or no path between them."""
    if len(task.cluster.pods) < 2:
        raise HetesynthError(
            "the cluster has one instance: there is nothing to compose",
            code="HS412",
            help="state servers, or groups of servers, as instances of the cluster, or choose another strategy",
        )
    phases, ways = [], []
    if task.collective != "allgather":
        phase, way = _gathered(task, task.cluster.reversed(), solvers, policy, progress, adding=True)
        phases.append(backwards(phase))
        ways.append(way)
    if task.collective != "reducescatter":
        phase, way = _gathered(task, task.cluster, solvers, policy, progress, adding=False)
        phases.append(phase)
        ways.append(way)
    return Composition(task, tuple(phases), tuple(ways))


def _gathered(
    task: Task,
    cluster: PodCluster,
    solvers: tuple[Solver, ...],
    policy: PodsPolicy,
    progress: Progress,
    *,
    adding: bool,
) -> tuple[Phase, str]:
    """The quickest allgather of ``cluster`` and how it sends between pods."""
    gates = gates_of(cluster)
    inside = Inside(cluster.types, task.chunk_bytes, adding)
    types = gates.cluster.types
    spreads = Spreads(
        cluster.types,
        task.options,
        solvers,
        (
            frozenset(
                kind.type
                for kind in gates.kinds
                if not {w for link in types[kind.type].links for w in link.wires}.isdisjoint(
                    w for gate in kind.gates for w in (*gate.out, *gate.into)
                )
            )
        ),
        adding and task.exclusive,
    )
    best: tuple[Phase, str] | None = None
    reason = "no GPU has a gate"
    for spread_first in (False, True):
        pattern = entries(gates, task.chunks, policy, spread_first=spread_first)
        if pattern is None or (spread_first and best is not None and len(gates.kinds) == 1):
            continue
        timer = _timer(pattern, Crossings(gates, task.chunk_bytes, adding=adding), inside, spreads)
        for way, rounds in _ways(pattern, policy):
            name = f"{way} of {len(cluster.pods)} pods" + (", own chunks spread first" if spread_first else "")
            progress(f"pods: {name}", None)
            try:
                phases = [timer.phase(rounds), *([timer.lockstep(rounds)] if timer.serial() else [])]
            except NoPath as missing:
                reason = str(missing)
                break
            phase = min(phases, key=lambda candidate: candidate.end)
            if best is None or phase.end < best[0].end:
                best = phase, name
    if best is None:
        raise HetesynthError(
            f"the pods cannot be composed: {reason}",
            code="HS410",
            help="join the NICs of all pods by a fabric, or their fabrics by a switch",
        )
    return best


def _timer(pattern: Entries, crossings: Crossings, inside: Inside, spreads: Spreads) -> Timer:
    kinds = pattern.gates.kinds
    home = tuple(spreads.spread(k.type, gpus) for k, gpus in zip(kinds, home_of(pattern), strict=True))
    entered = tuple(spreads.spread(k.type, gpus) for k, gpus in zip(kinds, gpus_of_slots(pattern), strict=True))
    return Timer(pattern, crossings, inside, home, entered)


def _ways(pattern: Entries, policy: PodsPolicy) -> Iterator[tuple[str, list[Round]]]:
    """Ways to send between pods, as rounds.

    A ring sends the largest block at once, or the smallest, which every pod always has; where that is not too many
    rounds, no more than the longest pattern of gates has, or as many as a pod has edges.
    """
    # the pods with neighbours in the network next to each other
    gates = pattern.gates
    wires = gates.cluster.wires

    def place(pod: int) -> tuple[int, int]:
        return min((wires[uplink.out].dst for uplink in gates.uplinks[pod]), default=0), pod

    blocks, order = pattern.blocks, sorted(range(len(gates.cluster.pods)), key=place)
    yield "doubling", doubling(blocks, order)
    longest = max(map(len, pattern.slots))
    edges = max(len({(gate.leave, gate.enter) for gate in kind.gates}) for kind in pattern.gates.kinds)
    whole = {max(*blocks.count, longest), min(blocks.count)}
    for at_once in sorted({*whole, longest, edges}, reverse=True):
        most = policy.max_moves if at_once in whole else policy.max_moves_in_parts
        if len(order) * sum(blocks.count) <= most * at_once:
            yield f"ring, {at_once} chunks a round,", ring(blocks, order, at_once)
