"""All sections of the policy together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.policy.baselines import BaselinesPolicy
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.policy.building import BuildingPolicy
from hetesynth.policy.compile import CompilePolicy
from hetesynth.policy.effort import EffortPolicy
from hetesynth.policy.fitting import FittingPolicy
from hetesynth.policy.greedy import GreedyPolicy
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.policy.machine_code import MachineCodePolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.policy.pods import PodsPolicy
from hetesynth.policy.repair import RepairPolicy
from hetesynth.policy.simulate import SimulatePolicy
from hetesynth.policy.smt import SmtPolicy
from hetesynth.policy.steps import StepsPolicy
from hetesynth.policy.threshold import Record
from hetesynth.policy.timed import TimedPolicy
from hetesynth.policy.trees import TreesPolicy
from hetesynth.policy.verify import VerifyPolicy


@dataclass(init=False, repr=False, eq=False)
class Policy(Record):
    """Every threshold, by the package that decides with it."""

    autotune: AutotunePolicy = field(default_factory=AutotunePolicy)
    effort: EffortPolicy = field(default_factory=EffortPolicy)
    steps: StepsPolicy = field(default_factory=StepsPolicy)
    greedy: GreedyPolicy = field(default_factory=GreedyPolicy)
    smt: SmtPolicy = field(default_factory=SmtPolicy)
    trees: TreesPolicy = field(default_factory=TreesPolicy)
    repair: RepairPolicy = field(default_factory=RepairPolicy)
    pods: PodsPolicy = field(default_factory=PodsPolicy)
    timed: TimedPolicy = field(default_factory=TimedPolicy)
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
    machine_code: MachineCodePolicy = field(default_factory=MachineCodePolicy)


DEFAULT = Policy()
