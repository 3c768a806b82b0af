"""Which calls run a file of MSCCL XML: what a runtime selects it by, and what it does not look at.

In: a program as it was read, and a target. Out: findings for an operator. Nothing is wrong with the program, so
these are warnings: whether they matter depends on the calls of the job.
"""

from __future__ import annotations

from hetesynth.judge.layout import ROOTED
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.judge.msccl.rules import RULES
from hetesynth.model.target import Target
from hetesynth.model.verdict import Violation


def call_warnings(read: ReadResult, target: Target) -> list[Violation]:
    """What an operator must know before ``target`` is given the file."""
    program = read.program
    if program is None or program.collective not in ROOTED:
        return []
    name, root = program.collective, "one root" if program.root is None else f"root {program.root}"
    warned = []
    if name in target.collectives and not target.tells_roots:
        warned.append(
            ("any-root", f"it is for {root}, but runs for every {name} whatever its root: others get wrong data")
        )
    if target.name == "portable" and name in ("gather", "scatter"):
        warned.append(("never-selected", f"of all runtimes only RCCL runs a file for a {name}"))
    return [Violation(RULES[rule].kind, text, line=read.algo_line, rule=RULES[rule].id) for rule, text in warned]
