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

from hetesynth.bench.heteccl.cases import Case, CompositionCase
from hetesynth.bench.heteccl.clusters import source
from hetesynth.bench.machine import machine
from hetesynth.bench.measure import Process, run
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_atomically

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


class Journal:
    """Entries by name, in a file that is written after each; without a file, in memory."""

    def __init__(self, file: Path | None) -> None:
        """Raises HetesynthError HS904 where the file is no journal."""
        self._file = file
        self._entries: Entries = {}
        if file is not None and file.exists():
            self._entries = {entry.name: entry for entry in _read(file)}

    def get(self, name: str, digest: str) -> Entry | None:
        """What was measured of that case on a cluster with that text."""
        entry = self._entries.get(name)
        return None if entry is None or entry.digest != digest else entry

    def add(self, entry: Entry) -> None:
        """Keep ``entry``, on disk too."""
        self._entries[entry.name] = entry
        if self._file is not None:
            contents = {"machine": machine(), "entries": [asdict(each) for each in self._entries.values()]}
            write_atomically(self._file, (json.dumps(contents, indent=1) + "\n").encode())


def _read(file: Path) -> list[Entry]:
    try:
        return [Entry(**entry) for entry in json.loads(file.read_text(encoding="utf-8"))["entries"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise HetesynthError(
            f"{file} is no journal of this benchmark: {type(error).__name__}: {error}",
            code="HS904",
            help="choose another file with --journal",
        ) from error


def measured(
    cases: Sequence[Case], examples: Path, journal: Journal, announce: Announce, process: Run = run
) -> Iterator[Entry]:
    """The entry of each case, from the journal where it is there; new ones go into the journal at once."""
    with tempfile.TemporaryDirectory(prefix="hetesynth-heteccl-") as name:
        for number, case in enumerate(cases):
            announce(number, len(cases), case.name)
            text = source(case.cluster, examples)
            digest = hashlib.sha256(text.encode()).hexdigest()[:16]
            entry = journal.get(case.name, digest)
            if entry is None:
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
    return [sys.executable, "-m", "hetesynth.bench.heteccl.measuring", case.name, str(topology)]


def _said(ended: Process) -> tuple[dict[str, Any], str]:
    """What the process printed, or why there is nothing."""
    if ended.hung:
        return {}, f"killed after {ended.seconds:.0f} s"
    try:
        said: dict[str, Any] = json.loads(ended.output)
    except ValueError:
        return {}, (ended.errors.strip().splitlines() or [f"exit code {ended.code}"])[-1]
    return said, str(said.get("error", ""))
