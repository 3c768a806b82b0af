"""Nothing that a judge says of a damaged program changes unnoticed: whole verdicts of every target, as digests.

After a change on purpose ``pytest --update-golden`` writes the digests anew; ``verdict`` of a document shows what
is said of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from program_builders import block, good_programs, nop, program, step, to_xml
from support.damages import damaged_xml, digests
from support.verdicts import XML_TARGETS

from hetesynth.judge.msccl.judge import large_message_violations, notes, profile_violations, program_violations
from hetesynth.judge.msccl.linter import call_warnings, lint_targets, network_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.program import GpuProgram, Program
from hetesynth.model.target import TARGETS
from hetesynth.model.verdict import Violation

TABLES = Path(__file__).parent / "golden"


def fused_chain() -> Program:
    """An allreduce of three ranks in two channels: receives that add and forward, waits, several chunks a step."""
    blocks = []
    for r in range(3):
        to, back = (r + 1) % 3, (r - 1) % 3
        if r == 0:
            steps = [step("s", "i0", "i0", 2), step("rcs", "i0", "i0", 2)]
            other = [step("r", "i0", "s0", 2, flag=True), step("re", "s0", "i0", 2, on=(0, 1))]
        elif r == 1:
            steps = [step("rrcs", "i0", "i0", 2), step("rcs", "i0", "i0", 2)]
            other = [nop((0, 1)), step("cpy", "i0", "s0", 2)]
        else:
            steps = [step("rrcs", "i0", "i0", 2, flag=True), step("r", "i0", "i0", 2)]
            other = [step("cpy", "i0", "s0", 2, on=(0, 1))]
        blocks.append(GpuProgram(r, 2, 0, 2, (block(0, to, back, *steps), block(1, None, None, *other))))
    return program("allreduce", 2, blocks, in_place=True, channels=2)


PROGRAMS = {**good_programs(), "fused": fused_chain()}


def said(violations: Iterable[Violation]) -> str:
    """Each with its place and evidence."""
    return "; ".join(repr(violation) for violation in violations)


def verdict(data: bytes) -> str:
    """All that the judges say of ``data``, as every target has it."""
    read = read_program(data, "x.xml")
    targets = [TARGETS[name] for name in XML_TARGETS]
    parts = [f"{t.target} {t.acceptance} {said(t.violations)}" for t in lint_targets(read, targets)]
    parts += [
        said(judge(read)) for judge in (program_violations, large_message_violations, profile_violations, notes)
    ]
    parts.append(said(program_violations(read, slots=1, root=1, links={(0, 1), (1, 0), (1, 2)}, sms=1)))
    parts += [said(call_warnings(read, target)) for target in targets]
    if read.program is not None:
        parts += [
            said(network_violations(read.program, targets, servers)) for servers in (None, ("a", "a", "b", "c"))
        ]
    return " | ".join(parts)


@pytest.mark.parametrize(
    "name", ["allreduce_2", "ring_allgather_2", "broadcast_3", "reducescatter_3_inplace", "fused"]
)
def test_verdicts_on_damaged_programs_are_what_they_were(name: str, golden: Callable[[Path, bytes], None]) -> None:
    text = to_xml(replace(PROGRAMS[name], max_bytes=2**30)).decode()
    golden(TABLES / f"msccl_{name}.txt", digests(damaged_xml(text), verdict))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gather_3", "scatter_3", "reduce_3", "alltoall_3", "allreduce_3_inplace"])
def test_verdicts_on_other_collectives_are_what_they_were(
    name: str, golden: Callable[[Path, bytes], None]
) -> None:
    text = to_xml(replace(PROGRAMS[name], max_bytes=2**30)).decode()
    golden(TABLES / f"msccl_{name}.txt", digests(damaged_xml(text, last=False), verdict))
