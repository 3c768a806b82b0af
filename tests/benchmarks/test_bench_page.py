"""Rows, tables and the fit from made-up measurements; nothing is run."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from benchmarks.cases import Case, Goal
from benchmarks.growth import power_law
from benchmarks.machine import PACKAGES, machine
from benchmarks.measure import Process, Row, row
from benchmarks.page import page, plain, table
from benchmarks.run import Report

CASE = Case("paper", "h20_4p8", 12, "allgather", 1, Goal(2, 0), 2)
OK = Row(
    CASE, "ok", steps=3, bound=3, method="flow", proof="a flow", first=0.1, work=0.4, total=0.9, cpu=0.8,
    megabytes=101.4, phases={"search": 0.2},
)  # fmt: skip
SAID = {
    "steps": 5, "lower_bound": 4, "bound_method": "cut", "bound_proof": "yes", "bound_within_composition": None,
    "first_schedule_seconds": 0.5, "seconds": 1.5,
    "seconds_by_phase": {"parse": 0.25, "chunking": 0.25, "search": 0.75, "bound": 0.25},
}  # fmt: skip


def done(output: str = json.dumps(SAID), code: int = 0, errors: str = "", *, hung: bool = False) -> Process:
    return Process(code, 1.75, 1.5, 64.0, output, errors, hung)


def report(*rows: Row, complete: bool = True, whole: bool = True) -> Report:
    facts = {"processor": "one", "cores": "2"}
    return Report(rows, facts, "2026-01-02", 12.0, ("0.1", "0.2"), whole, complete)


def test_a_row_has_what_the_command_said_and_what_was_seen_from_outside() -> None:
    made = row(CASE, done())
    assert made.status == "ok"
    assert (made.steps, made.bound, made.gap, made.method) == (5, 4, 1, "cut")
    assert made.first == 1.25  # the search's half a second after reading, chunking and bounds
    assert (made.work, made.total, made.cpu, made.megabytes) == (1.5, 1.75, 1.5, 64.0)
    assert made.misses == ("steps",)


@pytest.mark.parametrize(
    ("process", "words"),
    [
        (done(code=70, errors="internal error: x\n  please report"), "exit code 70: internal error: x"),
        (done(code=-9), "exit code -9: no message"),
        (done(output="{"), "not understood"),
        (done(output="{}"), "not understood: KeyError: 'seconds_by_phase'"),
        (done(hung=True), "killed after 2 s"),
    ],
)
def test_what_fails_is_a_row_that_says_so(process: Process, words: str) -> None:
    made = row(CASE, process)
    assert made.status == "failed" and words in made.error
    assert made.misses == ("failed",)
    assert words in table([made])


@pytest.mark.parametrize(
    ("change", "misses"),
    [
        ({}, ()),
        ({"steps": 4}, ("steps",)),
        ({"total": 2.1}, ("seconds",)),
        ({"steps": 4, "total": 2.1}, ("steps", "seconds")),
    ],
)
def test_what_is_missed(change: dict[str, float], misses: tuple[str, ...]) -> None:
    assert replace(OK, **change).misses == misses  # type: ignore[arg-type]


def test_memory_is_a_goal_where_it_is_asked_for() -> None:
    case = replace(CASE, goal=Goal(10, percent=3, megabytes=100))
    assert replace(OK, case=case).misses == ("memory",)


def test_a_gap_that_is_only_to_be_stated_is_stated() -> None:
    stated = replace(OK, case=replace(CASE, goal=Goal(10)), steps=5)
    assert stated.misses == ()
    assert ",yes (gap 2)" in table([stated])


def test_the_table_has_a_line_for_every_row() -> None:
    lines = table([OK, replace(OK, steps=4), Row(CASE, "not run", "interrupted")]).splitlines()
    assert lines[0] == "table,case,ranks,chunks,steps,bound,proof,first_s,total_s,cpu_s,MB,goal,met"
    assert lines[1] == 'paper,h20_4p8 allgather,12,1,3,3,flow,0.10,0.90,0.80,101,"bound, 2 s",yes'
    assert lines[2].endswith(",no: steps (gap 1)")
    assert lines[3].endswith(",not run: interrupted")


def test_the_page_tells_all() -> None:
    text = page(report(OK, replace(OK, steps=4)))
    for words in ("one", "2026-01-02", "33990", "1 of 2", "## Goals missed", "no: steps"):
        assert words in text
    assert "Incomplete" not in text and "selection of the cases" not in text


def test_a_page_made_on_a_busy_machine_says_so() -> None:
    made = report(OK)
    assert "other work during this run" not in page(made)
    assert "other work during this run" not in page(replace(made, loads=("unknown", "unknown")))
    assert "other work during this run" in page(replace(made, loads=("0.3", "3.9")))


def test_an_unfinished_page_says_so() -> None:
    text = page(report(OK, Row(CASE, "not run", "interrupted"), complete=False, whole=False))
    assert "Incomplete" in text and "selection of the cases" in text


def growing(exponent: float) -> list[Row]:
    sizes = (16, 64, 256, 1024)
    return [
        replace(OK, case=replace(CASE, section="growth", ranks=n, goal=None), total=0.01 * n**exponent, work=0.5)
        for n in sizes
    ]


def test_the_page_and_the_object_have_the_exponent() -> None:
    made = report(*growing(1.75))
    assert "power **1.75** (4 points, R2 = 1.000)" in page(made)
    assert plain(made)["growth"]["total"]["exponent"] == pytest.approx(1.75)
    assert plain(made)["growth"]["work"]["exponent"] == pytest.approx(0)
    assert (plain(made)["goals"], plain(made)["goals_met"]) == (0, 0)


def test_the_object_is_json_with_every_row() -> None:
    text = json.dumps(plain(report(OK, Row(CASE, "failed", "exit code 1: no"))))
    rows = json.loads(text)["rows"]
    assert [r["status"] for r in rows] == ["ok", "failed"]
    assert rows[0]["goal"] == "bound, 2 s" and rows[0]["phases"] == {"search": 0.2} and rows[0]["misses"] == []


def test_power_law_through_exact_points() -> None:
    law = power_law([(2, 12), (4, 48), (8, 192)])
    assert law is not None
    assert (law.exponent, law.factor, law.r2, law.points) == pytest.approx((2, 3, 1, 3))


def test_power_law_is_the_least_squares_line() -> None:
    points = [(16, 1.0), (32, 1.1), (64, 2.9), (1024, 40.0)]
    law = power_law(points)
    assert law is not None

    def error(exponent: float, factor: float) -> float:
        return sum((math.log(y) - math.log(factor) - exponent * math.log(x)) ** 2 for x, y in points)

    best = error(law.exponent, law.factor)
    assert 0 < law.r2 < 1
    for step in (-0.01, 0.01):
        assert error(law.exponent + step, law.factor) > best
        assert error(law.exponent, law.factor * (1 + step)) > best


@pytest.mark.parametrize("points", [[], [(16.0, 1.0)], [(16.0, 1.0), (16.0, 2.0)], [(16.0, 0.0), (32.0, 1.0)]])
def test_no_power_law_through_less_than_two_sizes(points: list[tuple[float, float]]) -> None:
    assert power_law(points) is None


def test_the_machine_has_versions_of_what_computes() -> None:
    facts = machine()
    assert set(PACKAGES) <= set(facts) and {"z3-solver", "numpy", "scipy", "numba"} <= set(PACKAGES)
    assert all(facts.values())
