"""All sections of the policy together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.policy.baselines import BaselinesPolicy
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.policy.compile import CompilePolicy
from hetesynth.policy.effort import EffortPolicy
from hetesynth.policy.fitting import FittingPolicy
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.policy.pods import PodsPolicy
from hetesynth.policy.repair import RepairPolicy
from hetesynth.policy.search import GreedyPolicy, SmtPolicy, TreesPolicy
from hetesynth.policy.simulate import SimulatePolicy
from hetesynth.policy.threshold import Record, threshold
from hetesynth.policy.verify import VerifyPolicy


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
    greedy: GreedyPolicy = field(default_factory=GreedyPolicy)
    smt: SmtPolicy = field(default_factory=SmtPolicy)
    trees: TreesPolicy = field(default_factory=TreesPolicy)
    repair: RepairPolicy = field(default_factory=RepairPolicy)
    pods: PodsPolicy = field(default_factory=PodsPolicy)
    baselines: BaselinesPolicy = field(default_factory=BaselinesPolicy)
    compile: CompilePolicy = field(default_factory=CompilePolicy)
    lowering: LoweringPolicy = field(default_factory=LoweringPolicy)
    lifting: LiftingPolicy = field(default_factory=LiftingPolicy)
    fitting: FittingPolicy = field(default_factory=FittingPolicy)
    simulate: SimulatePolicy = field(default_factory=SimulatePolicy)
    verify: VerifyPolicy = field(default_factory=VerifyPolicy)
    packing: PackingPolicy = field(default_factory=PackingPolicy)
    bounds: BoundsPolicy = field(default_factory=BoundsPolicy)
    building: BuildingPolicy = field(default_factory=BuildingPolicy)


DEFAULT = Policy()
