"""Programs in steady state: how one is carried along from the choice to the file.

In: a problem, a schedule along trees, a ``SteadyState``. Out: a predictor or the file of its program. Where a
target or a form of the collective cannot hold it, there is none, and the schedule is lowered step by step.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.compile.formats import Emitted, xml_of
from hetesynth.compile.predictors import CostOptions, ProgramPredictor
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import Lowered, LoweringOptions
from hetesynth.lowering.steady_state.lower import Arrangement, lower_steady_state
from hetesynth.model.cost import Costs
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Topology


@dataclass(frozen=True, slots=True)
class SteadyState:
    """``arrangement`` of the trees of a schedule, on links of ``costs``."""

    arrangement: Arrangement
    costs: Costs

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""
        a = self.arrangement
        return f"steady state, {a.pieces} pieces, {a.division} channels, turn {a.turn:g}"


def steady_emitted(
    problem: Problem, schedule: Schedule, steady: SteadyState | None, options: LoweringOptions
) -> Emitted | None:
    """The file of the program; None where ``steady`` is, or where the target cannot hold it."""
    if steady is None or options.target.format != "msccl-xml":
        return None
    lowered = _lowered(problem, schedule, steady, options)
    return None if lowered is None else xml_of(lowered, options)


def steady_predictor(
    topology: Topology, problem: Problem, schedule: Schedule, steady: SteadyState, options: LoweringOptions,
    costs: CostOptions,
) -> ProgramPredictor | None:  # fmt: skip
    """The predictor of the program, for any size; None where the target cannot hold it."""
    lowered = _lowered(problem, schedule, steady, options)
    return None if lowered is None else ProgramPredictor(topology, lowered.program, costs, options.target)


def _lowered(
    problem: Problem, schedule: Schedule, steady: SteadyState, options: LoweringOptions
) -> Lowered | None:
    try:
        return lower_steady_state(problem, schedule, steady.costs, steady.arrangement, options)
    except HetesynthError:
        return None
