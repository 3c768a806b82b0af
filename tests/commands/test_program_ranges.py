"""Which program is for which sizes: none is dominated by a sibling or slower than the library, few are used."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetesynth.engine.atlas import program_ranges, selected_ranges
from hetesynth.engine.time_verdict import ALIKE
from hetesynth.model.size_range import SizeRange

TOLERANCE = 0.01
times = st.one_of(st.integers(80, 120).map(float), st.just(math.inf))
tables = st.integers(1, 7).flatmap(
    lambda sizes: st.tuples(
        st.lists(st.lists(times, min_size=sizes, max_size=sizes), min_size=1, max_size=5),
        st.lists(times, min_size=sizes, max_size=sizes),
    )
)


def faults(seconds: list[list[float]], library: list[float], ranges: list[tuple[int, int, int]]) -> list[str]:
    """What is wrong with ``ranges``."""
    used = {j: i for first, last, i in ranges for j in range(first, last + 1)}
    siblings = set(used.values())
    found = [f"{j} is in two" for j in used if sum(first <= j <= last for first, last, _ in ranges) > 1]
    for j, limit in enumerate(library):
        if j in used:
            ours = seconds[used[j]][j]
            found += [f"slower than the library at {j}"] if limit < ours * (1 - ALIKE) else []
            found += [f"dominated at {j}"] if any(seconds[i][j] * 1.01 < ours for i in siblings) else []
        else:
            best = min(row[j] for row in seconds)
            found += [f"{j} is left"] if best < math.inf and limit >= best * (1 - ALIKE) else []
    return found


@settings(deadline=None)
@given(tables)
def test_no_file_is_dominated_and_none_is_slower_than_the_library(
    table: tuple[list[list[float]], list[float]],
) -> None:
    seconds, library = table
    assert faults(seconds, library, selected_ranges(seconds, library, TOLERANCE)) == []


@pytest.mark.parametrize(
    ("place", "worse"), [(0, "slower than the library at 0"), (2, "dominated at 2"), (3, "3 is left")]
)
def test_the_property_tells_a_wrong_choice(place: int, worse: str) -> None:
    """For sizes that were chosen by another table, in which one figure differs."""
    seconds, library = [[10.0, 10.0, 30.0, 50.0], [20.0, 20.0, 20.0, 20.0]], [15.0, 15.0, 25.0, 19.0]
    chosen = selected_ranges(seconds, library, TOLERANCE)
    assert chosen == [(0, 1, 0), (2, 2, 1)] and faults(seconds, library, chosen) == []
    changed = [row.copy() for row in seconds]
    changed[0][place] = {0: 16.0, 2: 15.0, 3: 18.0}[place]
    assert worse in faults(changed, library, chosen)


@settings(deadline=None)
@given(tables)
def test_no_fewer_ranges_would_do(table: tuple[list[list[float]], list[float]]) -> None:
    """Against every way to cut the sizes, by dynamic programming."""
    seconds, library = table
    best = [min(column) for column in zip(*seconds, strict=True)]

    def does(i: int, j: int) -> bool:
        ours = seconds[i][j]
        return ours < math.inf and ours <= best[j] * (1 + TOLERANCE) and library[j] >= ours * (1 - ALIKE)

    fewest = [0]
    for end in range(1, len(best) + 1):
        if not any(does(i, end - 1) for i in range(len(seconds))):
            fewest.append(fewest[-1])
            continue
        begins = (b for b in range(end) for i in range(len(seconds)) if all(does(i, j) for j in range(b, end)))
        fewest.append(min(1 + fewest[b] for b in begins))
    assert len(selected_ranges(seconds, library, TOLERANCE)) == fewest[-1]


class Line:
    """A member that takes ``latency`` and so much for each byte."""

    def __init__(self, latency: float, per_byte: float) -> None:
        self.latency, self.per_byte = latency, per_byte

    def seconds(self, size: int) -> float:
        return self.latency + self.per_byte * size


class Between:
    """A library that is quick from 1 MB to 16 MB, and of which nothing is known elsewhere."""

    def seconds(self, size: int) -> float:
        return 0.5 * size if 1_000_000 <= size <= 16_000_000 else math.inf


def ranges_of(asked: SizeRange, members: list[Line], library: Line | Between) -> list[tuple[SizeRange, int]]:
    """The ranges that lines have, as a pool of them."""
    sizes = asked.searched
    table: Any = SimpleNamespace(
        sizes=sizes,
        members=members,
        seconds=[[m.seconds(size) for size in sizes] for m in members],
        library=[library.seconds(size) for size in sizes],
    )  # fmt: skip
    return program_ranges(table, asked, library.seconds)


def test_borders_are_where_lines_cross() -> None:
    slow_start, quick_start, never = Line(1000.0, 0.001), Line(10.0, 0.01), Line(2000.0, 0.1)
    asked = SizeRange(0, None, "")
    (first, i), (second, j) = ranges_of(asked, [slow_start, quick_start, never], Line(math.inf, 0.0))
    assert (i, j, first.low, second.high) == (1, 0, 0, None)
    assert first.high == second.low == pytest.approx(110_000, rel=0.01) and not first.closed
    assert first.high == 110_000 and second.text == "110KB.."


def test_where_the_library_is_quicker_there_is_no_range() -> None:
    line = [Line(0.0, 1.0)]
    (first, _), (second, _) = ranges_of(SizeRange(4000, 256_000_000, ""), line, Between())
    assert (first.low, second.high, first.closed, second.closed) == (4000, 256_000_000, True, True)
    assert first.high is not None and 980_000 < first.high <= 1_000_000
    assert 16_000_000 <= second.low < 16_200_000
    assert ranges_of(SizeRange(2_000_000, 8_000_000, ""), line, Between()) == []
    (only, _), *more = ranges_of(SizeRange(2_000_000, None, ""), line, Between())
    assert (only.high, more) == (None, []) and 16_000_000 <= only.low < 16_200_000


def test_ranges_lie_in_what_was_asked_for_and_meet() -> None:
    asked = SizeRange(4000, 256_000_000, "", closed=False)
    found = ranges_of(asked, [Line(k * 1000.0, 1.0 / (k + 1)) for k in range(6)], Line(math.inf, 0.0))
    assert len(found) > 2
    assert (found[0][0].low, found[-1][0].high, found[-1][0].closed) == (4000, 256_000_000, False)
    for (before, _), (after, _) in pairwise(found):
        assert before.high == after.low
        assert before.calls("allreduce", 8)[1] + 1 == after.calls("allreduce", 8)[0]
