"""The document of a composition, read with suspicion and expanded to its transfers.

Its numbers are in range, or it is ``JsonRefused``; whether it is right the judge says.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.files.strict_json import fail, integer, integers, items, read_json

Ints = NDArray[np.int64]

FORMAT = "hetesynth-composition"
VERSION = 1
MAX_BYTES = 1 << 30
MAX_DEPTH = 16
MAX_RANKS = 1 << 16
MAX_CELLS = 1 << 29
MAX_TIME = 1 << 53
COLLECTIVES = {"allgather": (False,), "reducescatter": (True,), "allreduce": (True, False)}
"""The phases of each collective: whether they add."""


@dataclass(frozen=True, slots=True)
class GateEntry:
    """A GPU of a pod and the wires of its pod to the edge and from there."""

    gpu: int
    out: tuple[int, ...]
    into: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class KindEntry:
    """Pods with the same schedules. ``order``: GPUs by position; ``slots``, ``own``: gates by position, and of own
    chunks; ``home``, ``entered``: steps, rows of (slot, link), for own chunks and those that entered."""

    order: Ints
    gates: tuple[GateEntry, ...]
    slots: Ints
    own: Ints
    links: tuple[tuple[int, int, tuple[int, ...]], ...]
    home: tuple[Ints, ...]
    entered: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class PhaseEntry:
    """A phase. ``moves[r]``: rows of (sender pod, receiver pod, first position, count). Times: picoseconds."""

    adds: bool
    kinds: tuple[KindEntry, ...]
    kind_of: Ints
    uplinks: tuple[Ints, ...]
    paths: dict[tuple[int, int], tuple[int, ...]]
    rounds: Ints
    batches: tuple[tuple[Ints, ...], ...]
    moves: tuple[Ints, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """A composition as it was written. ``pods``: name, first rank, size. ``claimed_time``, ``claimed_bound``:
    those of its header, in picoseconds."""

    collective: str
    ranks: int
    chunks: int
    chunk_bytes: int
    pods: tuple[tuple[str, int, int], ...]
    phases: tuple[PhaseEntry, ...]
    claimed_time: int
    claimed_bound: int

    @property
    def positions(self) -> int:
        """The number of chunks."""
        return self.ranks * self.chunks


def read_document(data: bytes) -> Document:
    """Return the document in ``data``; JsonRefused where it is none."""
    if len(data) > MAX_BYTES:
        fail(f"{len(data)} bytes are more than the {MAX_BYTES} that a composition may have")
    fields = _fields(read_json(data, MAX_DEPTH), "the document", _TOP)
    if fields["format"] != FORMAT or fields["version"] != VERSION:
        fail(f"its format is not {FORMAT!r}, version {VERSION}")
    if str(fields["collective"]) not in COLLECTIVES:
        fail(f"{str(fields['collective'])[:40]!r} is not composed")
    ranks = integer(fields["ranks"], "ranks", 1, MAX_RANKS)
    chunks = integer(fields["chunks_per_rank"], "chunks_per_rank", 1, MAX_CELLS)
    if ranks * ranks * chunks > MAX_CELLS:
        fail(f"{ranks} ranks with {chunks} chunks each are too many to judge")
    pods, following = [], 0
    for name, first, gpus in _triples(fields, "pods"):
        if not isinstance(name, str):
            fail("the name of a pod is not a string")
        if integer(first, f"pod {name}", 0, ranks) != following:
            fail(f"pod {name} does not begin at rank {following}")
        following += integer(gpus, f"pod {name}", 1, ranks)
        pods.append((name, first, gpus))
    if following != ranks:
        fail(f"the pods have {following} ranks, not {ranks}")
    reader = _PhaseReader(tuple(pods), ranks * chunks, chunks)
    phases = tuple(reader.phase(row) for row in items(fields["phases"], "phases"))
    size = integer(fields["chunk_bytes"], "chunk_bytes", 1, MAX_TIME)
    header = fields["header"] if isinstance(fields["header"], dict) else {}
    claims = [integer(header.get(name), name, 0, MAX_TIME) for name in ("picoseconds", "bound_picoseconds")]
    return Document(fields["collective"], ranks, chunks, size, tuple(pods), phases, claims[0], claims[1])


_TOP = "format version header cluster collective ranks chunks_per_rank chunk_bytes pods phases"
_PHASE = "adds kinds kind_of uplinks paths rounds batches moves"
_KIND = "order gates slots own links home entered"


def _fields(value: object, where: str, names: str) -> dict[str, Any]:
    if not isinstance(value, dict) or set(value) != set(names.split()):
        fail(f"{where} is not an object with the fields {', '.join(names.split())}")
    return value


def _triples(fields: dict[str, Any], name: str) -> list[list[Any]]:
    return [items(row, f"a {name[:-1]}", 3) for row in items(fields[name], name)]


def _table(value: object, where: str, limits: tuple[int, ...]) -> Ints:
    """Rows of as many integers as there are limits, each from 0 to below its limit."""
    rows = items(value, where)
    if any(not isinstance(row, list) or len(row) != len(limits) for row in rows):
        fail(f"{where}: a row is not a list of {len(limits)}")
    if any(type(v) is not int or not 0 <= v < MAX_TIME for row in rows for v in row):
        fail(f"{where}: a value is not an integer in range")
    table = np.array(rows, np.int64).reshape(len(rows), len(limits))
    if (table >= np.array(limits, np.int64)).any():
        fail(f"{where}: a value is out of range")
    return table


@dataclass(frozen=True, slots=True)
class _PhaseReader:
    pods: tuple[tuple[str, int, int], ...]
    positions: int
    chunks: int

    def phase(self, value: object) -> PhaseEntry:
        fields = _fields(value, "a phase", _PHASE)
        kinds_of = integers(fields["kind_of"], "kind_of", len(items(fields["kinds"], "kinds")) - 1)
        if len(kinds_of) != len(self.pods):
            fail("kind_of does not name a kind for each pod")
        kinds = tuple(self._kind(row, k, kinds_of) for k, row in enumerate(fields["kinds"]))
        wires = (MAX_TIME, MAX_TIME)
        uplinks = tuple(_table(row, "uplinks", wires) for row in items(fields["uplinks"], "uplinks"))
        if [len(u) for u in uplinks] != [len(kinds[k].gates) for k in kinds_of]:
            fail("uplinks do not fit the gates of the pods")
        paths = {}
        for *ends, path in _triples(fields, "paths"):
            head, tail = integers(ends, "a path", MAX_TIME)
            paths[head, tail] = integers(path, "a path", MAX_TIME)
        rounds = _table(fields["rounds"], "rounds", (MAX_TIME, MAX_TIME))
        limits = len(self.pods), len(self.pods), self.positions, self.positions + 1
        moves = tuple(_table(row, "moves", limits) for row in items(fields["moves"], "moves", len(rounds)))
        if any((m[:, 2] + m[:, 3] > self.positions).any() for m in moves):
            fail("a move names a position that there is not")
        batches = []
        for kind, rows in zip(kinds, items(fields["batches"], "batches", len(kinds)), strict=True):
            lengths = [len(kind.home) + 1] + [len(kind.entered) + 1] * len(rounds)
            times = [
                np.array(integers(items(row, "a batch", length), "a batch", MAX_TIME), np.int64)
                for row, length in zip(items(rows, "batches", len(rounds) + 1), lengths, strict=True)
            ]
            if any((np.diff(t) < 0).any() for t in times):
                fail("the steps of a batch run backwards")
            batches.append(tuple(times))
        adds = bool(integer(fields["adds"], "adds", 0, 1))
        return PhaseEntry(adds, kinds, np.array(kinds_of, np.int64), uplinks, paths, rounds, tuple(batches), moves)

    def _kind(self, value: object, number: int, kinds_of: tuple[int, ...]) -> KindEntry:
        fields = _fields(value, "a kind", _KIND)
        sizes = {self.pods[p][2] for p, k in enumerate(kinds_of) if k == number}
        if len(sizes) != 1:
            fail(f"the pods of kind {number} are not of one size")
        ranks = sizes.pop()
        gates = []
        for gpu, out, into in _triples(fields, "gates"):
            wires = integers(out, "a gate", MAX_TIME), integers(into, "a gate", MAX_TIME)
            gates.append(GateEntry(integer(gpu, "a gate", 0, ranks - 1), *wires))
        links = []
        for *ends, path in _triples(fields, "links"):
            src, dst = integers(ends, "a link", ranks - 1)
            links.append((src, dst, integers(path, "a link", MAX_TIME)))
        slots = integers(fields["slots"], "slots", len(gates) - 1)
        own = integers(fields["own"], "own", len(gates) - 1)
        if not slots or (own and len(own) != ranks * self.chunks):
            fail("slots are missing, or own gates do not fit the chunks of a pod")
        home, entered = (
            tuple(_table(step, name, (size, len(links))) for step in items(fields[name], name))
            for name, size in (("home", ranks), ("entered", len(slots)))
        )
        numbers = np.array(slots, np.int64), np.array(own, np.int64)
        order = integers(fields["order"], "order", ranks - 1)
        if sorted(order) != list(range(ranks)):
            fail("the order of a kind does not name each GPU once")
        return KindEntry(np.array(order, np.int64), tuple(gates), *numbers, tuple(links), home, entered)


@dataclass(frozen=True, slots=True)
class Event:
    """A round or step from ``start`` to ``end``: round ``round`` or, where ``kind`` is 0 or more, step ``step`` of
    a batch in all pods of that kind: the batch of round ``round``, or of the pods' own chunks where that is -1."""

    start: int
    end: int
    round: int
    kind: int = -1
    step: int = -1


@dataclass(frozen=True)
class Expansion:
    """The transfers of a phase. One that copies spreads in a pod the chunks that entered it in a round, one that
    adds collects in a pod those that leave it in a round."""

    document: Document
    phase: PhaseEntry

    @cached_property
    def first(self) -> Ints:
        """The first rank of each pod."""
        return np.array([first for _, first, _ in self.document.pods], np.int64)

    @cached_property
    def owner(self) -> Ints:
        """The rank whose chunk each position is: part j of the i-th GPU of a pod with n comes at j n + i."""
        blocks = [
            first + np.tile(self.phase.kinds[k].order, self.document.chunks)
            for k, (_, first, _) in zip(self.phase.kind_of, self.document.pods, strict=True)
        ]
        return np.concatenate(blocks).astype(np.int64)

    @cached_property
    def gate_rank(self) -> Ints:
        """The rank of each gate."""
        pods = zip(self.phase.kind_of, self.first, strict=True)
        return np.array([first + gate.gpu for k, first in pods for gate in self.phase.kinds[k].gates], np.int64)

    def events(self) -> list[Event]:
        """Return the rounds and the steps in the order in which they begin."""
        events = [Event(int(a), int(b), r) for r, (a, b) in enumerate(self.phase.rounds)]
        for k, batches in enumerate(self.phase.batches):
            for b, times in enumerate(batches):
                events += [Event(int(times[s]), int(times[s + 1]), b - 1, k, s) for s in range(len(times) - 1)]
        return sorted(events, key=lambda e: (e.start, e.end, e.kind, e.round, e.step))

    def transfers(self, event: Event) -> tuple[Ints, Ints, Ints]:
        """Position, sender and receiver of every transfer of ``event``."""
        if event.kind < 0:
            position, leaves, enters = self.crossing(event)
            return position, self.gate_rank[leaves], self.gate_rank[enters]
        position, pod, link = self.local(event)
        ends = np.array([link[:2] for link in self.phase.kinds[event.kind].links], np.int64).reshape(-1, 2)
        return position, self.first[pod] + ends[link, 0], self.first[pod] + ends[link, 1]

    def crossing(self, event: Event) -> tuple[Ints, Ints, Ints]:
        """Return a round's positions and the gates, numbered over all pods, that they leave and enter by."""
        sender, receiver, position = self._moved(event.round)
        return position, self._gate(sender, position), self._gate(receiver, position)

    def local(self, event: Event) -> tuple[Ints, Ints, Ints]:
        """Return the positions that a step inside pods moves, with the pod and the link of the kind for each."""
        kind, chunks = self.phase.kinds[event.kind], self.document.chunks
        if event.round < 0:
            pods = np.flatnonzero(self.phase.kind_of == event.kind)
            size = np.array([self.document.pods[p][2] for p in pods], np.int64)
            pod, position = _runs(pods, self.first[pods] * chunks, size * chunks)
            slots, step = len(kind.order), kind.home[event.step]
            slot = (position - self.first[pod] * chunks) % slots
        else:
            sender, receiver, position = self._moved(event.round)
            pod = sender if self.phase.adds else receiver
            concerned = self.phase.kind_of[pod] == event.kind
            pod, position = pod[concerned], position[concerned]
            slots, step = len(kind.slots), kind.entered[event.step]
            slot = position % slots
        order = np.argsort(step[:, 0], kind="stable")
        links = step[order, 1]
        begin = np.searchsorted(step[order, 0], np.arange(slots + 1))
        count = np.diff(begin)[slot]
        index, at = _runs(np.arange(len(position)), begin[slot], count)
        return position[index], pod[index], links[at]

    def _moved(self, number: int) -> tuple[Ints, Ints, Ints]:
        rows = self.phase.moves[number]
        row, position = _runs(np.arange(len(rows)), rows[:, 2], rows[:, 3])
        return rows[row, 0], rows[row, 1], position

    def _gate(self, pod: Ints, position: Ints) -> Ints:
        sizes = [len(self.phase.kinds[k].gates) for k in self.phase.kind_of]
        first_gate, gate = np.cumsum(sizes) - sizes, np.zeros(len(pod), np.int64)
        for k, kind in enumerate(self.phase.kinds):
            of_kind = np.flatnonzero(self.phase.kind_of[pod] == k)
            number = kind.slots[position[of_kind] % len(kind.slots)]
            if len(kind.own):
                inside = position[of_kind] - self.first[pod[of_kind]] * self.document.chunks
                mine = (inside >= 0) & (inside < len(kind.own))
                number[mine] = kind.own[inside[mine]]
            gate[of_kind] = first_gate[pod[of_kind]] + number
        return gate


def _runs(key: Ints, first: Ints, count: Ints) -> tuple[Ints, Ints]:
    """Return each key as often as its ``count`` says, and with it the numbers from its ``first`` on."""
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(key, count), np.repeat(first, count) + inside
