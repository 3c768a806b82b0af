"""Lower bounds on completion time, each with a witness that anyone can recheck.

A bound is affine in the size of the buffer: no schedule, however fine its chunks, moves ``M`` bytes in less than
``latency + M * seconds_per_byte``. All numbers are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.topology import Rank

TimeBoundKind = Literal["cut", "volume", "prices", "latency"]
Scope = Literal["all", "tree-based"]
"""What a bound holds for: every algorithm, or those that reduce each byte along a tree to one rank and spread the
sum along a tree from there."""


@dataclass(frozen=True, slots=True)
class VertexCut:
    """``share`` of the buffer must leave ``side`` (vertices of the topology), through wires and stated groups
    that together carry ``bandwidth`` bytes per second. ``groups``: the stated groups counted instead of the wires
    of the links they contain."""

    side: tuple[int, ...]
    share: Fraction
    bandwidth: Fraction
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class PartCrossings:
    """``share`` of the buffer must enter the ``parts``, all counted together, and part i takes in no more than the
    wires out of ``sides[i]`` (vertices with all ranks but those of the part) carry."""

    parts: tuple[tuple[Rank, ...], ...]
    sides: tuple[tuple[int, ...], ...]
    share: Fraction


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """``wires[w]`` >= 0: the price of a byte on wire ``w``; ``groups[g]``: on stated group ``g``. In a second the
    resources carry no more than the sum of price x rate; a byte of the collective costs at least its cheapest
    trees, or paths.

    ``parts``: of an allreduce by any algorithm, the ranks in parts; some part is the first that together has all
    contributions (``backwards``: seen from the end). Empty for all other bounds.
    """

    wires: tuple[int, ...]
    groups: tuple[int, ...]
    parts: tuple[tuple[Rank, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class SlowestPath:
    """``share`` of the buffer must get from ``src`` to ``dst``; no chain of links has a smaller sum of latencies,
    and all that enters ``dst`` leaves ``side`` (vertices with all ranks but ``dst``)."""

    src: Rank
    dst: Rank
    share: Fraction
    side: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TimeBound:
    """No schedule is faster than ``latency`` seconds plus ``seconds_per_byte`` for each byte of the buffer.

    ``scope``: which schedules; one that holds for trees says nothing of others.
    ``backwards``: the witness speaks of the topology with every direction turned around.
    """

    kind: TimeBoundKind
    latency: Fraction
    seconds_per_byte: Fraction
    proof: str
    witness: VertexCut | PartCrossings | ResourcePrices | SlowestPath
    backwards: bool = False
    scope: Scope = "all"

    def seconds(self, total_bytes: int) -> Fraction:
        """The bound for a buffer of ``total_bytes``."""
        return self.latency + self.seconds_per_byte * total_bytes


def of_scope(bounds: Iterable[TimeBound], scope: Scope) -> tuple[TimeBound, ...]:
    """Those of ``bounds`` that hold for ``scope``, in their order."""
    return tuple(bound for bound in bounds if bound.scope == scope)


def tightest(bounds: Iterable[TimeBound], total_bytes: int) -> TimeBound:
    """Of the bounds for every algorithm the one that says most for this size, if any."""
    return max(of_scope(bounds, "all"), key=lambda b: b.seconds(total_bytes))
