"""Which calls run a plan of MSCCL++: what the runtime's own selector does not look at.

In: a plan. Out: findings for an operator; nothing is wrong with the plan itself.
"""

from __future__ import annotations

from hetesynth.judge.mscclpp.rules import PLAN_RULES
from hetesynth.model.plan import Plan
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation


def plan_warnings(plan: Plan, root: Rank | None = None) -> list[Violation]:
    """What an operator must know before the plan is registered. ``root``: the one it is for, where that is known.

    Of the rooted collectives only broadcast is reached by a call of NCCL; who runs the others names the plan.
    """
    if plan.collective != "broadcast":
        return []
    whose = "one root" if root is None else f"root {root}"
    text = f"it is for {whose}, but the built-in selector runs it for every broadcast: others get wrong data"
    rule = PLAN_RULES["plan-any-root"]
    return [Violation(rule.kind, text, rule=rule.id)]
