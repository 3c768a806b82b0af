"""Filling one step greedily (HeteCCL 5.2, REVISEFULL): what the checkpoint keeps, then deliveries while links have
room.

The coarsest partition comes before finer ones: a chunk that no rank of a server holds enters it once, the rarest
chunks first (those that fewest regions hold), regions in turn. What a region holds spreads in it by the finer
partitions, last the single ranks. A chunk that nobody near wants is not relayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.suffix_laws import Bools, Region, SuffixLaws

Send = tuple[int, int]  # chunk, arc
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Level:
    """One partition of the ranks."""

    members: Sequence[Sequence[int]]
    entering: Sequence[Sequence[int]]  # arcs into each region
    laws: Sequence[Region | None]

    def limit(self, i: int, rest: int) -> int:
        """How many chunks region ``i`` may lack when ``rest`` steps remain."""
        law = self.laws[i]
        return 0 if law is None else law.limit(rest)


class Peers:
    """Whom each rank sends to and receives from, where the problem limits that."""

    def __init__(self, tables: CopyProblem, links: Iterable[int] = ()) -> None:
        self._arcs = tables.problem.arcs
        self._limit = tables.problem.max_peers
        self._out: dict[int, set[int]] = {}
        self._in: dict[int, set[int]] = {}
        for a in links:
            self.meet(a)

    def meet(self, a: int) -> None:
        """Arc ``a`` is used."""
        arc = self._arcs[a]
        self._out.setdefault(arc.src, set()).add(arc.dst)
        self._in.setdefault(arc.dst, set()).add(arc.src)

    def may(self, a: int) -> bool:
        """Whether arc ``a`` needs no more peers than there may be."""
        if self._limit is None:
            return True
        arc = self._arcs[a]
        receivers, senders = self._out.get(arc.src, ()), self._in.get(arc.dst, ())
        return (arc.dst in receivers or len(receivers) < self._limit) and (
            arc.src in senders or len(senders) < self._limit
        )


@dataclass
class Step:
    """A step being filled: what it still carries, what arrives. ``holds``: chunks x ranks at its start."""

    tables: CopyProblem
    holds: Bools
    peers: Peers
    sends: list[Send] = field(default_factory=list)
    left: list[int] = field(init=False)
    after: Bools = field(init=False)
    _leaving: set[Send] = field(default_factory=set)  # (chunk, rank) that sends it

    def __post_init__(self) -> None:
        self.left = [r.capacity for r in self.tables.resources]
        self.after = self.holds.copy()

    def fits(self, a: int) -> bool:
        """Whether arc ``a`` carries one chunk more."""
        left = self.left
        return all(left[r] > 0 for r in self.tables.resources_of[a]) and self.peers.may(a)

    def may(self, k: int, a: int) -> bool:
        """Whether chunk ``k`` may be sent over arc ``a``, which has room."""
        arc = self.tables.problem.arcs[a]
        return bool(self.holds[k, arc.src]) and not (
            self.after[k, arc.dst] or (self.tables.problem.exclusive_reduction and (k, arc.src) in self._leaving)
        )

    def take(self, k: int, a: int) -> None:
        """Send chunk ``k`` over arc ``a``."""
        arc = self.tables.problem.arcs[a]
        for r in self.tables.resources_of[a]:
            self.left[r] -= 1
        self.after[k, arc.dst] = True
        self._leaving.add((k, arc.src))
        self.peers.meet(a)
        self.sends.append((k, a))

    def room(self, a: int) -> tuple[int, int]:
        """How much room the resources of arc ``a`` have: the fullest, and all together."""
        rooms = [self.left[r] for r in self.tables.resources_of[a]]
        return min(rooms, default=0), sum(rooms)


class Refill:
    """Fills steps of one problem. ``rng``: breaks ties among chunks that are equally rare."""

    def __init__(self, tables: CopyProblem, laws: SuffixLaws, rng: np.random.Generator) -> None:
        self.tables = tables
        self.laws = laws
        self._rng = rng
        arcs = tables.problem.arcs
        by_ranks = {region.ranks: region for region in laws.regions}
        self._levels: list[_Level] = []
        for level in laws.levels:
            home = {rank: i for i, region in enumerate(level) for rank in region}
            entering: list[list[int]] = [[] for _ in level]
            for a in tables.arcs:
                if home[arcs[a].src] != home[arcs[a].dst]:
                    entering[home[arcs[a].dst]].append(a)
            laws_of = [by_ranks.get(tuple(sorted(region))) for region in level]
            self._levels.append(_Level(level, entering, laws_of))

    def step(self, holds: Bools, keep: Iterable[Send], links: Iterable[int], rest: int) -> Step:
        """One step: of ``keep`` what breaks no law, in order, then what else fits. ``links``: used before;
        ``rest``: how many steps follow."""
        step = Step(self.tables, holds, Peers(self.tables, links))
        for k, a in keep:
            if step.may(k, a) and step.fits(a):
                step.take(k, a)
        tie = self._rng.random(len(holds))
        for level in self._levels:
            self._fill(step, level, tie, rest)
        return step

    def _fill(self, step: Step, level: _Level, tie: Floats, rest: int) -> None:
        """Regions in turn, those with the least time left first, a chunk each, until nothing more can enter."""
        present = np.stack([step.after[:, list(region)].any(axis=1) for region in level.members], axis=1)
        missed = np.stack([self.laws.wants[:, list(region)].any(axis=1) for region in level.members], axis=1)
        rarity = present.sum(axis=1).astype(np.float64) + tie
        lacking = {
            i: np.flatnonzero(missed[:, i] & ~present[:, i]).tolist()
            for i in range(len(level.members))
            if level.entering[i]
        }
        turn = [i for i, chunks in lacking.items() if chunks]
        while turn:
            entered = []
            for i in sorted(turn, key=lambda i: (level.limit(i, rest) - len(lacking[i]), i)):
                k = self._enter(step, lacking[i], level.entering[i], rarity)
                if k is not None:
                    rarity[k] += 1.0
                    lacking[i].remove(k)
                    entered.append(i)
            turn = [i for i in entered if lacking[i]]

    def _enter(
        self,
        step: Step,
        chunks: list[int],
        entering: Sequence[int],
        rarity: Floats,
    ) -> int | None:
        """The rarest of ``chunks`` that can enter over one of the arcs now, which it does; None: none can."""
        arcs = self.tables.problem.arcs
        by_sender: dict[int, list[int]] = {}
        for a in entering:
            if step.fits(a):
                by_sender.setdefault(arcs[a].src, []).append(a)
        if not by_sender:
            return None
        senders = list(by_sender)
        possible: Bools = np.atleast_1d(step.holds[np.ix_(chunks, senders)].any(axis=1))
        for i in np.argsort(rarity[chunks], kind="stable").tolist():
            if possible[i]:
                k: int = chunks[i]
                routes = [
                    a for sender in senders if step.holds[k, sender] for a in by_sender[sender] if step.may(k, a)
                ]
                if routes:
                    step.take(k, max(routes, key=step.room))
                    return k
        return None
