"""Lower bounds on the number of steps, each with a witness that anyone can recheck."""

from __future__ import annotations

from dataclasses import dataclass
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
    | LastStepWitness
    | FlowWitness
    | UnsatWitness
    | VolumeWitness
    | PriceWitness
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
        "trivial", "distance", "cut", "last-step", "flow", "doubling", "volume", "price", "growth", "unsat"
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
