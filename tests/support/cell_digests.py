"""Cells made in one process, one after the other, with the digest of what each came to.

As a script: a JSON list of ``[topology file, collective, target, extent]`` on standard input; ``extent`` is a
range of bytes ``[low, high]`` or a number of chunks. Standard output: a JSON line for each with its digest, or the
code of the error that it ended with, its seconds, on the wall and of the processor, and the most memory so far.
"""

from __future__ import annotations

import hashlib
import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from hetesynth.deploy.compute import compute
from hetesynth.deploy.job import Job, job, pickled
from hetesynth.deploy.manifest.values import Cell, CellOptions
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import ROOTED
from hetesynth.model.size_range import SizeRange
from hetesynth.topology.language import load_topology

CellWords = list[Any]
SCRIPT = Path(__file__)


def cell_job(words: CellWords) -> Job:
    """The job of a cell in words."""
    path, collective, target, extent = words
    stated = extent if isinstance(extent, int) else SizeRange(extent[0], extent[1], f"{extent[0]}..{extent[1]}")
    file = Path(path)
    name = file.parent.name if file.stem == "topo" else file.stem
    options = CellOptions(root=0, single_root=True) if collective in ROOTED else CellOptions()
    return job(Cell(name, collective, stated, target, options), *pickled(load_topology(file)))


def digest(words: CellWords) -> str:
    """Of the result of a cell, or the code of its error."""
    try:
        return hashlib.sha256(compute(cell_job(words)).packed()).hexdigest()
    except HetesynthError as error:
        return error.code


def main() -> None:
    """Answer standard input."""
    for words in json.load(sys.stdin):
        began, spent = time.perf_counter(), time.process_time()
        code = digest(words)
        told: dict[str, Any] = {"cell": words, "digest": code, "seconds": round(time.perf_counter() - began, 2)}
        told["processor"] = round(time.process_time() - spent, 2)
        told["mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
