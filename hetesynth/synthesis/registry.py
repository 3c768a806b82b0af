"""The strategies by name: one line each.

``auto`` composes: direct exchange where it applies, greedy rounds, then CEGIS where the bound is not met and the
model is small enough.
"""

from __future__ import annotations

from collections.abc import Callable

from hetesynth.errors import HetesynthError
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.model.verdict import Outcome
from hetesynth.synthesis import direct, greedy
from hetesynth.synthesis.baselines.table import BASELINES
from hetesynth.synthesis.dissemination import Dissemination
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

MAX_SENDS = 60_000  # Send variables of a model that auto still hands to Z3
FEW_SENDS = 10_000  # a small model, on which auto spends more
AUTO_RLIMIT = 2_000_000  # solver resource units that auto spends on one number of steps
AUTO_RLIMIT_FEW = 30_000_000
MAX_SENDS_ASKED = 2_000_000  # of a model that is built when the user asks for it


def _greedy(search: Search) -> LowerBound | None:
    greedy.improve(search)
    return None


def _exactly(module: str, **options: int) -> Callable[[Search], LowerBound | None]:
    """The outer loop of an exact strategy; Z3 is imported when it runs, not before."""

    def improve(search: Search) -> LowerBound | None:
        from importlib import import_module

        from hetesynth.synthesis.exact import raise_target
        from hetesynth.synthesis.step_model import StepModel

        synthesize = import_module(f"hetesynth.synthesis.{module}").synthesize

        def decide(steps: int) -> tuple[Outcome, Callable[[], str]]:
            found: tuple[Outcome, StepModel | None] = synthesize(search, steps, **options)
            outcome, model = found
            return outcome, lambda: model.smt2() if model is not None else ""

        return raise_target(search, decide, module)

    return improve


def _cegis(search: Search) -> LowerBound | None:
    """Algorithm 1: one greedy round as the seed, then CEGIS."""
    greedy.improve(search, rounds=1)
    return None if search.done else _exactly("cegis")(search)


def _direct(search: Search) -> LowerBound | None:
    direct.improve(search)
    return None


def _auto(search: Search) -> LowerBound | None:
    if direct.refuses(search.problem) is None:
        greedy.improve(search, rounds=1)
        direct.improve(search)
    if not search.done:
        greedy.improve(search)
    sends = _sends(search.problem, search.target)
    if search.done or search.out_of_time() or sends > MAX_SENDS:
        return None
    return _exactly("cegis", rlimit=AUTO_RLIMIT if sends > FEW_SENDS else AUTO_RLIMIT_FEW)(search)


def _sends(problem: Problem, steps: int) -> int:
    """Upper estimate of the Send variables of a step model."""
    return len(problem.collective.chunks) * len(problem.arcs) * max(1, steps)


def _too_large(problem: Problem) -> str | None:
    sends = _sends(problem, _diameter(problem))
    if sends > MAX_SENDS_ASKED:
        return f"its model would have more than {MAX_SENDS_ASKED} variables ({sends})"
    return None


def _diameter(problem: Problem) -> int:
    hops = Dissemination(problem).hops
    return max((h for row in hops for h in row if h < problem.ranks), default=1)


STRATEGIES: dict[str, Strategy] = {
    s.name: s
    for s in (
        Strategy("auto", "direct, greedy, then cegis where it can help", _auto),
        Strategy("greedy", "HeteCCL appendix H's seed, with negotiated prices", _greedy),
        Strategy("direct", "one link per chunk, a linear program per step", _direct, direct.refuses),
        Strategy("cegis", "HeteCCL 5.2, algorithm 1", _cegis, _too_large),
        Strategy("whole", "SCCL 3: the whole model at once", _exactly("whole"), _too_large),
        *BASELINES,
    )
}


def strategy(name: str) -> Strategy:
    """The strategy called ``name``. Raises HetesynthError when there is none."""
    if name not in STRATEGIES:
        raise HetesynthError(
            f"there is no strategy {name!r}", code="HS305", help=f"use one of {', '.join(STRATEGIES)}"
        )
    return STRATEGIES[name]
