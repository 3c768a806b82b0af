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

from hetesynth.errors import HetesynthError, InternalError, did_you_mean
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED, ROOTED, CollectiveName
from hetesynth.policy.autotune import AutotunePolicy

if TYPE_CHECKING:
    from hetesynth.search.search import Strategy
    from hetesynth.search.timed.earliest_arrival import Rates

Objective = Literal["steps", "time"]

TO_EVERYBODY = tuple(name for name in COLLECTIVE_NAMES if name not in PERSONALIZED)
FROM_EVERYBODY = tuple(name for name in TO_EVERYBODY if name not in ROOTED)


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """One strategy.

    ``summary``: what it does; ``source``: who described it; ``accepts``: the collectives that it may solve.
    ``code``: ``module:attribute``. The attribute is a ``Strategy`` where steps are counted, else a function from
    ``Rates`` to a ``Strategy``; ``prices``: the second arguments with which that function is called, if there are
    several. ``library``: whether it models what communication libraries do. ``cost``: seconds of its search for
    each transfer of the schedule, on one core; docs/strategies.md says of which machine and clusters, so it is an
    order of magnitude.

    For tuning runs: ``candidate``: whether it is tried where a size is given. ``placed``: whether a rule says when
    (``choice/rules.py``); what is not placed, and no library's, comes last. ``schedules_only``: the collectives
    for which it is tried only where no programs are made, as others are quicker (docs/decisions.md, 13).
    ``max_transfers``: of a candidate. ``every_chunking``: whether candidates that count seconds are made with
    every choice of capacities, not only with the paper's. ``keeps_time``: it is fixed and its ranks have few
    peers, so that programs hardly lose against its schedules; ``few_peers``: it needs few peers. Both numbers say
    in which order such strategies are tried. ``fallback``: for where those of few peers refuse, as it takes any
    cluster that few peers can join. ``load_first``: of those with few peers the first where load counts more
    than latency.
    """

    name: str
    summary: str
    source: str
    code: str
    objective: Objective = "steps"
    accepts: tuple[CollectiveName, ...] = COLLECTIVE_NAMES
    library: bool = False
    candidate: bool = True
    cost: float | None = None
    placed: bool = False
    schedules_only: tuple[CollectiveName, ...] = ()
    prices: Callable[[AutotunePolicy], tuple[float, ...]] | None = None
    max_transfers: Callable[[AutotunePolicy], int] | None = None
    every_chunking: bool = False
    keeps_time: int | None = None
    few_peers: int | None = None
    fallback: bool = False
    load_first: bool = False


ROWS: tuple[StrategyRow, ...] = (
    StrategyRow(
        "auto", "direct, greedy, tree packing, balanced trees, neighbourhood search and cegis, as rules say",
        "hetesynth", "hetesynth.search.auto:AUTO", candidate=False, cost=2e-4,
    ),
    StrategyRow(
        "greedy", "rounds of list scheduling under prices on resources", "HeteCCL appendix H; PathFinder",
        "hetesynth.search.greedy.greedy:STRATEGY", placed=True, cost=2e-4,
    ),
    StrategyRow(
        "trees", "balanced trees, list-scheduled", "Aspnes et al. 1997; Graham 1966",
        "hetesynth.search.trees.balanced_trees:STRATEGY", accepts=TO_EVERYBODY, placed=True, cost=1e-4,
    ),
    StrategyRow(
        "tree-packing", "packed trees, a linear program for each step", "ForestColl, section 5; PathFinder",
        "hetesynth.search.trees.packed_trees:STRATEGY", accepts=TO_EVERYBODY, placed=True,
        schedules_only=FROM_EVERYBODY, cost=1e-4,
    ),
    StrategyRow(
        "direct", "one link per chunk, a linear program per step", "hetesynth",
        "hetesynth.search.greedy.direct:STRATEGY", accepts=PERSONALIZED, candidate=False, cost=5e-4,
    ),
    StrategyRow(
        "cegis", "repair of a candidate from checkpoint to checkpoint, Z3 where laws are broken",
        "HeteCCL 5.2, algorithm 1",
        "hetesynth.search.auto:CEGIS", candidate=False, cost=6e-4,
    ),
    StrategyRow(
        "repair", "a schedule of the cluster before a change, mended: hetesynth repair",
        "Aspnes et al. 1997; Kolisch 1996",
        "hetesynth.search.repair:STRATEGY", candidate=False, cost=2e-4,
    ),
    StrategyRow(
        "lns", "large-neighbourhood search: Z3 on the part of a schedule around a bottleneck", "HeteCCL 5.2",
        "hetesynth.search.auto:LNS", candidate=False, cost=6e-4,
    ),
    StrategyRow(
        "monolithic", "the monolithic model: every law at once", "SCCL section 3",
        "hetesynth.search.auto:MONOLITHIC", candidate=False, cost=4e-3,
    ),
    StrategyRow(
        "composition", "pods: between them by rings or doubling, inside each type solved once",
        "HeteCCL, section 7", "hetesynth.search.pods.strategy:STRATEGY", accepts=FROM_EVERYBODY,
        candidate=False, cost=2e-5,
    ),
    StrategyRow(
        "ring", "rings, one a channel", "NCCL",
        "hetesynth.search.baselines.table:RING", library=True, placed=True,
        keeps_time=2, few_peers=4, cost=1e-5,
    ),
    StrategyRow(
        "double-tree", "double binary trees", "NCCL",
        "hetesynth.search.baselines.table:DOUBLE_TREE", library=True, schedules_only=COLLECTIVE_NAMES,
        cost=1e-5,
    ),
    StrategyRow(
        "sph", "shortest paths, whatever the load", "SCALE-CCL's evaluation",
        "hetesynth.search.baselines.table:SHORTEST_PATHS", library=True, placed=True,
        fallback=True, cost=1e-5,
    ),
    StrategyRow(
        "all-pairs", "every chunk straight to its receiver", "SCALE-CCL's evaluation",
        "hetesynth.search.baselines.table:ALL_PAIRS", library=True, cost=2e-5,
    ),
    StrategyRow(
        "doubling", "recursive doubling and halving", "Thakur et al. 2005",
        "hetesynth.search.baselines.table:DOUBLING", library=True, schedules_only=COLLECTIVE_NAMES,
        few_peers=2, cost=2e-5,
    ),
    StrategyRow(
        "server-rings", "rings of servers whose NICs keep their peers", "hetesynth",
        "hetesynth.search.baselines.table:SERVER_RINGS", library=True,
        accepts=TO_EVERYBODY, keeps_time=1, few_peers=3, load_first=True, cost=4e-5,
    ),
    StrategyRow(
        "hierarchical", "between servers, then inside them", "SCALE-CCL's evaluation",
        "hetesynth.search.baselines.table:HIERARCHICAL", library=True, few_peers=1, cost=1e-5,
    ),
    StrategyRow(
        "timed", "earliest arrival first, with prices on load", "TACOS; PathFinder",
        "hetesynth.search.timed.earliest_arrival:timed_strategy", "time",
        placed=True, prices=lambda policy: policy.arrival_prices,
        max_transfers=lambda policy: policy.max_transfers_arrival, cost=6e-5,
    ),
    StrategyRow(
        "steady-state", "the packing of trees that loads the fullest resource least, in whole chunks",
        "Edmonds 1967; Beaumont et al. 2005; ForestColl",
        "hetesynth.search.steady_state:steady_state_strategy", "time", accepts=TO_EVERYBODY,
        placed=True, cost=1e-4,
    ),
    StrategyRow(
        "exchange", "balanced paths in seconds, the longest first", "Aspnes et al. 1997; Jackson 1955",
        "hetesynth.search.timed.list_scheduling:exchange_strategy", "time",
        accepts=PERSONALIZED, placed=True, every_chunking=True, cost=6e-4,
    ),
    StrategyRow(
        "timed-trees", "balanced trees, list-scheduled in seconds", "Aspnes et al. 1997; Graham 1966",
        "hetesynth.search.timed.list_scheduling:timed_trees_strategy", "time", accepts=TO_EVERYBODY,
        placed=True, cost=3e-4,
    ),
    StrategyRow(
        "negotiated", "earliest arrival with negotiated loads, then list scheduling", "PathFinder; Graham 1966",
        "hetesynth.search.timed.list_scheduling:negotiated_strategy", "time", placed=True,
        max_transfers=lambda policy: policy.max_transfers_arrival, cost=2e-4,
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
        f"there is no strategy {name!r}",
        code="HS305",
        help=did_you_mean(name, [row.name for row in ROWS], f"use one of {', '.join(names('steps'))}"),
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
    from hetesynth.search.search import Strategy

    row = row_of(name)
    registered = _code(row)
    if not isinstance(registered, Strategy):
        raise InternalError(f"{row.code} is no Strategy: end its module with STRATEGY = Strategy({name!r}, ...)")
    return registered


def keeping_time() -> list[StrategyRow]:
    """The strategies whose programs hardly lose against their schedules, in the order in which they are tried."""
    rows = [(row.keeps_time, row) for row in ROWS if row.keeps_time is not None]
    return [row for _, row in sorted(rows, key=lambda pair: pair[0])]


def with_few_peers(*, fallback: bool = False, load_first: bool = False) -> list[StrategyRow]:
    """The strategies that need few peers, the most promising first."""
    rows = [(row.few_peers, row) for row in ROWS if row.few_peers is not None]
    ordered = [row for _, row in sorted(rows, key=lambda pair: (load_first and not pair[1].load_first, pair[0]))]
    return [*ordered, *(row for row in ROWS if fallback and row.fallback)]


def timed_strategies(row: StrategyRow, rates: Rates, policy: AutotunePolicy) -> list[tuple[str, Strategy]]:
    """The variants of a strategy that counts seconds, made for ``rates``, each with its label."""
    factory: Callable[..., Strategy] = _code(row)
    if row.prices is None:
        return [(row.name, factory(rates))]
    return [(f"earliest arrival, price {price:g}", factory(rates, price)) for price in row.prices(policy)]


def _code(row: StrategyRow) -> Any:
    module, _, attribute = row.code.partition(":")
    return getattr(import_module(module), attribute)
