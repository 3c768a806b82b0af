"""The run: each case in a process of its own, kept in a journal from which a stopped run goes on.

In: cases, the folder of examples, a journal. Out: an ``Entry`` for each. An entry of the journal counts for the
same case and the same text of the cluster only.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.clusters import topology
from benchmarks.heteccl.cases import Case, CompositionCase
from benchmarks.run import Process, run
from benchmarks.tables import Journal

Run = Callable[[Sequence[str], dict[str, str], float], Process]


@dataclass(frozen=True, slots=True)
class Entry:
    """A case and what its process said. ``wall`` and ``cpu`` seconds of the whole process, peak ``megabytes``;
    ``error``: why nothing was said. ``digest``: of the cluster's text."""

    name: str
    digest: str
    wall: float
    cpu: float
    megabytes: float
    said: dict[str, Any]
    error: str = ""


Entries = dict[str, Entry]


def measured(
    cases: Sequence[Case],
    examples: Path,
    journal: Journal,
    announce: Callable[[int, int, str], None],
    process: Run = run,
) -> Iterator[Entry]:
    """The entry of each case, from the journal where it is there; new ones go into the journal at once."""
    with tempfile.TemporaryDirectory(prefix="hetesynth-heteccl-") as folder:
        for number, case in enumerate(cases):
            announce(number, len(cases), case.name)
            file = topology(case.cluster, examples, Path(folder))
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            row = journal.rows.get(case.name)
            if row is not None and row["digest"] == digest:
                yield Entry(**row)
                continue
            command = ["benchmarks.heteccl.measuring", case.name, str(file)]
            if isinstance(case, CompositionCase):
                command = [
                    "hetesynth",
                    "synth",
                    str(file),
                    "--coll",
                    case.collective,
                    "--json",
                    "-o",
                    f"{folder}/out",
                ]
            ended = process([sys.executable, "-m", *command], dict(os.environ), 600.0)
            said: dict[str, Any] = {}
            try:
                said = json.loads(ended.output)
                error = str(said.get("error", ""))
            except ValueError:
                error = (ended.errors.strip().splitlines() or [f"exit code {ended.code}"])[-1]
            entry = Entry(case.name, digest, ended.seconds, ended.cpu, ended.megabytes, said, error)
            journal.add(case.name, asdict(entry))
            yield entry
