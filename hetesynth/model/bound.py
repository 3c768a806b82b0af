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
class FlowWitness:
    """Within ``steps`` steps at most ``flow`` of the ``needed`` chunks can reach ``destination``: a minimum cut
    of the time-expanded graph. ``reached`` lists (step, vertex) on the source side; chunks on the source side
    are ``cut_chunks``."""

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
class SumWitness:
    """Two phases that cannot overlap, each with its own bound (reduce-scatter then allgather)."""

    parts: tuple[LowerBound, ...]


Witness = DistanceWitness | CutWitness | FlowWitness | UnsatWitness | SumWitness | None


@dataclass(frozen=True, slots=True)
class LowerBound:
    """No schedule takes fewer than ``steps`` steps; ``proof`` says in words why."""

    steps: int
    method: Literal["trivial", "distance", "cut", "flow", "unsat", "sum"]
    proof: str
    witness: Witness = None


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
