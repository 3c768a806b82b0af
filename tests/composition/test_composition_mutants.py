"""Every law of the judge of compositions has a document that breaks it and nothing else that is checked before."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from support.pods import SMALL, complaints, composed, document, encoded, pods_of

from hetesynth.judge.composition.judge import judge_composition
from hetesynth.search.pods.compose import ComposedName

Values = dict[str, Any]


@cache
def _good(name: str, collective: ComposedName) -> Values:
    return document(composed(SMALL[name], collective))


def _phase(values: Values) -> Values:
    phase: Values = values["phases"][0]
    return phase


def drop_a_move(v: Values) -> None:
    _phase(v)["moves"][-1].pop()


def repeat_a_move(v: Values) -> None:
    _phase(v)["moves"][-1].append(_phase(v)["moves"][-1][0])


def turn_a_move(v: Values) -> None:
    move = _phase(v)["moves"][0][0]
    move[0], move[1] = move[1], move[0]


def shorten_a_round(v: Values) -> None:
    _phase(v)["rounds"][0][1] -= 1


def shorten_a_step(v: Values) -> None:
    for k, batches in enumerate(_phase(v)["batches"]):
        for times in batches:
            if times[-1] > times[0]:
                times[-1] -= 1
                return
        assert k >= 0


def begin_too_early(v: Values) -> None:
    """What a batch spreads, or a round sends, is not there yet."""
    phase = _phase(v)
    if phase["adds"]:
        length = phase["rounds"][0][1] - phase["rounds"][0][0]
        phase["rounds"][0] = [0, length]
        return
    times = phase["batches"][0][-1]
    phase["batches"][0][-1] = [t - 1 for t in times]


def wrong_slot(v: Values) -> None:
    kind = _phase(v)["kinds"][0]
    step = next(s for s in kind["entered"] if s)
    step[0][1] = (step[0][1] + 1) % len(kind["links"])


def drop_a_transfer(v: Values) -> None:
    next(s for s in _phase(v)["kinds"][0]["home"] if s).pop()


def cut_a_path(v: Values) -> None:
    _phase(v)["kinds"][0]["links"][0][2].pop()


def foreign_uplink(v: Values) -> None:
    rows = _phase(v)["uplinks"]
    rows[0][0], rows[1][0] = rows[1][0], rows[0][0]


def larger_chunks(v: Values) -> None:
    v["chunk_bytes"] += 1


def no_phase(v: Values) -> None:
    v["phases"].pop()


def other_pods(v: Values) -> None:
    v["pods"][0][0] = "someone"


def unstated_gate(v: Values) -> None:
    _phase(v)["kinds"][0]["slots"][0] = 999


def unknown_field(v: Values) -> None:
    v["more"] = 1


def other_ranks(v: Values) -> None:
    v["ranks"] += 1


def less_time(v: Values) -> None:
    v["header"]["picoseconds"] -= 1


def more_bound(v: Values) -> None:
    v["header"]["bound_picoseconds"] = v["header"]["picoseconds"] + 1


MUTANTS: list[tuple[Callable[[Values], None], set[str]]] = [
    (drop_a_move, {"not-delivered"}),
    (repeat_a_move, {"received-twice", "contribution-twice", "overloaded", "already-held"}),
    (turn_a_move, {"not-held", "already-held", "contribution-twice", "not-delivered"}),
    (shorten_a_round, {"overloaded", "not-held"}),
    (shorten_a_step, {"overloaded", "not-held"}),
    (begin_too_early, {"not-held"}),
    (
        wrong_slot,
        {"overloaded", "already-held", "not-delivered", "not-held", "contribution-twice", "received-twice"},
    ),
    (drop_a_transfer, {"not-delivered", "not-held"}),
    (cut_a_path, {"no-such-link"}),
    (foreign_uplink, {"no-such-link"}),
    (larger_chunks, {"overloaded"}),
    (no_phase, {"not-delivered"}),
    (other_pods, {"no-such-link"}),
    (less_time, {"certificate"}),
    (more_bound, {"certificate"}),
    (unstated_gate, {"syntax"}),
    (unknown_field, {"syntax"}),
    (other_ranks, {"syntax"}),
]


@pytest.mark.parametrize(("mutate", "kinds"), MUTANTS, ids=[m.__name__ for m, _ in MUTANTS])
@pytest.mark.parametrize("name", ["3x3"])
@pytest.mark.parametrize("collective", ["allgather", "reducescatter"])
def test_a_mutant_is_refused(
    mutate: Callable[[Values], None], kinds: set[str], name: str, collective: ComposedName
) -> None:
    values = copy.deepcopy(_good(name, collective))
    cluster = pods_of(SMALL[name])
    assert judge_composition(encoded(values), cluster).violations == ()
    mutate(values)
    verdict = judge_composition(encoded(values), cluster)
    assert verdict.violations and {v.kind for v in verdict.violations} & kinds
    assert verdict.readable == (kinds != {"syntax"})


@pytest.mark.parametrize("name", ["racks", "slow NIC"])
def test_a_faster_clock_is_refused_on_every_network(name: str) -> None:
    """All times halved: data moves in the same order, and something carries too much."""
    values = copy.deepcopy(_good(name, "allgather"))
    phase = _phase(values)
    phase["rounds"] = [[t // 2 for t in span] for span in phase["rounds"]]
    phase["batches"] = [[[t // 2 for t in times] for times in kind] for kind in phase["batches"]]
    kinds = {v.kind for v in judge_composition(encoded(values), pods_of(SMALL[name])).violations}
    assert "overloaded" in kinds


@pytest.mark.parametrize("text", [b"", b"[]", b"{", b'{"format": "hetesynth-composition"}', b"\xff", b"9" * 5000])
def test_what_is_no_composition_is_said_to_be_none(text: bytes) -> None:
    verdict = judge_composition(text, None)
    assert not verdict.readable and [v.kind for v in verdict.violations] == ["syntax"]


def _values_in(node: Any) -> list[tuple[Any, Any]]:
    """Every place of a document that holds a number, as its container and its key there."""
    if isinstance(node, dict):
        pairs: list[tuple[Any, Any]] = list(node.items())
    else:
        pairs = list(enumerate(node)) if isinstance(node, list) else []
    places = [(node, key) for key, value in pairs if isinstance(value, int)]
    return places + [place for _, value in pairs for place in _values_in(value)]


@pytest.mark.parametrize("seed", range(16))
def test_any_number_may_be_anything(seed: int) -> None:
    """The judge answers, whatever stands in the document; a change that it passes keeps the data right."""
    rng = random.Random(seed)
    name = rng.choice(["4x2", "racks", "3x3"])
    collective: ComposedName = rng.choice(["allgather", "reducescatter", "allreduce"])
    values = copy.deepcopy(_good(name, collective))
    for _ in range(rng.choice([1, 1, 3])):
        container, key = rng.choice(_values_in(values["phases"]))
        container[key] = rng.choice(
            [0, 1, container[key] + 1, container[key] - 1, -1, 2**40, 2**70, 1.5, None, "1"]
        )
    verdict = judge_composition(encoded(values), pods_of(SMALL[name]))
    if not verdict.violations:
        assert complaints(values) == []
