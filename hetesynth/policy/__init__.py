"""Every threshold by which the compiler decides, in one value that can be handed to it.

``Policy`` has a section for each package that decides anything; a section is a frozen record of thresholds, each
with its unit and why it has its value. ``DEFAULT`` is what the command line uses. A ``Request`` and a ``Search``
carry a policy, so that a test or an experiment replaces what it likes:

    replace(DEFAULT, greedy=replace(DEFAULT.greedy, most_rounds=1))

Not here: limits that protect against hostile input, facts about runtimes and formats, tolerances of arithmetic.
They stand beside the code that they belong to.
"""

from __future__ import annotations

from hetesynth.policy.policy import DEFAULT, Policy

__all__ = ["DEFAULT", "Policy"]
