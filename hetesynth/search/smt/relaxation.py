"""The linear relaxation of counts over Boolean variables: which of them a linear program uses.

In: at-most and at-least constraints and a cost for each variable. Out: a cheapest solution between zero and one,
or that there is none, and then no Boolean one either. Counts that pair senders with receivers are hard for a
solver that learns clauses and easy here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

NEARLY = 1e-6
ANY = 1e6  # relative gap: the first solution will do


@dataclass(frozen=True, slots=True)
class Row:
    """Of ``variables``, numbered from 0, at most, or at least, so many hold."""

    variables: tuple[int, ...]
    most: int | None = None
    least: int | None = None


def cheapest(
    variables: int, rows: Sequence[Row], costs: Sequence[float], *, most_nodes: int = 0
) -> tuple[list[int], list[int]] | None:
    """The variables above zero in a cheapest solution, and those at one; None: the rows contradict each other.

    ``most_nodes``: of a branch and bound for some solution of zeros and ones, then None says nothing; 0: none.
    """
    import highspy

    model: Any = highspy.HighsLp()
    model.num_col_, model.num_row_ = variables, len(rows)
    model.col_cost_ = np.asarray(costs, dtype=np.float64)
    model.col_lower_, model.col_upper_ = np.zeros(variables), np.ones(variables)
    model.row_lower_ = np.array(
        [-highspy.kHighsInf if row.least is None else row.least for row in rows], dtype=float
    )
    model.row_upper_ = np.array([highspy.kHighsInf if row.most is None else row.most for row in rows], dtype=float)
    used = np.array([v for row in rows for v in row.variables], dtype=np.int32)
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(row.variables) for row in rows)]).astype(np.int32)
    model.a_matrix_.index_ = used
    model.a_matrix_.value_ = np.ones(len(used))
    make: Any = highspy.Highs
    solver = make()
    for option, value in (("output_flag", False), ("threads", 1), ("solver", "simplex"), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    if most_nodes:
        model.integrality_ = [highspy.HighsVarType.kInteger] * variables
        solver.setOptionValue("mip_max_nodes", most_nodes)
        solver.setOptionValue("mip_rel_gap", ANY)
    solver.passModel(model)
    solver.run()
    solved = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    if not solved and not (
        most_nodes and solver.getInfo().primal_solution_status == highspy.kSolutionStatusFeasible
    ):
        return None
    values = np.array(solver.getSolution().col_value)
    return np.flatnonzero(values > NEARLY).tolist(), np.flatnonzero(values > 1.0 - NEARLY).tolist()
