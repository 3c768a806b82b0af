"""A cell has no limit of time, so the clock decides nothing; where it did, there is no result to be kept."""

import math
from dataclasses import replace
from typing import Any, cast

import pytest
from support.cell_digests import cell_job
from support.cell_variants import example

from hetesynth.deploy import compute
from hetesynth.engine.artifacts import Synthesis
from hetesynth.errors import InternalError
from hetesynth.search.smt.clauses import unsatisfiable

PIGEONS, HOLES = 9, 8


def _pigeons() -> str:
    """More pigeons than holes, as SMT-LIB 2: hard for a solver of clauses."""
    names = [[f"p{i}_{j}" for j in range(HOLES)] for i in range(PIGEONS)]
    lines = [f"(declare-fun {name} () Bool)" for row in names for name in row]
    lines += [f"(assert (or {' '.join(row)}))" for row in names]
    for j in range(HOLES):
        column = [row[j] for row in names]
        lines += [f"(assert (or (not {a}) (not {b})))" for i, a in enumerate(column) for b in column[:i]]
    return "\n".join([*lines, "(check-sat)"])


def test_a_recheck_is_limited_by_work() -> None:
    """Without a time limit the solver's units end it."""
    assert unsatisfiable(_pigeons(), math.inf, units=1000) is None
    assert unsatisfiable("(declare-fun x () Bool)(assert x)(assert (not x))", math.inf, units=100_000) is True


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"decided_by_clock": ("search",)}, InternalError),
        ({"cut_short": True, "ending": "interrupt"}, KeyboardInterrupt),
    ],
)
def test_what_the_clock_decided_is_no_result(
    changed: dict[str, Any], error: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing goes to the cache that another run would not make."""
    true_synthesis = compute.synthesize

    def hurried(*arguments: Any) -> Synthesis:
        return cast(Synthesis, replace(true_synthesis(*arguments), **changed))

    monkeypatch.setattr(compute, "synthesize", hurried)
    with pytest.raises(error):
        compute.compute(cell_job([example("ring8"), "allgather", "mscclpp", 1]))
