"""Lower bounds on seconds for a cluster of pods, without the links between its GPUs.

In: a ``PodCluster``, a collective, chunks per rank and their size. Out: the best bound. Each counts the bytes that
must cross certain wires, after the least latency of what crosses them; docs/composition.md has the proofs.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.model.pods import PodBound, PodCluster, rate_of
from hetesynth.model.topology import Wire


@dataclass(frozen=True)
class _Side:
    """A server or pods, with vertices of the network that join no others, and the wires into and out of it."""

    name: str
    gpus: int
    into: tuple[Wire, ...]
    out: tuple[Wire, ...]


def composed_bound(cluster: PodCluster, collective: str, chunks: int, chunk_bytes: int) -> PodBound:
    """The best bound for an allgather, a reduce-scatter or, whatever the algorithm, an allreduce."""
    if collective == "reducescatter":
        best = composed_bound(cluster.reversed(), "allgather", chunks, chunk_bytes)
        return replace(best, proof=f"{best.proof} (every direction turned around)")
    total, block = cluster.ranks, chunks * chunk_bytes
    bounds: list[PodBound] = []
    if collective == "allgather":
        for side in _sides(cluster):
            entering, leaving = (total - side.gpus) * block, side.gpus * block
            bounds += _crossing(entering, side.into, f"{entering} bytes of others must enter {side.name}")
            bounds += _crossing(leaving, side.out, f"{leaving} bytes of {side.name} must leave it")
        for what, sides in _partitions(cluster):
            everywhere = sum((total - side.gpus) * block for side in sides)
            bounds += _volume(sides, everywhere, f"{everywhere} bytes must enter the {what}, all counted together")
        everywhere = sum((total - cluster.size(p)) * block for p in range(len(cluster.pods)))
    else:  # an allreduce: each byte must hear of every side, and be heard of
        buffer = total * block
        for side in _sides(cluster):
            bounds += _crossing(buffer, side.into, f"{buffer} bytes must enter {side.name}")
            bounds += _crossing(buffer, side.out, f"{buffer} bytes must leave {side.name}")
        for what, sides in _partitions(cluster):
            moves = 2 * (len(sides) - 1)
            bounds += _volume(sides, moves * buffer, f"each byte moves {moves} times between {what}")
        everywhere = 2 * (len(cluster.pods) - 1) * buffer
    bounds += _through_pipes(cluster, everywhere)
    return max(bounds, key=lambda b: b.seconds)


def _partitions(cluster: PodCluster) -> Iterator[tuple[str, list[_Side]]]:
    """Sides that together have every GPU once: the pods, and the servers where all pods hold several."""
    yield "pods", _pods(cluster)
    servers = _servers(cluster)
    if sum(side.gpus for side in servers) == cluster.ranks:
        yield "servers", servers


def _crossing(load: int, wires: Sequence[Wire], what: str) -> Iterator[PodBound]:
    """Yield the bound of ``load`` bytes over ``wires``, none before the least latency of these has passed."""
    if not load or not wires:
        return
    wait = min(wire.latency for wire in wires)
    rates = [rate_of(wire) for wire in wires]
    together = sum((rate for rate in rates if rate is not None), Fraction(0))
    if any(rate is None for rate in rates):
        yield PodBound(wait, f"{what}, at {float(wait * 1_000_000):g} us at least", load, None)
    else:
        words = f"{what}, over {len(wires)} wires of {float(together / 10**9):g} GB/s together"
        yield PodBound(wait + load / together, words, load, together)


def _volume(sides: Sequence[_Side], load: int, what: str) -> Iterator[PodBound]:
    yield from _crossing(load, [wire for side in sides for wire in side.into], what)
    yield from _crossing(load, [wire for side in sides for wire in side.out], f"{what}; they leave others")


def _through_pipes(cluster: PodCluster, load: int) -> Iterator[PodBound]:
    """Yield the bound of the only wire out of the one vertex to which all wires out of pods lead, if any."""
    owner = {v: p for p, pod in enumerate(cluster.pods) for v in pod.vertices}
    ends = [(owner.get(wire.src), owner.get(wire.dst), wire.dst) for wire in cluster.wires]
    entered = {vertex for src, dst, vertex in ends if src is not None and dst is None}
    crossed = any(src != dst and src is not None and dst is not None for src, dst, _ in ends)
    leaving = [wire for wire in cluster.wires if wire.src in entered]
    if len(entered) == 1 and not crossed and len(leaving) == 1 and rate_of(leaving[0]) is not None:
        what = f"{load} bytes between pods all cross {cluster.vertices[leaving[0].src].name}"
        yield from _crossing(load, leaving, what)


def _pods(cluster: PodCluster) -> list[_Side]:
    side_of = {v: p for p, pod in enumerate(cluster.pods) for v in pod.vertices}
    return _cut(cluster, side_of, [(f"pod {pod.name}", cluster.size(p)) for p, pod in enumerate(cluster.pods)])


def _sides(cluster: PodCluster) -> list[_Side]:
    """Return the pods, servers, and each set of pods joined to vertices of the network which join no others."""
    owner = {v: p for p, pod in enumerate(cluster.pods) for v in pod.vertices}
    near: list[set[int]] = [set() for _ in cluster.pods]
    for wire in cluster.wires:
        for pod, other in ((owner.get(wire.src), wire.dst), (owner.get(wire.dst), wire.src)):
            if pod is not None and other not in owner:
                near[pod].add(other)
    joined: dict[int, list[int]] = defaultdict(list)
    for pod, vertices in enumerate(near):
        for vertex in vertices:
            joined[vertex].append(pod)
    sides = [*_pods(cluster), *_servers(cluster)]
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for vertex, pods in joined.items():
        if len(pods) < len(cluster.pods):
            groups[tuple(pods)].append(vertex)
    disjoint = len([p for pods in groups for p in pods]) == len({p for pods in groups for p in pods})
    if groups and disjoint:
        numbers = {pods: i for i, pods in enumerate(groups)}
        side_of = {v: numbers[pods] for pods in groups for p in pods for v in cluster.pods[p].vertices}
        side_of.update({v: numbers[pods] for pods, vertices in groups.items() for v in vertices})
        named = [
            (f"{len(pods)} pods at {cluster.vertices[v[0]].name}", sum(cluster.size(p) for p in pods))
            for pods, v in groups.items()
        ]
        sides += _cut(cluster, side_of, named)
    return sides


def _servers(cluster: PodCluster) -> list[_Side]:
    """Return the servers of pods that have several."""
    number: dict[str, int] = {}
    side_of: dict[int, int] = {}
    gpus: list[int] = []
    for vertex, part in enumerate(cluster.vertices):
        if "." in part.server:
            side = side_of[vertex] = number.setdefault(part.server, len(number))
            gpus += [0] * (len(number) - len(gpus))
            gpus[side] += part.kind == "gpu"
    return _cut(cluster, side_of, [(f"server {name}", gpus[i]) for name, i in number.items()])


def _cut(cluster: PodCluster, side_of: dict[int, int], named: Sequence[tuple[str, int]]) -> list[_Side]:
    """Return the sides ``named``, with the wires into and out of each; sides are disjoint."""
    into: list[list[Wire]] = [[] for _ in named]
    out: list[list[Wire]] = [[] for _ in named]
    for wire in cluster.wires:
        src, dst = side_of.get(wire.src), side_of.get(wire.dst)
        if src != dst:
            if src is not None:
                out[src].append(wire)
            if dst is not None:
                into[dst].append(wire)
    return [_Side(name, gpus, tuple(into[i]), tuple(out[i])) for i, (name, gpus) in enumerate(named)]
