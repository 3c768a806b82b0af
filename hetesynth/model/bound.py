"""Lower bounds on the number of steps and on completion time, each with a witness that anyone can recheck."""

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from hetesynth.model.topology import Rank


@dataclass(frozen=True, slots=True)
class DistanceWitness:
    """Chunk ``chunk`` must reach ``rank`` and the shortest path from its holders has ``hops`` links."""

    chunk: int
    rank: Rank
    hops: int


@dataclass(frozen=True, slots=True)
class CutWitness:
    """``needed`` chunks must enter (or leave) ``region``; resources that together cover every link across it
    carry ``capacity`` chunks a step."""

    region: tuple[Rank, ...]
    direction: Literal["in", "out"]
    resources: tuple[str, ...]
    needed: int
    capacity: int


@dataclass(frozen=True, slots=True)
class LastStepWitness(CutWitness):
    """The same, where each chunk is wanted by ``wanted`` ranks or more on the far side, and a rank there sends a
    chunk to ``copies`` others of that side in a step at most: what crosses once with r steps left, that one
    included, is at (1 + copies)^(r - 1) ranks in the end."""

    wanted: int
    copies: int


@dataclass(frozen=True, slots=True)
class FlowWitness:
    """Within ``steps`` steps at most ``flow`` of the ``needed`` chunks can reach ``destination``.

    ``source_side`` is a minimum cut of the time-expanded graph: the (step, vertex) pairs on the side of the
    chunks' origins. A GPU appears at every step 0..steps, other vertices at 0..steps-1."""

    destination: Rank
    steps: int
    flow: int
    needed: int
    source_side: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class UnsatWitness:
    """An SMT query that states ``steps`` steps suffice and is unsatisfiable; ``query`` is SMT-LIB 2."""

    steps: int
    query: str


@dataclass(frozen=True, slots=True)
class VolumeWitness:
    """Every chunk crosses between ``parts`` at least ``crossings`` times; ``resources`` together cover every link
    between parts and carry ``capacity`` chunks a step."""

    parts: tuple[tuple[Rank, ...], ...]
    chunks: int
    crossings: int
    resources: tuple[str, ...]
    capacity: int


@dataclass(frozen=True, slots=True)
class PriceWitness:
    """Prices of resources.

    All chunks together pay at least ``paid`` on their cheapest paths; a step earns at most ``earned``, the sum of
    price times capacity.
    """

    prices: tuple[tuple[str, int], ...]
    paid: int
    earned: int


@dataclass(frozen=True, slots=True)
class SteppedPriceWitness:
    """Prices (resource, step, price) within ``steps`` steps; what is not named costs nothing.

    All chunks together pay at least ``paid`` on their cheapest paths through the steps, waiting being free; all
    steps together earn ``earned``, the sum of price times capacity, which is less.
    """

    steps: int
    prices: tuple[tuple[str, int, int], ...]
    paid: int
    earned: int


@dataclass(frozen=True, slots=True)
class GrowthWitness:
    """How fast ``chunk``, which every rank wants, can spread over ``parts``.

    For each part the resources that carry all that leaves it and all that enters it; for each rank those that
    carry all it sends to other parts.
    """

    chunk: int
    parts: tuple[tuple[Rank, ...], ...]
    out_of_parts: tuple[tuple[str, ...], ...]
    into_parts: tuple[tuple[str, ...], ...]
    out_of_ranks: tuple[tuple[str, ...], ...]


Witness = (
    DistanceWitness
    | CutWitness
    | FlowWitness
    | UnsatWitness
    | VolumeWitness
    | PriceWitness
    | SteppedPriceWitness
    | GrowthWitness
    | None
)


@dataclass(frozen=True, slots=True)
class LowerBound:
    """No schedule takes fewer than ``steps`` steps; ``proof`` says in words why.

    ``backwards``: the witness is about the reversed problem, which takes exactly as many steps.
    """

    steps: int
    method: Literal[
        "trivial",
        "distance",
        "cut",
        "last-step",
        "flow",
        "doubling",
        "volume",
        "price",
        "stepped-price",
        "growth",
        "unsat",
    ]
    proof: str
    witness: Witness = None
    backwards: bool = False


@dataclass(frozen=True, slots=True)
class Certificate:
    """How good a schedule is: its steps against the best bound known. Derived, never claimed."""

    steps: int
    bound: LowerBound

    @property
    def proven_optimal(self) -> bool:
        """Whether the bound is attained."""
        return self.steps == self.bound.steps

    @property
    def gap(self) -> int:
        """How many steps the schedule may be from optimal."""
        return self.steps - self.bound.steps


# -- on completion time


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
    wires out of ``sides[i]`` (vertices with all ranks but those of the part) carry. ``ends``: of an allreduce, for
    each part the rank whose contribution is followed, and the one that must get those of all parts."""

    parts: tuple[tuple[Rank, ...], ...]
    sides: tuple[tuple[int, ...], ...]
    share: Fraction
    ends: tuple[tuple[Rank, Rank], ...] = ()


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
class EnteredSet:
    """Data from outside must enter ``ranks``. Each byte of it owes ``weight``, and is counted as it comes to
    ``end``, one of them (None, of an alltoall: to any)."""

    ranks: tuple[Rank, ...]
    weight: int
    end: Rank | None


@dataclass(frozen=True, slots=True)
class DelayedPrices:
    """Prices as in ``ResourcePrices``, of which the sets that a link enters owe no more than the link costs.

    A set is owed only while data that has come to a link can still come from it to the set's end, by latencies.
    ``nearest``: only data from ranks that are at least so many seconds from the end is counted. ``source``: of an
    allreduce, the rank whose contribution is followed (``backwards``: the one that must get all).
    """

    wires: tuple[int, ...]
    groups: tuple[int, ...]
    sets: tuple[EnteredSet, ...]
    nearest: Fraction = Fraction(0)
    source: Rank | None = None


@dataclass(frozen=True, slots=True)
class SlowestPath:
    """``share`` of the buffer must get from ``src`` to ``dst``; no chain of links has a smaller sum of latencies,
    and all that enters ``dst`` leaves ``side`` (vertices with all ranks but ``dst``)."""

    src: Rank
    dst: Rank
    share: Fraction
    side: tuple[int, ...]


Supply = tuple[tuple[Fraction, Fraction], ...]
"""(seconds, bytes per second more or less from then on), in order of time; the sum is above 0 at every time."""


@dataclass(frozen=True, slots=True)
class TimeBound:
    """No schedule, however fine its chunks, is faster than ``latency`` seconds plus ``seconds_per_byte`` for each
    byte of the buffer. All numbers are exact.

    ``scope``: which schedules; one that holds for trees says nothing of others.
    ``backwards``: the witness speaks of the topology with every direction turned around.
    ``supply``: what there is of the buffer by when, at most, where that says more.
    """

    kind: Literal["cut", "volume", "prices", "latency", "delays"]
    latency: Fraction
    seconds_per_byte: Fraction
    proof: str
    witness: VertexCut | PartCrossings | ResourcePrices | SlowestPath | DelayedPrices
    backwards: bool = False
    scope: Scope = "all"
    supply: Supply = ()

    def seconds(self, total_bytes: int | Fraction) -> Fraction:
        """The bound for a buffer of ``total_bytes``."""
        if not self.supply:
            return self.latency + self.seconds_per_byte * total_bytes
        at, carried, rate = self.latency, Fraction(0), Fraction(0)
        for delay, more in self.supply:
            by_then = carried + rate * (delay - at)
            if rate and by_then >= total_bytes:
                break
            at, carried, rate = delay, by_then, rate + more
        return at + (total_bytes - carried) / rate


def of_scope(bounds: Iterable[TimeBound], scope: Scope) -> tuple[TimeBound, ...]:
    """Those of ``bounds`` that hold for ``scope``, in their order."""
    return tuple(bound for bound in bounds if bound.scope == scope)


def tightest(bounds: Iterable[TimeBound], total_bytes: int | Fraction) -> TimeBound:
    """Of the bounds for every algorithm the one that says most for this size, if any."""
    return max(of_scope(bounds, "all"), key=lambda b: b.seconds(total_bytes))
