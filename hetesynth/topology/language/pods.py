"""Hardware -> pods: each instance of the cluster is one, and those that are alike are one type.

In: parts, vertices and wires before links. Out: a ``PodCluster``. Links are worked out once for each type, so
the work grows with the number of wires, not with that of pairs of GPUs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetesynth.model.pods import Pod, PodCluster
from hetesynth.model.topology import Topology, Vertex, Wire
from hetesynth.topology.language import checks
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.groups import shared_groups
from hetesynth.topology.language.hardware_graph import HardwareGraph
from hetesynth.topology.language.names import Part, Scope
from hetesynth.topology.language.reachability import separate_parts
from hetesynth.topology.language.syntax import Shared, Word


@dataclass(frozen=True, slots=True)
class Hardware:
    """A cluster before links: its parts, vertices and wires, and the groups stated of its links."""

    parts: HardwareGraph
    vertices: tuple[Vertex, ...]
    wires: tuple[Wire, ...]
    groups: Sequence[tuple[Shared, Scope]]
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class _Instance:
    """The vertices and wires of one pod, by their numbers in the cluster, and its GPUs."""

    vertices: list[int]
    wires: list[int]
    gpus: list[Part]
    groups: list[tuple[Shared, Scope]]


def pod_cluster(name: Word, chunk: int | None, hardware: Hardware, findings: Findings) -> PodCluster:
    """The pods of ``hardware``; a shared group that is stated of several pods is a finding."""
    instances = _instances(hardware, findings)
    findings.raise_any()
    types: list[Topology] = []
    numbers: dict[object, int] = {}
    pods: list[Pod] = []
    rank = 0
    for pod, instance in instances.items():
        part, key = _by_itself(pod, instance, hardware)
        if key not in numbers:
            numbers[key] = len(types)
            types.append(_with_links(part, pod, instance, name, findings))
            findings.raise_any()
        pods.append(Pod(pod, numbers[key], rank, tuple(instance.vertices), tuple(instance.wires)))
        rank += part.ranks
    return PodCluster(
        name.text, tuple(types), tuple(pods), hardware.vertices, hardware.wires, chunk, hardware.notes
    )


def _instances(hardware: Hardware, findings: Findings) -> dict[str, _Instance]:
    """What belongs to each pod that has a working GPU, in the order of ranks."""
    pod_of = hardware.parts.pods()
    instances: dict[str, _Instance] = defaultdict(lambda: _Instance([], [], [], []))
    for gpu in hardware.parts.gpus():
        instances[gpu.pod].gpus.append(gpu)
    owner = [pod_of.get(vertex.name, "") for vertex in hardware.vertices]
    for number, pod in enumerate(owner):
        if pod in instances:
            instances[pod].vertices.append(number)
    for number, wire in enumerate(hardware.wires):
        pod = owner[wire.src]
        if pod in instances and owner[wire.dst] == pod:
            instances[pod].wires.append(number)
    for shared, scope in hardware.groups:
        pod = scope.prefix.partition(".")[0]
        if pod in instances:
            instances[pod].groups.append((shared, scope))
        elif not pod:
            message = f"shared group `{shared.name.text}` is stated of the whole cluster"
            help_ = "state it in a node type or a pod, or state the rates of NICs and switches instead"
            findings.add("HS223", shared.name.span, message, help_)
    return dict(instances)


def _by_itself(pod: str, instance: _Instance, hardware: Hardware) -> tuple[Topology, object]:
    """The pod without links, and what tells its type."""
    prefix = f"{pod}."
    local = {vertex: i for i, vertex in enumerate(instance.vertices)}
    vertices = tuple(
        replace(
            v,
            host="",
            name=v.name.removeprefix(prefix),
            server="" if v.server == pod else v.server.removeprefix(prefix),
        )
        for v in (hardware.vertices[i] for i in instance.vertices)
    )
    wires = tuple(
        replace(w, src=local[w.src], dst=local[w.dst]) for w in (hardware.wires[i] for i in instance.wires)
    )
    reduce = tuple(gpu.reduce for gpu in instance.gpus)
    copy = tuple(gpu.copy for gpu in instance.gpus)
    ranks = len(instance.gpus)
    stated = reduce if any(reduce) else ()
    copied = copy if any(copy) else ()
    topology = Topology(pod, vertices, ranks, wires, (), reduce_bandwidth=stated, copy_bandwidth=copied)
    return topology, (vertices, wires, reduce, copy, tuple(shared.name.span for shared, _ in instance.groups))


def _with_links(
    part: Topology, pod: str, instance: _Instance, cluster: Word, findings: Findings
) -> Topology:  # fmt: skip
    links = checks.limited_links(part.vertices, part.wires, part.ranks, cluster.span, findings)
    groups = shared_groups(instance.groups, instance.gpus, links, findings)
    whole = replace(part, links=links, groups=groups)
    pieces = separate_parts(whole)
    if len(pieces) > 1:
        message = f"the GPUs of pod `{pod}` cannot reach each other inside it: {len(pieces)} pieces"
        help_ = "join them by a link, a switch or a bus, or make each piece an instance"
        findings.add("HS223", cluster.span, message, help_)
    return whole
