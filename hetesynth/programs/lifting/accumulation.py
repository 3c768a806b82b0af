"""Arrivals -> moves: which are needed, whether each is added or copied, and which must wait for which.

In: a ``Flow``. Out: ``Moves``. Knows nothing of links, capacities and ticks.

A schedule keeps one value of a chunk at a rank: an arriving one is added to it or takes its place. So the values
of a chunk that a program uses at a rank (sends on, or owes in the end) are put in line as sums that grow: the
first line starts from the rank's own input, every further one from a copy that takes the place of what was there.
A value must be sent on before the next arrival changes it. Arrivals that nobody needs are left out: values that
are there already, or come twice.

What cannot be put in line cannot be said by a schedule: a rank that sends on two different sums which share a
contribution, neither part of the other, or that needs its own input again after a copy took its place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.topology import Rank
from hetesynth.programs.lifting.dataflow import OWN, Flow, Value

RankChunk = tuple[Rank, int]  # (rank, chunk)


@dataclass(frozen=True, slots=True)
class Move:
    """An arrival that is needed. ``tick``: when the program sends it. ``place``: the instruction that does."""

    src: Rank
    dst: Rank
    chunk: int
    reduce: bool
    tick: int
    place: str


@dataclass
class Moves:
    """A graph of waiting. Node i is move i; further nodes, up to ``nodes``, are moments between moves.

    An edge (u, v, w): v starts w ticks after u or later.
    """

    moves: list[Move] = field(default_factory=list)
    nodes: int = 0
    edges: list[tuple[int, int, int]] = field(default_factory=list)


def moves_of(flow: Flow, collective: Collective) -> Moves:
    """The moves of ``flow`` that ``collective`` needs.

    Raises HetesynthError HS702 when a final value is not complete, HS703 when a rank's values cannot be put in
    line.
    """
    return _Lines(flow, collective).moves()


@dataclass(slots=True)
class _Use:
    """A value that is needed at a rank: the arrivals elsewhere that it makes, and whether the rank owes it."""

    value: Value
    users: list[int] = field(default_factory=list)
    owed: bool = False


class _Lines:
    def __init__(self, flow: Flow, collective: Collective) -> None:
        self.flow = flow
        self.collective = collective
        self.uses: dict[RankChunk, dict[int, _Use]] = defaultdict(dict)
        self.live: set[int] = set()
        self._demand()

    def moves(self) -> Moves:
        reduced: dict[int, bool] = {}
        index = {arrival: i for i, arrival in enumerate(sorted(self.live))}
        graph = Moves(nodes=len(index))
        for at in sorted(self.uses):
            self._line_up(at, index, reduced, graph)
        for arrival in index:
            c = self.flow.arrivals[arrival]
            graph.moves.append(Move(c.src, c.dst, c.value.chunk, reduced[arrival], c.start, c.place))
        return graph

    # -- what is needed

    def _demand(self) -> None:
        """From what ranks owe back to what they must be sent, each value by the arrivals that formed it first."""
        needed: list[tuple[RankChunk, int, int]] = []
        for (rank, k), mask in sorted(self.flow.final.items()):
            complete = sum(1 << r for r in self.collective.pre[k])
            if mask != complete:
                raise HetesynthError(
                    f"the program is not right: gpu {rank} does not end with all of chunk {k}",
                    code="HS702",
                    help="run `hetesynth verify` on it",
                    exit_code=1,
                )
            needed.append(((rank, k), mask, OWN))
        while needed:
            at, mask, user = needed.pop()
            seen = mask in self.uses[at]
            use = self.uses[at].setdefault(mask, _Use(self.flow.values[at][mask]))
            if user == OWN:
                use.owed = True
            else:
                use.users.append(user)
            if seen:
                continue
            for leaf in sorted(use.value.leaves - {OWN}):
                if leaf not in self.live:
                    self.live.add(leaf)
                    arrival = self.flow.arrivals[leaf]
                    needed.append(((arrival.src, at[1]), arrival.value.mask, leaf))

    # -- one rank, one chunk

    def _line_up(self, at: RankChunk, index: dict[int, int], reduced: dict[int, bool], graph: Moves) -> None:
        """Decide for each arrival whether it is added, and put uses and arrivals in order."""
        moments: tuple[int, ...] = ()  # when the last value was there, and when its last use had started
        for line in self._lines(at):
            before: frozenset[int] = frozenset((OWN,))
            for position, use in enumerate(line):
                fresh = sorted(use.value.leaves - before, key=self._arrival_order)
                for n, leaf in enumerate(fresh):
                    first = n == 0 and position == 0 and OWN not in use.value.leaves
                    reduced[leaf] = not first
                    if n and not reduced[fresh[0]]:
                        graph.edges.append((index[fresh[0]], index[leaf], 1))
                    graph.edges += [(moment, index[leaf], 0) for moment in moments]
                moments = self._moments(use, fresh, moments, index, graph)
                before = use.value.leaves

    def _moments(
        self, use: _Use, fresh: list[int], earlier: tuple[int, ...], index: dict[int, int], graph: Moves
    ) -> tuple[int, int]:
        """The moments from which ``use``'s value is there and may be changed, between its uses."""
        arrived, done = graph.nodes, graph.nodes + 1
        graph.nodes += 2
        graph.edges += [(index[leaf], arrived, 1) for leaf in fresh]
        graph.edges += [(moment, arrived, 0) for moment in earlier[:1]]
        graph.edges.append((arrived, done, 0))
        for user in use.users:
            graph.edges += [(arrived, index[user], 0), (index[user], done, 0)]
        return arrived, done

    def _lines(self, at: RankChunk) -> list[list[_Use]]:
        """The values needed at ``at``, in lines of growing sums; the line with what the rank owes comes last."""
        lines: list[list[_Use]] = []
        uses = sorted(self.uses[at].values(), key=lambda u: (len(u.value.leaves), u.value.ready, u.value.mask))
        for use in uses:
            leaves = use.value.leaves
            related = [line for line in lines if line[-1].value.leaves & leaves]
            if not related:
                lines.append([use])
            elif len(related) == 1 and related[0][-1].value.leaves <= leaves:
                related[0].append(use)
            else:
                raise self._apart(at, use, next(x for x in related if not x[-1].value.leaves <= leaves or x))
        lines.sort(key=lambda line: (line[-1].owed, OWN not in line[0].value.leaves, line[0].value.ready))
        self._check_order(at, lines)
        return lines

    def _check_order(self, at: RankChunk, lines: list[list[_Use]]) -> None:
        """Own input comes first; a copy must bring something that was not there."""
        for before, line in pairwise(lines):
            if OWN in line[0].value.leaves:
                raise self._apart(at, before[-1], line)
            brought = self.flow.arrivals[min(line[0].value.leaves, key=self._arrival_order)].value.mask
            if not brought & ~before[-1].value.mask:
                raise self._apart(at, line[0], before)

    def _arrival_order(self, leaf: int) -> tuple[int, int]:
        return self.flow.arrivals[leaf].start, leaf

    def _apart(self, at: RankChunk, use: _Use, line: list[_Use]) -> HetesynthError:
        rank, k = at
        return HetesynthError(
            f"gpu {rank} keeps two values of chunk {k} apart: {self._told(use)}, and {self._told(line[-1])}; "
            "a schedule has one value of a chunk at a rank, which sums or replaces what it held",
            code="HS703",
            help="the program can be run and judged, but not said as a schedule",
            exit_code=1,
        )

    def _told(self, use: _Use) -> str:
        ranks = ",".join(map(str, _members(use.value.mask)))
        where = [self.flow.arrivals[user].place for user in sorted(use.users)]
        what = f"the sum of ranks {ranks}" if len(use.value.leaves) > 1 or use.value.mask & (use.value.mask - 1) \
            else f"the input of rank {ranks}"  # fmt: skip
        return f"{what}, sent on by {where[0]}" if where else f"{what}, its result"


def _members(mask: int) -> Iterator[int]:
    return (r for r in range(mask.bit_length()) if mask >> r & 1)
