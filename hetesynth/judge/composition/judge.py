"""The judge of compositions: expands a document to every transfer and checks all laws on them.

It shares no code with the composition: gates, paths, patterns and times are taken from the document and checked
against the cluster as pods. Without a cluster only data and order are judged, not loads.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby, islice, pairwise

import numpy as np
from numpy.typing import NDArray

from hetesynth.files.strict_json import JsonRefused
from hetesynth.judge.composition.document import COLLECTIVES, Document, Event, Expansion, Ints, read_document
from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology, Wire
from hetesynth.model.verdict import Violation, ViolationKind

MOST_VIOLATIONS = 20
SECOND = 10**12  # picoseconds
NEVER = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True)
class CompositionVerdict:
    """The verdict on a composition. ``picoseconds``: the end of the last transfer; ``document``: what was read, if
    it could be."""

    violations: tuple[Violation, ...]
    readable: bool
    ranks: int = 0
    deliveries: int = 0
    picoseconds: int = 0
    document: Document | None = None


def judge_composition(data: bytes, cluster: PodCluster | None) -> CompositionVerdict:
    """Return the verdict on the composition in ``data``, with the first few of all defects."""
    try:
        document = read_document(data)
    except JsonRefused as reason:
        return CompositionVerdict((Violation("syntax", str(reason)),), readable=False)
    expansions = [Expansion(document, phase) for phase in document.phases]
    wrong = list(islice(_violations(document, expansions, cluster), MOST_VIOLATIONS))
    end = sum(max((event.end for event in e.events()), default=0) for e in expansions)
    if document.claimed_time != end:
        said = f"it is said to take {document.claimed_time} ps, and takes {end}"
        wrong.append(Violation("certificate", said))
    if document.claimed_bound > end:
        said = f"the bound is said to be {document.claimed_bound} ps, and {end} suffice"
        wrong.append(Violation("certificate", said))
    deliveries = document.positions * (document.ranks - 1) * len(document.phases)
    return CompositionVerdict(tuple(wrong), True, document.ranks, deliveries, end, document)


def _violations(
    document: Document, expansions: Sequence[Expansion], cluster: PodCluster | None
) -> Iterator[Violation]:
    if tuple(phase.adds for phase in document.phases) != COLLECTIVES[document.collective]:
        yield Violation("not-delivered", f"the phases are not those of {document.collective}")
        return
    if cluster is not None:
        pods = tuple((pod.name, pod.first_rank, cluster.size(p)) for p, pod in enumerate(cluster.pods))
        if document.pods != pods:
            yield Violation("no-such-link", "the pods are not those of the cluster")
            return
    if any((e.owner != expansions[0].owner).any() for e in expansions):
        yield Violation("not-delivered", "the phases differ in whose chunk a position is")
        return
    for expansion in expansions:
        events = expansion.events()
        yield from _data_violations(expansion, events)
        if cluster is not None:
            yield from CapacityLaws(expansion, cluster).violations(events)


def _data_violations(expansion: Expansion, events: list[Event]) -> Iterator[Violation]:
    """Yield what is wrong with the data: all ranks and positions are followed, each in a cell of a table.

    In a phase that copies, a sender has the chunk, a receiver has not, and in the end all have all. In a phase
    that adds, the transfers of each position are a tree into its owner, leaves first: every other rank sends it
    once, the owner never, and none sends before all that is added to it has arrived, nor receives after it has
    sent. Such a tree adds each input exactly once.
    """
    document, adds = expansion.document, expansion.phase.adds
    everywhere = np.arange(document.positions)
    since = np.full(
        (document.ranks, document.positions), 0 if adds else NEVER, np.int64
    )  # when a cell may be sent
    since[expansion.owner, everywhere] = 0
    sent = np.zeros((document.ranks, document.positions), np.bool_)
    for event in events:
        position, src, dst = expansion.transfers(event)
        early = since[src, position] > event.start
        wrong: list[tuple[NDArray[np.bool_], ViolationKind, Ints, str]]
        if adds:
            again = sent[src, position] | _repeated(src, position)
            owner = expansion.owner[position] == src
            sent[src, position] = True
            wrong = [
                (early, "not-held", src, "sends a sum to which something is being added"),
                (again, "contribution-twice", src, "sends it a second time"),
                (owner, "contribution-twice", src, "sends the sum that it is to keep"),
                (sent[dst, position], "not-delivered", dst, "is sent an addend after it sent its sum"),
            ]
        else:
            wrong = [
                (early, "not-held", src, "sends what it does not have yet"),
                (since[dst, position] != NEVER, "already-held", dst, "has it already"),
                (_repeated(dst, position), "received-twice", dst, "receives it twice"),
            ]
        for where, kind, rank, what in wrong:
            if where.any():  # one violation for all that is wrong in this way in one event
                at, count = int(np.argmax(where)), int(where.sum())
                place = f"round {event.round}"
                if event.kind >= 0:
                    place = f"batch {event.round + 1} of kind {event.kind}, step {event.step}"
                k, r = int(position[at]), int(rank[at])
                more = f" (and {count - 1} more there)" if count > 1 else ""
                text = f"{place}: rank {r} {what}: position {k}{more}"
                yield Violation(kind, text, step=event.round, chunk=k, rank=r)
        since[dst, position] = np.maximum(since[dst, position], event.end) if adds else event.end
    sent[expansion.owner, everywhere] = True
    ranks, positions = np.nonzero(~sent if adds else since == NEVER)
    if len(ranks):
        r, k = int(ranks[0]), int(positions[0])
        more = f" (and {len(ranks) - 1} more)" if len(ranks) > 1 else ""
        what = "never gives its part" if adds else "never gets it"
        yield Violation("not-delivered", f"rank {r} {what}: position {k}{more}", chunk=k, rank=r)


def _repeated(rank: Ints, position: Ints) -> NDArray[np.bool_]:
    """Return a mask of the (rank, position) pairs that stand there a second time."""
    again = np.ones(len(rank), np.bool_)
    again[np.unique(rank * (int(position.max(initial=0)) + 1) + position, return_index=True)[1]] = False
    return again


@dataclass(frozen=True)
class CapacityLaws:
    """The laws of a phase on a cluster: no wire or group exceeds its rate in any interval, and paths are paths.

    An interval is long enough if after the longest latency of its transfers each wire and group has time for all
    its bytes, and after that the slowest GPU of the pods concerned to add a chunk. Events of one interval are
    counted together. Intervals of rounds, of steps of a kind, and of rounds and steps that share a wire are equal
    or do not overlap: so a wire never carries data of two intervals.
    """

    expansion: Expansion
    cluster: PodCluster

    def violations(self, events: list[Event]) -> Iterator[Violation]:
        """Yield everything wrong with paths, intervals and loads; wrong paths end the check."""
        wrong = list(self._paths())
        if wrong:
            yield from wrong
            return
        yield from self._overlaps(events)
        for _, together in groupby(events, key=lambda event: (event.start, event.end)):
            yield from self._together(list(together))

    def _paths(self) -> Iterator[Violation]:
        phase, cluster = self.expansion.phase, self.cluster
        listed = [w for rows in phase.uplinks for w in rows.ravel().tolist()]
        listed += [w for path in phase.paths.values() for w in path]
        if any(w >= len(cluster.wires) for w in listed):
            yield Violation("no-such-link", "a wire is named that the cluster does not have")
            return
        for k, kind in enumerate(phase.kinds):
            pod = self._type(k)
            local = [w for g in kind.gates for w in (*g.out, *g.into)] + [w for row in kind.links for w in row[2]]
            if any(w >= len(pod.wires) for w in local) or pod.ranks != len(kind.order):
                yield Violation("no-such-link", f"kind {k} does not fit its pods in the cluster")
                return
            for src, dst, path in kind.links:
                if not _joined(pod.wires, path, src, dst, pod.ranks):
                    text = f"kind {k}: no path of wires leads from GPU {src} to GPU {dst}"
                    yield Violation("no-such-link", text)
        for p, (k, pod_of) in enumerate(zip(phase.kind_of.tolist(), cluster.pods, strict=True)):
            if cluster.types[pod_of.type] is not self._type(k):
                yield Violation("no-such-link", f"pod {pod_of.name} is not like the others of kind {k}")
                continue
            for number, (leave, enter) in enumerate(self._gate_wires(p)):
                gpu = pod_of.vertices[phase.kinds[k].gates[number].gpu]
                head, tail = cluster.wires[leave[-1]].dst, cluster.wires[enter[0]].src
                leaves = _joined(cluster.wires, leave, gpu, head, cluster.ranks)
                if not (leaves and _joined(cluster.wires, enter, tail, gpu, cluster.ranks)):
                    yield Violation("no-such-link", f"gate {number} of pod {pod_of.name} is no path of wires")
        for (head, tail), path in phase.paths.items():
            if not _joined(cluster.wires, path, head, tail, cluster.ranks):
                yield Violation("no-such-link", f"a stated path does not lead from vertex {head} to vertex {tail}")

    def _gate_wires(self, p: int) -> Iterator[tuple[list[int], list[int]]]:
        """The wires by which each gate of pod ``p`` leaves it and enters it."""
        phase, pod = self.expansion.phase, self.cluster.pods[p]
        for gate, (out, into) in zip(phase.kinds[phase.kind_of[p]].gates, phase.uplinks[p].tolist(), strict=True):
            yield [*(pod.wires[w] for w in gate.out), out], [into, *(pod.wires[w] for w in gate.into)]

    def _type(self, kind: int) -> Topology:
        """Return the topology of a kind, which is that of its first pod."""
        first = int(np.argmax(self.expansion.phase.kind_of == kind))
        return self.cluster.types[self.cluster.pods[first].type]

    def _overlaps(self, events: list[Event]) -> Iterator[Violation]:
        """Yield overlaps of rounds with rounds and of steps of a kind with other steps of it, or with rounds if
        they share wires; events of one and the same interval may overlap."""
        kinds = self.expansion.phase.kinds
        for k in range(-1, len(kinds)):
            inside = {w for _, _, path in kinds[k].links for w in path} if k >= 0 else set()
            shares = k >= 0 and any(w in inside for gate in kinds[k].gates for w in (*gate.out, *gate.into))
            concerned = [e for e in events if (e.kind == k or (shares and e.kind < 0)) and e.end > e.start]
            for before, event in pairwise(concerned):
                if event.start < before.end and (event.start, event.end) != (before.start, before.end):
                    one, other = (f"round {e.round}" if e.kind < 0 else f"step {e.step}" for e in (event, before))
                    message = f"{one} and {other} overlap on wires that both use"
                    yield Violation("overloaded", message, step=event.round)
                    break

    @cached_property
    def _gates(self) -> list[tuple[Ints, Ints, Ints]]:
        """For leaving and for entering: the gate and the wire of each use, and each gate's latency in picoseconds,
        rounded up."""
        both = []
        for side in (0, 1):
            rows = [row[side] for p in range(len(self.cluster.pods)) for row in self._gate_wires(p)]
            gates = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
            wires = np.array([w for row in rows for w in row], np.int64)
            latencies = [math.ceil(_latency(self.cluster.wires, row) * SECOND) for row in rows]
            both.append((gates, wires, np.array(latencies, np.int64)))
        return both

    def _together(self, events: list[Event]) -> Iterator[Violation]:
        """Yield what is wrong in one interval: each wire's load is counted over all of its events."""
        load, wait = np.zeros(len(self.cluster.wires), np.int64), Fraction(0)
        grouped: dict[tuple[int, int], Ints] = {}
        size = self.expansion.document.chunk_bytes
        for event in events:
            if event.kind < 0:
                missing, longest = self._cross(event, load)
                if missing is not None:
                    yield missing
                    return
            else:
                longest = self._spread(event, load, grouped)
            if self.expansion.phase.adds:  # a chunk at the slowest GPU of the pods of the kind, in a round of all
                pods = self.cluster.types if event.kind < 0 else [self._type(event.kind)]
                rates = [rate for pod in pods for rate in pod.reduce_bandwidth if rate]
                longest += size / min(rates) if rates else 0
            wait = max(wait, longest)
        first = events[0]
        where = f"round {first.round}" if first.kind < 0 else f"step {first.step} of batch {first.round + 1}"
        time = Fraction(first.end - first.start, SECOND) - wait
        full = []
        for rate, numbers in self._by_rate:
            most = int(numbers[np.argmax(load[numbers])])
            if load[most] and int(load[most]) * size > rate * time:
                src, dst = self.cluster.wires[most].src, self.cluster.wires[most].dst
                full.append(f"{self.cluster.vertices[src].name}->{self.cluster.vertices[dst].name}")
        for (kind, number), counts in grouped.items():
            group = self._type(kind).groups[number]
            if int(counts.max()) * size > group.bandwidth * group.lanes * time:
                full.append(group.name)
        if full:
            message = f"{where}: {first.end - first.start} ps are too short for what {full[0]} carries"
            yield Violation("overloaded", message, step=first.round, resource=full[0])

    def _cross(self, event: Event, load: Ints) -> tuple[Violation | None, Fraction]:
        """Add a round's transfers to ``load``; return a missing path, or None, and the longest latency."""
        position, leaves, enters = self.expansion.crossing(event)
        if not len(position):
            return None, Fraction(0)
        heads, tails = self._ends
        size = len(self.cluster.vertices)
        pairs, often = np.unique(heads[leaves] * size + tails[enters], return_counts=True)
        inside = np.zeros(len(position), np.int64)
        for which, (gates, wires, latencies) in zip((leaves, enters), self._gates, strict=True):
            np.add.at(load, wires, np.bincount(which, minlength=len(latencies))[gates])
            inside += latencies[which]
        between = Fraction(0)
        for pair, count in zip(pairs.tolist(), often.tolist(), strict=True):
            path = self.expansion.phase.paths.get(divmod(pair, size))
            if path is None:
                names = [self.cluster.vertices[v].name for v in divmod(pair, size)]
                message = f"round {event.round}: no path from {names[0]} to {names[1]} is stated"
                return Violation("no-such-link", message), Fraction(0)
            for wire in path:
                load[wire] += count
            between = max(between, _latency(self.cluster.wires, path))
        return None, between + Fraction(int(inside.max()), SECOND)

    def _spread(self, event: Event, load: Ints, grouped: dict[tuple[int, int], Ints]) -> Fraction:
        """Add a step in all pods of a kind to ``load``, and to what stated groups carry in each pod (``grouped``);
        return the longest latency of its links."""
        kind, pod = self.expansion.phase.kinds[event.kind], self._type(event.kind)
        position, pod_of, link = self.expansion.local(event)
        if not len(position):
            return Fraction(0)
        links = len(kind.links)
        cells = np.bincount(pod_of * links + link, minlength=len(self.cluster.pods) * links)
        pods, wires, crossed, members = self._kind_tables[event.kind]
        by_pod = cells.reshape(-1, links)[pods]
        np.add.at(load, wires, by_pod @ crossed)
        for number, links_of in enumerate(members):
            key = event.kind, number
            grouped[key] = by_pod[:, links_of].sum(axis=1) + grouped.get(key, 0)
        return max(_latency(pod.wires, kind.links[i][2]) for i in np.flatnonzero(by_pod.any(axis=0)).tolist())

    @cached_property
    def _kind_tables(self) -> list[tuple[Ints, Ints, Ints, list[list[int]]]]:
        """For each kind: its pods, their wires, a row for each pod, the wires that each link crosses, and the
        links of each stated group."""
        kinds = []
        for number, kind in enumerate(self.expansion.phase.kinds):
            pod, pods = self._type(number), np.flatnonzero(self.expansion.phase.kind_of == number)
            wires = np.array([self.cluster.pods[p].wires for p in pods], np.int64)
            crossed = np.zeros((len(kind.links), len(pod.wires)), np.int64)
            for i, (_, _, path) in enumerate(kind.links):
                crossed[i, list(path)] = 1
            members = []
            for group in pod.groups:
                ends = {(pod.links[i].src, pod.links[i].dst, pod.links[i].wires) for i in group.links}
                members.append([i for i, link in enumerate(kind.links) if link in ends])
            kinds.append((pods, wires, crossed, members))
        return kinds

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        """The vertices that the uplinks of the gates lead to, and those that their downlinks come from."""
        uplinks = np.concatenate(self.expansion.phase.uplinks).tolist()
        wires = self.cluster.wires
        ends = np.array([(wires[out].dst, wires[into].src) for out, into in uplinks], np.int64)
        return ends[:, 0], ends[:, 1]

    @cached_property
    def _by_rate(self) -> list[tuple[Fraction, Ints]]:
        """The wires of each rate in bytes per second; wires without a limit are left out."""
        groups: dict[Fraction, list[int]] = {}
        for number, wire in enumerate(self.cluster.wires):
            if wire.bandwidth is not None:
                groups.setdefault(wire.bandwidth * wire.lanes, []).append(number)
        return [(rate, np.array(numbers, np.int64)) for rate, numbers in groups.items()]


def _latency(wires: Sequence[Wire], path: Sequence[int]) -> Fraction:
    return sum((wires[w].latency for w in path), Fraction(0))


def _joined(wires: Sequence[Wire], path: Sequence[int], src: int, dst: int, gpus: int) -> bool:
    """Return True if ``path`` leads from ``src`` to ``dst`` past no GPU between them."""
    at = src
    for number in path:
        if wires[number].src != at or (at != src and at < gpus):
            return False
        at = wires[number].dst
    return at == dst
