"""What ``hetesynth repair`` prints, as text and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.model.words import AT_RATES, counted, microseconds, of_limit, size_text, whole_percent

if TYPE_CHECKING:
    from hetesynth.engine.repair import Repaired

SHOWN = 12
"""Ranks, or names, that the text lists; --json has all."""


def repair_summary(repaired: Repaired, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``repair --json`` prints. Scripts depend on these names."""
    synthesis, changes, difference = repaired.synthesis, repaired.changes, repaired.difference
    certificate, optimality = synthesis.solution.certificate, synthesis.time_optimality
    program = synthesis.program_seconds
    return {
        "cluster": synthesis.topology.name,
        "collective": repaired.document.collective,
        "losses": list(synthesis.topology.notes),
        "ranks_before": changes.before.ranks,
        "ranks": changes.after.ranks,
        "lost_gpus": list(changes.lost_gpus),
        "new_gpus": list(changes.new_gpus),
        "lost_links": changes.lost_links,
        "new_rank_of": list(changes.ranks),
        "chunks": synthesis.chunks,
        "chunks_before": repaired.document.chunks_per_rank,
        "strategy": synthesis.strategy,
        "steps_before": repaired.document.schedule.makespan,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "bound_within_composition": synthesis.solution.within,
        "gap": certificate.gap,
        "proven_optimal": certificate.proven_optimal,
        "size": optimality.size,
        "predicted_us": None if optimality.seconds is None else optimality.seconds * 1e6,
        "program_predicted_us": None if program is None else program * 1e6,
        "bound_us": None if optimality.bound_seconds is None else optimality.bound_seconds * 1e6,
        "transfers": {
            "same": difference.same,
            "moved": difference.moved,
            "new": difference.new,
            "gone": difference.gone,
        },
        "by_rank": difference.plain(changes, synthesis.problem),
        "outputs": [str(path) for path in paths],
        "cut_short": synthesis.cut_short,
        "seed": synthesis.budget.seed,
        "seconds": round(synthesis.timer.total, 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in synthesis.timer.phases.items()},
    }


def repair_report(repaired: Repaired, paths: Iterable[Path]) -> str:
    """The same in words."""
    return "\n".join([*_result(repaired), *_changes(repaired), *_ranks(repaired), *_files(repaired, paths)])


def _result(repaired: Repaired) -> Iterator[str]:
    synthesis = repaired.synthesis
    optimality, program = synthesis.time_optimality, synthesis.program_seconds
    limit = optimality.bound_seconds
    if program is not None:
        rates = "" if synthesis.request.runtime is None else AT_RATES
        near = "" if limit is None else f": {of_limit(whole_percent(100 * limit / program), rates=rates)}"
        if limit is not None and limit < synthesis.request.policy.repair.near_limit * program:
            near += "; a fresh run may find a quicker one"
        yield f"program {microseconds(program)} for {size_text(optimality.size)}{near}"
    certificate = synthesis.solution.certificate
    ranks = counted(synthesis.topology.ranks, "rank")
    what = f"{repaired.document.collective} repaired"
    yield f"{synthesis.topology.name}: {what}, {ranks}, strategy {synthesis.strategy}"
    within = synthesis.solution.within
    phases = "" if within is None else f", {within} for a reduce-scatter followed by an allgather"
    yield f"  steps        {certificate.steps}  (before: {repaired.document.schedule.makespan})"
    yield f"  lower bound  {certificate.bound.steps}{phases}"


def _changes(repaired: Repaired) -> Iterator[str]:
    changes, difference = repaired.changes, repaired.difference
    if repaired.synthesis.topology.notes:
        yield f"  losses       {_some(repaired.synthesis.topology.notes)}"
    if changes.lost_gpus:
        yield f"  lost         {_some(changes.lost_gpus)}: their chunks are gone"
    if changes.new_gpus:
        yield f"  new          {_some(changes.new_gpus)}"
    renumbered = [f"{old} is {new}" for old, new in enumerate(changes.ranks) if new is not None and new != old]
    if renumbered:
        yield f"  ranks        {_some(renumbered)}"
    before, now = repaired.document.chunks_per_rank, repaired.synthesis.problem.collective.chunks_per_rank
    if before != now:
        yield f"  chunks       {now} per rank (before: {before}): they are other data, so all transfers are new"
    yield (
        f"  transfers    {difference.same} as before, {difference.moved} in another step, {difference.new} new, "
        f"{difference.gone} gone"
    )


def _ranks(repaired: Repaired) -> Iterator[str]:
    """The ranks with the most that is new."""
    difference, vertices = repaired.difference, repaired.changes.after.vertices
    number = [len(s) + len(r) for s, r in zip(difference.sends, difference.receives, strict=True)]
    most = sorted((rank for rank, count in enumerate(number) if count), key=lambda rank: (-number[rank], rank))
    for rank in most[:SHOWN]:
        sends, receives = difference.sends[rank], difference.receives[rank]
        steps = sorted({entry.step for entry in (*sends, *receives)})
        to = sorted({entry.peer for entry in sends})
        origin = sorted({entry.peer for entry in receives})
        yield (
            f"    rank {rank} ({vertices[rank].name}): sends {len(sends)} new{_to('to', to)}, receives "
            f"{len(receives)} new{_to('from', origin)}, in steps {_some(steps)}"
        )
    if len(most) > SHOWN:
        yield f"    and {counted(len(most) - SHOWN, 'rank')} more; --json lists every transfer"


def _files(repaired: Repaired, paths: Iterable[Path]) -> Iterator[str]:
    timer = repaired.synthesis.timer
    phases = ", ".join(f"{name} {value:.2f}" for name, value in timer.phases.items())
    yield f"  seconds      {timer.total:.2f}  ({phases})"
    what = "every program executed, " if repaired.synthesis.programs else ""
    yield f"  verified     schedule replayed, {what}bound rechecked"
    yield from (f"  wrote        {path}" for path in paths)


def _to(word: str, ranks: list[int]) -> str:
    return f" {word} {_some(ranks)}" if ranks else ""


def _some(items: Iterable[object]) -> str:
    listed = [str(item) for item in items]
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
