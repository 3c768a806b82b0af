"""All sections of the policy together."""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.policy.compile import CompilePolicy
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.policy.packing import PackingPolicy
from hetesynth.policy.pods import PodsPolicy
from hetesynth.policy.search import GreedyPolicy, SmtPolicy, TreesPolicy
from hetesynth.policy.threshold import Record


@dataclass(init=False, repr=False, eq=False)
class Policy(Record):
    """Every threshold, by the package that decides with it."""

    greedy: GreedyPolicy = field(default_factory=GreedyPolicy)
    smt: SmtPolicy = field(default_factory=SmtPolicy)
    trees: TreesPolicy = field(default_factory=TreesPolicy)
    pods: PodsPolicy = field(default_factory=PodsPolicy)
    compile: CompilePolicy = field(default_factory=CompilePolicy)
    lowering: LoweringPolicy = field(default_factory=LoweringPolicy)
    packing: PackingPolicy = field(default_factory=PackingPolicy)


DEFAULT = Policy()
