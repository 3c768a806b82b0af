"""Queries, assertion by assertion: what is read, what follows from a problem and what does not."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from support.graphs import Graph, full, line, problem
from test_bounds_cuts import check, moving

from hetesynth.judge.bounds import query
from hetesynth.judge.bounds.laws import AtMost, Clause, Refuted
from hetesynth.judge.bounds.query import assertions
from hetesynth.judge.bounds.query_sums import SumFacts
from hetesynth.model.bound import UnsatWitness
from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.search.collectives import collective

XYZ = "(declare-fun x () Bool)(declare-const y Bool)(declare-fun z () Bool)"


def clause(*literals: str) -> Clause:
    return Clause(tuple((name.lstrip("-"), name[0] != "-") for name in literals))


READ: list[tuple[str, Any]] = [
    ("(assert x)", [clause("x")]), ("(assert (not x))", [clause("-x")]), ("(assert (not (not x)))", [clause("x")]),
    ("(assert true)", []), ("(assert false)", [clause()]), ("(assert (or))", [clause()]), ("", []),
    ("(assert (or x (not y) (or z false)))", [clause("x", "-y", "z")]),
    ("(assert (=> x y))", [clause("-x", "y")]), ("(assert (=> x (or y z)))", [clause("-x", "y", "z")]),
    ("(assert x)(assert y)(check-sat)", [clause("x"), clause("y")]),
    ("(set-info :a b)(set-logic QF)(exit)(assert x)", [clause("x")]), ("; (assert y)\n(assert x)", [clause("x")]),
    ("(assert ((_ at-most 1) x y))", [AtMost(("x", "y"), 1)]), ("(assert ((_ at-most 0) x))", [AtMost(("x",), 0)]),
    ("(assert ((_ pble 2 1 1 1) x y z))", [AtMost(("x", "y", "z"), 2)]),
    ("(assert (let ((a x)) a))", [clause("x")]), ("(assert (let ((a (not x))) (or a y)))", [clause("-x", "y")]),
    ("(assert (let ((a (or x y))) (or a z)))", [clause("x", "y", "z")]),
    ("(assert (let ((a (not x))) (not a)))", [clause("x")]),
    ("(assert (let ((a x)) (let ((b (or a y))) (or b z))))", [clause("x", "y", "z")]),
    ("(assert (let ((a x) (b y)) (or a b)))", [clause("x", "y")]),
    ("(assert (let ((a x)) (let ((a y)) (or a z))))", [clause("y", "z")]),
    ("(assert (let ((x y) (y x)) (or x z)))", [clause("y", "z")]),  # at once, not one after the other
    ("(assert (let ((a x)) ((_ at-most 1) a y)))", [AtMost(("x", "y"), 1)]),
    ("(assert (let ((x (not y))) (let ((y x)) (not y))))", [clause("y")]),
    ("(assert (let ((true x)) true))", [clause("x")]), ("(assert (let (xy) x))", "a let that is not rechecked"),
    ("(assert x", "ends in the middle of a command"), ("(assert x))", "has ')' outside of a command"),
    ("x", "has 'x' outside of a command"), ("(assert w)", "does not declare w"),
    *((text, "a command that is not rechecked") for text in (
        "()", "((assert x))", "(assert x y)", "(push 1)", "(declare-fun i () Int)", "(declare-fun (f) () Bool)",
        "(declare-fun f (Bool) Bool)", "(declare-fun f Bool)", "(declare-fun f () () Bool)",
    )),
    ("(assert (not (or x y)))", "negates more than a variable"), ("(assert (not (or)))", "negates more than a"),
    ("(assert (=> (or x y) z))", "negates more than a variable"), ("(assert (and x y))", "neither a clause nor"),
    ("(assert (or x (and y z)))", "neither a clause nor"), ("(assert (not x y))", "neither a clause nor"),
    ("(assert (let (a) x))", "a let that is not rechecked"), ("(assert (let ((a)) x))", "a let that is not"),
    ("(assert (let ((a x y)) x))", "a let that is not"), ("(assert (let (((a) x)) x))", "a let that is not"),
    ("(assert (let ((a x)) a a))", "neither a clause nor"), ("(assert (let a x))", "a let that is not"),
    ("(assert (lex ((a x)) a))", "neither a clause nor"), ("(assert (a b c))", "neither a clause nor"),
    ("(assert ((_ at-most 1) x (not y)))", "counts something that is not a variable"),
    ("(assert ((_ at-most 1) x (or y z)))", "counts something that is not a variable"),
    ("(assert ((_ at-most \u00b2) x y))", "a count of at most"),
    (f"(assert ((_ pble {'9' * 5000} 1 1) x y))", "a count of at most 999"),
    ("(assert ((_ at-most 1) x x))", "counts a variable twice"), ("(assert ((_ at-most n) x y))", "at most n"),
    ("(assert ((_ pble 1 1 2) x y))", "neither a clause nor"), ("(assert ((_ pble 1 1) x y))",
    "neither a clause nor"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), READ, ids=[text[:80] or "nothing" for text, _ in READ])
def test_what_is_read(text: str, expected: list[Clause | AtMost] | str) -> None:
    if isinstance(expected, list):
        assert list(assertions(XYZ + text)) == expected
        return
    with pytest.raises(Refuted, match=re.escape(expected)):
        list(assertions(XYZ + text))


def asserted(wanted: Problem, steps: int, formula: str) -> UnsatWitness:
    names = sorted(set(re.findall(r"\w+_\w+", formula.replace("at-most", ""))))
    return UnsatWitness(steps, "".join(f"(declare-fun {n} () Bool)" for n in names) + f"(assert {formula})")


FAR = moving(line(4), ({0}, {3}))
"""Links 0: 0->1, 1: 1->0, 2: 1->2, 3: 2->1, 4: 2->3, 5: 3->2; of four steps, one is to spare."""
FOLLOWS = [
    "has_0_0_0", "has_0_0_3", "has_0_3_4", "has_0_3_5", "(or (not send_0_2_2) has_0_1_2)",
    "(or (not send_0_2_2) (not has_0_2_2))", "(or (not send_0_2_2) has_0_2_3)", "(or (not send_0_2_2) met_1_2_1)",
    "(or (not send_0_2_2) met_2_1_0)", "(or (not send_0_2_3) met_1_2_1)", "(not send_0_2_0)",
    "(not send_0_0_4)", "(not send_0_1_2)", "(not has_0_1_0)",
    "(not has_0_3_2)", "(or (not has_0_1_2) has_0_1_3)", "(or (not has_0_1_2) has_0_1_1 send_0_0_1)",
    "(or (not has_0_1_1) send_0_0_0)", "(or (not has_0_1_3) has_0_1_2 send_0_0_2 send_0_3_2)",
    "(or (not has_0_2_2) send_0_2_1)", "(or has_0_2_2 has_0_0_0)", "(or send_0_2_2 (not send_0_2_0))",
    "((_ at-most 2) send_0_0_0 send_0_2_1)",
]  # fmt: skip
DOES_NOT = [
    "has_0_1_0", "has_0_1_1", "has_0_3_3", "has_0_2_4", "(or (not send_0_2_2) has_0_1_1)",
    "(or (not send_0_2_2) has_0_1_3)", "(or (not send_0_2_2) (not has_0_2_3))",
    "(or (not send_0_2_2) (not has_0_1_2))", "(or (not send_0_2_2) has_0_2_2)", "(or (not send_0_2_2) has_0_2_4)",
    "(or (not send_0_2_2) met_1_2_0)", "(or (not send_0_2_2) met_2_1_1)", "(not send_0_2_1)", "(not send_0_0_0)",
    "(not send_0_0_3)", "(not has_0_0_0)", "(not has_0_1_1)", "(not has_0_3_3)", "(or (not has_0_1_2) has_0_1_4)",
    "(or (not has_0_1_2) has_0_1_1)", "(or (not has_0_1_2) send_0_0_1)",
    "(or (not has_0_1_3) has_0_1_2 send_0_0_2)",
    "(or (not has_0_1_3) has_0_1_2 send_0_3_2)", "(not has_0_0_2)", "send_0_0_0", "met_0_1_1", "(not met_0_1_1)",
    "false", "(or (not has_0_2_2) send_0_2_2)", "(or (not has_0_2_2) send_0_2_0)",
]  # fmt: skip


@pytest.mark.parametrize("formula", FOLLOWS)
def test_what_follows(formula: str) -> None:
    check(query.query_steps, FAR, asserted(FAR, 4, formula), 5)


@pytest.mark.parametrize("formula", DOES_NOT)
def test_what_does_not_follow(formula: str) -> None:
    expected = "the query asserts what does not follow from the problem: "
    check(query.query_steps, FAR, asserted(FAR, 4, formula), expected)


def test_of_what_cannot_be_reached_in_time_anything_follows() -> None:
    check(query.query_steps, FAR, asserted(FAR, 2, "false"), 3)
    check(query.query_steps, FAR, asserted(FAR, 3, "false"), "problem: false")
    one_of_two = moving(line(4), ({0}, {0}), ({0}, {3}))
    check(query.query_steps, one_of_two, asserted(one_of_two, 2, "false"), 3)
    check(query.query_steps, FAR, asserted(FAR, 2, "send_0_0_0"), "problem: send_0_0_0")


def shared() -> Problem:
    """Links 0: 0->1, 1: 0->2, 2: 1->0, 3: 1->2, 4: 2->0, 5: 2->1; what leaves rank 0 shares a bus of three, and
    all links but the last share one of four."""
    graph: Graph = full(3)
    graph.groups += [Resource("bus", (0, 1), 3), Resource("all", (0, 1, 2, 3, 4), 4)]
    return problem(graph, "allgather", 3)


def most(limit: int, *names: str) -> str:
    return f"((_ at-most {limit}) {' '.join(names)})"


BUS = [f"send_{k}_{a}_1" for k in range(3) for a in (0, 1)]
TO_2 = ["send_0_1_0", "send_0_3_0"]
FROM_0 = ["send_0_0_0", "send_0_1_0"]
PEERS = ["met_0_1_1", "met_0_2_1"]
EXCLUSIVE = replace(shared(), exclusive_reduction=True)
FEW = replace(shared(), max_peers=1)
COUNTS: list[tuple[Problem, str, str]] = [
    (shared(), most(3, *BUS), ""), (shared(), most(2, *BUS), "limits to 2 what no law"),
    (shared(), most(4, *BUS), ""),
    (shared(), most(4, *BUS, "send_0_2_1"), ""), (shared(), most(3, *BUS, "send_0_2_1"),
    "limits to 3 what no law"),
    (shared(), most(6, *BUS, "send_0_5_1"), "limits to 6 what no law"), (shared(), most(7, *BUS, "send_0_5_1"),
    ""),
    (shared(), most(1, "send_0_5_0", "send_1_5_0"), ""), (shared(), most(0, "send_0_5_0", "send_1_5_0"), "no law"),
    (shared(), most(0, "send_0_5_0"), "no law"),
    (shared(), most(3, *BUS[:-1], "send_2_1_0"), "sends of different steps together"),
    (shared(), most(1, *TO_2), ""), (shared(), most(0, *TO_2), "limits to 0 what no law"),
    (shared(), most(1, "send_0_1_0", "send_1_3_0"), "limits to 1 what no law"),
    (shared(), most(1, *FROM_0), "limits to 1 what no law"), (EXCLUSIVE, most(1, *FROM_0), ""),
    (EXCLUSIVE, most(1, "send_0_0_0", "send_1_1_0"), "no law"), (EXCLUSIVE, most(1, "send_0_0_0", "send_0_3_0"),
    "no"),
    (FEW, most(1, *PEERS), ""), (FEW, most(0, *PEERS), "limits peers"), (shared(), most(1, *PEERS),
    "limits peers"),
    (replace(FEW, max_peers=2), most(1, *PEERS), "limits peers"), (FEW, most(1, "met_0_1_0", "met_0_2_0"), ""),
    (FEW, most(1, "met_0_1_1", "met_0_2_0"), "limits peers"), (FEW, most(1, "met_0_1_1", "met_1_2_1"),
    "limits peers"),
    (FEW, most(1, "met_0_1_1", "send_0_0_0"), "counts something that is not sent"),
    (FEW, most(1, "has_0_1_1", "has_0_2_1"), "counts something that is not sent"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(COUNTS)))
def test_counts(case: int) -> None:
    wanted, formula, message = COUNTS[case]
    check(query.query_steps, wanted, asserted(wanted, 3, formula), message or 4)


def sums(*groups: Resource) -> SumFacts:
    """An allreduce of three ranks, whose links 0 and 1 lead to rank 2."""
    ends = (0, 2), (1, 2), (2, 0), (2, 1)
    arcs = tuple(Arc(*pair, 3) for pair in ends)
    goal = collective("allreduce", 3, 1, None)
    return SumFacts(Problem(3, 3, (), arcs, groups, goal, exclusive_reduction=True), 4)


def test_a_count_of_what_is_not_sent_is_refuted() -> None:
    """Ranks 0 and 1 look like links to the same rank."""
    with pytest.raises(Refuted, match="something that is not sent"):
        sums().check_count(AtMost(("new_0_0_0_1", "new_0_0_1_1"), 1))


def test_the_narrowest_resource_limits_a_count() -> None:
    facts = sums(Resource("narrow", (0,), 1))
    facts.check_count(AtMost(("send_0_0_1", "send_1_0_1"), 1))
    with pytest.raises(Refuted, match="what no law"):
        sums().check_count(AtMost(("send_0_0_1", "send_1_0_1"), 1))
