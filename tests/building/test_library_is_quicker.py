"""Where a library is quicker somewhere in the range of a cell, a build says so."""

from __future__ import annotations

from typing import Any

from hetesynth.building.library import beaten_by_library
from hetesynth.deployment.folder import DeployedCell


def cell(name: str, *factors: float | None, sizes: Any = None) -> DeployedCell:
    rows = [
        {"size": 10**k, "factor_over_library": f, "slower_than_library": f is not None and f < 0.999}
        for k, f in enumerate(factors, 3)
    ]
    return DeployedCell(name, "k", "k", {"sizes": rows if sizes is None else sizes}, {})


def test_nothing_is_said_where_no_library_is_quicker() -> None:
    assert beaten_by_library([]) == ""
    assert beaten_by_library([cell("a", 1.2, 1.0, None), cell("b", 2.0)]) == ""


def test_the_worst_cell_is_named_at_its_worst_size() -> None:
    said = beaten_by_library([cell("a", 1.2, 0.9), cell("b", 0.97, 0.5, 0.6), cell("c", 1.5)])
    assert said.startswith("2 of 3 cells are slower than the library somewhere in their range: the worst b, 0.50")
    assert "for 10 KB" in said
    assert "gates.factor_over_library" in said


def test_records_of_anybody_say_nothing() -> None:
    odd: list[Any] = [
        "none",
        3,
        [None, 3, {"slower_than_library": True}, {"slower_than_library": True, "size": 1}],
    ]
    assert beaten_by_library([cell("a", sizes=sizes) for sizes in odd]) == ""
