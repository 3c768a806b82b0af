"""A rooted collective for every root of a cluster, in one go.

In: a request. Out: a ``Synthesis`` for each root, and their files, written together. It is of use where whatever
selects programs sees the root of a call, as selectors of MSCCL++ do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.compilation import compilation
from hetesynth.engine.request import Request
from hetesynth.engine.roots import demand_single_root
from hetesynth.engine.synth import synthesized, with_warnings
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.processes import Tell, last_result
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.language import load_topology

FIRST_ONLY = 0.01
"""Seconds after which nothing but a first schedule is begun."""


def for_every_root(
    request: Request, progress: Progress = no_progress, trace: CegisTrace | None = None, *,
    began: float | None = None,
) -> list[Synthesis]:  # fmt: skip
    """One synthesis a root, in order. ``trace``: what CEGIS did. ``began``: as ``synthesize`` takes it.

    With a time budget the work is done in a process that makes the first program of every root, then searches for
    better ones root by root, and is killed when the budget is over: the last files of all roots are the result.
    After an interrupt without one the roots that are left get what a first schedule takes. HetesynthError: as
    ``synthesize``; HS303 where the collective has no root, HS514 where a target would take the first file for
    every root; HS602 (exit 3) where the budget was over before every root had a program.
    """
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=False, every=True)
    ranks, seconds, steps = load_topology(request.topology).ranks, request.budget.seconds, trace or CegisTrace()

    def of_root(root: int, least: float | None, told: Progress) -> Synthesis:
        budget = replace(request.budget, seconds=least)
        part = steps.inside(f"root {root}")
        run = compilation(replace(request, root=root), told, budget, trace=part, every_root=True)
        return synthesized(run)

    if seconds is None:
        syntheses: list[Synthesis] = []
        for root in range(ranks):
            stopped = any(synthesis.ending == "interrupt" for synthesis in syntheses)
            syntheses.append(of_root(root, FIRST_ONLY if stopped else None, progress))
        return syntheses
    until, before = (time.monotonic() if began is None else began) + seconds, len(steps.entries)

    def work(tell: Tell) -> list[Synthesis]:
        def told(what: str, best: int | None) -> None:
            tell("progress", (what, best))

        best = [with_warnings(of_root(root, FIRST_ONLY, told)) for root in range(ranks)]
        for root in range(ranks):
            tell("result", best)
            share = (until - time.monotonic()) / (ranks - root)
            best[root] = with_warnings(of_root(root, max(FIRST_ONLY, share), told))
            tell("records", steps.entries[before:])
        return best

    def heard(kind: str, value: Any) -> None:
        if kind == "progress":
            progress(*value)
        else:
            steps.entries[before:] = value

    result, ended = last_result(work, until, request.policy.compile.grace, heard)
    if result is None:
        if ended == "interrupt":
            raise KeyboardInterrupt
        message = f"not every root had a program after {seconds:g} s"
        raise HetesynthError(message, code="HS602", exit_code=3, help="raise --time-budget, or leave it out")
    return result


def write(syntheses: Sequence[Synthesis], stem: Path) -> list[Path]:
    """Every file of every root, ``stem-root3.xml`` and so on, all or none; the paths, root by root."""
    from hetesynth.files.atomic import write_all

    paths = {
        stem.with_name(f"{stem.name}-root{synthesis.request.root}{suffix}"): data
        for synthesis in syntheses
        for suffix, data in synthesis.files.items()
    }
    write_all(paths)
    return list(paths)
