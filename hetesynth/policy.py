"""Every threshold by which the compiler decides and that was kept because its value matters.

``Policy`` has a section for each package that decides by thresholds. Below each stands its unit, what it decides
and what was measured. ``DEFAULT`` is what the command line uses. A ``Request`` and a ``Search`` carry a policy, so
that a test or an experiment replaces what it likes:

    replace(DEFAULT, packing=replace(DEFAULT.packing, sweeps=1))

Not here: numbers whose halves and doubles change nothing (literals where they are used), limits that protect
against hostile input, facts about runtimes and formats, tolerances of arithmetic.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class GreedyPolicy:
    """Greedy rounds. An effort sets ``rounds``, the share of all rounds and of those in vain that a search has,
    and for a size ``most_rounds``."""

    rounds: float = 1.0
    most_rounds: int = 400
    urgency: tuple[float, ...] = (1.0, 2.0)
    """Exponents: Of distances in gains, one value a round in turn; the larger one serves far chunks first. a100_x2
    allgather, 2 chunks: halved 13 % less time."""
    stale_share: float = 0.6
    """Share of the gain when queued: A delivery whose gain fell below it is queued anew instead of made.
    v100_fail_one4 broadcast, 3 chunks: halved 4 % more time."""


@dataclass(frozen=True)
class SmtPolicy:
    """The work that Z3 may do, as shares of the solver's units: ``units`` of cegis and monolithic where they are
    stated, ``units_in_auto`` inside auto. An effort sets both."""

    units: float = 1.0
    units_in_auto: float = 1.0


@dataclass(frozen=True)
class TreesPolicy:
    """Balanced trees and tree packing. Figures: h20_16 allgather, 2 chunks, by tree packing."""

    depth_cost: float = 0.3
    """Share of its cost: How much dearer a link is for each link before it in the tree. Halved 6 %, doubled 13 %
    less time."""
    packing_sharpness: float = 32.0
    """Exponent: How steeply a resource becomes dearer with the share of what tree packing allows it to carry.
    Halved 6 % less time, doubled 7 instead of 8 steps."""
    packing_scarcity: float = 0.3
    """Share of its price for each chunk per step too much: How much dearer for good an overfull resource becomes
    after a sweep. Halved 6 % less time."""


@dataclass(frozen=True)
class PackingPolicy:
    """Column generation: the fractional packing of trees and paths."""

    ranks_together: int = 32
    """Ranks: More ranks than these, none like another, are asked for trees in turns, and prices rise in between.
    For an allgather of 64 that takes 0.3 s instead of 2 s, of 128 1 s instead of 48 s; of 40 both take 0.5 s."""
    ranks_of_a_turn: int = 16
    """Ranks: How many are asked at one price. Of 256 ranks 8 take twice as long for a sweep; with 32 an allreduce
    takes 13 s and more instead of 7 to 9 s."""
    sweeps: int = 2
    """Sweeps: In which every rank has its turn before the first master program. Eight packings of 256 ranks take
    37 s with 1, 32 s with 2, 35 s with 3, 56 s with 4."""
    turn_sharpness: float = 16.0
    """Exponent: How steeply a resource becomes dearer with its load in sweeps. Allreduce of 256 ranks: 8 takes 13
    s and more, 16 takes 7 to 9 s; with 32 a master program takes up to 27 s."""
    few_roots: int = 16
    """Roots: The cheapest roots of an allreduce that are asked for trees in a round. On a mesh of 64 ranks 8 and
    16 took 4 s, 64 took 45 s."""
    exchange_rounds: int = 2
    """Rounds: In which each of few trees is laid anew. h20_4x2p8 allreduce, 3 trees: 100 instead of 50 %."""


@dataclass(frozen=True)
class PodsPolicy:
    """The rule by which a cluster is composed of pods."""

    flat_ranks: int = 1024
    """GPUs: Above, strategy auto composes a cluster of several pods. A flat allgather of 1024 GPUs takes 77 s and
    1.6 GB (docs/benchmarks.md); the links between GPUs grow with their square."""


@dataclass(frozen=True)
class Policy:
    """Every threshold, by the package that decides with it."""

    greedy: GreedyPolicy = field(default_factory=GreedyPolicy)
    smt: SmtPolicy = field(default_factory=SmtPolicy)
    trees: TreesPolicy = field(default_factory=TreesPolicy)
    pods: PodsPolicy = field(default_factory=PodsPolicy)
    packing: PackingPolicy = field(default_factory=PackingPolicy)


DEFAULT = Policy()
