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
    """A cut where each chunk is wanted by ``wanted`` ranks or more on the far side, and a rank there sends a chunk
    to at most ``copies`` others of that side in a step: a chunk that crosses once, with r steps left including the
    crossing, is at (1 + copies)^(r - 1) ranks in the end."""

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
    """The prices of resources that prove a bound.

    All chunks together pay at least ``paid`` on their cheapest paths; a step earns at most ``earned``, the sum of
    price times capacity.
    """

    prices: tuple[tuple[str, int], ...]
    paid: int
    earned: int


@dataclass(frozen=True, slots=True)
class SteppedPriceWitness:
    """The prices (resource, step, price) that refute ``steps`` steps; a pair that is not named costs nothing.

    All chunks together pay at least ``paid`` on their cheapest paths through the steps, waiting being free; all
    steps together earn ``earned``, the sum of price times capacity, which is less.
    """

    steps: int
    prices: tuple[tuple[str, int, int], ...]
    paid: int
    earned: int


@dataclass(frozen=True, slots=True)
class GrowthWitness:
    """The resources that limit how fast ``chunk``, which every rank wants, can spread over ``parts``.

    ``out_of_parts``, ``into_parts``: for each part, the resources that carry all that leaves and enters the part.
    ``out_of_ranks``: for each rank, the resources that carry all that the rank sends to other parts.
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
    """The steps of a schedule and the best lower bound known. Derived, never claimed."""

    steps: int
    bound: LowerBound

    @property
    def proven_optimal(self) -> bool:
        """Return True if the schedule takes as few steps as the bound."""
        return self.steps == self.bound.steps

    @property
    def gap(self) -> int:
        """The number of steps that the schedule takes beyond the bound: the most that it may be from optimal."""
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
    each part the rank whose contribution is followed, and the rank that must get those of all parts."""

    parts: tuple[tuple[Rank, ...], ...]
    sides: tuple[tuple[int, ...], ...]
    share: Fraction
    ends: tuple[tuple[Rank, Rank], ...] = ()


@dataclass(frozen=True, slots=True)
class ResourcePrices:
    """The prices >= 0 of a byte: ``wires[w]`` on wire ``w``, ``groups[g]`` on stated group ``g``. In a second the
    resources carry no more than the sum of price x rate; a byte of the collective costs at least its cheapest
    trees, or paths.

    ``parts``: for an allreduce by any algorithm, the ranks in parts; some part is the first whose ranks together
    have all contributions (``backwards``: seen from the end). Empty for all other bounds.
    """

    wires: tuple[int, ...]
    groups: tuple[int, ...]
    parts: tuple[tuple[Rank, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class EnteredSet:
    """A set of ``ranks`` that data from outside must enter. Each byte of that data owes ``weight``, and is counted
    as it comes to ``end``, one of the ranks (None, for an alltoall: as it comes to any of them)."""

    ranks: tuple[Rank, ...]
    weight: int
    end: Rank | None


@dataclass(frozen=True, slots=True)
class DelayedPrices:
    """Prices as in ``ResourcePrices``; the sets that a link enters together owe no more than the link costs.

    A set is owed only while data that has come to a link can, by latencies, still get from the link to the set's
    end. ``nearest``: only data from ranks at least this many seconds from the end is counted. ``source``: for an
    allreduce, the rank whose contribution is followed (``backwards``: the rank that must get all).
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

    ``scope``: the schedules that the bound holds for; one for trees says nothing of others.
    ``backwards``: the witness is about the topology with every direction turned around.
    ``supply``: the most bytes of the buffer that can be there by each time, where that gives a tighter bound.
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
        """Return the lower bound in seconds for a buffer of ``total_bytes``."""
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
    """Return the bounds among ``bounds`` that are stated for ``scope``, in their order."""
    return tuple(bound for bound in bounds if bound.scope == scope)


def tightest(bounds: Iterable[TimeBound], total_bytes: int | Fraction) -> TimeBound:
    """Return the bound for every algorithm that is largest for ``total_bytes``; ValueError if there is none."""
    return max(of_scope(bounds, "all"), key=lambda b: b.seconds(total_bytes))
