"""What a steady-state candidate is before it is tried: trees or balanced paths, and an arrangement of the program.

Also between how many ranks such paths lead, so that a program has thread blocks for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hetesynth.engine.steady_plans import SteadyPlan
from hetesynth.engine.steady_programs import SteadyState
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import GaveUp, Infeasible, Violation
from hetesynth.programs.steady_state.lower import Arrangement
from hetesynth.search.collectives import DUAL, invert
from hetesynth.search.packing.rounding import WholePacking
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution
from hetesynth.search.steady_state import schedule_of

NAME = "steady-state"


@dataclass(frozen=True)
class Plan:
    """A packing with ``trees`` trees, or as many of each root, and one arrangement of its program or plan.
    ``seconds_per_byte``: of the buffer, what the packing takes of the fullest resource. ``solved``: is
    asked for the verified ``schedule``, which plans of one packing find once. ``peers``: of a rank at most, where
    they were limited for the program."""

    seconds_per_byte: float
    chunks: int
    trees: int
    solved: Callable[[], Solution | Infeasible | GaveUp]
    problem: Problem
    schedule: Schedule
    pipeline: SteadyState | SteadyPlan
    seconds: float  # expected
    peers: int | None = None

    @property
    def shared(self) -> bool:
        """Whether trees share channels: such programs are longer and wait more."""
        return isinstance(self.pipeline, SteadyState) and self.pipeline.arrangement.division != "own"

    @property
    def label(self) -> str:
        """What it is called."""
        return label_of(self.chunks, self.trees, self.peers)


def label_of(chunks: int, trees: int, peers: int | None = None) -> str:
    """What a candidate with these numbers is called."""
    of_trees = f", {trees} trees" if trees != chunks else ""
    return f"{NAME}, c={chunks}{of_trees}{'' if peers is None else f', {peers} peers'}"


@dataclass(frozen=True)
class Packed:
    """A packing with ``trees`` trees, or as many of each root, in ``chunks`` chunks per rank. ``slowdown``: what a
    program is expected to take, in times of its fullest resource, where that was asked. ``schedule``: along its
    trees, ``arrangements``: of programs along it, each found when it is asked for, once."""

    packing: WholePacking
    chunks: int
    trees: int
    problem: Problem
    schedule: Callable[[], Schedule]
    arrangements: Callable[[], list[Arrangement]]
    slowdown: float = 1.0


def limited(strategy: Strategy, peers: int) -> Strategy:
    """``strategy`` on the problem in which a rank sends to, and receives from, no more than ``peers`` others."""

    def improve(search: Search) -> None:
        narrow = replace(search, problem=replace(search.problem, max_peers=peers), oracle=_accept)
        strategy.improve(narrow)
        if narrow.best is not None:
            search.offer(narrow.best, NAME)

    return replace(strategy, improve=improve)


def _accept(problem: Problem, schedule: Schedule) -> list[Violation]:
    """The search that is offered the schedule asks its oracle."""
    return []


def along(packed: WholePacking) -> Strategy:
    """A strategy that offers the schedule along the trees of ``packed``."""

    def improve(search: Search) -> None:
        search.offer(schedule_of(search.problem, packed.carriers), NAME)

    return Strategy(NAME, improve, whole=True)


def schedule_along(problem: Problem, packing: WholePacking) -> Schedule:
    """The schedule along the trees of ``packing``."""
    if problem.collective.name not in DUAL:
        return schedule_of(problem, packing.carriers)
    dual, recover = invert(problem)
    return recover(schedule_of(dual, packing.carriers))


def copied(problem: Problem) -> Problem:
    """The problem, or of a reduction to one rank for each chunk its dual."""
    return invert(problem)[0] if problem.collective.name in DUAL else problem


def numbers_of_peers(servers: Sequence[str], blocks: int, fewest: int) -> tuple[int | None, ...]:
    """To how many others a rank may send, in the order in which they are worth trying; None: to all.

    Sends and receives take a thread block each, of ``blocks``. Over relays a rank needs the others of its server
    and one rank of every other server, or ``fewest``, which leaves them several connections.
    """
    sizes = Counter(servers)
    few = max(fewest, max(sizes.values()) + len(sizes) - 2)
    every: tuple[int | None, ...] = (None,) if 2 * (len(servers) - 1) <= blocks else ()
    narrow = (few,) if few < len(servers) - 1 and 2 * few <= blocks else ()
    return every + narrow or (None,)
