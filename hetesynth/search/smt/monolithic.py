"""The monolithic step model, every law stated from the start (as SCCL does, PPoPP 2021, section 3), on the
Send/Has variables of HeteCCL. For small problems; it is the reference that faster strategies must agree with.

In: a copying problem and a number of steps. Out: a schedule, a proof that there is none, or neither.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product

from hetesynth.model.problem import Problem
from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import OutOfTime, Search
from hetesynth.search.smt.step_model import Law, Sending, StepModel


@dataclass(frozen=True, slots=True)
class Exchange:
    """What becomes of each chunk and each link."""

    chunks: tuple[int, ...]
    arcs: tuple[int, ...]

    def image(self, sending: Sending) -> Sending:
        """The same transfer, exchanged."""
        chunk, arc, step = sending
        return self.chunks[chunk], self.arcs[arc], step


def exchanges(problem: Problem) -> Iterator[Exchange]:
    """Every exchange of two ranks, and of neighbours among chunks that start and end alike.

    A schedule seen through one is a schedule, so a solver need only look at those that come first in lexicographic
    order (Crawford et al., KR 1996).
    """
    for u, v in combinations(range(problem.ranks), 2):
        exchange = exchange_of_ranks(problem, u, v)
        if exchange is not None:
            yield exchange
    alike: dict[tuple[frozenset[int], frozenset[int]], int] = {}
    for k, kind in enumerate(zip(problem.collective.pre, problem.collective.post, strict=True)):
        if kind in alike:
            chunks = list(range(len(problem.collective.chunks)))
            chunks[k], chunks[alike[kind]] = alike[kind], k
            yield Exchange(tuple(chunks), tuple(range(len(problem.arcs))))
        alike[kind] = k


def exchange_of_ranks(problem: Problem, u: int, v: int) -> Exchange | None:
    """The exchange of ``u`` and ``v``; None when it changes the problem."""
    swap = {u: v, v: u}
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    arcs = _paired(ends, [(swap.get(a, a), swap.get(b, b)) for a, b in ends])
    if arcs is None:
        return None
    kinds = list(zip(problem.collective.pre, problem.collective.post, strict=True))
    seen = [
        (frozenset(swap.get(r, r) for r in pre), frozenset(swap.get(r, r) for r in post)) for pre, post in kinds
    ]
    chunks = _paired(kinds, seen)
    laws = Counter((frozenset(resource.arcs), resource.capacity) for resource in problem.resources)
    moved = Counter((frozenset(arcs[a] for a in r.arcs), r.capacity) for r in problem.resources)
    return Exchange(chunks, arcs) if chunks is not None and laws == moved else None


def _paired(things: Sequence[Hashable], images: Sequence[Hashable]) -> tuple[int, ...] | None:
    """For each thing the index of its image; equal things in order. None when some have no partner."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for i, thing in enumerate(things):
        places[thing].append(i)
    used: Counter[Hashable] = Counter()
    paired: list[int] = []
    for image in images:
        if used[image] >= len(places.get(image, ())):
            return None
        paired.append(places[image][used[image]])
        used[image] += 1
    return tuple(paired)


def break_symmetry(model: StepModel, exchange: Exchange) -> None:
    """Of a schedule and its image only the one that comes first: by step, chunk and link, true before false. Three
    positions are compared (docs/decisions.md, 4)."""

    def order(sending: Sending) -> tuple[int, int, int]:
        return sending[2], sending[0], sending[1]

    # the others are images of these
    moved = (s for s in sorted(model.send, key=order) if order(s) < order(exchange.image(s)))
    prefix: list[tuple[int, int]] = []
    for sending in islice(moved, 3):
        send, image = model.send[sending], model.send[exchange.image(sending)]
        for equal in product(*prefix):
            model.clauses.clause(*equal, send, -image)
        prefix.append((send, -image))


def synthesize(
    search: Search, steps: int, *, rlimit: int | None = None, symmetry: bool = True
) -> tuple[Outcome, StepModel | None]:
    """Decide ``steps`` steps with the monolithic model."""
    units = scaled(200_000_000, search.policy.smt.units) if rlimit is None else rlimit
    tables = CopyProblem(search.problem)
    with deferred() as interrupted:
        stop_check = search.stop_check(interrupted)
        try:
            model = StepModel(tables, steps, stop_check, interrupted)
            for law in every_law(tables):
                stop_check()
                model.add(law)
            for exchange in exchanges(search.problem) if symmetry else ():
                stop_check()
                break_symmetry(model, exchange)
            answer = model.check((), units, search.remaining())
        except OutOfTime:
            return GaveUp("out of time", search.elapsed()), None
    if answer == "sat":
        return Synthesized(without_useless(search.problem, model.transfers(), steps)), model
    if answer == "unsat":
        return Infeasible("the monolithic step model is unsatisfiable", steps), model
    if model.clauses.timed_out:
        search.clock_decisions.note("solver")
    return GaveUp(f"no answer for {steps} steps within the solver's budget", search.elapsed()), model


def every_law(tables: CopyProblem) -> list[Law]:
    """All laws of a problem: capacity (eq. 4, 5), single receipt (eq. 6), exclusion (eq. 8) where asked."""
    problem = tables.problem
    pairs = [(k, r) for k in range(len(problem.collective.chunks)) for r in range(problem.ranks)]
    laws = [Law("capacity", r) for r in range(len(problem.resources))]
    laws += [Law("once", k, r) for k, r in pairs]
    if problem.max_peers is not None:
        laws += [Law("peers", r) for r in range(problem.ranks)]
    if problem.exclusive_reduction:
        laws += [Law("exclusive", k, r) for k, r in pairs]
    return laws
