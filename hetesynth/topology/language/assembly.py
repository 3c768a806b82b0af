"""Hardware -> a ``Topology`` or a ``PodCluster``: links found, stated groups laid over them, the result checked.

Of a cluster of pods each instance is one, and those that are alike are one type: links are worked out once for
each type, so the work grows with the number of wires, not with that of pairs of GPUs.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import product

from hetesynth.model.pods import Pod, PodCluster
from hetesynth.model.topology import Link, Rank, SharedGroup, Topology
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import HardwareGraph, Part, Scope, plain
from hetesynth.topology.language.paths import links_over, separate_parts
from hetesynth.topology.language.syntax import Cluster, Property, Shared
from hetesynth.topology.language.units import lanes_of, measure

_SHOWN_PARTS = 4

Groups = Sequence[tuple[Shared, Scope]]


# a cluster, the chunk size that is stated, hardware with all its wires, stated groups, what is to be noted
Built = tuple[Cluster, int | None, HardwareGraph, Groups, tuple[str, ...]]


def topology_from(built: Built, findings: Findings) -> Topology:
    """The cluster with links between all its GPUs."""
    cluster, chunk, hardware, stated, notes = built
    vertices, wires = hardware.graph()
    gpus = hardware.gpus()
    links = links_over(vertices, wires, len(gpus), findings, cluster.name.span)
    groups = _shared_groups(stated, gpus, links, findings)
    findings.raise_any()
    kinds = {wire.kind.lower() for wire in wires}
    measured = [item for item in cluster.items if isinstance(item, Property) and item.name == "measured"]
    words = [word for item in measured for word in item.words]
    for word in words:
        if word.text.lower() not in kinds:
            findings.add("HS210", word.span, f"no wire is of kind `{word.text}`")
    topology = Topology(
        name=cluster.name.text,
        vertices=vertices,
        ranks=len(gpus),
        wires=wires,
        links=links,
        groups=groups,
        reduce_bandwidth=_stated([part.reduce for part in gpus]),
        copy_bandwidth=_stated([part.copy for part in gpus]),
        chunk_bytes=chunk,
        notes=notes,
        measured=tuple(sorted({word.text.lower() for word in words})),
    )
    pieces = separate_parts(topology)  # links in one direction join
    if len(pieces) > 1:
        names = [vertex.name for vertex in vertices]
        shown = "; ".join(", ".join(names[rank] for rank in piece[:8]) for piece in pieces[:_SHOWN_PARTS])
        message = f"the GPUs fall into {len(pieces)} parts that cannot reach each other: {shown}"
        findings.add("HS217", cluster.name.span, message)
    findings.raise_any()
    return topology


def _shared_groups(
    stated: Groups, gpus: Sequence[Part], links: Sequence[Link], findings: Findings
) -> tuple[SharedGroup, ...]:
    """Return one group for each statement, or two (``NAME.fwd``, ``NAME.rev``) for one with ``<->``."""
    if not stated:
        return ()
    rank = {part.name: i for i, part in enumerate(gpus)}
    between: dict[tuple[Rank, Rank], list[int]] = defaultdict(list)
    for index, link in enumerate(links):
        between[link.src, link.dst].append(index)
    groups: dict[str, SharedGroup] = {}
    for shared, scope in stated:
        name = plain(shared.name, "a shared group", findings)
        bandwidth = measure(shared.amount, "bandwidth", "a bandwidth", findings)
        lanes = lanes_of(shared.lanes, findings)
        forward: set[int] = set()
        backward: set[int] = set()
        for flow in shared.flows:
            sides: list[list[Rank]] = []
            for words in (flow.left, flow.right):
                parts = scope.resolve(words)
                wrong = next((part for part in parts if part.kind != "gpu"), None)
                if wrong is not None:
                    findings.add("HS211", words[0].span, f"a shared group names GPUs; `{wrong.name}` is none")
                sides.append([rank[part.name] for part in parts if part.name in rank])
            findings.spend(len(sides[0]) * len(sides[1]), flow.span)
            pairs = list(product(*sides))
            forward.update(i for u, v in pairs for i in between.get((u, v), ()))
            if flow.both_ways:
                backward.update(i for u, v in pairs for i in between.get((v, u), ()))
        if name is None or bandwidth is None or findings:
            continue
        if not forward and not backward:
            if not shared.optional:
                message = f"no link is in shared group `{name}`"
                findings.add("HS219", shared.name.span, message, "name GPUs that links join")
            continue
        for direction, of in ((".fwd", forward), (".rev", backward)) if backward else (("", forward),):
            if of:
                full = scope.prefix + name + direction
                if full in groups:
                    findings.add("HS203", shared.name.span, f"there are two shared groups `{full}`")
                groups[full] = SharedGroup(full, "shared", bandwidth, tuple(sorted(of)), lanes)
    return tuple(groups.values())


@dataclass(slots=True)
class _Instance:
    """The vertices and wires of one pod, by their numbers in the cluster, its GPUs and stated groups."""

    vertices: list[int] = field(default_factory=list)
    wires: list[int] = field(default_factory=list)
    gpus: list[Part] = field(default_factory=list)
    groups: list[tuple[Shared, Scope]] = field(default_factory=list)


def pods_from(built: Built, findings: Findings) -> PodCluster:
    """Return the cluster as pods, in the order of ranks; a shared group stated of several pods is a finding."""
    cluster, chunk, hardware, stated, notes = built
    vertices, wires = hardware.graph()
    instances: dict[str, _Instance] = defaultdict(_Instance)
    for gpu in hardware.gpus():
        instances[gpu.pod].gpus.append(gpu)
    parts = [part for part in hardware.parts if part.pod and not part.disabled]
    pod_of = {vertex: part.pod for part in parts for vertex in hardware.vertices_of(part)}
    owner = [pod_of.get(vertex.name, "") for vertex in vertices]
    for number, pod in enumerate(owner):
        if pod in instances:
            instances[pod].vertices.append(number)
    for number, wire in enumerate(wires):
        pod = owner[wire.src]
        if pod in instances and owner[wire.dst] == pod:
            instances[pod].wires.append(number)
    for shared, scope in stated:
        pod = scope.prefix.partition(".")[0]
        if pod in instances:
            instances[pod].groups.append((shared, scope))
        elif not pod:
            message = f"shared group `{shared.name.text}` is stated of the whole cluster"
            findings.add("HS223", shared.name.span, message)
    findings.raise_any()
    types: list[Topology] = []
    numbers: dict[object, int] = {}
    pods: list[Pod] = []
    rank = 0
    for pod, instance in instances.items():
        # the pod by itself, without links; equal but for its name for pods that are alike
        local = {vertex: i for i, vertex in enumerate(instance.vertices)}
        own = []
        for vertex in (vertices[i] for i in instance.vertices):
            server = "" if vertex.server == pod else vertex.server.removeprefix(f"{pod}.")
            own.append(replace(vertex, host="", name=vertex.name.removeprefix(f"{pod}."), server=server))
        inside = (replace(w, src=local[w.src], dst=local[w.dst]) for w in (wires[i] for i in instance.wires))
        profile = tuple((gpu.reduce, gpu.copy) for gpu in instance.gpus)
        rates = (_stated([reduce for reduce, _ in profile]), _stated([copy for _, copy in profile]))
        alone = Topology(pod, tuple(own), len(instance.gpus), tuple(inside), (), (), *rates)
        key = (alone.vertices, alone.wires, profile, tuple(shared.name.span for shared, _ in instance.groups))
        if key not in numbers:
            numbers[key] = len(types)
            links = links_over(alone.vertices, alone.wires, alone.ranks, findings, cluster.name.span)
            groups = _shared_groups(instance.groups, instance.gpus, links, findings)
            types.append(replace(alone, links=links, groups=groups))
            pieces = len(separate_parts(types[-1]))
            if pieces > 1:
                message = f"the GPUs of pod `{pod}` cannot reach each other inside it: {pieces} pieces"
                findings.add("HS223", cluster.name.span, message)
            findings.raise_any()
        pods.append(Pod(pod, numbers[key], rank, tuple(instance.vertices), tuple(instance.wires)))
        rank += alone.ranks
    return PodCluster(cluster.name.text, tuple(types), tuple(pods), vertices, wires, chunk, notes)


def _stated(rates: list[Fraction | None]) -> tuple[Fraction | None, ...]:
    return tuple(rates) if any(rates) else ()
