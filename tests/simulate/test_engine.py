"""The simulator against hand answers, an exact slow simulator, and laws that hold for every graph."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fluid_reference import Task, ends, graph_of
from support.random_transfers import US, random_tasks

from hetesynth.model.timeline import TransferGraph
from hetesynth.simulate.engine import simulate

GB = Fraction(10**9)
MB = Fraction(10**6)
SEEDS = st.integers(0, 10**9)


def us(graph: TransferGraph) -> float:
    return simulate(graph, compiled=False).makespan * 1e6


@pytest.mark.parametrize(
    ("rates", "tasks", "answer"),
    [
        ((50, 50, 50), [((0, 2), (), 1, 10), ((1, 2), (), 1, 10)], 401),
        ((50, 50, 50), [((0, 2), (), 1, 10), ((1, 2), (), 10, 10)], 401),
        ((100, 100, 20, 100), [((0, 3), (), 1, 100), ((1, 3), (), 10, 100), ((2, 3), (), 1, 10)], 2101),
        (
            (50, 25, 50, 50, 50, 50),
            [((0,), (), 1, 1), ((1,), (), 1, 1), ((2, 5), (0,), 1, 1), ((3, 5), (1,), 1, 1), ((4,), (2, 3), 1, 1)],
            83,
        ),
    ],
    ids=["group", "group with alphas 1 and 10", "three rates", "diamond"],
)
def test_hand_answers(rates, tasks, answer) -> None:
    made = [Task(uses, waits, alpha * US, size * MB) for uses, waits, alpha, size in tasks]
    assert us(graph_of([r * GB for r in rates], made)) == pytest.approx(answer, rel=1e-12)


def test_compiled_and_interpreted_give_the_same_bits() -> None:
    for seed in range(25):
        graph = graph_of(*random_tasks(seed, 40))
        fast, slow = simulate(graph, compiled=True), simulate(graph, compiled=False)
        for name in ("ready", "begin", "sent", "end"):
            assert (getattr(fast, name) == getattr(slow, name)).all()


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.integers(1, 16))
def test_agrees_with_the_exact_simulator(seed: int, count: int) -> None:
    rates, tasks = random_tasks(seed, count)
    exact = [float(e) for e in ends(rates, tasks)]
    assert simulate(graph_of(rates, tasks), compiled=False).end == pytest.approx(exact, rel=1e-9, abs=1e-18)


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_no_resource_gives_more_than_it_has(seed: int) -> None:
    timeline = simulate(graph_of(*random_tasks(seed, 30)), compiled=False)
    for use in timeline.uses():
        assert use.size <= use.rate * use.busy * (1 + 1e-9)
        assert use.share <= 1 + 1e-9


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_order_of_tasks_does_not_matter(seed: int) -> None:
    rates, tasks = random_tasks(seed, 20)
    order = list(range(len(tasks)))
    random.Random(seed).shuffle(order)
    place = {old: new for new, old in enumerate(order)}
    moved = [replace(tasks[old], waits=tuple(place[w] for w in tasks[old].waits)) for old in order]
    straight = simulate(graph_of(rates, tasks), compiled=False).end
    shuffled = simulate(graph_of(rates, moved), compiled=False).end
    assert shuffled[[place[i] for i in range(len(tasks))]] == pytest.approx(straight, rel=1e-11)


def test_the_bottleneck_of_the_diamond() -> None:
    tasks = [
        Task((0,), (), US, MB), Task((1,), (), US, MB), Task((2, 5), (0,), US, MB), Task((3, 5), (1,), US, MB),
        Task((4,), (2, 3), US, MB),
    ]  # fmt: skip
    timeline = simulate(graph_of([r * GB for r in (50, 25, 50, 50, 50, 50)], tasks), compiled=False)
    assert timeline.end * 1e6 == pytest.approx([21, 41, 42, 62, 83])
    bottleneck = timeline.bottleneck()
    assert bottleneck is not None and bottleneck.name == "r1" and bottleneck.busy * 1e6 == pytest.approx(40)


def test_waiting_in_a_circle_is_told() -> None:
    tasks = [Task((0,), (1,), US, MB), Task((0,), (0,), US, MB), Task((0,), (), US, MB)]
    graph = graph_of([GB], tasks)
    with pytest.raises(ValueError, match="2 tasks wait for each other"):
        simulate(graph, compiled=False)
