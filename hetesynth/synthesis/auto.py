"""The strategies that are put together from several techniques: auto, and those that end with Z3.

``auto`` composes: direct exchange where it applies, greedy rounds; where the bound is not met, windows on large
problems, and CEGIS where the model is small enough.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.problem import Problem
from hetesynth.model.verdict import Outcome
from hetesynth.synthesis.baselines.table import BASELINES
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.greedy import direct, greedy
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.trees import balanced_trees as trees
from hetesynth.synthesis.trees import packed_trees as packed

MAX_SENDS = 60_000  # Send variables of a model that auto still hands to Z3
FEW_SENDS = 10_000  # a small model, on which auto spends more
AUTO_RLIMIT = 2_000_000  # solver resource units that auto spends on one number of steps
AUTO_RLIMIT_FEW = 30_000_000
AUTO_RLIMIT_NEIGHBOURHOOD = 10_000_000
AUTO_TIME_NEIGHBOURHOOD = 0.5  # share of the time left that windows get when CEGIS is to follow
MAX_DELIVERIES = 200_000  # of a problem for windows; past it even laying them out takes too long
FEW_PEERS = ("hierarchical", "doubling", "server-rings", "ring")  # baselines, the most promising first
LAST = "sph"  # the baseline for where those refuse: it takes any cluster that few peers can join
MAX_SENDS_ASKED = 2_000_000  # of a model that is built when the user asks for it


def _cegis_module() -> ModuleType:
    from hetesynth.synthesis.smt import cegis

    return cegis


def _monolithic_module() -> ModuleType:
    from hetesynth.synthesis.smt import monolithic as whole

    return whole


def _exactly(
    name: str, module: Callable[[], ModuleType], **options: int
) -> Callable[[Search], LowerBound | None]:  # fmt: skip
    """The outer loop of an exact strategy; Z3 is imported when it runs, not before."""

    def improve(search: Search) -> LowerBound | None:
        from hetesynth.synthesis.smt.step_model import StepModel
        from hetesynth.synthesis.smt.step_search import raise_target

        synthesize = module().synthesize

        def decide(steps: int) -> tuple[Outcome, Callable[[], str]]:
            found: tuple[Outcome, StepModel | None] = synthesize(search, steps, **options)
            outcome, model = found
            return outcome, lambda: model.smt2() if model is not None else ""

        return raise_target(search, decide, name)

    return improve


def _cegis(search: Search) -> LowerBound | None:
    """Algorithm 1: one greedy round as the seed, then CEGIS."""
    greedy.improve(search, rounds=1)
    return None if search.done else _exactly("cegis", _cegis_module)(search)


def _windows(search: Search) -> LowerBound | None:
    """One greedy round as the schedule to shorten."""
    greedy.improve(search, rounds=1)
    if not search.done:
        _windowed(search)
    return None


def _windowed(search: Search, rlimit: int | None = None, share: float = 1.0) -> None:
    """Windows; Z3 is imported when they are opened, not before."""
    from hetesynth.synthesis.smt import neighbourhood_search as windows

    windows.improve(search, rlimit=rlimit, share=share)


def _crowded(problem: Problem) -> str | None:
    """Why a problem is too large even for windows, or None."""
    pairs = zip(problem.collective.pre, problem.collective.post, strict=True)
    wanted = sum(len(post - pre) for pre, post in pairs)
    return f"it has more than {MAX_DELIVERIES} deliveries ({wanted})" if wanted > MAX_DELIVERIES else None


def _auto(search: Search) -> LowerBound | None:
    direct.improve(search)
    if not search.done:
        greedy.improve(search)
    if search.best is None or (_tied_to_few(search.problem) and not search.done and not search.out_of_time()):
        _by_design(search)
    if not search.done and packed.refuses(search.problem) is None and not search.out_of_time():
        packed.improve(search)
    if not search.done:
        trees.improve(search)
    sends = _sends(search.problem, search.target)
    large = sends > FEW_SENDS and _crowded(search.problem) is None
    if large and not search.done and not search.out_of_time():
        share = AUTO_TIME_NEIGHBOURHOOD if sends <= MAX_SENDS else 1.0
        _windowed(search, AUTO_RLIMIT_NEIGHBOURHOOD, share)
    if search.done or sends > MAX_SENDS or search.out_of_time():
        return None
    return _exactly("cegis", _cegis_module, rlimit=AUTO_RLIMIT if sends > FEW_SENDS else AUTO_RLIMIT_FEW)(search)


def _tied_to_few(problem: Problem) -> bool:
    """Whether most chunks have to be relayed because ranks may not send to all others."""
    few = problem.max_peers is not None and problem.max_peers < problem.ranks - 1
    return few and problem.collective.name in PERSONALIZED


def _by_design(search: Search) -> None:
    """A baseline that needs few peers; greedy rounds may run out of them."""
    for found in (s for name in (*FEW_PEERS, LAST) for s in BASELINES if s.name == name):
        if found.refuses(search.problem) is None:
            found.improve(search)
            return


def _sends(problem: Problem, steps: int) -> int:
    """Upper estimate of the Send variables of a step model."""
    return len(problem.collective.chunks) * len(problem.arcs) * max(1, steps)


def _too_large(problem: Problem) -> str | None:
    sends = _sends(problem, _diameter(problem))
    if sends > MAX_SENDS_ASKED:
        return f"its model would have more than {MAX_SENDS_ASKED} variables ({sends})"
    return None


def _diameter(problem: Problem) -> int:
    hops = CopyProblem(problem).hops
    return max((h for row in hops for h in row if h < problem.ranks), default=1)


AUTO = Strategy("auto", _auto)
CEGIS = Strategy("cegis", _cegis, _too_large)
LNS = Strategy("lns", _windows, _crowded)
MONOLITHIC = Strategy("monolithic", _exactly("monolithic", _monolithic_module), _too_large)
