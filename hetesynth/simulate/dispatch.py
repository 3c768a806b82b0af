"""The pieces of a schedule, each sent when it is ready and a lane is idle: list scheduling inside the simulation.

A lane is a thread block that sends over a link, one message at a time. Of the messages that are ready, an idle
lane takes the one with the longest way still before its data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from math import inf

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Dispatch, Floats, Ints, Lanes, TransferGraph
from hetesynth.model.topology import WAN_LATENCY
from hetesynth.simulate.engine import Queues, simulate


@dataclass(frozen=True, eq=False)
class Dispatcher:
    """Dispatches ``schedule`` over the links of ``costs``, with any number of pieces of a chunk and of lanes.
    ``overhead``: bytes on the wire for each byte of data. ``slots``: messages under way on a lane at most."""

    schedule: Schedule
    costs: Costs
    protocol: Protocol
    overhead: float
    slots: int

    @cached_property
    def waits(self) -> tuple[Ints, Ints]:
        """The transfers that brought the chunk to the sender of each before, one transfer after the other, and how
        many they are of each."""
        rows = [(t.chunk, *self.costs.link_ends[t.link], t.start, t.end) for t in self.schedule.transfers]
        chunk, src, dst, start, end = np.array(rows, dtype=np.int64).reshape(-1, 5).T
        ranks, ticks = int(max(src.max(initial=0), dst.max(initial=0))) + 1, int(end.max(initial=0)) + 1
        arrived, place = (chunk * ranks + dst) * ticks + end, (chunk * ranks + src) * ticks
        order = np.argsort(arrived, kind="stable")
        first = np.searchsorted(arrived[order], place)
        number = np.searchsorted(arrived[order], place + start, "right") - first
        within = np.arange(number.sum()) - np.repeat(np.cumsum(number) - number, number)
        return order[np.repeat(first, number) + within], number

    @cached_property
    def links(self) -> Ints:
        """The link of each transfer."""
        return np.array([t.link for t in self.schedule.transfers], dtype=np.int64)

    @cached_property
    def limit(self) -> Floats:
        """Bytes of data per second that a lane of each link sends when it is alone."""
        copying = [self.costs.copy_rate(src, self.protocol) for src, _ in self.costs.link_ends]
        return np.array(
            [
                min(rate / self.overhead, inf if copied is None else copied)
                for rate, copied in zip(self.costs.link_rate, copying, strict=True)
            ]
        )

    @cached_property
    def _lag(self) -> Floats:
        """Seconds of each link from the last byte sent until the receiver has it."""
        return np.array(self.costs.lags(self.protocol))

    @cached_property
    def rate(self) -> Floats:
        """Bytes of data per second that the lane of each transfer sends when it is alone."""
        return self.limit[self.links]

    @cached_property
    def adding(self) -> tuple[Floats, Floats]:
        """The seconds per byte of each transfer's additions: by its lane before it, by its receiver afterwards."""
        gamma = [self.costs.gamma[self.costs.link_ends[t.link][1]] * t.reduce for t in self.schedule.transfers]
        return np.zeros(len(gamma)), np.array(gamma)

    @property
    def place(self) -> Ints:
        """The turn of each transfer among those with equally long ways."""
        return np.arange(len(self.links))

    @property
    def begin(self) -> float:
        """Seconds before the first message."""
        return self.costs.start(self.protocol)

    @cached_property
    def _chunks(self) -> Ints:
        return np.bincount(self.links, minlength=len(self.costs.link_ends))

    @cached_property
    def period(self) -> float:
        """Seconds of the fullest resource for chunks of one byte."""
        load = np.zeros(len(self.costs.resource_rate))
        for link in np.flatnonzero(self._chunks).tolist():
            load[list(self.costs.link_resources[link])] += self._chunks[link]
        return float((load / self.costs.resource_rate).max(initial=0.0)) * self.overhead

    def lanes(self, piece_bytes: float, spare: float | None) -> Lanes:
        """Return ``spare`` times the lanes that keep each link at its rate; None: a lane for each tree on it."""
        if spare is None:
            group, _, adds = self._trees
            of = np.unique(np.stack([self.links, group, adds]), axis=1, return_inverse=True)[1].ravel()
            return Lanes(of, np.ones(int(of.max(initial=-1)) + 1, dtype=np.int64))
        needed = spare * self._chunks / self.period * (self._held(piece_bytes) / piece_bytes + 1 / self.limit)
        used, of = np.unique(self.links, return_inverse=True)
        return Lanes(of, np.maximum(1, np.ceil(needed - 1e-9)).astype(np.int64)[used])

    def _held(self, piece_bytes: float) -> Floats:
        """Seconds of each link that a lane waits for a slot after a message, when it sends one after the other;
        between sites until it has arrived, as what waits there holds slots for long."""
        copying = piece_bytes / self.limit
        waiting = np.maximum(0.0, (self._lag + copying) / self.slots - copying)
        far = (self._lag >= float(WAN_LATENCY)) & (self._lag > copying)
        return np.where(far, self._lag, waiting)

    def busiest(self, lanes: Lanes, message_bytes: float) -> float:
        """Seconds for a message of every transfer of the resource, or of the lanes, that have most to do."""
        each = self._held(message_bytes) + message_bytes / self.limit
        of_lanes = np.bincount(lanes.of, each[self.links]) / lanes.number
        return max(self.period * message_bytes, float(of_lanes.max(initial=0.0)))

    def longest(self, piece_bytes: float) -> float:
        """Seconds of the longest way of a piece that has its lanes for itself."""
        return float(self.ways(self._lag[self.links] + piece_bytes / self.rate).max(initial=0.0))

    def ways(self, seconds: Floats) -> Floats:
        """Return the seconds of the longest way from each transfer on, where transfer i takes ``seconds[i]``."""
        (waits, number), ways = self.waits, seconds.copy()
        first = np.concatenate(([0], np.cumsum(number)))
        begin = np.array([t.start for t in self.schedule.transfers], dtype=np.int64)
        cuts = [0, *(np.flatnonzero(np.diff(begin)) + 1).tolist(), len(begin)]
        for low, high in reversed([*pairwise(cuts)]):  # transfers stand in the order of their begin
            before = waits[first[low] : first[high]]
            np.maximum.at(ways, before, seconds[before] + np.repeat(ways[low:high], number[low:high]))
        return ways

    @cached_property
    def _trees(self) -> tuple[Ints, Ints, Ints]:
        """The number of the tree that the chunk of each transfer takes, the place of that chunk among those of the
        same tree, and whether the transfer adds."""
        trees: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for t in self.schedule.transfers:
            trees[t.chunk].append((t.link, t.reduce))
        chunks: dict[tuple[tuple[int, bool], ...], list[int]] = defaultdict(list)
        for chunk in sorted(trees):
            chunks[tuple(sorted(trees[chunk]))].append(chunk)
        turn = {chunk: (tree, i) for tree, those in enumerate(chunks.values()) for i, chunk in enumerate(those)}
        rows = [(*turn[t.chunk], t.reduce) for t in self.schedule.transfers]
        group, place, adds = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        return group, place, adds

    @cached_property
    def _uses(self) -> tuple[Ints, Ints]:
        """The resources that each transfer uses, one transfer after the other, and how many."""
        used = [self.costs.link_resources[link] for link in self.links.tolist()]
        return np.array([*chain.from_iterable(used)], dtype=np.int64), np.array([*map(len, used)], dtype=np.int64)

    def run(self, pieces: int, piece_bytes: float, lanes: Lanes, pace: float) -> Dispatch:
        """``pieces`` of every chunk, of ``piece_bytes`` each. ``pace``: seconds over which the pieces of a
        tree are due, one after the other."""
        costs, transfers = self.costs, self.schedule.transfers
        n = len(transfers)
        before, after = self.adding
        lag, waiting = self._lag[self.links], self._held(piece_bytes)[self.links]
        ways = self.ways(lag + before * piece_bytes + piece_bytes / self.rate)
        # the longest way first, of equal ones the first piece
        group, turn, _ = self._trees
        alike = np.zeros(int(group.max(initial=-1)) + 1, dtype=np.int64)
        np.maximum.at(alike, group, turn + 1)
        alike = alike[group]
        late = (np.arange(pieces)[:, None] * alike + turn) * (pace / (alike * pieces))
        late = (late - ways).ravel()
        order = np.lexsort((np.tile(self.place, pieces), np.repeat(np.arange(pieces), n), late))
        rank = np.empty(n * pieces, dtype=np.int64)
        rank[order] = np.arange(n * pieces)
        (waits, waited), (uses, used) = self.waits, self._uses
        graph = TransferGraph(
            names=costs.resource_names,
            rate=np.asarray(costs.resource_rate, dtype=np.float64),
            waits=(waits[None, :] + n * np.arange(pieces)[:, None]).ravel(),
            waits_start=np.concatenate(([0], np.cumsum(np.tile(waited, pieces)))),
            uses=np.tile(uses, pieces),
            uses_start=np.concatenate(([0], np.cumsum(np.tile(used, pieces)))),
            delay=np.tile(waiting + before * piece_bytes, pieces),
            size=np.full(n * pieces, piece_bytes * self.overhead),
            after=np.tile(lag - waiting + after * piece_bytes, pieces),
        )
        queues = Queues(
            of=np.tile(lanes.of, pieces),
            rank=rank,
            limit=np.tile(self.rate * self.overhead, pieces),
            lanes=lanes.number,
        )
        timeline = simulate(graph, queues=queues)
        return Dispatch(pieces, lanes, timeline.ready, timeline.sent, timeline.makespan + self.begin)


@dataclass(frozen=True, eq=False)
class PlanDispatcher(Dispatcher):
    """Dispatches what plans put. A thread block adds what has come and puts it to all its receivers: a message to
    each, at a share of its copy rate, on lanes of as many times their number. What leaves a server goes over port
    channels, at the rate of the link. ``servers``: of each rank."""

    servers: Sequence[str]

    @cached_property
    def _lag(self) -> Floats:
        return np.array(self.costs.link_alpha)

    @cached_property
    def _station(self) -> Ints:
        """The number of each transfer's group; one thread block puts the transfers of a group together."""
        number: dict[tuple[int, int, bool, bool, float], int] = {}
        costs = self.costs
        rows = [
            (costs.link_ends[t.link][0], t.chunk, t.reduce, self._near[t.link], costs.link_rate[t.link])
            for t in self.schedule.transfers
        ]
        return np.array([number.setdefault(row, len(number)) for row in rows], dtype=np.int64)

    @cached_property
    def _near(self) -> list[bool]:
        """True for each link inside a server."""
        return [self.servers[src] == self.servers[dst] for src, dst in self.costs.link_ends]

    @cached_property
    def rate(self) -> Floats:
        """The rate of each transfer; a thread block shares its copy rate among all receivers in its server."""
        near = np.array(self._near)[self.links]
        wire = np.array(self.costs.link_rate)[self.links]
        each = np.bincount(self._station, weights=near)[self._station]
        return np.where(near, np.minimum(wire, self.limit[self.links] / np.maximum(each, 1)), wire)

    @cached_property
    def adding(self) -> tuple[Floats, Floats]:
        """The seconds per byte of additions, made by the thread block that puts a sum, else by its receiver."""
        transfers = self.schedule.transfers
        before, after = np.zeros((2, len(transfers)))
        passed: set[int] = set()
        all_waits, number = self.waits
        for i, (t, waits) in enumerate(zip(transfers, np.split(all_waits, np.cumsum(number)[:-1]), strict=True)):
            src = self.costs.link_ends[t.link][0]
            added = [j for j in waits.tolist() if transfers[j].reduce]
            passed.update(added)
            if len(added) == len(waits):
                before[i] = len(added) * self.costs.gamma[src]
        for i, t in enumerate(transfers):
            if t.reduce and i not in passed:
                after[i] = self.costs.gamma[self.costs.link_ends[t.link][1]]
        return before, after

    @property
    def place(self) -> Ints:
        """The turn of each transfer: those that are put together follow each other."""
        return self._station

    @property
    def begin(self) -> float:
        """Seconds before the first message."""
        return self.costs.launch

    def lanes(self, piece_bytes: float, spare: float | None) -> Lanes:
        """Return lanes for each set of links that are put to together."""
        together: dict[int, list[int]] = defaultdict(list)
        for station, link in zip(self._station.tolist(), self.links.tolist(), strict=True):
            together[station].append(link)
        number: dict[tuple[int, ...], int] = {}
        group = [number.setdefault(tuple(sorted(together[s])), len(number)) for s in range(len(together))]
        delay = np.array(self.costs.link_alpha)[self.links] + self.adding[0] * piece_bytes
        longest = np.zeros(len(group))
        np.maximum.at(longest, self._station, (delay + piece_bytes / self.rate) / piece_bytes)
        needed = (spare or 1.0) * np.bincount(group, longest) / self.period
        width = np.array([*map(len, number)])
        of = np.array(group, dtype=np.int64)[self._station]
        return Lanes(of, np.maximum(1, np.ceil(needed - 1e-9)).astype(np.int64) * width)

    def ways(self, seconds: Floats) -> Floats:
        """Return the longest way among the transfers that are put together, for each of them."""
        ways = super().ways(seconds)
        most = np.zeros(int(self._station.max(initial=-1)) + 1)
        np.maximum.at(most, self._station, ways)
        return np.asarray(most[self._station])
