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

from benchmarks.heteccl.cases import Case, CompositionCase
from benchmarks.heteccl.clusters import source
from benchmarks.journal import RowJournal
from benchmarks.measure import Process, run

PATIENCE = 600.0  # seconds after which a case is taken to hang

Announce = Callable[[int, int, str], None]
Run = Callable[[Sequence[str], dict[str, str], float], Process]


@dataclass(frozen=True, slots=True)
class Entry:
    """A case and what its process said. ``wall`` and ``cpu`` seconds of the whole process, peak ``megabytes``;
    ``error``: why nothing was said. ``digest``: of the cluster's text."""

    name: str
    digest: str
    wall: float
    cpu: float | None
    megabytes: float | None
    said: dict[str, Any]
    error: str = ""


Entries = dict[str, Entry]


class Journal(RowJournal[str, Entry]):
    """Entries by name."""

    field = "entries"

    def key(self, row: Entry) -> str:
        """The name of the case."""
        return row.name

    def plain(self, row: Entry) -> dict[str, Any]:
        """All fields."""
        return asdict(row)

    def row(self, values: dict[str, Any]) -> Entry:
        """The entry with these fields."""
        return Entry(**values)


def measured(
    cases: Sequence[Case], examples: Path, journal: Journal, announce: Announce, process: Run = run
) -> Iterator[Entry]:
    """The entry of each case, from the journal where it is there; new ones go into the journal at once."""
    with tempfile.TemporaryDirectory(prefix="hetesynth-heteccl-") as name:
        for number, case in enumerate(cases):
            announce(number, len(cases), case.name)
            text = source(case.cluster, examples)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            entry = journal.get(case.name)
            if entry is None or entry.digest != digest:
                file = Path(name) / f"{case.cluster.replace('/', '_').removesuffix('.dsl')}.dsl"
                file.write_text(text, encoding="utf-8")
                entry = _measured(case, digest, file, Path(name) / "out", process)
                journal.add(entry)
            yield entry


def _measured(case: Case, digest: str, topology: Path, out: Path, process: Run) -> Entry:
    ended = process(_command(case, topology, out), dict(os.environ), PATIENCE)
    said, error = _said(ended)
    return Entry(case.name, digest, ended.seconds, ended.cpu, ended.megabytes, said, error)


def _command(case: Case, topology: Path, out: Path) -> list[str]:
    if isinstance(case, CompositionCase):
        command = ["hetesynth", "synth", str(topology), "--coll", case.collective, "--json", "-o", str(out)]
        return [sys.executable, "-m", *command]
    return [sys.executable, "-m", "benchmarks.heteccl.measuring", case.name, str(topology)]


def _said(ended: Process) -> tuple[dict[str, Any], str]:
    """What the process printed, or why there is nothing."""
    if ended.hung:
        return {}, f"killed after {ended.seconds:.0f} s"
    try:
        said: dict[str, Any] = json.loads(ended.output)
    except ValueError:
        return {}, (ended.errors.strip().splitlines() or [f"exit code {ended.code}"])[-1]
    return said, str(said.get("error", ""))
