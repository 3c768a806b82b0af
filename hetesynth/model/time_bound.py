"""Lower bounds on completion time, each with a witness that anyone can recheck.

A bound is affine in the size of the buffer: no schedule, however fine its chunks, moves ``M`` bytes in less than
``latency + M * seconds_per_byte``. All numbers are exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.topology import Rank

TimeBoundKind = Literal["cut", "volume", "exchange", "latency"]


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
class WireLengths:
    """``lengths[w]`` >= 0 of wire ``w``. A byte from one rank to another uses at least the length of its shortest
    path; a second supplies at most the sum of bandwidth times length."""

    lengths: tuple[Fraction, ...]


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

    ``backwards``: the witness speaks of the topology with every direction turned around.
    """

    kind: TimeBoundKind
    latency: Fraction
    seconds_per_byte: Fraction
    proof: str
    witness: VertexCut | PartCrossings | WireLengths | SlowestPath
    backwards: bool = False

    def seconds(self, total_bytes: int) -> Fraction:
        """The bound for a buffer of ``total_bytes``."""
        return self.latency + self.seconds_per_byte * total_bytes


def tightest(bounds: tuple[TimeBound, ...], total_bytes: int) -> TimeBound:
    """The bound that says most for this size. Raises ValueError when there is none."""
    return max(bounds, key=lambda b: b.seconds(total_bytes))
