"""All sections of the policy together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.policy.compile import CompilePolicy
from hetesynth.policy.effort import EffortPolicy
from hetesynth.policy.fitting import FittingPolicy
from hetesynth.policy.greedy import GreedyPolicy
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.policy.machine_code import MachineCodePolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.policy.pods import PodsPolicy
from hetesynth.policy.simulate import SimulatePolicy
from hetesynth.policy.smt import SmtPolicy
from hetesynth.policy.threshold import Record, threshold
from hetesynth.policy.trees import TreesPolicy
from hetesynth.policy.verify import VerifyPolicy


@dataclass(init=False, repr=False, eq=False)
class TimedPolicy(Record):
    """Strategies that count seconds."""

    arrival_rounds: int = threshold(
        4, "rounds", "Rounds of earliest arrival with growing prices; without prices there is one. Not measured."
    )
    arrival_growth: float = threshold(
        0.5,
        "share of its price",
        "By how much the busiest resource becomes dearer after a round of earliest arrival. Not measured.",
    )
    arrival_exponent: int = threshold(
        2,
        "exponent",
        "Of the share of the busiest resource's work, by which the others become dearer after a round of earliest "
        "arrival. Not measured.",
    )
    negotiated_rounds: int = threshold(
        10, "rounds", "Rounds of earliest arrival whose loads are negotiated. Not measured."
    )
    negotiated_weight: float = threshold(
        16.0,
        "seconds",
        "What a second of work of a resource costs in the first negotiated round. Not measured.",
    )
    negotiated_step: float = threshold(
        2.0,
        "exponent",
        "How strongly prices follow the share of its goal that a resource works in a negotiated round. Not "
        "measured.",
    )
    negotiated_goal: float = threshold(
        0.96,
        "share of the least work of a busiest resource so far",
        "The work that the next negotiated round aims at. The heterogeneous mesh of 256 GPUs came within 1.1 % "
        "of its bound with all values together; this one alone: not measured.",
    )
    negotiated_pressure: float = threshold(
        1.0,
        "seconds of urgency for each second of work left",
        "How urgent the list schedule of a negotiated round finds a delivery before much work. Not measured.",
    )
    negotiated_scheduled: int = threshold(
        2,
        "rounds",
        "The negotiated rounds, those with the least work of a busiest resource, that get a list schedule on "
        "large problems. Not measured.",
    )
    negotiated_all_scheduled: int = threshold(
        20_000,
        "deliveries",
        "Up to here all negotiated rounds get a list schedule. Not measured.",
    )
    path_sharpness: tuple[float, ...] = threshold(
        (8.0, 16.0, 32.0, 64.0, 128.0),
        "exponents",
        "How steeply prices rise with the load, one sweep of rerouting for each. With all values together "
        "alltoall on two DGX-2 is at its bound (docs/benchmarks_time.md); each alone: not measured.",
    )
    path_weight: float = threshold(
        8.0, "seconds", "What a second of the busiest resource costs on a path. Not measured."
    )
    path_pressures: tuple[float, ...] = threshold(
        (0.0, 0.05, 1.0),
        "seconds of urgency for each second of work left",
        "The list schedules of balanced paths that are tried, one for each. Not measured.",
    )
    path_chunks: int = threshold(
        20_000,
        "chunks",
        "Where ranks exchange several chunks with each other, balanced paths refuse more. Not measured.",
    )
    path_single_chunks: int = threshold(
        70_000,
        "chunks",
        "Where ranks exchange one chunk with each other, balanced paths refuse more: an alltoall of 256 GPUs has "
        "65,280 and is found. Seconds: not measured.",
    )
    scanned_paths: int = threshold(
        20_000,
        "paths",
        "More are list-scheduled from a queue: looking at all of them before each choice takes quadratic time. "
        "Not measured.",
    )
    tree_sweeps: int = threshold(8, "sweeps", "Sweeps of rerouting of timed-trees. Not measured.")
    tree_unscheduled: float = threshold(
        0.5,
        "share of the sweeps",
        "The first sweeps of timed-trees, whose trees get no list schedule, as they are still uneven. Not "
        "measured.",
    )
    tree_early_schedule: int = threshold(
        1,
        "sweeps",
        "After so many and one more the trees of timed-trees get a list schedule all the same, so that there is "
        "one soon. Not measured.",
    )
    tree_goal: float = threshold(
        0.97,
        "share of the busiest resource's work",
        "The work that the next sweep of timed-trees aims at. Not measured.",
    )
    urgent_lead: float = threshold(
        0.05,
        "seconds for each second of urgency",
        "How far a more urgent delivery of timed-trees goes ahead of one that can begin sooner. Not measured.",
    )
    urgency_updates: int = threshold(
        60, "times", "How often the urgencies of a list schedule in seconds are computed anew. Not measured."
    )
    same_start: float = threshold(
        1e-3,
        "share of the shortest time that a chunk keeps a resource busy",
        "Starts that differ by less count as the same, and urgency decides. Not measured.",
    )


@dataclass(init=False, repr=False, eq=False)
class StepsPolicy(Record):
    """What strategy auto, which counts steps, tries after what."""

    max_sends: int = threshold(
        60_000, "Send variables", "Up to here auto hands the model of all steps to Z3. Not measured."
    )
    few_sends: int = threshold(
        10_000,
        "Send variables",
        "Up to here a model is small: auto spends more on it, and needs no neighbourhood search. Not measured.",
    )
    cegis_rlimit: int = threshold(
        2_000_000, "solver resource units", "What auto spends on one number of steps. Not measured."
    )
    cegis_rlimit_small: int = threshold(
        30_000_000, "solver resource units", "The same where the model is small. Not measured."
    )
    checkpoint_work: int = threshold(
        3_000_000,
        "ranks",
        "Deliveries times ranks or steps up to which auto fills steps from checkpoints. Not measured.",
    )
    checkpoint_targets: int = threshold(
        2, "numbers of steps", "How many auto tries from checkpoints, from the bound upwards. Not measured."
    )
    checkpoint_attempts: int = threshold(
        40, "attempts", "Of one number of steps from checkpoints in auto: 4 at effort 1. Not measured."
    )
    checkpoint_rlimit: int = threshold(
        40_000_000,
        "solver resource units",
        "What auto spends on a number of steps from checkpoints. Not measured.",
    )
    checkpoint_share: float = threshold(
        0.5, "share of the time left", "What a number of steps from checkpoints gets in auto. Not measured."
    )
    neighbourhood_rlimit: int = threshold(
        10_000_000, "solver resource units", "What auto spends on neighbourhood search. Not measured."
    )
    neighbourhood_share: float = threshold(
        0.5, "share of the time left", "What neighbourhood search gets where CEGIS is to follow. Not measured."
    )
    max_deliveries: int = threshold(
        200_000,
        "deliveries",
        "Of a problem for neighbourhood search; past it building one takes too long. Not measured.",
    )
    max_sends_requested: int = threshold(
        2_000_000, "Send variables", "Of a model that is built when the user names the strategy. Not measured."
    )
    first_phase_share: float = threshold(
        0.5, "share of the budget", "What the first phase of an allreduce gets at most. Not measured."
    )
    first_schedule_seconds: float = threshold(
        1e-3,
        "seconds",
        "What the second phase of an allreduce gets after Ctrl-C: the first schedule and no more. Not measured.",
    )


@dataclass(init=False, repr=False, eq=False)
class BuildingPolicy(Record):
    """What a build decides by."""

    worse: float = threshold(
        0.01,
        "share of the time",
        "A newer program that takes longer than the older one by more, in the geometric mean over the sizes of "
        "its cell, is kept aside. Both are simulated, without noise. A range of an atlas may lose as much; less "
        "is not worth a schedule that was made for another cluster. Not measured.",
    )


@dataclass(init=False, repr=False, eq=False)
class Policy(Record):
    """Every threshold, by the package that decides with it."""

    autotune: AutotunePolicy = field(default_factory=AutotunePolicy)
    effort: EffortPolicy = field(default_factory=EffortPolicy)
    steps: StepsPolicy = field(default_factory=StepsPolicy)
    greedy: GreedyPolicy = field(default_factory=GreedyPolicy)
    smt: SmtPolicy = field(default_factory=SmtPolicy)
    trees: TreesPolicy = field(default_factory=TreesPolicy)
    pods: PodsPolicy = field(default_factory=PodsPolicy)
    timed: TimedPolicy = field(default_factory=TimedPolicy)
    compile: CompilePolicy = field(default_factory=CompilePolicy)
    lowering: LoweringPolicy = field(default_factory=LoweringPolicy)
    lifting: LiftingPolicy = field(default_factory=LiftingPolicy)
    fitting: FittingPolicy = field(default_factory=FittingPolicy)
    simulate: SimulatePolicy = field(default_factory=SimulatePolicy)
    verify: VerifyPolicy = field(default_factory=VerifyPolicy)
    packing: PackingPolicy = field(default_factory=PackingPolicy)
    building: BuildingPolicy = field(default_factory=BuildingPolicy)
    machine_code: MachineCodePolicy = field(default_factory=MachineCodePolicy)


DEFAULT = Policy()
