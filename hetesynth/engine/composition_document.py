"""A composition as a document: JSON that states pods, schedules inside them, moves between them, and times.

In: a ``Composition`` and a header. Out: bytes, the same for the same input. docs/composition.md has the fields.
Of an addition everything is stated as it is carried out, not as it was composed on the reversed cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hetesynth.model.topology import Topology
from hetesynth.search.pods.compose import Composition, Phase
from hetesynth.search.pods.gates import Gate, Uplink
from hetesynth.search.pods.loads import Spread

FORMAT = "hetesynth-composition"
VERSION = 1


def composition_document(composition: Composition, header: Mapping[str, Any]) -> bytes:
    """The document of ``composition``."""
    return "".join(_lines(composition, header)).encode("ascii")


def _lines(composition: Composition, header: Mapping[str, Any]) -> Iterator[str]:
    task = composition.task
    cluster = task.cluster
    values = {
        "format": FORMAT,
        "version": VERSION,
        "header": header,
        "cluster": cluster.name,
        "collective": task.collective,
        "ranks": cluster.ranks,
        "chunks_per_rank": task.chunks,
        "chunk_bytes": task.chunk_bytes,
        "pods": [[pod.name, pod.first_rank, cluster.size(p)] for p, pod in enumerate(cluster.pods)],
    }
    yield "{\n"
    for key, value in values.items():
        yield f' "{key}": {_text(value)},\n'
    yield ' "phases": [\n'
    for number, phase in enumerate(composition.phases):
        yield "" if number == 0 else ",\n"
        yield from _phase(phase, cluster.types)
    yield "\n ]\n}\n"


def _phase(phase: Phase, types: tuple[Topology, ...]) -> Iterator[str]:
    gates = phase.entries.gates
    values: dict[str, Any] = {
        "adds": int(phase.adding),
        "kinds": [_kind(phase, k, types) for k in range(len(gates.kinds))],
        "kind_of": list(gates.kind_of),
        "uplinks": [[_uplink(u, phase) for u in uplinks] for uplinks in gates.uplinks],
        "paths": [[a, b, list(path)] for a, b, path in phase.paths],
        "rounds": [list(span) for span in phase.rounds],
        "batches": [[list(times) for times in kind] for kind in phase.batches],
    }
    yield "  {\n"
    for key, value in values.items():
        yield f'   "{key}": {_text(value)},\n'
    rounds = ",\n".join(f"    {_text([list(move) for move in moves])}" for moves in phase.moves)
    yield f'   "moves": [\n{rounds}\n   ]\n  }}'


def _kind(phase: Phase, number: int, types: tuple[Topology, ...]) -> dict[str, Any]:
    entries = phase.entries
    kind = entries.gates.kinds[number]
    pod = types[kind.type]
    spreads = phase.home[number], phase.entered[number]
    used = sorted({link for spread in spreads for step in spread.steps for _, link in step})
    index = {link: i for i, link in enumerate(used)}
    return {
        "order": list(entries.order[number]),
        "gates": [_gate(gate, phase) for gate in kind.gates],
        "slots": list(entries.slots[number]),
        "own": list(entries.own[number]) if entries.own else [],
        "links": [[pod.links[i].src, pod.links[i].dst, list(pod.links[i].wires)] for i in used],
        "home": _steps(spreads[0], index),
        "entered": _steps(spreads[1], index),
    }


def _gate(gate: Gate, phase: Phase) -> list[Any]:
    """GPU, wires out, wires in; those of an addition were looked for on the reversed cluster."""
    if phase.adding:
        return [gate.gpu, list(gate.into[::-1]), list(gate.out[::-1])]
    return [gate.gpu, list(gate.out), list(gate.into)]


def _uplink(uplink: Uplink, phase: Phase) -> list[int]:
    return [uplink.into, uplink.out] if phase.adding else [uplink.out, uplink.into]


def _steps(spread: Spread, index: Mapping[int, int]) -> list[list[list[int]]]:
    return [[[slot, index[link]] for slot, link in step] for step in spread.steps]


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))
