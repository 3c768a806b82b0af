"""Make the pictures of the documentation: a schedule of the fewest steps, a step below the other.

python docs/pictures/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

from hetesynth import api
from hetesynth.model.words import counted
from hetesynth.report.svg import schedule_svg

HERE = Path(__file__).resolve().parent


def make(folder: Path) -> None:
    """Write every picture into ``folder``."""
    cluster = api.load(HERE.parents[1] / "examples" / "h20_4p8" / "topo.dsl")
    made = api.synthesize(cluster, "allgather", schedule_only=True)
    schedule = made.by_steps.solution.schedule
    title = f"{cluster.name}: allgather in {counted(schedule.makespan, 'step')}"
    (folder / "h20_4p8.svg").write_text(schedule_svg(cluster, made.problem, schedule, title, columns=1))


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
