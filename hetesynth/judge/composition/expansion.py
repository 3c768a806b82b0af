"""A phase of a document, expanded to transfers: chunk, sender and receiver of each, interval by interval.

In: a ``Document`` and one of its phases. Out: events in the order of their beginning, and the transfers of each as
arrays. A phase that copies spreads in a pod what entered it in a round; one that adds collects in a pod what
leaves it in a round.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hetesynth.judge.composition.document import Document, Ints, PhaseEntry


@dataclass(frozen=True, slots=True)
class Event:
    """What happens from ``start`` to ``end``: round ``round``, or, where ``kind`` is 0 or more, step ``step`` of a
    batch in all pods of that kind: of round ``round``, of their own chunks where that is -1."""

    start: int
    end: int
    round: int
    kind: int = -1
    step: int = -1


@dataclass(frozen=True, slots=True)
class Crossing:
    """Transfers of a round: positions and the gates, numbered over all pods, that they leave and enter by."""

    position: Ints
    leaves: Ints
    enters: Ints


@dataclass(frozen=True, slots=True)
class Local:
    """Transfers of a step inside pods: positions, pods and links of the kind."""

    position: Ints
    pod: Ints
    link: Ints


@dataclass(frozen=True)
class Expansion:
    """The transfers of one phase."""

    document: Document
    phase: PhaseEntry

    @cached_property
    def first(self) -> Ints:
        """The first rank of each pod."""
        return np.array([first for _, first, _ in self.document.pods], np.int64)

    @cached_property
    def size(self) -> Ints:
        """The ranks of each pod."""
        return np.array([size for _, _, size in self.document.pods], np.int64)

    @cached_property
    def owner(self) -> Ints:
        """The rank whose chunk each position is: part j of the i-th GPU of a pod with n comes at j n + i."""
        blocks = [
            first + np.tile(self.phase.kinds[k].order, self.document.chunks)
            for k, (_, first, _) in zip(self.phase.kind_of, self.document.pods, strict=True)
        ]
        return np.concatenate(blocks).astype(np.int64)

    @cached_property
    def gate_base(self) -> Ints:
        """The number of the first gate of each pod."""
        sizes = [len(self.phase.kinds[k].gates) for k in self.phase.kind_of]
        return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

    @cached_property
    def gate_rank(self) -> Ints:
        """The rank of each gate."""
        rows = [
            [first + gate.gpu for gate in self.phase.kinds[k].gates]
            for k, (_, first, _) in zip(self.phase.kind_of, self.document.pods, strict=True)
        ]
        return np.array([rank for row in rows for rank in row], np.int64)

    def events(self) -> list[Event]:
        """Rounds and steps by their beginning."""
        events = [Event(int(a), int(b), r) for r, (a, b) in enumerate(self.phase.rounds)]
        for k, batches in enumerate(self.phase.batches):
            for b, times in enumerate(batches):
                events += [Event(int(times[s]), int(times[s + 1]), b - 1, k, s) for s in range(len(times) - 1)]
        return sorted(events, key=lambda e: (e.start, e.end, e.kind, e.round, e.step))

    def crossing(self, event: Event) -> Crossing:
        """The transfers of a round."""
        sender, receiver, position = self._moved(event.round)
        return Crossing(position, self._gate(sender, position), self._gate(receiver, position))

    def local(self, event: Event) -> Local:
        """The transfers of a step inside the pods of a kind."""
        kind = self.phase.kinds[event.kind]
        pod, position = self._in_pods(event)
        steps = kind.home if event.round < 0 else kind.entered
        slots = kind.ranks if event.round < 0 else len(kind.slots)
        slot = (position - self.first[pod] * self.document.chunks if event.round < 0 else position) % slots
        step = steps[event.step]
        order = np.argsort(step[:, 0], kind="stable")
        links = step[order, 1]
        begin = np.searchsorted(step[order, 0], np.arange(slots + 1))
        count = np.diff(begin)[slot]
        inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        return Local(
            np.repeat(position, count), np.repeat(pod, count), links[np.repeat(begin[slot], count) + inside]
        )

    def ranks(self, event: Event, local: Local) -> tuple[Ints, Ints]:
        """Sender and receiver of each transfer of a step."""
        links = self.phase.kinds[event.kind].links
        src = np.array([link[0] for link in links], np.int64)
        dst = np.array([link[1] for link in links], np.int64)
        return self.first[local.pod] + src[local.link], self.first[local.pod] + dst[local.link]

    def _in_pods(self, event: Event) -> tuple[Ints, Ints]:
        """Pod and position of all that a batch concerns."""
        if event.round < 0:
            pods = np.flatnonzero(self.phase.kind_of == event.kind)
            return _runs(pods, self.first[pods] * self.document.chunks, self.size[pods] * self.document.chunks)
        sender, receiver, position = self._moved(event.round)
        pod = sender if self.phase.adds else receiver
        concerned = self.phase.kind_of[pod] == event.kind
        return pod[concerned], position[concerned]

    def _moved(self, number: int) -> tuple[Ints, Ints, Ints]:
        rows = self.phase.moves[number]
        row, position = _runs(np.arange(len(rows)), rows[:, 2], rows[:, 3])
        return rows[row, 0], rows[row, 1], position

    def _gate(self, pod: Ints, position: Ints) -> Ints:
        gate = np.zeros(len(pod), np.int64)
        for k, kind in enumerate(self.phase.kinds):
            of_kind = np.flatnonzero(self.phase.kind_of[pod] == k)
            number = kind.slots[position[of_kind] % len(kind.slots)]
            if len(kind.own):
                inside = position[of_kind] - self.first[pod[of_kind]] * self.document.chunks
                mine = (inside >= 0) & (inside < len(kind.own))
                number[mine] = kind.own[inside[mine]]
            gate[of_kind] = self.gate_base[pod[of_kind]] + number
        return gate


def _runs(key: Ints, first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Each key with each of its ``count`` numbers from ``first`` on."""
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(key, count), np.repeat(first, count) + inside
