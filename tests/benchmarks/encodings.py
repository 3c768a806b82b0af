"""Measures encodings of the step model against each other: ``python tests/benchmarks/encodings.py``.

Prints the table of docs/decisions.md, 4: CPU seconds to build and to decide each instance with
the monolithic model, every run in a process of its own, one after the other. ``--only WORD`` selects instances or
encodings, ``--limit SECONDS`` is what one run may take (default 60).
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.graphs import Graph, dgx1, fig10, problem, ring, servers

Instance = tuple[Callable[[], Graph], str, int, int]

INSTANCES: dict[str, Instance] = {  # graph, collective, chunks, steps
    "4+8 allgather c=1, 3 steps": (lambda: servers([4, 8]), "allgather", 1, 3),
    "4+8 allgather c=1, 2 steps": (lambda: servers([4, 8]), "allgather", 1, 2),
    "4x2+8 allgather c=1, 4 steps": (lambda: servers([4, 4, 8]), "allgather", 1, 4),
    "4x2+8 allgather c=2, 7 steps": (lambda: servers([4, 4, 8]), "allgather", 2, 7),
    "8x2+4 allgather c=1, 5 steps": (lambda: servers([8, 8, 4]), "allgather", 1, 5),
    "dgx1 allgather c=2, 3 steps": (dgx1, "allgather", 2, 3),
    "dgx1 allgather c=2, 2 steps": (dgx1, "allgather", 2, 2),
    "dgx1 allgather c=6, 7 steps": (dgx1, "allgather", 6, 7),
    "dgx1 alltoall c=1, 3 steps": (dgx1, "alltoall", 1, 3),
    "fig10 allgather c=1, 5 steps": (fig10, "allgather", 1, 5),
    "fig10 allgather c=1, 4 steps": (fig10, "allgather", 1, 4),
    "fig10 allgather c=2, 8 steps": (fig10, "allgather", 2, 8),
    "ring8 alltoall c=1, 9 steps": (lambda: ring(8), "alltoall", 1, 9),
    "ring8 alltoall c=1, 8 steps": (lambda: ring(8), "alltoall", 1, 8),
}

ENCODINGS: dict[str, tuple[str, dict[str, Any]]] = {  # model or encoding, options of the solver
    "native": ("native", {}),
    "Z3's totalizer": (
        "native", {"cardinality.solver": False, "pb.solver": "totalizer"},
    ),
    "Z3's ordered": (
        "native", {"cardinality.solver": False, "cardinality.encoding": "ordered"},
    ),
    "own totalizer": ("totalizer", {}),
    "own counter": ("sequential", {}),
    "time/snd": ("time", {}),
}  # fmt: skip


def run(instance: str, encoding: str, limit: int) -> str:
    """Decide one instance in this process; what is printed for it."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 1))
    from support.cardinality import CARDINALITY_ENCODINGS
    from support.time_model import TimeModel

    from hetesynth.search.copy_problem import CopyProblem
    from hetesynth.search.smt.monolithic import every_law
    from hetesynth.search.smt.step_model import StepModel

    graph, collective, chunks, steps = INSTANCES[instance]
    tables = CopyProblem(problem(graph(), collective, chunks))  # type: ignore[arg-type]
    way, options = ENCODINGS[encoding]
    started = time.process_time()
    if way == "time":
        timed = TimeModel(tables, steps)
        built = time.process_time()
        answer = timed.check(0)
    else:
        model = StepModel(tables, steps, encoding=CARDINALITY_ENCODINGS[way], options=options)
        for law in every_law(tables):
            model.add(law)
        built = time.process_time()
        answer = model.check((), 0, None)
    return f"{answer} {built - started:.2f} + {time.process_time() - built:.2f}"


def main() -> None:
    """The table, or one run for it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--run", nargs=2)
    options = parser.parse_args()
    if options.run:
        print(run(*options.run, options.limit))
        return
    import z3

    print(f"{platform.machine()}, Python {platform.python_version()}, z3 {z3.get_version_string()}")
    print("| instance | " + " | ".join(ENCODINGS) + " |\n|" + "---|" * (len(ENCODINGS) + 1))
    for instance in INSTANCES:
        cells = []
        for encoding in ENCODINGS:
            if options.only.lower() not in f"{instance}: {encoding}".lower():
                cells.append("-")
                continue
            command = [sys.executable, __file__, "--limit", str(options.limit), "--run", instance, encoding]
            done = subprocess.run(command, capture_output=True, text=True)
            cells.append(done.stdout.strip() or f"> {options.limit}")
        print(f"| {instance} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
