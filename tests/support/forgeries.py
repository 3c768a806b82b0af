"""Forged certificates: a good bound with its witness changed, and its steps so that both add up in themselves.

``forgeries(problem, bound)`` changes every field of the witness: numbers up and down, names and ranks left out,
repeated, replaced by others and by such as do not exist; then two numbers at once. What follows from the changed
witness by the arithmetic of its kind (``claimed_steps``) becomes the claim. Whether a forgery happens to hold is
for an independent judge, or for a search of all schedules, to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from itertools import combinations
from typing import Any

from hetesynth.model.bound import (
    CutWitness,
    DistanceWitness,
    FlowWitness,
    LastStepWitness,
    LowerBound,
    PriceWitness,
    UnsatWitness,
    VolumeWitness,
    Witness,
)
from hetesynth.model.problem import Problem


def forgeries(problem: Problem, bound: LowerBound) -> Iterator[LowerBound]:
    """Each change of the witness with the claim that follows, with one step more, and seen the other way round."""
    for more in (-1, 1, 2):
        yield replace(bound, steps=bound.steps + more)
    yield replace(bound, backwards=not bound.backwards)
    for witness in _changed(problem, bound.witness):
        steps = claimed_steps(witness)
        claims = {bound.steps, bound.steps + 1} if steps is None else {steps, steps + 1, bound.steps + 1}
        for claim in sorted(claims):
            yield replace(bound, witness=witness, steps=claim)
        yield replace(bound, witness=witness, steps=min(claims), backwards=not bound.backwards)


def claimed_steps(witness: Witness) -> int | None:
    """The steps that the numbers of ``witness`` amount to, true or not; None where they amount to none."""
    match witness:
        case DistanceWitness():
            return witness.hops
        case FlowWitness() | UnsatWitness():
            return witness.steps + 1
        case CutWitness() if witness.capacity > 0:
            return -(-witness.needed // witness.capacity)
        case VolumeWitness() if witness.capacity > 0:
            return -(-witness.chunks * witness.crossings // witness.capacity)
        case PriceWitness() if witness.earned > 0:
            return -(-witness.paid // witness.earned)
        case LastStepWitness() if min(witness.capacity, witness.copies, witness.wanted) > 0:
            steps, served = 0, 0
            while served < witness.needed * witness.wanted:
                served += witness.capacity * min(witness.wanted, (1 + witness.copies) ** steps)
                steps += 1
            return steps
    return None


def _changed(problem: Problem, witness: Any) -> Iterator[Any]:
    if witness is None:
        return
    names = [r.name for r in problem.resources]
    numbers = [f.name for f in fields(witness) if type(getattr(witness, f.name)) is int]
    for f in fields(witness):
        pairs = f.name in ("prices", "source_side")
        for value in _variants(getattr(witness, f.name), problem, names, pairs):
            yield replace(witness, **{f.name: value})
    for a, b in combinations(numbers, 2):
        for by_a in (-1, 1):
            for by_b in (-1, 1):
                more = {a: getattr(witness, a) + by_a, b: getattr(witness, b) + by_b}
                yield replace(witness, **more)


def _variants(value: Any, problem: Problem, names: list[str], pairs: bool = False) -> Iterator[Any]:
    """``pairs``: ``value`` holds pairs, which stay pairs."""
    if isinstance(value, str):
        yield from {"in": ["out", "at"], "out": ["in", "at"]}.get(value, [*names[:3], "nothing"])
    elif isinstance(value, int):
        yield from sorted({value - 1, value + 1, 2 * value, -1, 0, problem.ranks, 99} - {value})
    elif isinstance(value, tuple):
        yield ()
        for i, one in enumerate(value):
            yield (*value[:i], *value[i + 1 :])
            yield (*value, one)
            for other in _of_pair(one, problem, names) if pairs else _variants(one, problem, names):
                yield (*value[:i], other, *value[i + 1 :])
        if value and isinstance(value[0], int):
            yield from ((*value, r) for r in (-1, *range(problem.ranks), 99))


def _of_pair(pair: tuple[Any, int], problem: Problem, names: list[str]) -> Iterator[tuple[Any, int]]:
    yield from ((other, pair[1]) for other in _variants(pair[0], problem, names))
    yield from ((pair[0], other) for other in _variants(pair[1], problem, names))
