"""The registry of strategies: a row each, from which help, ``hetesynth strategies`` and tuning runs take them.

A row is plain data, so that reading the table loads no solver. A strategy counts steps or seconds. One that counts
seconds is made for the rates of a cluster and the size of a chunk, so it needs to know the size of the buffer.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED, ROOTED, CollectiveName
from hetesynth.search.search import Strategy

Objective = Literal["steps", "time"]

TO_EVERYBODY = tuple(name for name in COLLECTIVE_NAMES if name not in PERSONALIZED)
FROM_EVERYBODY = tuple(name for name in TO_EVERYBODY if name not in ROOTED)


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """A row of the registry. ``summary``: what it does; ``source``: who described it; ``accepts``: the collectives
    that it may solve. ``code``: ``module:attribute``. The attribute is a ``Strategy`` where steps are counted,
    else a function from ``Rates`` to a ``Strategy``; ``prices``: the second arguments of that function, if there
    are several. ``library``: True if it models communication libraries. ``at_once``: True if several values are
    added in one step, which programs put in order. What ``auto`` tries stands in ``search/auto.py``."""

    name: str
    summary: str
    source: str
    code: str
    objective: Objective = "steps"
    accepts: tuple[CollectiveName, ...] = COLLECTIVE_NAMES
    library: bool = False
    prices: tuple[float, ...] = ()
    at_once: bool = False


ROWS: tuple[StrategyRow, ...] = (
    StrategyRow("auto", "direct, greedy, tree packing and cegis, as rules say", "hetesynth",
                "hetesynth.search.auto:AUTO"),
    StrategyRow("greedy", "rounds of list scheduling under prices on resources", "HeteCCL appendix H; PathFinder",
                "hetesynth.search.greedy.greedy:STRATEGY"),
    StrategyRow("tree-packing", "packed trees, a linear program for each step",
                "ForestColl, section 5; PathFinder", "hetesynth.search.trees.packed_trees:STRATEGY",
                accepts=TO_EVERYBODY),
    StrategyRow("direct", "one link per chunk, a linear program per step", "hetesynth",
                "hetesynth.search.greedy.direct:STRATEGY", accepts=PERSONALIZED),
    StrategyRow("flow", "chunks for one rank each as an integer flow over the steps, by HiGHS",
                "TE-CCL 4.1; SCCL section 3", "hetesynth.search.step_flow:STRATEGY", accepts=PERSONALIZED),
    StrategyRow("cegis", "repair of a candidate from checkpoint to checkpoint, Z3 where laws are broken",
                "HeteCCL 5.2, algorithm 1", "hetesynth.search.auto:CEGIS"),
    StrategyRow("repair", "a schedule of the cluster before a change, mended: hetesynth repair",
                "Aspnes et al. 1997; Kolisch 1996", "hetesynth.search.repair:STRATEGY"),
    StrategyRow("monolithic", "the monolithic model: every law at once", "SCCL section 3",
                "hetesynth.search.auto:MONOLITHIC"),
    StrategyRow("contributions", "an allreduce in one model: who has whose contribution",
                "SCCL section 3", "hetesynth.search.smt.contributions:STRATEGY", accepts=("allreduce",)),
    StrategyRow("composition", "pods: between them by rings or doubling, inside each type solved once",
                "HeteCCL, section 7", "hetesynth.search.pods.strategy:STRATEGY", accepts=FROM_EVERYBODY),
    StrategyRow("ring", "rings, one a channel", "NCCL", "hetesynth.search.baselines.table:RING", library=True),
    StrategyRow("double-tree", "double binary trees", "NCCL", "hetesynth.search.baselines.table:DOUBLE_TREE",
                library=True),
    StrategyRow("sph", "shortest paths, whatever the load", "SCALE-CCL's evaluation",
                "hetesynth.search.baselines.table:SHORTEST_PATHS", library=True),
    StrategyRow("all-pairs", "every chunk straight to its receiver", "SCALE-CCL's evaluation",
                "hetesynth.search.baselines.table:ALL_PAIRS", library=True),
    StrategyRow("doubling", "recursive doubling and halving", "Thakur et al. 2005",
                "hetesynth.search.baselines.table:DOUBLING", library=True),
    StrategyRow("server-rings", "rings of servers whose NICs keep their peers", "hetesynth",
                "hetesynth.search.baselines.table:SERVER_RINGS", library=True, accepts=TO_EVERYBODY),
    StrategyRow("hierarchical", "between servers, then inside them", "SCALE-CCL's evaluation",
                "hetesynth.search.baselines.table:HIERARCHICAL", library=True),
    StrategyRow("timed", "earliest arrival first, with prices on load", "TACOS; PathFinder",
                "hetesynth.search.timed.earliest_arrival:timed_strategy", "time", prices=(0.0, 0.5, 1.0)),
    StrategyRow("matching", "free links matched with chunks that receivers lack, at random", "TACOS",
                "hetesynth.search.timed.matching:matching_strategy", "time", accepts=TO_EVERYBODY),
    StrategyRow("crossing", "sums that cross each slow fabric once, traded between pairs of groups", "hetesynth",
                "hetesynth.search.baselines.crossing:crossing_strategy", "time", accepts=("allreduce",)),
    StrategyRow("trading", "sums that all servers trade at once, in one crossing", "hetesynth",
                "hetesynth.search.baselines.crossing:trading_strategy", "time", accepts=("allreduce",),
                at_once=True),
    StrategyRow("steady-state", "the packing of trees that loads the fullest resource least, in whole chunks",
                "Edmonds 1967; Beaumont et al. 2005; ForestColl",
                "hetesynth.search.steady_state:steady_state_strategy", "time", accepts=TO_EVERYBODY),
    StrategyRow("exchange", "balanced paths in seconds, the longest first", "Aspnes et al. 1997; Jackson 1955",
                "hetesynth.search.timed.list_scheduling:exchange_strategy", "time", accepts=PERSONALIZED),
    StrategyRow("timed-trees", "balanced trees, list-scheduled in seconds", "Aspnes et al. 1997; Graham 1966",
                "hetesynth.search.timed.list_scheduling:timed_trees_strategy", "time", accepts=TO_EVERYBODY),
    StrategyRow("wan", "chunks forwarded between data centres event by event, to where they are soonest",
                "SCALE-CCL section 4", "hetesynth.search.timed.wan:wan_strategy", "time", accepts=TO_EVERYBODY),
    StrategyRow("negotiated", "earliest arrival with negotiated loads, then list scheduling",
                "PathFinder; Graham 1966", "hetesynth.search.timed.list_scheduling:negotiated_strategy", "time"),
    StrategyRow("te-ccl", "a flow over epochs of time, solved as a whole or in rounds", "TE-CCL",
                "hetesynth.search.timed.te_ccl:te_ccl_strategy", "time"),
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
        f"there is no strategy {name!r}",
        code="HS305",
        help=did_you_mean(name, [row.name for row in ROWS], f"use one of {', '.join(names('steps'))}"),
    )


def demand_strategy(name: str, *, sized: bool) -> None:
    """Raise HetesynthError HS305 if there is no strategy ``name``, or it needs a size and none is given."""
    if row_of(name).objective == "time" and not sized:
        raise HetesynthError(
            f"strategy {name} counts seconds, so it needs to know the size of the buffer",
            code="HS305",
            help="add --size, or use --strategy auto",
        )


def strategy(name: str) -> Strategy:
    """The strategy called ``name``. Raises HetesynthError when there is none that counts steps."""
    demand_strategy(name, sized=False)
    registered: Strategy = _code(row_of(name))
    return registered


def timed_strategies(row: StrategyRow, rates: Any) -> list[tuple[str, Strategy]]:
    """The variants of a strategy that counts seconds, for ``rates``, each with its label."""
    factory: Callable[..., Strategy] = _code(row)
    if not row.prices:
        return [(row.name, factory(rates))]
    return [(f"earliest arrival, price {price:g}", factory(rates, price)) for price in row.prices]


def _code(row: StrategyRow) -> Any:
    module, _, attribute = row.code.partition(":")
    return getattr(import_module(module), attribute)
