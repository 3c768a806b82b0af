"""MSCCL XML and MSCCL++ plans that were made for one topology, on another: judged by the judges of their formats.

In: a file and two topologies. Out: a ``Standing``. A program names pairs of GPUs, not links: of a pair that has
several, all count.
"""

from __future__ import annotations

from pathlib import Path

from hetesynth.deploy.cluster_standing import (
    NOT_OF_THE_FIRST,
    Standing,
    link_words,
    matching_links,
    moved_rank,
    named,
    ranks_words,
    slower,
)
from hetesynth.engine.formats import format_of
from hetesynth.engine.verify import Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Rank, Topology


def program_standing(path: Path, old: Topology, new: Topology) -> Standing:
    """Where the program at ``path``, made for ``old``, stands on ``new``."""
    try:
        ranks, pairs = _connections(path)
        if ranks != old.ranks or pairs - {(link.src, link.dst) for link in old.links}:
            return Standing(path, "not of the first", NOT_OF_THE_FIRST)
        moved = ranks_words(old, new) if ranks != new.ranks else moved_rank(old, new)
        if moved:
            return Standing(path, "other ranks", moved)
        errors = _errors(path, new)
        before = _errors(path, old) if errors else []
    except HetesynthError as error:
        return Standing(path, "unreadable", error.message)
    if errors:
        return Standing(path, "wrong" if before else "lost link", named(before or errors))
    same = matching_links(old, new, [i for i, link in enumerate(old.links) if (link.src, link.dst) in pairs])
    slow = [f"{link_words(old, i)} is gone, others of the pair remain" for i, j in same.items() if j is None]
    slow += slower(old, new, [(i, j) for i, j in same.items() if j is not None])
    return Standing(path, "slower", named(slow)) if slow else Standing(path, "valid")


def _errors(path: Path, topology: Topology) -> list[str]:
    judged = judge_file(path, Question(given=topology))
    return list(dict.fromkeys(f.violation.message for f in judged.findings if f.level == "error"))


def _connections(path: Path) -> tuple[int, set[tuple[Rank, Rank]]]:
    """How many ranks a program is for, and the pairs of them that it sends between."""
    if format_of(path) == "msccl-xml":
        from hetesynth.judge.msccl.reader import load_program

        read = load_program(path)
        if read.program is None:
            words = named([v.message for v in read.violations]) or "it is no MSCCL XML"
            raise HetesynthError(words, code="HS540", help="give a file that was written")
        blocks = [(gpu.rank, block) for gpu in read.program.gpus for block in gpu.thread_blocks]
        return read.program.ranks, {(r, b.send_peer) for r, b in blocks if b.send_peer is not None}
    return _plan_connections(path)


def _plan_connections(path: Path) -> tuple[int, set[tuple[Rank, Rank]]]:
    from hetesynth.judge.mscclpp.checks import slice_owner
    from hetesynth.judge.mscclpp.reader import load_plan

    plan = load_plan(path)
    pairs: set[tuple[Rank | None, Rank | None]] = set()
    for g, gpu in enumerate(plan.gpus):
        for block in gpu.blocks:
            for operation in block.operations:
                kind = operation.channel_type
                if kind is not None:
                    pairs |= {(slice_owner(gpu, block, kind, part), g) for part in operation.src}
                    pairs |= {(g, slice_owner(gpu, block, kind, part)) for part in operation.dst}
    return plan.ranks, {(a, b) for a, b in pairs if a is not None and b is not None}
