"""Inside a pod: chunks that some of its GPUs have go to all of them.

In: the type of a pod and the GPUs at which chunks start. Out: a schedule in steps, from the searches that are
handed in; each question is asked once. Where wires inside a pod also lead out of it, of several schedules the one
counts that loads its fullest wire least: there the load of all steps goes beside what enters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.pods import rate_of
from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.collectives.library import collective
from hetesynth.search.solve import Solution, Solver


@dataclass(frozen=True, slots=True)
class Spread:
    """``steps[s]``: (slot, link of the pod's type) of every transfer; slot i starts at GPU ``origins[i]``.
    ``optimal``: whether the number of steps is proved to be the least."""

    origins: tuple[Rank, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]
    optimal: bool


@dataclass
class Spreads:
    """Spreads by pod type and origins. ``solvers``: the first decides, but for types in ``sharing``, whose wires
    also lead out of the pod. ``exclusive``: no GPU sends a chunk to two others in a step, as where the
    whole is read backwards as a reduction under eq. 8."""

    types: tuple[Topology, ...]
    options: ChunkingOptions
    solvers: tuple[Solver, ...]
    sharing: frozenset[int]
    exclusive: bool
    solved: dict[tuple[int, tuple[Rank, ...]], Spread] = field(default_factory=dict)

    def spread(self, number: int, origins: Sequence[Rank]) -> Spread:
        """How the chunks that start at ``origins`` reach every GPU of a pod of type ``number``."""
        key = number, tuple(origins)
        if key not in self.solved:
            self.solved[key] = self._solve(number, tuple(origins))
        return self.solved[key]

    def _solve(self, number: int, origins: tuple[Rank, ...]) -> Spread:
        pod = self.types[number]
        if pod.ranks == 1:
            return Spread(origins, (), True)
        goal, chunk_of = _goal(pod.ranks, origins)
        problem = chunk(pod, self.options).problem(goal, exclusive_reduction=self.exclusive)
        solution = self._searched(problem, pod.name)
        if number in self.sharing:
            solution = min([solution, *self._others(problem)], key=lambda s: _cost(pod, s))
        slot_of = {c: slot for slot, c in enumerate(chunk_of)}
        steps = tuple(
            tuple((slot_of[t.chunk], t.link) for t in transfers) for transfers in solution.schedule.steps()
        )
        return Spread(origins, steps, solution.certificate.proven_optimal)

    def _others(self, problem: Problem) -> Iterator[Solution]:
        """What the other searches find."""
        for solver in self.solvers[1:]:
            with suppress(HetesynthError):  # it does not take this problem
                solution = solver.solve(problem)
                if isinstance(solution, Solution):
                    yield solution

    def _searched(self, problem: Problem, name: str) -> Solution:
        solution = self.solvers[0].solve(problem)
        if not isinstance(solution, Solution):
            raise HetesynthError(
                f"pod {name}: {solution.reason}",
                code="HS411",
                help="give more time with --time-budget, or check the links of the pod",
                exit_code=3,
            )
        return solution


def _cost(pod: Topology, solution: Solution) -> tuple[Fraction, int]:
    """Chunks over rate of the fullest wire in all steps together; the number of steps."""
    load = Counter(w for t in solution.schedule.transfers for w in pod.links[t.link].wires)
    rates = {w: rate_of(pod.wires[w]) for w in load}
    fullest = max((load[w] / rate for w, rate in rates.items() if rate is not None), default=Fraction(0))
    return fullest, solution.schedule.makespan


def _goal(ranks: int, origins: tuple[Rank, ...]) -> tuple[Collective, list[int]]:
    """The collective that takes each chunk from its origin to everybody, and the chunk of each slot: an allgather
    where every GPU is the origin of equally many."""
    often = Counter(origins)
    parts = len(origins) // ranks
    if all(often[rank] == parts for rank in range(ranks)):
        before: Counter[Rank] = Counter()
        chunks = []
        for rank in origins:
            chunks.append(rank * parts + before[rank])
            before[rank] += 1
        return collective("allgather", ranks, parts), chunks
    everyone = frozenset(range(ranks))
    goal = Collective(
        "allgather", ranks, 1, None,
        tuple(Chunk(i, (rank,), 0) for i, rank in enumerate(origins)),
        tuple(frozenset({rank}) for rank in origins),
        tuple(everyone for _ in origins),
    )  # fmt: skip
    return goal, list(range(len(origins)))
