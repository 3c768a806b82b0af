"""What one reader makes of the attributes of <algo>: which it demands, which values it knows, what it selects.

In: the attributes as they stand in the file, the program read from them, and a target. Out: findings.
"""

from __future__ import annotations

from collections.abc import Mapping

from hetesynth.judge.msccl.lint_readers import metadata_required, reader_of
from hetesynth.judge.msccl.rules import RULES
from hetesynth.model.program import Program
from hetesynth.model.target import Target
from hetesynth.model.verdict import Violation

COMMON = frozenset({"proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace"})
"""What every reader demands: missing, it is reported when the file is read."""


def metadata(
    attributes: Mapping[str, str], program: Program | None, line: int | None, target: Target
) -> list[Violation]:
    """Findings of ``target``'s reader about <algo> on ``line``."""
    violations: list[Violation] = []

    def add(rule: str, message: str) -> None:
        violations.append(Violation(RULES[rule].kind, message, line=line, rule=RULES[rule].id))

    for name in sorted(metadata_required(target) - COMMON - attributes.keys()):
        add("metadata-missing", f"attribute `{name}` is missing on <algo>; {target.runtime} refuses the file")
    word = attributes.get("coll")
    words = reader_of(target).words
    if word is not None and word not in words:
        accepted = ", ".join(sorted(words))
        add("collective-refused", f'coll="{word[:40]}" is unknown to {target.runtime}, which takes {accepted}')
    if program is not None:
        for rule, message in _selection(attributes, program, target):
            add(rule, message)
    return violations


def smallest_message(attributes: Mapping[str, str], program: Program, target: Target) -> int:
    """How many chunks a message still carries in the largest call for which ``target`` selects the file, buffers
    being the default ones: 1 where no size is too large."""
    high = _high(attributes, program, target)
    if high <= 0:
        return 1
    largest = -(-high // program.chunks_per_loop)  # bytes of a chunk
    return max(1, target.fifo(program.protocol, program.collective).batch_bytes // largest)


def _high(attributes: Mapping[str, str], program: Program, target: Target) -> int:
    """The largest call that selects the file; 0 is no limit, or no call at all."""
    return program.max_bytes if "maxBytes" in attributes else reader_of(target).default_max_bytes


def _selection(attributes: Mapping[str, str], program: Program, target: Target) -> list[tuple[str, str]]:
    """Sizes and flags by which a call selects the file."""
    reader, defects = reader_of(target), []
    low = program.min_bytes
    high = _high(attributes, program, target)
    unlimited = high == 0 and target.open_max_bytes == 0
    if reader.checks_order and low > high:
        defects.append(
            ("min-above-max", f"minBytes={low} exceeds maxBytes={high}; {target.runtime} refuses the file")
        )
    elif not unlimited and (low > high or (low == high and not target.max_bytes_inclusive)):
        text = f"minBytes={low}, maxBytes={high}: {target.runtime} selects the file for no size"
        defects.append(("never-selected", text))
    elif high == 0 and not unlimited:
        defects.append(("never-selected", "maxBytes=0 means no size at all to the research runtime"))
    if program.collective in reader.uncalled:
        text = f"no call of {target.runtime} reaches MSCCL as {program.collective}: the file never runs there"
        defects.append(("never-selected", text))
    if program.collective in reader.mode_ignored and program.in_place and not program.out_of_place:
        text = f"{target.runtime} has no {program.collective} in place and runs this file for calls out of place"
        defects.append(("in-place-ignored", text))
    if not program.in_place and not program.out_of_place:
        text = "neither inplace nor outofplace is 1: no runtime can ever select this file"
        defects.append(("never-selected", text))
    threads = attributes.get("nthreads", "0")
    if threads.isdecimal() and int(threads) % reader.thread_multiple:
        defects.append(("bad-nthreads", f"nthreads={threads} is no multiple of {reader.thread_multiple}"))
    return defects
