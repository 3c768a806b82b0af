"""The main job for pods: a composition to a judged file and, where programs can hold it, programs beside it.

In: a request. Out: a ``ComposedFiles``. Programs come from strategy ``composition`` on the flat problem, which
composes in steps; a cluster past ``program_ranks`` has none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hetesynth.engine.compilation import compilation
from hetesynth.engine.composition import COMPOSITION_SUFFIX, STRATEGY, Composed, composed
from hetesynth.errors import HetesynthError
from hetesynth.search.search import Progress

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.request import Request


@dataclass(frozen=True)
class ComposedFiles:
    """A composition and the programs of the same cluster. ``no_program``: why there are none."""

    composed: Composed
    synthesis: Synthesis | None
    no_program: str | None

    def write(self, stem: Path) -> list[Path]:
        """All files next to each other, all or none."""
        from hetesynth.engine.artifacts import write
        from hetesynth.files.atomic import write_all

        if self.synthesis is not None:
            files = {**self.synthesis.files, COMPOSITION_SUFFIX: self.composed.document}
            return write(replace(self.synthesis, files=files), stem)
        path = stem.with_name(stem.name + COMPOSITION_SUFFIX)
        with self.composed.run.timer.phase("write"):
            write_all({path: self.composed.document})
        return [path]


def compose_files(request: Request, progress: Progress) -> ComposedFiles:
    """The files of ``request``. HetesynthError: the cluster cannot be composed."""
    run = compilation(request, progress)
    done = composed(run)
    ranks, most = done.composition.task.cluster.ranks, request.policy.pods.program_ranks
    if request.schedule_only:
        return ComposedFiles(done, None, "--schedule-only")
    if ranks > most:
        return ComposedFiles(done, None, f"{ranks} GPUs are more than the {most} of which programs are tried")
    from hetesynth.engine.synth import synthesize

    flat = replace(request, strategy=STRATEGY, objective="steps")
    try:
        return ComposedFiles(done, synthesize(flat, progress, run.budget_left), None)
    except HetesynthError as error:
        return ComposedFiles(done, None, error.message)
