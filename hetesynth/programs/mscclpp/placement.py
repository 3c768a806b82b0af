"""Transfers -> puts, additions and copies: where each value lands, as MSCCL++ writes into peers.

A landing place must be free from the start. The last copy of its chunk lands where it must stand in the end; in
place, where the home may hold what is yet to be sent, and on relays in scratch. A value to be added lands in a
scratch chunk of its own; sums build up in the home, or in the first landing place."""

from collections import defaultdict
from dataclasses import dataclass, replace

from hetesynth.model.plan import MAX_SLICES
from hetesynth.model.problem import Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import CopySlice, Layout, neighbours, not_held


@dataclass(frozen=True, slots=True)
class PlanMessage:
    """Message ``index`` of the pair ``src``, ``dst``, put at tick ``start`` to be there at tick ``end``."""

    src: Rank
    dst: Rank
    start: int
    end: int
    index: int
    slices: tuple[CopySlice, ...]


@dataclass(frozen=True, slots=True)
class Addition:
    """The sum of the ``count`` chunks from each of ``sources`` on, which replaces those from ``into`` on."""

    into: BufferSlice
    sources: tuple[BufferSlice, ...]
    count: int


RankChunk = tuple[Rank, int]
"""(rank, chunk)."""


class PlanPlacement:
    """The places where values land; messages by the rank that sends and by the one that gets them.
    ``additions[rank][tick]``: rounds, one after the other. ``early`` copies never wait; ``late`` ones are last.
    HetesynthError HS507 for a schedule that sends what a rank does not hold."""

    def __init__(self, problem: Problem, schedule: Schedule, layout: Layout) -> None:
        self.problem, self.layout = problem, layout
        self.collective = problem.collective
        ranks = self.collective.ranks
        self.scratch = [0] * ranks
        self.additions: list[dict[int, list[list[Addition]]]] = [{} for _ in range(ranks)]
        self.groups: dict[tuple[int, Rank, Rank, int], list[Transfer]] = defaultdict(list)
        self.into: dict[RankChunk, list[Transfer]] = defaultdict(list)
        self.sends: dict[RankChunk, list[Transfer]] = defaultdict(list)
        for t in schedule.transfers:
            arc = problem.arcs[t.link]
            self.groups[t.start, arc.src, arc.dst, t.end].append(t)
            self.into[arc.dst, t.chunk].append(t)
            self.sends[arc.src, t.chunk].append(t)
        self.held: dict[RankChunk, BufferSlice] = {}
        self.owners: dict[tuple[Rank, tuple[str, int]], list[int]] = defaultdict(list)
        for k, holders in enumerate(self.collective.pre):
            for rank in sorted(holders):
                source = layout.source(rank, k)
                if source is not None:
                    self.held[rank, k] = source
                    self.owners[rank, layout.cell(rank, source)].append(k)
        self.landing_place: dict[Transfer, BufferSlice] = {}
        self.early = self._copies(early=True)
        arrivals: dict[int, list[Transfer]] = defaultdict(list)
        by_start: dict[int, list[tuple[int, Rank, Rank, int]]] = defaultdict(list)
        for key in sorted(self.groups):
            by_start[key[0]].append(key)
            arrivals[key[3]] += self.groups[key]
        self.outgoing: dict[Rank, list[PlanMessage]] = defaultdict(list)
        self.incoming: dict[Rank, list[PlanMessage]] = defaultdict(list)
        number: dict[tuple[Rank, Rank], int] = defaultdict(int)
        for tick in sorted(by_start.keys() | arrivals.keys()):
            self._arrive(tick, arrivals.get(tick, []))
            for key in by_start.get(tick, []):
                start, src, dst, end = key
                pairs = []
                for t in sorted(self.groups[key], key=lambda t: t.chunk):
                    if (src, t.chunk) not in self.held:
                        raise not_held(start, src, t.chunk)
                    home = None if t.reduce else self._free_home(dst, t)
                    if home is None:
                        home = BufferSlice("s", self.scratch[dst])
                        self.scratch[dst] += 1
                    self.landing_place[t] = home
                    pairs.append((self.held[src, t.chunk], home))
                slices = tuple(in_target_order(pairs))
                message = PlanMessage(src, dst, start, end, number[src, dst], slices)
                self.outgoing[src].append(message)
                self.incoming[dst].append(message)
                number[src, dst] += 1
        self.late = self._copies(early=False)

    def _copies(self, *, early: bool) -> list[list[CopySlice]]:
        """Return by rank the copies home. ``early``: before all, out of place, chunks that a rank owes, has from
        the start and never receives; else after all, other chunks that do not yet stand where they must."""
        copies: list[list[CopySlice]] = []
        for rank in range(self.collective.ranks):
            pairs: list[tuple[BufferSlice, BufferSlice]] = []
            for k in range(len(self.collective.chunks)):
                target, source = self.layout.target(rank, k), self.held.get((rank, k))
                own = not self.layout.in_place and (rank, k) not in self.into
                if target is None or source is None or own != early:
                    continue
                if early or self.layout.cell(rank, source) != self.layout.cell(rank, target):
                    pairs.append((source, target))
            copies.append(in_target_order(pairs))
        return copies

    def _free_home(self, rank: Rank, t: Transfer) -> BufferSlice | None:
        """Return the home of the chunk of ``t`` if a copy may be put there at any time, else None."""
        target = self.layout.target(rank, t.chunk)
        last = all(other.end < t.end or other is t for other in self.into[rank, t.chunk])
        if target is None or not last:
            return None
        if not self.layout.in_place:
            return target
        if self.collective.kind.input_blocks and not self.collective.kind.output_blocks:
            return None  # a peer finds it where its own begins, which in place is not where this one's does
        for k in self.owners.get((rank, self.layout.cell(rank, target)), []):
            used = self.sends.get((rank, k)) or self.into.get((rank, k)) or rank in self.collective.post[k]
            if (k != t.chunk and used) or (k == t.chunk and not self._replaces_own(rank, t)):
                return None
        return target

    def _replaces_own(self, rank: Rank, t: Transfer) -> bool:
        """True when every use of the rank's own contribution comes before ``t`` on the way that made its value."""
        before = [s for s in self.sends.get((rank, t.chunk), []) if s.start < t.end]
        added = [a for a in self.into[rank, t.chunk] if a is not t]
        if not before:
            return not added
        left = before[0]
        return len(before) == 1 and left.reduce and left.end <= t.start and all(a.end <= left.start for a in added)

    def _arrive(self, tick: int, arrived: list[Transfer]) -> None:
        """Make the values of ``arrived`` count from ``tick`` on."""
        sums: dict[RankChunk, list[BufferSlice]] = defaultdict(list)
        for t in arrived:
            if not t.reduce:
                self.held[self.problem.arcs[t.link].dst, t.chunk] = self.landing_place[t]
        for t in arrived:
            if t.reduce:
                sums[self.problem.arcs[t.link].dst, t.chunk].append(self.landing_place[t])
        rounds: dict[tuple[Rank, int], list[Addition]] = defaultdict(list)
        for at in sorted(sums):
            current = self.held.get(at)
            sources = ([] if current is None else [current]) + sums[at]
            target = self.layout.target(*at)
            replaced = any(not t.reduce and t.end > tick for t in self.into[at])
            if target is not None and not replaced:
                into = target
            else:
                into = current if current is not None and current.buffer == "s" else sums[at][0]
            self.held[at] = into if len(sources) > 1 else sources[0]
            step = 0
            while len(sources) > 1:
                rounds[at[0], step].append(Addition(into, tuple(sources[:MAX_SLICES]), 1))
                sources = [into, *sources[MAX_SLICES:]]
                step += 1
        for rank, step in sorted(rounds):
            merged: list[Addition] = []  # those side by side in all buffers as one
            for a in sorted(rounds[rank, step], key=lambda a: (a.into.buffer, a.into.offset)):
                last, n = (merged[-1], merged[-1].count) if merged else (a, 0)
                following = tuple(BufferSlice(x.buffer, x.offset + n) for x in (last.into, *last.sources))
                if n and (a.into, *a.sources) == following:
                    merged[-1] = replace(last, count=n + 1)
                else:
                    merged.append(a)
            self.additions[rank].setdefault(tick, []).append(merged)


def in_target_order(pairs: list[tuple[BufferSlice, BufferSlice]]) -> list[CopySlice]:
    """Return ``pairs`` (from, to) by target, chunks side by side in both buffers as one slice."""
    return list(neighbours(sorted(pairs, key=lambda m: (m[1].buffer, m[1].offset))))
