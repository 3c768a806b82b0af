"""Prints docs/benchmarks_large.md: programs of 12 to 256 GPUs by the default command, and what they cost.

``PYTHONPATH=tests python tests/benchmarks/large_programs.py > docs/benchmarks_large.md`` takes five minutes on
an idle machine. A program of 128 GPUs is made first, unrecorded, so that kernels are compiled.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.clusters import EXAMPLES, topology
from benchmarks.machine import load, machine
from benchmarks.run import run
from benchmarks.tables import markdown, wrapped

MIXED = """
import h100
import a100

cluster mixed {
  chunk 16 MB
  instance h[0-3] = h100x8
  instance a[0-3] = a100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
CLUSTERS = {
    "h20_4p8": "4 + 8 H20", "h20_16": "16 H20", "h20_32": "32 H20", "h20_64": "8 x 4 and 4 x 8 H20",
    "h20_8x16": "16 x 8 H20", "h20_8x32": "32 x 8 H20", "mixed": "4 x 8 H100 and 4 x 8 A100",
}  # fmt: skip
HEAD = ("cluster", "GPUs", "collective", "ms", "% of the limit", "x NCCL", "steps in the file", "CPU s", "MB")
TEXT = """\
# Programs of large clusters

Of 1 GB, by `hetesynth synth CLUSTER --coll COLLECTIVE --size 1GB`, for the portable target, whose files no runtime
that is kept up reads. Made by `PYTHONPATH=tests python tests/benchmarks/large_programs.py`. `ms`, `% of the limit`
and `x NCCL` are of the file, read back and **simulated** with what runtimes cost: expected rates beside NCCL's
formula, line rate beside the proved limit, without switch reduction. `CPU s`: the whole command, both files
judged.

{table}

Of clusters of one model, CPU seconds grow as GPUs to the power {laws} (least squares of the logarithms).

Measured of hetesynth {version} with a load of {load}: {facts}.
"""


def command(path: Path, collective: str, folder: str) -> tuple[dict[str, float], float, float]:
    """Run ``synth`` and return its JSON, its CPU seconds and its peak megabytes."""
    words = ["synth", str(path), "--coll", collective, "--size", "1GB", "-o", f"{folder}/made", "--json"]
    process = run([sys.executable, "-m", "hetesynth", *words], dict(os.environ), 900.0)
    if process.code:
        raise SystemExit(process.errors)
    return json.loads(process.output), process.cpu, process.megabytes


def rows(folder: str) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table."""
    for name, what in CLUSTERS.items():
        path = Path(folder, "mixed.dsl")
        path.write_text(MIXED, encoding="utf-8")
        path = path if name == "mixed" else topology(name, EXAMPLES, Path(folder))
        for collective in ("allgather", "allreduce"):
            said, cpu, megabytes = command(path, collective, folder)
            steps = sum(p.count(b"<step ") for p in [Path(folder, "made.xml").read_bytes()])
            figures = said["program_us"] / 1000, said["percent_of_limit"], said["factor_over_library"]
            yield (
                what, f"{said['ranks']}", collective, *(f"{x:.3g}" for x in figures), f"{steps:,}", f"{cpu:.1f}",
                f"{megabytes:.0f}",
            )  # fmt: skip


def law(table: list[tuple[str, ...]], collective: str) -> float:
    """Return the exponent of the CPU seconds of ``collective`` on clusters of one model."""
    points = [
        (float(row[1]), float(row[7])) for row in table if row[2] == collective and "and 4 x 8 A" not in row[0]
    ]
    return float(np.polyfit(*np.log(np.array(points).T), 1)[0])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="hetesynth-large-") as place:
        command(topology("h20_8x16", EXAMPLES, Path(place)), "allreduce", place)
        measured = list(rows(place))
    of_all = ", ".join(f"{law(measured, name):.2f} for {name}" for name in ("allgather", "allreduce"))
    facts = machine()
    version = facts.pop("hetesynth")
    said = ", ".join(f"{name} {value}" for name, value in facts.items())
    table = markdown(HEAD, measured)
    page = wrapped(TEXT.format(table=table, laws=of_all, version=version, load=load(), facts=said))
    sys.stdout.write(page)
