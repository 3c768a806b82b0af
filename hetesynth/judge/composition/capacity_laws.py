"""What it loads: no wire or group carries more than its rate in any interval, and paths are paths.

In: the transfers of a phase, the cluster as pods. Out: violations. An interval is long enough if after the longest
latency of its transfers each wire and group has time for all its bytes, and after that the slowest GPU of the pods
concerned to add a chunk. What has the same interval is counted together. Intervals of rounds, of steps of a kind,
and of rounds and steps that share a wire are equal or do not overlap: so at no moment does a wire carry what is of
two intervals.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import groupby

import numpy as np

from hetesynth.judge.composition.document import Ints
from hetesynth.judge.composition.expansion import Event, Expansion
from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology, Wire
from hetesynth.model.verdict import Violation

SECOND = 10**12  # picoseconds


@dataclass(frozen=True, slots=True)
class _Lists:
    """Lists of wires, one after another, and the seconds of latency of each."""

    begin: Ints
    wires: Ints
    latency: tuple[Fraction, ...]

    def of(self, which: Ints) -> Ints:
        """The wires of lists ``which``, with repetition."""
        count = np.diff(self.begin)[which]
        inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return np.asarray(self.wires[np.repeat(self.begin[which], count) + inside], np.int64)


def _lists(rows: Sequence[Sequence[int]], wires: Sequence[Wire]) -> _Lists:
    begin = np.cumsum([0, *(len(row) for row in rows)]).astype(np.int64)
    flat = np.array([w for row in rows for w in row], np.int64)
    return _Lists(begin, flat, tuple(sum((wires[w].latency for w in row), Fraction(0)) for row in rows))


@dataclass(frozen=True)
class CapacityLaws:
    """One phase on a cluster."""

    expansion: Expansion
    cluster: PodCluster

    def violations(self, events: list[Event]) -> Iterator[Violation]:
        """Everything wrong with paths, intervals and loads; wrong paths end the check."""
        wrong = list(self._paths())
        if wrong:
            yield from wrong
            return
        yield from self._overlaps(events)
        for _, together in groupby(events, key=lambda event: (event.start, event.end)):
            yield from self._together(list(together))

    # --- paths

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
            if any(w >= len(pod.wires) for w in local) or pod.ranks != kind.ranks:
                yield Violation("no-such-link", f"kind {k} does not fit its pods in the cluster")
                return
            for src, dst, path in kind.links:
                if not _joined(pod.wires, path, src, dst, pod.ranks):
                    yield Violation(
                        "no-such-link", f"kind {k}: no path of wires leads from GPU {src} to GPU {dst}"
                    )
        for p, (k, pod_of) in enumerate(zip(phase.kind_of.tolist(), cluster.pods, strict=True)):
            if pod_of.type != self._pod_type(k):
                yield Violation("no-such-link", f"pod {pod_of.name} is not like the others of kind {k}")
            for gate, (out, into) in enumerate(phase.uplinks[p].tolist()):
                yield from self._gate(p, gate, out, into)
        for (head, tail), path in phase.paths.items():
            if not _joined(cluster.wires, path, head, tail, cluster.ranks):
                yield Violation("no-such-link", f"a stated path does not lead from vertex {head} to vertex {tail}")

    def _gate(self, p: int, number: int, out: int, into: int) -> Iterator[Violation]:
        cluster, pod = self.cluster, self.cluster.pods[p]
        if pod.type != self._pod_type(int(self.expansion.phase.kind_of[p])):
            return
        gate = self.expansion.phase.kinds[self.expansion.phase.kind_of[p]].gates[number]
        gpu = pod.vertices[gate.gpu]
        leave = [*(pod.wires[w] for w in gate.out), out]
        enter = [into, *(pod.wires[w] for w in gate.into)]
        ends = cluster.wires[out].dst, cluster.wires[into].src
        if not (
            _joined(cluster.wires, leave, gpu, ends[0], cluster.ranks)
            and _joined(cluster.wires, enter, ends[1], gpu, cluster.ranks)
        ):
            yield Violation("no-such-link", f"gate {number} of pod {pod.name} is no path of wires")

    def _pod_type(self, kind: int) -> int:
        first = int(np.argmax(self.expansion.phase.kind_of == kind))
        return self.cluster.pods[first].type

    def _type(self, kind: int) -> Topology:
        return self.cluster.types[self._pod_type(kind)]

    # --- intervals

    def _overlaps(self, events: list[Event]) -> Iterator[Violation]:
        """Rounds overlap no rounds, steps of a kind no other steps of it, nor rounds if they share wires; but for
        those of one interval."""
        for k in range(-1, len(self.expansion.phase.kinds)):
            both = k >= 0 and self._shares(k)
            before: Event | None = None
            for event in events:
                if event.kind != k and not (both and event.kind < 0):
                    continue
                if event.end == event.start:
                    continue
                if (
                    before is not None
                    and event.start < before.end
                    and (event.start, event.end)
                    != (
                        before.start,
                        before.end,
                    )
                ):
                    message = f"round {event.round} and round {before.round} overlap on wires that both use"
                    yield Violation("overloaded", message, step=event.round)
                    break
                before = event

    def _shares(self, number: int) -> bool:
        kind = self.expansion.phase.kinds[number]
        inside = {w for _, _, path in kind.links for w in path}
        return any(w in inside for gate in kind.gates for w in (*gate.out, *gate.into))

    # --- loads

    @cached_property
    def _leaving(self) -> _Lists:
        return _lists([row for row, _ in self._gate_wires()], self.cluster.wires)

    @cached_property
    def _entering(self) -> _Lists:
        return _lists([row for _, row in self._gate_wires()], self.cluster.wires)

    def _gate_wires(self) -> Iterator[tuple[list[int], list[int]]]:
        phase = self.expansion.phase
        for k, pod, uplinks in zip(phase.kind_of.tolist(), self.cluster.pods, phase.uplinks, strict=True):
            for gate, (out, into) in zip(phase.kinds[k].gates, uplinks.tolist(), strict=True):
                yield [*(pod.wires[w] for w in gate.out), out], [into, *(pod.wires[w] for w in gate.into)]

    @cached_property
    def _latencies(self) -> tuple[Ints, Ints]:
        """Of leaving and entering by each gate, in picoseconds rounded up."""
        return tuple(
            np.array([math.ceil(s * SECOND) for s in lists.latency], np.int64)
            for lists in (self._leaving, self._entering)
        )  # type: ignore[return-value]

    def _addition(self, kind: int) -> Fraction:
        """Seconds of adding a chunk at the slowest GPU of the pods of ``kind``, in a round of all; 0 of copies."""
        if not self.expansion.phase.adds:
            return Fraction(0)
        pods = self.cluster.types if kind < 0 else [self._type(kind)]
        rates = [rate for pod in pods for rate in pod.reduce_bandwidth if rate]
        return self.expansion.document.chunk_bytes / min(rates) if rates else Fraction(0)

    def _together(self, events: list[Event]) -> Iterator[Violation]:
        """All that happens in one interval: what each wire carries is counted over all of it."""
        load, wait = np.zeros(len(self.cluster.wires), np.int64), Fraction(0)
        grouped: dict[tuple[int, int], Ints] = {}
        for event in events:
            if event.kind < 0:
                missing, longest = self._cross(event, load)
                if missing is not None:
                    yield missing
                    return
            else:
                longest = self._spread(event, load, grouped)
            wait = max(wait, longest + self._addition(event.kind))
        first = events[0]
        where = f"round {first.round}" if first.kind < 0 else f"step {first.step} of batch {first.round + 1}"
        time = Fraction(first.end - first.start, SECOND) - wait
        name = self._fullest(load, time) or self._fullest_group(grouped, time)
        if name is not None:
            message = f"{where}: {first.end - first.start} ps are too short for what {name} carries"
            yield Violation("overloaded", message, step=first.round, resource=name)

    def _cross(self, event: Event, load: Ints) -> tuple[Violation | None, Fraction]:
        """Adds the transfers of a round to ``load``; their longest latency, or which path is missing."""
        crossing, wires = self.expansion.crossing(event), self.cluster.wires
        if not len(crossing.position):
            return None, Fraction(0)
        heads, tails = self._ends
        size = len(self.cluster.vertices)
        pairs, often = np.unique(heads[crossing.leaves] * size + tails[crossing.enters], return_counts=True)
        load += np.bincount(self._leaving.of(crossing.leaves), minlength=len(wires))
        load += np.bincount(self._entering.of(crossing.enters), minlength=len(wires))
        between = Fraction(0)
        for pair, count in zip(pairs.tolist(), often.tolist(), strict=True):
            path = self.expansion.phase.paths.get(divmod(pair, size))
            if path is None:
                names = [self.cluster.vertices[v].name for v in divmod(pair, size)]
                message = f"round {event.round}: no path from {names[0]} to {names[1]} is stated"
                return Violation("no-such-link", message), Fraction(0)
            for wire in path:
                load[wire] += count
            between = max(between, sum((wires[w].latency for w in path), Fraction(0)))
        leave, enter = self._latencies
        inside = int((leave[crossing.leaves] + enter[crossing.enters]).max())
        return None, between + Fraction(inside, SECOND)

    def _spread(self, event: Event, load: Ints, grouped: dict[tuple[int, int], Ints]) -> Fraction:
        """Adds a step in all pods of a kind to ``load``, and to what stated groups carry in each pod; its longest
        latency."""
        kind, pod = self.expansion.phase.kinds[event.kind], self._type(event.kind)
        local = self.expansion.local(event)
        if not len(local.position):
            return Fraction(0)
        links, pods = len(kind.links), self._pods_of[event.kind]
        cells = np.bincount(local.pod * links + local.link, minlength=len(self.cluster.pods) * links)
        by_pod = cells.reshape(-1, links)[pods]
        crossed, members = self._incidence(event.kind)
        np.add.at(load, self._wires_of[event.kind], by_pod @ crossed)
        for number, links_of in enumerate(members):
            key = event.kind, number
            grouped[key] = by_pod[:, links_of].sum(axis=1) + grouped.get(key, 0)
        used = np.flatnonzero(by_pod.any(axis=0)).tolist()
        return max(sum((pod.wires[w].latency for w in kind.links[i][2]), Fraction(0)) for i in used)

    def _fullest_group(self, grouped: dict[tuple[int, int], Ints], time: Fraction) -> str | None:
        for (kind, number), counts in grouped.items():
            group = self._type(kind).groups[number]
            size = int(counts.max()) * self.expansion.document.chunk_bytes
            if size > group.bandwidth * group.lanes * time:
                return group.name
        return None

    @cached_property
    def _pods_of(self) -> list[Ints]:
        """The pods of each kind."""
        phase = self.expansion.phase
        return [np.flatnonzero(phase.kind_of == k) for k in range(len(phase.kinds))]

    @cached_property
    def _wires_of(self) -> list[Ints]:
        """The wires of the pods of each kind, a row for each pod."""
        return [np.array([self.cluster.pods[p].wires for p in pods], np.int64) for pods in self._pods_of]

    @cached_property
    def _ends(self) -> tuple[Ints, Ints]:
        uplinks = np.concatenate(self.expansion.phase.uplinks)
        src = np.array([w.src for w in self.cluster.wires], np.int64)
        dst = np.array([w.dst for w in self.cluster.wires], np.int64)
        return dst[uplinks[:, 0]], src[uplinks[:, 1]]

    @cached_property
    def _by_rate(self) -> list[tuple[Fraction, Ints]]:
        """The wires of each rate."""
        groups: dict[Fraction, list[int]] = {}
        for number, wire in enumerate(self.cluster.wires):
            if wire.bandwidth is not None:
                groups.setdefault(wire.bandwidth * wire.lanes, []).append(number)
        return [(rate, np.array(numbers, np.int64)) for rate, numbers in groups.items()]

    def _fullest(self, load: Ints, time: Fraction) -> str | None:
        """The name of a wire whose load takes more than ``time``; None: none does."""
        for rate, numbers in self._by_rate:
            most = int(np.argmax(load[numbers]))
            count = int(load[numbers[most]])
            if count and count * self.expansion.document.chunk_bytes > rate * time:
                wire = self.cluster.wires[int(numbers[most])]
                return f"{self.cluster.vertices[wire.src].name}->{self.cluster.vertices[wire.dst].name}"
        return None

    def _incidence(self, number: int) -> tuple[Ints, list[list[int]]]:
        """Of the links of a kind: the wires that each crosses, and the members of each stated group."""
        if number not in self._cache:
            kind, pod = self.expansion.phase.kinds[number], self._type(number)
            crossed = np.zeros((len(kind.links), len(pod.wires)), np.int64)
            for i, (_, _, path) in enumerate(kind.links):
                crossed[i, list(path)] = 1
            members = []
            for group in pod.groups:
                ends = {(pod.links[i].src, pod.links[i].dst, pod.links[i].wires) for i in group.links}
                members.append([i for i, link in enumerate(kind.links) if link in ends])
            self._cache[number] = crossed, members
        return self._cache[number]

    @cached_property
    def _cache(self) -> dict[int, tuple[Ints, list[list[int]]]]:
        return {}


def _joined(wires: Sequence[Wire], path: Sequence[int], src: int, dst: int, gpus: int) -> bool:
    """Whether ``path`` leads from ``src`` to ``dst`` past no GPU between them."""
    at = src
    for number in path:
        if wires[number].src != at or (at != src and at < gpus):
            return False
        at = wires[number].dst
    return at == dst
