"""A recipe whose fields have other types than a schedule's."""

from __future__ import annotations

import pytest

from hetesynth.engine.recipe import Recipe, recipe_in
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import ScheduleDocument
from hetesynth.model.schedule import Schedule

GOOD = Recipe(
    by_time=False, size=None, chunks=1, chunk_bytes=None, tau_ref="slowest", rounding="ceil", exclusion="auto",
    max_peers=None, targets=("portable",), runtime_costs=True, programs=True, way="steps",
)  # fmt: skip


@pytest.mark.parametrize("name", sorted(GOOD.plain()))
@pytest.mark.parametrize("value", [{}, [{}], [[]], [None], True, "x" * 50, -1])
def test_a_field_of_another_type_is_refused(name: str, value: object) -> None:
    header = {"recipe": {**GOOD.plain(), name: value}}
    document = ScheduleDocument("allgather", 2, 1, None, (), Schedule.of([], 0), header)
    if value is True and name in ("by_time", "runtime_costs", "programs"):
        recipe_in(document, "x.json")
        return
    if name == "turn" and value == -1:
        return
    with pytest.raises(HetesynthError, match="recipe in its header"):
        recipe_in(document, "x.json")
