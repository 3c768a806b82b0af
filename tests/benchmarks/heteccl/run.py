"""The run: each case in a process of its own.

In: cases, the folder of examples. Out: an ``Entry`` for each.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.clusters import topology
from benchmarks.heteccl.cases import Case, CompositionCase
from benchmarks.run import Process, run

Run = Callable[[Sequence[str], dict[str, str], float], Process]


@dataclass(frozen=True, slots=True)
class Entry:
    """A case and what its process said. ``wall`` seconds of the whole process, peak ``megabytes``; ``error``: why
    nothing was said."""

    name: str
    wall: float
    megabytes: float
    said: dict[str, Any]
    error: str = ""


Entries = dict[str, Entry]


def measured(cases: Sequence[Case], examples: Path, process: Run = run) -> Iterator[Entry]:
    """The entry of each case."""
    with tempfile.TemporaryDirectory(prefix="hetesynth-heteccl-") as folder:
        for case in cases:
            file = str(topology(case.cluster, examples, Path(folder)))
            command = ["benchmarks.heteccl.measuring", case.name, file]
            if isinstance(case, CompositionCase):
                command = ["hetesynth", "synth", file, "--coll", case.collective, "--json", "-o", f"{folder}/out"]
            ended = process([sys.executable, "-m", *command], dict(os.environ), 600.0)
            said: dict[str, Any] = {}
            try:
                said = json.loads(ended.output)
                error = str(said.get("error", ""))
            except ValueError:
                error = (ended.errors.strip().splitlines() or [f"exit code {ended.code}"])[-1]
            yield Entry(case.name, ended.seconds, ended.megabytes, said, error)
