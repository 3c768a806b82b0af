"""The registry of strategies: a row each, from which help, ``hetesynth strategies`` and tuning runs take them.

A row is plain data, so that reading the table loads no solver; ``strategy`` and ``timed_strategies`` import the
code that a row names. A strategy counts steps or seconds. One that counts seconds is made for the rates of a
cluster and the size of a chunk, so it needs to know the size of the buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED, CollectiveName

if TYPE_CHECKING:
    from hetesynth.synthesis.strategy import Strategy
    from hetesynth.synthesis.timed.earliest_arrival import Rates

Objective = Literal["steps", "time"]

TO_EVERYBODY = tuple(name for name in COLLECTIVE_NAMES if name not in PERSONALIZED)
PRICES = tuple((f"earliest arrival, price {price:g}", price) for price in (0.0, 0.5, 1.0))


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """One strategy.

    ``summary``: what it does; ``source``: who described it; ``accepts``: the collectives that it may solve.
    ``code``: ``module:attribute``. The attribute is a ``Strategy`` where steps are counted, else a function from
    ``Rates`` to a ``Strategy``; ``variants``: the labels and second arguments with which that function is called,
    if there are several. ``library``: whether it models what communication libraries do. ``candidate``: whether
    ``auto`` tries it where a size is given. ``max_transfers``: of a candidate. ``every_chunking``: whether
    candidates that count seconds are made with every choice of capacities, not only with the paper's.
    """

    name: str
    summary: str
    source: str
    code: str
    objective: Objective = "steps"
    accepts: tuple[CollectiveName, ...] = COLLECTIVE_NAMES
    library: bool = False
    candidate: bool = True
    variants: tuple[tuple[str, float], ...] = ()
    max_transfers: int | None = None
    every_chunking: bool = False


ROWS: tuple[StrategyRow, ...] = (
    StrategyRow(
        "auto", "direct, greedy, then tree packing, neighbourhood search and cegis where they can help",
        "hetesynth", "hetesynth.synthesis.auto:AUTO", candidate=False,
    ),
    StrategyRow(
        "greedy", "rounds of list scheduling under prices on resources", "HeteCCL appendix H; PathFinder",
        "hetesynth.synthesis.greedy.greedy:STRATEGY",
    ),
    StrategyRow(
        "trees", "balanced trees, list-scheduled", "Aspnes et al. 1997; Graham 1966",
        "hetesynth.synthesis.trees.balanced_trees:STRATEGY", accepts=TO_EVERYBODY,
    ),
    StrategyRow(
        "tree-packing", "packed trees, a linear program for each step", "ForestColl, section 5; PathFinder",
        "hetesynth.synthesis.trees.packed_trees:STRATEGY", accepts=TO_EVERYBODY,
    ),
    StrategyRow(
        "direct", "one link per chunk, a linear program per step", "hetesynth",
        "hetesynth.synthesis.greedy.direct:STRATEGY", accepts=PERSONALIZED,
    ),
    StrategyRow(
        "cegis", "one greedy round, then Z3 with laws learned from counterexamples", "HeteCCL 5.2, algorithm 1",
        "hetesynth.synthesis.auto:CEGIS", candidate=False,
    ),
    StrategyRow(
        "lns", "large-neighbourhood search: Z3 on the part of a schedule around a bottleneck", "HeteCCL 5.2",
        "hetesynth.synthesis.auto:LNS", candidate=False,
    ),
    StrategyRow(
        "monolithic", "the monolithic model: every law at once", "SCCL section 3",
        "hetesynth.synthesis.auto:MONOLITHIC", candidate=False,
    ),
    StrategyRow(
        "ring", "rings, one a channel", "NCCL",
        "hetesynth.synthesis.baselines.table:RING", library=True,
    ),
    StrategyRow(
        "double-tree", "double binary trees", "NCCL",
        "hetesynth.synthesis.baselines.table:DOUBLE_TREE", library=True,
    ),
    StrategyRow(
        "sph", "shortest paths, whatever the load", "SCALE-CCL's evaluation",
        "hetesynth.synthesis.baselines.table:SHORTEST_PATHS", library=True,
    ),
    StrategyRow(
        "all-pairs", "everything straight to its receiver", "SCALE-CCL's evaluation",
        "hetesynth.synthesis.baselines.table:ALL_PAIRS", library=True,
    ),
    StrategyRow(
        "doubling", "recursive doubling and halving", "Thakur et al. 2005",
        "hetesynth.synthesis.baselines.table:DOUBLING", library=True,
    ),
    StrategyRow(
        "server-rings", "rings of servers whose NICs keep their peers", "hetesynth",
        "hetesynth.synthesis.baselines.table:SERVER_RINGS", library=True,
    ),
    StrategyRow(
        "hierarchical", "between servers, then inside them", "SCALE-CCL's evaluation",
        "hetesynth.synthesis.baselines.table:HIERARCHICAL", library=True,
    ),
    StrategyRow(
        "timed", "earliest arrival first, with prices on load", "TACOS; PathFinder",
        "hetesynth.synthesis.timed.earliest_arrival:timed_strategy", "time",
        variants=PRICES, max_transfers=70_000,
    ),
    StrategyRow(
        "exchange", "balanced paths in seconds, the longest first", "Aspnes et al. 1997; Jackson 1955",
        "hetesynth.synthesis.timed.balanced_paths:exchange_strategy", "time",
        accepts=PERSONALIZED, every_chunking=True,
    ),
    StrategyRow(
        "timed-trees", "balanced trees, listed in seconds", "Aspnes et al. 1997; Graham 1966",
        "hetesynth.synthesis.timed.timed_trees:timed_trees_strategy", "time", accepts=TO_EVERYBODY,
    ),
    StrategyRow(
        "negotiated", "earliest arrival with negotiated loads, listed anew", "PathFinder; Graham 1966",
        "hetesynth.synthesis.timed.negotiated_load:negotiated_strategy", "time", max_transfers=70_000,
    ),
)  # fmt: skip


def names(objective: Objective) -> list[str]:
    """The strategies that count steps, or seconds, in the order of the table."""
    return [row.name for row in ROWS if row.objective == objective]


def row_of(name: str) -> StrategyRow:
    """The row of ``name``. Raises HetesynthError HS305 when there is none."""
    for row in ROWS:
        if row.name == name:
            return row
    raise HetesynthError(
        f"there is no strategy {name!r}", code="HS305", help=f"use one of {', '.join(names('steps'))}"
    )


def demand_strategy(name: str, *, sized: bool) -> None:
    """Raises HetesynthError HS305 where there is no such strategy, or only one for a size and there is none."""
    if row_of(name).objective == "time" and not sized:
        raise HetesynthError(
            f"strategy {name} counts seconds, so it needs to know the size of the buffer",
            code="HS305",
            help="add --size, or use --strategy auto",
        )


def strategy(name: str) -> Strategy:
    """The strategy called ``name``. Raises HetesynthError when there is none that counts steps."""
    demand_strategy(name, sized=False)
    found: Strategy = _code(row_of(name))
    return found


def timed_strategies(row: StrategyRow, rates: Rates) -> list[tuple[str, Strategy]]:
    """The variants of a strategy that counts seconds, made for ``rates``, each with its label."""
    factory: Callable[..., Strategy] = _code(row)
    return [(label, factory(rates, number)) for label, number in row.variants] or [(row.name, factory(rates))]


def _code(row: StrategyRow) -> Any:
    """What the row's ``code`` names; its module is imported now."""
    module, _, attribute = row.code.partition(":")
    return getattr(import_module(module), attribute)
