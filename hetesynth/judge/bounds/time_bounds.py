"""Rechecks lower bounds on completion time from their witnesses.

In: a topology, a collective's name and root, a bound. Out: violations; none means that the bound holds. Works out
by itself what must cross and what can, in exact numbers, and shares no code with what found the bound.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from hetesynth.judge.bounds.resource_prices import PriceClaim, Proved, proved_by_prices
from hetesynth.model.collective import CollectiveName
from hetesynth.model.time_bound import PartCrossings, ResourcePrices, SlowestPath, TimeBound, VertexCut
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.verdict import Violation

_ALL_PAIRS = ("allgather", "reducescatter", "alltoall", "allreduce")
_KINDS = {"cut": VertexCut, "volume": PartCrossings, "prices": ResourcePrices, "latency": SlowestPath}
_BACKWARDS = {"reducescatter": "allgather", "scatter": "gather", "reduce": "broadcast"}


def time_bound_violations(
    topology: Topology, name: CollectiveName, root: Rank | None, bound: TimeBound
) -> list[Violation]:
    """Why ``bound`` does not follow from its witness; empty when it does."""
    if not isinstance(bound.witness, _KINDS[bound.kind]):
        return [Violation("certificate", f"the witness is none of a bound by {bound.kind}")]
    if bound.scope != "all" and bound.kind != "prices":
        return [Violation("certificate", f"a bound by {bound.kind} is not of algorithms that are {bound.scope}")]
    judge = _Judge(topology, name, root, bound.backwards)
    match bound.witness:
        case VertexCut():
            proved = judge.cut(bound.witness)
        case PartCrossings():
            proved = judge.parts(bound.witness)
        case ResourcePrices():
            claim = PriceClaim(bound.witness, bound.scope, bound.backwards)
            proved = proved_by_prices(topology, name, root, claim)
        case SlowestPath():
            proved = judge.path(bound.witness)
    if isinstance(proved, str):
        return [Violation("certificate", proved)]
    latency, per_byte = proved
    if bound.latency > latency:
        return [Violation("certificate", f"claims {bound.latency} s of latency; the witness shows {latency}")]
    if bound.seconds_per_byte > per_byte:
        text = f"claims {bound.seconds_per_byte} s per byte; the witness shows {per_byte}"
        return [Violation("certificate", text)]
    return []


@dataclass(frozen=True)
class _Judge:
    topology: Topology
    name: CollectiveName
    root: Rank | None
    backwards: bool

    @cached_property
    def links_over(self) -> dict[int, set[int]]:
        """The links over each wire that has some."""
        over: dict[int, set[int]] = defaultdict(set)
        for i, link in enumerate(self.topology.links):
            for w in link.wires:
                over[w].add(i)
        return over

    def _ends(self, w: int) -> tuple[int, int]:
        wire = self.topology.wires[w]
        return (wire.dst, wire.src) if self.backwards else (wire.src, wire.dst)

    def _crossing(self, side: Collection[int]) -> dict[int, set[int]]:
        """The wires out of ``side`` that links use, with these links."""
        inside = set(side)
        ends = ((w, *self._ends(w)) for w in self.links_over)
        return {w: self.links_over[w] for w, src, dst in ends if src in inside and dst not in inside}

    def _carries(self, side: Collection[int], groups: Collection[int] = ()) -> Fraction | None:
        """Bytes per second out of ``side``, or None for no limit; ``groups`` stand in for wires of their links."""
        users = self._crossing(side)
        total = Fraction(0)
        covered: set[int] = set()
        for g in groups:
            group = self.topology.groups[g]
            total += group.bandwidth * group.lanes
            covered |= {w for w, links in users.items() if links <= set(group.links)}
        for w in users.keys() - covered:
            wire = self.topology.wires[w]
            if wire.bandwidth is None:
                return None
            total += wire.bandwidth * wire.lanes
        return total

    def _first_latency(self, side: Collection[int]) -> Fraction:
        links = {i for users in self._crossing(side).values() for i in users}
        return min(self.topology.links[i].latency for i in links)

    def _must_cross(self, side: Collection[int]) -> Fraction:
        """The share of the buffer that ranks inside ``side`` must get out of it (seen backwards: into it)."""
        n = self.topology.ranks
        inside = {r for r in side if r < n}
        outside = n - len(inside)
        what = _BACKWARDS.get(self.name, self.name) if self.backwards else self.name
        if not outside or not inside:
            return Fraction(0)
        if what == "allgather":
            return Fraction(len(inside), n)
        if what == "alltoall":
            return Fraction(len(inside) * outside, n)
        if what == "allreduce":
            return Fraction(1)
        if what == "broadcast":
            return Fraction(int(self.root in inside))
        if what == "gather":
            return Fraction(0 if self.root in inside else len(inside), n)
        return Fraction(0)

    def cut(self, witness: VertexCut) -> Proved:
        """What must leave a side against what can."""
        share = self._must_cross(witness.side)
        if witness.share <= 0:
            return "nothing is said to cross"
        if share < witness.share:
            return f"{share} of the buffer must cross, not {witness.share}"
        bandwidth = self._carries(witness.side, witness.groups)
        if not bandwidth or bandwidth > witness.bandwidth:
            return f"the side lets out {bandwidth} bytes per second, not {witness.bandwidth}"
        return self._first_latency(witness.side), witness.share / witness.bandwidth

    def parts(self, witness: PartCrossings) -> Proved:
        """What all parts must take in against what they can."""
        n = self.topology.ranks
        if sorted(r for part in witness.parts for r in part) != list(range(n)):
            return "the parts are no partition of the ranks"
        if self.name not in _ALL_PAIRS or len(witness.parts) != len(witness.sides):
            return "not a bound for this collective"
        need = Fraction(len(witness.parts) - 1) * (2 if self.name == "allreduce" else 1)
        if self.name == "alltoall":
            need = Fraction(sum(len(p) * (n - len(p)) for p in witness.parts), n)
        if witness.share <= 0:
            return "nothing is said to cross"
        if need < witness.share:
            return f"only {need} of the buffer enters the parts"
        total = Fraction(0)
        for part, side in zip(witness.parts, witness.sides, strict=True):
            carried = self._enters(part, side)
            if not carried:
                return "a side does not separate its part from the other ranks by wires with a limit"
            total += carried
        return min(link.latency for link in self.topology.links), witness.share / total

    def _enters(self, part: Sequence[Rank], side: Sequence[int]) -> Fraction | None:
        """What the wires out of ``side`` carry, if it holds exactly the ranks that are not in ``part``."""
        ranks = {v for v in side if v < self.topology.ranks}
        if ranks != set(range(self.topology.ranks)) - set(part):
            return None
        return self._carries(side)

    def path(self, witness: SlowestPath) -> Proved:
        """A chain of links against their latencies, then what enters the last rank."""
        if not self._speak(witness.src, witness.dst):
            return f"nothing of rank {witness.src} need reach rank {witness.dst}"
        n = self.topology.ranks
        whole = self.name in ("allreduce", "broadcast", "reduce")
        if witness.share > (Fraction(1) if whole else Fraction(1, n)):
            return "more than one rank has to say"
        per_byte = Fraction(0)
        if witness.share:
            carried = self._enters((witness.dst,), witness.side)
            if not carried:
                return "the side does not separate the last rank by wires with a limit"
            per_byte = witness.share / carried
        latencies = self._distances(witness.src, [link.latency for link in self.topology.links])
        return latencies.get(witness.dst, Fraction(0)), per_byte

    def _speak(self, src: Rank, dst: Rank) -> bool:
        if src == dst:
            return False
        if self.name in ("broadcast", "scatter"):
            return src == self.root
        return dst == self.root if self.name in ("gather", "reduce") else True

    def _distances(self, source: Rank, weights: Sequence[Fraction]) -> dict[Rank, Fraction]:
        """The least sum of ``weights`` of links from ``source`` to every rank it can reach."""
        leaving: dict[Rank, list[int]] = {}
        for i, link in enumerate(self.topology.links):
            leaving.setdefault(link.src, []).append(i)
        done: dict[Rank, Fraction] = {}
        queue = [(Fraction(0), source)]
        while queue:
            d, at = heapq.heappop(queue)
            if at in done:
                continue
            done[at] = d
            for i in leaving.get(at, ()):
                heapq.heappush(queue, (d + weights[i], self.topology.links[i].dst))
        return done
