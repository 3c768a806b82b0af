"""The pieces of a schedule, each sent when it is ready and a lane is idle: list scheduling inside the simulation.

A lane is a thread block that sends over a link, one message at a time. Of the messages that are ready, an idle lane
takes the one with the longest way still before its data.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from hetesynth.model.cost import Costs
from hetesynth.model.program import Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Floats, Ints, TransferGraph
from hetesynth.simulate.engine import Queues, simulate


@dataclass(frozen=True, eq=False)
class Dispatch:
    """When a lane begins each message and has sent it: piece p of transfer t is number p x transfers + t. Seconds;
    ``makespan`` counts the start of the kernel."""

    pieces: int
    start: Floats
    sent: Floats
    makespan: float


@dataclass(frozen=True, eq=False)
class Dispatcher:
    """Dispatches ``schedule`` over the links of ``costs``, with any number of pieces of a chunk and of lanes.
    ``overhead``: bytes on the wire for each byte of data."""

    schedule: Schedule
    costs: Costs
    protocol: Protocol
    overhead: float

    @cached_property
    def waits(self) -> list[list[int]]:
        """For each transfer, those that brought the chunk to its sender before."""
        arrivals: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        for i, t in enumerate(self.schedule.transfers):
            arrivals[t.chunk, self.costs.link_ends[t.link][1]].append((t.end, i))
        for arrived in arrivals.values():
            arrived.sort()
        waits: list[list[int]] = []
        for t in self.schedule.transfers:
            here = arrivals.get((t.chunk, self.costs.link_ends[t.link][0]), [])
            waits.append([i for _, i in here[: bisect_right(here, (t.start, inf))]])
        return waits

    @cached_property
    def links(self) -> Ints:
        """Of each transfer."""
        return np.array([t.link for t in self.schedule.transfers], dtype=np.int64)

    @cached_property
    def limit(self) -> Floats:
        """Bytes of data per second that a lane of each link sends when it is alone."""
        copying = [self.costs.copy_rate(src, self.protocol) for src, _ in self.costs.link_ends]
        return np.array([
            min(rate / self.overhead, inf if copied is None else copied)
            for rate, copied in zip(self.costs.link_rate, copying, strict=True)
        ])

    def ways(self, seconds: Floats) -> Floats:
        """Of each transfer the longest way of its data from then on, where link i takes ``seconds[i]``."""
        ways = seconds[self.links].tolist()
        own = list(ways)
        for i in range(len(ways) - 1, -1, -1):  # transfers stand in the order of their begin
            for before in self.waits[i]:
                ways[before] = max(ways[before], own[before] + ways[i])
        return np.array(ways)

    def run(self, pieces: int, piece_bytes: float, lanes: Sequence[int], pace: float = 0.0) -> Dispatch:
        """``pieces`` of every chunk, of ``piece_bytes`` each; ``lanes[i]``: of link i."""
        costs, transfers = self.costs, self.schedule.transfers
        n = len(transfers)
        alpha = np.array(costs.link_alpha)
        ways = self.ways(alpha + piece_bytes / self.limit)
        # the longest way first, of equal ones the first piece
        late = np.repeat(np.arange(pieces), n) * pace - np.tile(ways, pieces)
        order = np.lexsort((np.tile(np.arange(n), pieces), np.repeat(np.arange(pieces), n), late))
        rank = np.empty(n * pieces, dtype=np.int64)
        rank[order] = np.arange(n * pieces)
        of_transfer = np.array([len(w) for w in self.waits], dtype=np.int64)
        flat = np.array([j for w in self.waits for j in w], dtype=np.int64)
        waits = (flat[None, :] + n * np.arange(pieces)[:, None]).ravel()
        rows = [costs.link_resources[link] for link in self.links.tolist()]
        uses = np.tile(np.array([r for row in rows for r in row], dtype=np.int64), pieces)
        lengths = np.tile(np.array([len(row) for row in rows], dtype=np.int64), pieces)
        gamma = np.array([costs.gamma[costs.link_ends[t.link][1]] if t.reduce else 0.0 for t in transfers])
        graph = TransferGraph(
            names=costs.resource_names,
            rate=np.asarray(costs.resource_rate, dtype=np.float64),
            waits=waits,
            waits_start=np.concatenate(([0], np.cumsum(np.tile(of_transfer, pieces)))),
            uses=uses,
            uses_start=np.concatenate(([0], np.cumsum(lengths))),
            delay=np.tile(alpha[self.links], pieces),
            size=np.full(n * pieces, piece_bytes * self.overhead),
            after=np.tile(gamma * piece_bytes, pieces),
        )
        used, of = np.unique(self.links, return_inverse=True)
        queues = Queues(
            of=np.tile(of, pieces),
            rank=rank,
            limit=np.tile(self.limit[self.links] * self.overhead, pieces),
            lanes=np.asarray(lanes, dtype=np.int64)[used],
        )
        timeline = simulate(graph, queues=queues)
        return Dispatch(pieces, timeline.ready, timeline.sent, timeline.makespan + costs.start(self.protocol))
