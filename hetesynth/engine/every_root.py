"""A rooted collective for every root of a cluster, in one go.

In: a request. Out: a ``Synthesis`` for each root, and their files, written together. It is of use where whatever
selects programs sees the root of a call, as selectors of MSCCL++ do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.compilation import compilation
from hetesynth.engine.request import Request
from hetesynth.engine.roots import demand_single_root
from hetesynth.engine.synth import synthesized
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import now
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.language import load_topology


def for_every_root(
    request: Request, progress: Progress = no_progress, trace: CegisTrace | None = None
) -> list[Synthesis]:  # fmt: skip
    """One synthesis a root, in order; the time budget is for all of them together, each begins nothing after its
    share. ``trace``: what CEGIS did.

    After an interrupt the roots that are left get what a first schedule takes. HetesynthError: as ``synthesize``;
    HS303 where the collective has no root, HS514 where a target would take the first file for every root.
    """
    if not request.schedule_only:
        demand_single_root(request.targets, request.collective, promised=False, every=True)
    ranks, started, stopped = load_topology(request.topology).ranks, now(), False
    syntheses: list[Synthesis] = []
    least = 0.01  # seconds: a first schedule is found all the same
    for root in range(ranks):
        budget = request.budget
        if stopped:
            budget = replace(budget, seconds=least)
        elif budget.seconds is not None:
            left = started + budget.seconds - now()
            budget = replace(budget, seconds=max(least, left / (ranks - root)))
        part = None if trace is None else trace.inside(f"root {root}")
        run = compilation(replace(request, root=root), progress, budget, trace=part, every_root=True)
        syntheses.append(synthesized(run))
        stopped = stopped or syntheses[-1].ending == "interrupt"
    return syntheses


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
