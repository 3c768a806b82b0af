"""CEGIS from checkpoint to checkpoint: whatever it begins with, a schedule that an independent replay accepts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from support.graphs import Graph, dgx1, fig10, line, problem, ring, servers
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.replay import accepts

from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Synthesized
from hetesynth.search.bounds.lower import lower_bound
from hetesynth.search.collectives import invert
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.search import Candidate, Search
from hetesynth.search.smt import cegis
from hetesynth.search.smt.cegis import candidate
from hetesynth.search.smt.step_choice import Refill, Row, SuffixLaws, cheapest


def search_from(asked: Problem, first: Candidate) -> Search:
    search = Search(asked, 1, Budget(), schedule_violations)
    search.first_candidate = first
    return search


def repaired(asked: Problem, first: Candidate, steps: int) -> tuple[Schedule, Search]:
    search = search_from(asked, first)
    outcome, model = cegis.synthesize(search, steps)
    assert isinstance(outcome, Synthesized) and model is None, "found from a checkpoint, not by the whole model"
    assert outcome.schedule.makespan == steps and accepts(asked, outcome.schedule)
    return outcome.schedule, search


CLUSTERS: list[tuple[Graph, int]] = [
    (servers([4, 8]), 1), (servers([4, 8]), 4), (servers([4, 4, 8]), 2), (servers([4, 4, 4, 8]), 1),
    (servers([8, 8, 4]), 2), (servers([4, 4, 8, 8]), 1), (dgx1(), 2), (fig10(), 2), (ring(8), 1),
]  # fmt: skip


@pytest.mark.parametrize("first", ["greedy", "flood"])
@pytest.mark.parametrize(("graph", "chunks"), CLUSTERS)
def test_a_candidate_that_breaks_laws_is_repaired_to_the_bound(
    graph: Graph, chunks: int, first: Candidate
) -> None:  # fmt: skip
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


def valid(asked: Problem, steps: int) -> Schedule:
    return repaired(asked, "greedy", steps)[0]


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


@pytest.mark.parametrize(
    ("spoil", "kind"),
    [
        (_twice_over_a_link, "overloaded"), (_not_held, "not-held"), (_already_held, "already-held"),
        (_too_short, "not-delivered"),
    ],
)  # fmt: skip
def test_each_law_that_is_broken_once_is_repaired(
    spoil: Callable[[Problem, Schedule], Schedule], kind: str
) -> None:  # fmt: skip
    asked = problem(line(4), "allgather")
    spoiled = spoil(asked, valid(asked, 3))
    wrong = schedule_violations(asked, spoiled)
    assert kind in {v.kind for v in wrong}
    _, search = repaired(asked, spoiled, 3)
    assert search.trace.entries[0].number > 0 and search.trace.entries[0].checkpoint is not None


def test_a_group_that_is_overloaded_is_repaired() -> None:
    asked = problem(servers([2, 2], 1), "allgather")  # one NIC for two GPUs
    sends = [at(0, k, arc(asked, k, r)) for k in range(4) for r in range(4) if k != r]
    wrong = schedule_violations(asked, Schedule.of(sends, 1))
    assert {v.kind for v in wrong} == {"overloaded"}
    _, search = repaired(asked, Schedule.of(sends, 1), lower_bound(asked).steps)
    assert search.trace.entries[0].checkpoint == 0


def test_a_chunk_that_arrives_twice_at_once_is_repaired() -> None:
    asked = problem(ring(4), "broadcast")
    sends = [at(0, 0, arc(asked, 0, 1)), at(0, 0, arc(asked, 0, 3))]
    sends += [at(1, 0, arc(asked, 1, 2)), at(1, 0, arc(asked, 3, 2))]
    assert {v.kind for v in schedule_violations(asked, Schedule.of(sends, 2))} == {"received-twice"}
    schedule, search = repaired(asked, Schedule.of(sends, 2), 2)
    assert search.trace.entries[0].checkpoint == 1
    assert [t for t in schedule.transfers if t.start == 0] == sends[:2], "the steps before are kept"


def test_two_additions_at_once_are_repaired() -> None:
    asked, _ = invert(problem(ring(4), "reduce", exclusive=True))
    sends = [at(0, 0, arc(asked, 0, 1)), at(0, 0, arc(asked, 0, 3)), at(1, 0, arc(asked, 1, 2))]
    assert "not-exclusive" in {v.kind for v in schedule_violations(asked, Schedule.of(sends, 2))}
    _, search = repaired(asked, Schedule.of(sends, 2), 3 if lower_bound(asked).steps > 2 else 2)
    assert search.trace.entries[0].checkpoint == 0


def test_peers_are_few_in_what_is_repaired() -> None:
    asked = replace(problem(servers([4, 4]), "allgather"), max_peers=4)
    flood = candidate(asked, "flood", 8)
    assert flood is not None and "too-many-peers" in {v.kind for v in schedule_violations(asked, flood)}
    search = search_from(asked, "flood")
    outcome, _ = cegis.synthesize(search, 4)
    assert isinstance(outcome, Synthesized) and not schedule_violations(asked, outcome.schedule)


def test_a_candidate_of_links_that_do_not_exist_is_repaired() -> None:
    asked = problem(ring(4), "allgather")
    repaired(asked, Schedule.of([at(0, 0, 99), at(0, 99, 0), at(0, 1, arc(asked, 1, 2))], 1), 2)


def test_a_valid_candidate_is_kept() -> None:
    asked = problem(servers([4, 4]), "allgather")
    steps = lower_bound(asked).steps
    schedule = valid(asked, steps)
    again, search = repaired(asked, schedule, steps)
    assert again == schedule and search.trace.calls == 0 and search.trace.counterexamples == 0


@settings(max_examples=60, deadline=None)
@given(tiny_graphs(3))
def test_no_prefix_of_a_schedule_breaks_a_law_of_suffixes(graph: object) -> None:
    asked = problem(graph, "allgather")  # type: ignore[arg-type]
    best = copying_optimum(asked)
    if best is None:
        return
    search = search_from(asked, "nothing")
    outcome, _ = cegis.synthesize(search, best)
    assert isinstance(outcome, Synthesized)
    laws = SuffixLaws(CopyProblem(asked))
    holds = np.zeros((len(asked.collective.chunks), asked.ranks), dtype=np.bool_)
    for k, pre in enumerate(asked.collective.pre):
        holds[k, sorted(pre)] = True
    assert laws.broken(holds, best) == []
    for step, sends in enumerate(outcome.schedule.steps()):
        for t in sends:
            holds[t.chunk, asked.arcs[t.link].dst] = True
        assert laws.broken(holds, best - step - 1) == []


@pytest.mark.parametrize("graph", [servers([4, 8]), dgx1(), fig10()])
@pytest.mark.parametrize("exclusive", [False, True])
def test_filled_steps_break_no_law(graph: Graph, exclusive: bool) -> None:
    asked = replace(problem(graph, "allgather", 2), exclusive_reduction=exclusive)
    tables = CopyProblem(asked)
    laws = SuffixLaws(tables)
    refill = Refill(tables, laws, np.random.default_rng(1))
    holds = np.zeros(laws.wants.shape, dtype=np.bool_)
    for k, pre in enumerate(asked.collective.pre):
        holds[k, sorted(pre)] = True
    transfers: list[Transfer] = []
    for step in range(40):
        filled = refill.step(holds, (), (), 40 - step)
        transfers += [at(step, k, a) for k, a in filled.sends]
        holds = filled.after
    assert not schedule_violations(asked, Schedule.of(transfers))


def test_counts_that_pair_are_relaxed() -> None:
    pairs = [Row((0, 1), most=1), Row((2, 3), most=1), Row((0, 2), most=1), Row((1, 3), most=1)]
    used, whole = cheapest(4, [*pairs, Row((0, 1, 2, 3), least=2)], [0.0, 1.0, 1.0, 0.0]) or ([], [])
    assert used == whole == [0, 3]
    assert cheapest(4, [*pairs, Row((0, 1, 2, 3), least=3)], [0.0] * 4) is None
