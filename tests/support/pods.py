"""Clusters of pods as text, compositions of them, and a slow replay of their documents that shares nothing."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

from hetesynth.engine.composition import composition_document
from hetesynth.engine.problem import verified_solver
from hetesynth.model.pods import PodCluster
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.search.pods.compose import ComposedName, Composition, Task, compose
from hetesynth.search.registry import strategy
from hetesynth.topology.language import elaborate
from hetesynth.topology.language.source import checked_source

CHUNK = 1_000_000


def server(name: str, gpus: int, nics: int, rate: str = "100 Gbps", reduce: str = "") -> str:
    """A node type: GPUs on a switch, NICs shared evenly."""
    each = gpus // nics
    attached = "\n".join(f"  attach gpu[{i * each}-{(i + 1) * each - 1}] -> nic{i}" for i in range(nics))
    return (
        f"node {name} {{\n  gpus {gpus}\n  {reduce}\n"
        f"  switch sw {{ ports gpu[0-{gpus - 1}]; bandwidth 100 GB/s; latency 0.7 us }}\n"
        f"  nic nic[0-{nics - 1}] {{ bandwidth {rate} }}\n{attached}\n}}\n"
    )


def cluster(instances: str, *types: str, between: str = "fabric ib { join *.nic*; latency 1.3 us }") -> str:
    """A cluster text."""
    return "".join(types) + f"cluster c {{\n  chunk 1 MB\n{instances}\n  {between}\n}}\n"


SMALL = {
    "2x2": cluster("instance a[0-1] = s", server("s", 2, 1)),
    "2x4": cluster("instance a[0-1] = s", server("s", 4, 2)),
    "4x2": cluster("instance a[0-3] = s", server("s", 2, 2)),
    "3x3": cluster("instance a[0-2] = s", server("s", 3, 1, reduce="reduce 200 GB/s")),
    "4p8": cluster("instance a = s instance b = t", server("s", 4, 4), server("t", 8, 4)),
    "4p8 of two rates": cluster(
        "instance a = s instance b = t", server("s", 4, 4), server("t", 8, 4, rate="64 Gbps")
    ),
    "slow NIC": cluster(
        "instance a[0-1] = s instance b = s { set nic1 { bandwidth 20 Gbps } }", server("s", 4, 2)
    ),
    "uplinks": cluster(
        "instance a[0-3] = s",
        server("s", 2, 2),
        between="fabric l0 { join a[0-1].nic* } fabric l1 { join a[2-3].nic* } "
        "switch spine { ports l0, l1; bandwidth 25 GB/s; latency 1 us }",
    ),
    "pipe": cluster(
        "instance a[0-2] = s", server("s", 2, 2), between="fabric ib { join *.nic*; bandwidth 20 GB/s }"
    ),
    "rails": cluster(
        "instance a[0-3] = s", server("s", 2, 2), between="fabric r0 { join *.nic0 } fabric r1 { join *.nic1 }"
    ),
    "racks": cluster(
        "instance r[0-2] = rack",
        server("s", 2, 2),
        "pod rack { instance a[0-1] = s fabric leaf { join a*.nic*; latency 1 us } }\n",
        between="switch spine { ports r*.leaf; bandwidth 40 GB/s; latency 1 us }",
    ),
}


def composed(text: str, collective: ComposedName, chunks: int = 1, chunk_bytes: int = CHUNK) -> Composition:
    """A composition of the cluster in ``text``."""
    task = Task(pods_of(text), collective, chunks, chunk_bytes, ChunkingOptions(chunk_bytes))
    solvers = tuple(verified_solver(strategy(n), Budget(None), DEFAULT) for n in ("greedy", "hierarchical"))
    return compose(task, solvers, lambda what, steps: None)


def claims(composition: Composition) -> dict[str, Any]:
    """A header with what the judge rechecks of it; the bound is the least there can be."""
    return {"picoseconds": composition.picoseconds, "bound_picoseconds": 0}


def document(composition: Composition) -> dict[str, Any]:
    """Its document, as values."""
    values: dict[str, Any] = json.loads(composition_document(composition, claims(composition)))
    return values


def encoded(values: dict[str, Any]) -> bytes:
    """Values as the bytes of a document."""
    return json.dumps(values).encode()


def _owners(values: dict[str, Any], phase: dict[str, Any]) -> dict[int, int]:
    """Whose chunk each position is."""
    chunks = values["chunks_per_rank"]
    return {
        first * chunks + x: first + phase["kinds"][k]["order"][x % size]
        for k, (_, first, size) in zip(phase["kind_of"], values["pods"], strict=True)
        for x in range(size * chunks)
    }


Transfer = tuple[int, int, int, int, int]  # start, end, position, sender, receiver


def transfers(values: dict[str, Any], phase: dict[str, Any]) -> list[Transfer]:
    """Every transfer of a phase, spelled out with plain loops."""
    pods, chunks = values["pods"], values["chunks_per_rank"]

    def gate(pod: int, position: int) -> int:
        _, first, size = pods[pod]
        kind = phase["kinds"][phase["kind_of"][pod]]
        if kind["own"] and first * chunks <= position < (first + size) * chunks:
            number = kind["own"][position - first * chunks]
        else:
            number = kind["slots"][position % len(kind["slots"])]
        return first + kind["gates"][number][0]

    rows: list[Transfer] = []

    def spread(pod: int, position: int, slot: int, steps: Any, times: list[int]) -> None:
        for s, step in enumerate(steps):
            for its_slot, link in step:
                if its_slot == slot:
                    src, dst, _ = phase["kinds"][phase["kind_of"][pod]]["links"][link]
                    rows.append((times[s], times[s + 1], position, pods[pod][1] + src, pods[pod][1] + dst))

    for pod, (_, first, size) in enumerate(pods):
        k = phase["kind_of"][pod]
        for x in range(size * chunks):
            spread(pod, first * chunks + x, x % size, phase["kinds"][k]["home"], phase["batches"][k][0])
    for r, moves in enumerate(phase["moves"]):
        for src, dst, first, count in moves:
            for position in range(first, first + count):
                rows.append((*phase["rounds"][r], position, gate(src, position), gate(dst, position)))
                pod = src if phase["adds"] else dst
                k = phase["kind_of"][pod]
                kind = phase["kinds"][k]
                slot = position % len(kind["slots"])
                spread(pod, position, slot, kind["entered"], phase["batches"][k][r + 1])
    return sorted(rows)


def complaints(values: dict[str, Any]) -> list[str]:
    """What is wrong with the data of a document, by following sets of contributions."""
    ranks = values["ranks"]
    owner, *others = [_owners(values, phase) for phase in values["phases"]]
    assert all(other == owner for other in others)
    value: dict[tuple[int, int], frozenset[int]] = {}
    everyone = frozenset(range(ranks))
    for position, rank in owner.items():
        if values["collective"] == "allgather":
            value[rank, position] = everyone
        else:
            value.update({(r, position): frozenset({r}) for r in range(ranks)})
    wrong: list[str] = []
    for phase in values["phases"]:
        arriving: dict[int, list[tuple[int, int, frozenset[int]]]] = defaultdict(list)
        for start, end, position, src, dst in transfers(values, phase):
            for at in sorted(t for t in arriving if t <= start):
                wrong += _land(value, arriving.pop(at), phase["adds"])
            if (src, position) not in value or (not phase["adds"] and value[src, position] != everyone):
                wrong.append(f"{src} sends {position} too early")
                continue
            arriving[end].append((dst, position, value[src, position]))
        for at in sorted(arriving):
            wrong += _land(value, arriving[at], phase["adds"])
    for position, rank in owner.items():
        for r in range(ranks) if values["collective"] != "reducescatter" else [rank]:
            if value.get((r, position)) != everyone:
                wrong.append(f"{r} ends without {position}")
    return wrong


def _land(
    value: dict[tuple[int, int], frozenset[int]], rows: list[tuple[int, int, frozenset[int]]], adds: int
) -> list[str]:
    wrong = []
    for dst, position, what in rows:
        if adds:
            if value[dst, position] & what:
                wrong.append(f"{dst} adds twice to {position}")
            value[dst, position] |= what
        else:
            if len(value.get((dst, position), ())) == len(what):
                wrong.append(f"{dst} receives {position} twice")
            value[dst, position] = what
    return wrong


def pods_of(text: str) -> PodCluster:
    """The cluster in ``text``."""
    return elaborate.pods_of(checked_source(text, "<text>"))
