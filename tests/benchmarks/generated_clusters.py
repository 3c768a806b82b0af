"""Clusters that nobody tuned for: random ones as text of the topology language, the same for the same seed.

In: a seed. Out: a ``GeneratedCluster``: 1 to 8 servers of 2 to 16 GPUs, at most 64 together, of one to three
types; GPUs in full meshes, on switches, in rings or on PCIe trees; NICs of unequal rates, own or shared; one
fabric, rails, or leaves under an oversubscribed spine; stated limits and degraded links. ``features`` names these.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from benchmarks.generated_servers import GENERATIONS, Inside, ServerType, possible

Feature = Literal[
    "mesh", "switch", "ring", "pcie", "own NICs", "shared NICs", "unequal NICs", "unequal servers", "mixed GPUs",
    "rails", "spine", "group", "degraded", "one server",
]  # fmt: skip
FEATURES: tuple[Feature, ...] = get_args(Feature)
MAX_GPUS = 64
USUAL_GPUS = (8, 32)


@dataclass(frozen=True, slots=True)
class GeneratedCluster:
    """A cluster: its name, which tells its sizes and what is special, its text, and what it has."""

    name: str
    text: str
    features: frozenset[Feature]


@dataclass(frozen=True, slots=True)
class _Degraded:
    """The server with a degraded link and to which part of its rate; ``nic``: it is the link of its first NIC."""

    server: int
    part: float
    nic: bool


@dataclass(frozen=True, slots=True)
class _Plan:
    """The types of servers with their numbers, and what is between them. ``spine``: servers under each leaf and
    by how much the spine is oversubscribed; ``group``: the server whose traffic has a stated limit."""

    types: tuple[tuple[ServerType, int], ...]
    rails: bool = False
    joined_rails: bool = False
    spine: tuple[int, int] | None = None
    group: int | None = None
    degraded: _Degraded | None = None

    @property
    def servers(self) -> tuple[tuple[str, ServerType], ...]:
        """Name and type of each server, in order: ``a0``, ``a1``, ``b0``."""
        return tuple(
            (f"{letter}{number}", kind)
            for letter, (kind, count) in zip("abc", self.types, strict=False)
            for number in range(count)
        )


def generated_cluster(seed: int) -> GeneratedCluster:
    """The cluster of that seed."""
    rng = random.Random(seed)
    plan = _plan(rng)
    features = frozenset(_features(plan))
    name = _name(seed, plan)
    servers = [f"{count} x {kind.name}" for kind, count in plan.types]
    told = [feature for feature in FEATURES if feature in features]
    text = "".join(
        [
            f"# {', '.join(servers)}. Generated, seed {seed}.\n# {', '.join(told)}\n\n",
            *(f"{node}\n" for node in _nodes(plan)),
            f"cluster {name} {{\n  chunk {rng.choice((1, 4, 16))} MB\n",
            *(f"  {line}\n" for line in (*_instances(plan), *_network(rng, plan))),
            "}\n",
        ]
    )
    return GeneratedCluster(name, text, features)


def _plan(rng: random.Random) -> _Plan:
    if rng.random() < 0.15:
        return _alone(rng)
    types = _sizes(rng)
    network = rng.choice(("flat", "flat", "rails", "rails", "spine"))
    servers = sum(count for _, count in types)
    if network == "rails":
        types = _with_rails(rng, types)
    plan = _Plan(types, rails=network == "rails", joined_rails=rng.random() < 0.4)
    if network == "spine":
        leaf = (servers + 1) // 2 if servers < 6 or rng.random() < 0.5 else (servers + 2) // 3
        oversubscription = rng.choice((2, 4, 8))
        if all(sum(kind.nics for _, kind in under) > 1 for under in _leaves(plan, leaf)):
            plan = replace(plan, spine=(leaf, oversubscription))
    if rng.random() < 0.25:
        plan = replace(plan, group=rng.randrange(servers))
    if rng.random() < 0.35:
        degraded = _Degraded(rng.randrange(servers), rng.choice((0.5, 0.25, 0.1)), rng.random() < 0.4)
        plan = replace(plan, degraded=degraded)
    return plan


def _alone(rng: random.Random) -> _Plan:
    """One server without a network."""
    kind = _server_type(rng, rng.choice((3, 4, 6, 8, 8, 12, 16)))
    if kind.inside != "pcie" and rng.random() < 0.5:
        kind = replace(kind, halves=kind.generation.rate * rng.choice((1, 2)))
    degraded = _Degraded(0, rng.choice((0.5, 0.25, 0.1)), False) if rng.random() < 0.5 else None
    return _Plan(((kind, 1),), degraded=degraded)


def _sizes(rng: random.Random) -> tuple[tuple[ServerType, int], ...]:
    """Types of servers and their numbers; most clusters have the usual number of GPUs."""
    while True:
        servers = rng.choice((2, 2, 3, 3, 4, 4, 5, 6, 7, 8))
        kinds = min(servers, rng.choice((1, 2, 2, 3)))
        gpus = [rng.choice((2, 3, 4, 4, 5, 6, 8, 8, 12, 16)) for _ in range(kinds)]
        counts = [1] * kinds
        for _ in range(servers - kinds):
            counts[rng.randrange(kinds)] += 1
        total = sum(size * count for size, count in zip(gpus, counts, strict=True))
        usual = USUAL_GPUS[0] <= total <= USUAL_GPUS[1]
        if total <= MAX_GPUS and (usual or rng.random() < 0.1):
            break
    types: dict[ServerType, int] = {}
    for size, count in zip(gpus, counts, strict=True):
        kind = _with_nics(rng, _server_type(rng, size))
        while any(kind.name == other.name for other in types):
            kind = _with_nics(rng, _server_type(rng, size))
        types[kind] = count
    return tuple(types.items())


def _server_type(rng: random.Random, gpus: int) -> ServerType:
    """GPUs of one generation joined in a way that is possible for it."""
    insides: tuple[Inside, ...] = ("mesh", "switch", "switch", "ring", "pcie")
    inside = rng.choice(insides)
    generation = rng.choice([each for each in GENERATIONS if possible(each, inside, gpus)])
    sizes = [each for each in (2, 3, 4, 5) if gpus % each == 0 and gpus // each <= 4]
    per_switch = rng.choice(sizes) if inside == "pcie" else 0
    return ServerType(generation, inside, gpus, per_switch=per_switch)


def _with_nics(rng: random.Random, kind: ServerType) -> ServerType:
    """NICs of one rate: one for each GPU, for some together or for all."""
    count = rng.choice(_nic_counts(kind))
    if rng.random() < 0.4:
        count = max(_nic_counts(kind))
    rates = (10, 25, 40, 100, 100) if kind.inside == "pcie" or count == 1 else (25, 40, 100, 200, 200, 400)
    return replace(kind, nics=count, gbps=rng.choice(rates), buses=rng.random() < 0.3)


def _nic_counts(kind: ServerType) -> tuple[int, ...]:
    """How many NICs such a server may have: those of a PCIe tree hang from its PCIe switches."""
    if kind.inside == "pcie":
        return (1, kind.switches) if kind.switches > 1 else (1,)
    return tuple(count for count in (1, 2, 4, 8, kind.gpus) if kind.gpus % count == 0)


def _with_rails(
    rng: random.Random, types: tuple[tuple[ServerType, int], ...]
) -> tuple[tuple[ServerType, int], ...]:
    """The same with as many NICs in every server, which is what rails join."""
    common = set.intersection(*(set(_nic_counts(kind)) for kind, _ in types))
    count = rng.choice(sorted(common - {1}) or [1])
    return tuple((replace(kind, nics=count), servers) for kind, servers in types)


def _features(plan: _Plan) -> Iterator[Feature]:
    kinds = [kind for kind, _ in plan.types]
    yield from (kind.inside for kind in kinds)
    if len(plan.servers) == 1:
        yield "one server"
    else:
        yield from ("own NICs" if kind.nics == kind.gpus else "shared NICs" for kind in kinds)
    if len({kind.gbps for kind in kinds}) > 1:
        yield "unequal NICs"
    if len({kind.gpus for kind in kinds}) > 1:
        yield "unequal servers"
    if len({kind.generation.model for kind in kinds}) > 1:
        yield "mixed GPUs"
    if _rails(plan) > 1:
        yield "rails"
    if plan.spine is not None:
        yield "spine"
    if plan.group is not None or any(kind.halves is not None for kind in kinds):
        yield "group"
    if plan.degraded is not None:
        yield "degraded"


def _rails(plan: _Plan) -> int:
    """How many rails there are."""
    return plan.types[0][0].nics if plan.rails else 0


def _name(seed: int, plan: _Plan) -> str:
    """Such as ``gen007_4x2p8_mesh_switch_rails``."""
    sizes = "p".join(f"{kind.gpus}x{count}" if count > 1 else f"{kind.gpus}" for kind, count in plan.types)
    features = set(_features(plan))
    special: list[str] = [*dict.fromkeys(kind.inside for kind, _ in plan.types)]
    special += [feature for feature in ("rails", "spine", "group", "degraded") if feature in features]
    return "_".join([f"gen{seed:03}", sizes, *special])


def _nodes(plan: _Plan) -> Iterator[str]:
    servers = plan.servers
    slow = None if plan.degraded is None or plan.degraded.nic else servers[plan.degraded.server][1]
    for kind, count in plan.types:
        if kind is not slow or count > 1:
            yield kind.node()
        if plan.degraded is not None and kind is slow:
            yield kind.node(plan.degraded.part)


def _instances(plan: _Plan) -> Iterator[str]:
    for number, (name, kind) in enumerate(plan.servers):
        degraded = plan.degraded if plan.degraded is not None and plan.degraded.server == number else None
        if degraded is None:
            yield f"instance {name} = {kind.name}"
        elif degraded.nic:
            slower = f"{{ set nic0 {{ bandwidth {kind.gbps * degraded.part:g} Gbps }} }}"
            yield f"instance {name} = {kind.name} {slower}  # a bad cable"
        else:
            yield f"instance {name} = {kind.name}_slow"


def _network(rng: random.Random, plan: _Plan) -> Iterator[str]:
    names = [name for name, _ in plan.servers]
    if len(names) == 1:
        return
    latency = rng.choice(("1.3", "1.3", "2.5", "5"))
    if _rails(plan) > 1:
        count = _rails(plan)
        yield from (f"fabric rail{i} {{ join *.nic{i}; latency {latency} us }}" for i in range(count))
        if plan.joined_rails:
            rate = min(_gigabytes(kind) / count for _, kind in plan.servers) * len(names) / 2
            yield f"switch spine {{ ports rail[0-{count - 1}]; {_uplink(rate)} }}"
    elif plan.spine is not None:
        yield from _under_a_spine(_leaves(plan, plan.spine[0]), plan.spine[1], latency)
    else:
        yield f"fabric net {{ join *.nic*; latency {latency} us }}"
    if plan.group is not None:
        name, kind = plan.servers[plan.group]
        others = ", ".join(f"{other}.gpu*" for other in names if other != name)
        rate = _gigabytes(kind) * rng.choice((0.5, 0.75))
        yield f"shared host_{name} {rate:g} GB/s {{ {name}.gpu* <-> {others} }}"


def _leaves(plan: _Plan, size: int) -> list[tuple[tuple[str, ServerType], ...]]:
    """The servers under each leaf, ``size`` of them but under the last."""
    servers = plan.servers
    return [servers[first : first + size] for first in range(0, len(servers), size)]


def _under_a_spine(
    leaves: Sequence[Sequence[tuple[str, ServerType]]], oversubscription: int, latency: str
) -> Iterator[str]:
    """Leaf switches below one spine, whose ports carry a part of what the weakest leaf could send."""
    for number, leaf in enumerate(leaves):
        joined = ", ".join(f"{name}.nic*" for name, _ in leaf)
        yield f"fabric leaf{number} {{ join {joined}; latency {latency} us }}"
    rate = min(sum(_gigabytes(kind) for _, kind in leaf) for leaf in leaves) / oversubscription
    yield f"switch spine {{ ports leaf[0-{len(leaves) - 1}]; {_uplink(rate)} }}"


def _uplink(rate: float) -> str:
    return f"bandwidth {rate:.4g} GB/s; latency 0.7 us; kind uplink"


def _gigabytes(kind: ServerType) -> float:
    """GB/s of all NICs of a server."""
    return kind.nics * kind.gbps / 8


def generated_clusters(seeds: Sequence[int]) -> tuple[GeneratedCluster, ...]:
    """The clusters of these seeds."""
    return tuple(map(generated_cluster, seeds))
