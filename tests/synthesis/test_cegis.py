"""CEGIS: whatever it begins with, a schedule that an independent replay accepts.

It must not fail while a schedule exists, prove what is false, or forget what it learned.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from support.graphs import Graph, dgx1, fig10, line, problem, ring, servers, star
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.replay import accepts

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cegis_trace import totals
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Infeasible, Synthesized
from hetesynth.search.bounds.lower import lower_bound
from hetesynth.search.copy_problem import CopyProblem, start_arrays, without_useless
from hetesynth.search.search import Candidate, Search
from hetesynth.search.smt import cegis, step_model
from hetesynth.search.smt.cegis import candidate
from hetesynth.search.smt.step_choice import SuffixLaws


def search_from(asked: Problem, first: Candidate = "nothing", best: Schedule | None = None) -> Search:
    """Without a first candidate Z3 is asked for all steps at once."""
    search = Search(asked, 1, Budget(), schedule_violations, first_candidate=first)
    if best is not None:
        search.offer(best, "handed in")
    return search


def repaired(asked: Problem, first: Candidate, steps: int) -> tuple[Schedule, Search]:
    search = search_from(asked, first)
    outcome, model = cegis.synthesize(search, steps)
    assert isinstance(outcome, Synthesized) and model is None, "found from a checkpoint, not by the whole model"
    assert outcome.schedule.makespan == steps and accepts(asked, outcome.schedule)
    return outcome.schedule, search


@pytest.mark.parametrize("first", ["greedy", "flood"])
@pytest.mark.parametrize(
    ("graph", "chunks"), [(servers([4, 8]), 4), (servers([4, 4, 8]), 1), (dgx1(), 2), (fig10(), 2), (ring(8), 1)]
)
def test_a_candidate_that_breaks_laws_is_repaired_to_the_bound(
    graph: Graph, chunks: int, first: Candidate
) -> None:
    asked = problem(graph, "allgather", chunks)
    bound = lower_bound(asked).steps
    seed = candidate(asked, first, bound)
    assert seed is not None
    wrong = schedule_violations(asked, seed)
    _, search = repaired(asked, first, bound)
    first_entry = search.trace.entries[0]
    assert first_entry.action == "seed" and (first_entry.number > 0 or not wrong)
    if wrong:
        earliest = min(v.step for v in wrong if v.step is not None)
        assert first_entry.checkpoint is not None and first_entry.checkpoint <= earliest


def at(step: int, chunk: int, link: int) -> Transfer:
    return Transfer(step, step + 1, chunk, link)


def arc(asked: Problem, src: int, dst: int) -> int:
    return next(a for a, one in enumerate(asked.arcs) if (one.src, one.dst) == (src, dst))


def _twice_over_a_link(p: Problem, s: Schedule) -> Schedule:
    """A link of capacity one carries a chunk more: on a line each link does."""
    late = [t for t in s.transfers if (t.chunk, t.link) != (0, arc(p, 1, 2))]
    return Schedule.of([*late, at(1, 0, arc(p, 1, 2)), at(1, 1, arc(p, 1, 2))], s.makespan)


def _not_held(p: Problem, s: Schedule) -> Schedule:
    kept = [t for t in s.transfers if not (t.chunk == 0 and t.link == arc(p, 0, 1))]
    return Schedule.of(kept, s.makespan)


def _already_held(p: Problem, s: Schedule) -> Schedule:
    return Schedule.of([*s.transfers, at(s.makespan - 1, 0, arc(p, 1, 0))], s.makespan)


def _too_short(p: Problem, s: Schedule) -> Schedule:
    return Schedule.of([t for t in s.transfers if t.end < s.makespan], s.makespan - 1)


def _no_such_link(p: Problem, s: Schedule) -> Schedule:
    return Schedule.of([*s.transfers, at(0, 0, 99), at(0, 99, 0)], s.makespan)


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_twice_over_a_link, "overloaded"),
        (_not_held, "not-held"),
        (_already_held, "already-held"),
        (_too_short, "not-delivered"),
        (_no_such_link, None),
    ],
)
def test_each_law_that_is_broken_once_is_repaired(
    spoil: Callable[[Problem, Schedule], Schedule], kind: str | None
) -> None:
    asked = problem(line(4), "allgather")
    valid = repaired(asked, "greedy", 3)[0]
    again, search = repaired(asked, valid, 3)
    total = totals(search.trace.entries)
    assert again == valid and total["calls"] == total["counterexamples"] == 0, "what is valid is kept"
    spoiled = spoil(asked, valid)
    assert kind in {None, *(v.kind for v in schedule_violations(asked, spoiled))}
    _, search = repaired(asked, spoiled, 3)
    assert search.trace.entries[0].number > 0 and search.trace.entries[0].checkpoint is not None


def test_peers_are_few_in_what_is_repaired() -> None:
    asked = replace(problem(servers([4, 4]), "allgather"), max_peers=4)
    flood = candidate(asked, "flood", 8)
    assert flood is not None and "too-many-peers" in {v.kind for v in schedule_violations(asked, flood)}
    outcome, _ = cegis.synthesize(search_from(asked, "flood"), 4)
    assert isinstance(outcome, Synthesized) and not schedule_violations(asked, outcome.schedule)


@settings(max_examples=30, deadline=None)
@given(tiny_graphs(3))
def test_no_prefix_of_a_schedule_breaks_a_law_of_suffixes(graph: Graph) -> None:
    asked = problem(graph, "allgather")
    best = copying_optimum(asked)
    if best is None:
        return
    outcome, _ = cegis.synthesize(search_from(asked), best)
    assert isinstance(outcome, Synthesized)
    laws = SuffixLaws(CopyProblem(asked))
    holds = start_arrays(asked)[0]
    assert laws.broken(holds, best) == []
    for step, sends in enumerate(outcome.schedule.steps()):
        for t in sends:
            holds[t.chunk, asked.arcs[t.link].dst] = True
        assert laws.broken(holds, best - step - 1) == []


# -- all steps at once


def test_a_frozen_prefix_that_leads_nowhere_is_unfrozen() -> None:
    """One chunk a step, by the longest way round: its first half leaves no way to finish in two steps."""
    asked = problem(ring(4), "broadcast")
    padded = Schedule.of([at(i + 1, 0, arc(asked, i, i + 1)) for i in range(3)], 6)
    assert not schedule_violations(asked, padded)
    for steps in (2, 3):
        outcome, _ = cegis.synthesize(search_from(asked, best=padded), steps)
        assert isinstance(outcome, Synthesized) and outcome.schedule.makespan == steps
        assert accepts(asked, outcome.schedule)
    outcome, _ = cegis.synthesize(search_from(asked, best=padded), 1)
    assert isinstance(outcome, Infeasible) and outcome.steps == 1


@pytest.mark.parametrize(
    ("asked", "optimum"),
    [
        (problem(fig10(), "broadcast"), 2),
        (problem(star(4), "broadcast"), 2),
        (problem(dgx1(), "allgather"), 2),
        (problem(servers([1, 3]), "allgather"), 3),
        (problem(line(3), "alltoall"), 2),
    ],
)
def test_cegis_and_the_whole_model_decide_alike(asked: Problem, optimum: int) -> None:
    for steps in range(1, optimum + 2):
        for decide in (cegis.synthesize, cegis.monolithic):
            outcome, model = decide(search_from(asked), steps)
            assert isinstance(outcome, Synthesized if steps >= optimum else Infeasible), steps
            if decide is cegis.synthesize and steps == optimum and model is not None:
                assert len(model.laws) < len(step_model.every_law(model.tables)), "it needs few laws"


def test_useless_deliveries_are_left_out() -> None:
    """Arcs of ring(4): 0->1, 1->0, 1->2, 2->1, 2->3, 3->2, 3->0, 0->3."""
    asked = problem(ring(4), "gather")  # to rank 0
    useful = [at(0, 1, 1), at(0, 3, 6), at(0, 2, 3), at(1, 2, 1)]
    useless = [at(0, 1, 2), at(1, 1, 4), at(0, 2, 4)]
    assert without_useless(asked, useful + useless, 2) == Schedule.of(useful, 2)
