"""Tables for tests."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from support.pods import SMALL

from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import COLLECTIVE_NAMES, COLLECTIVES, CollectiveName
from hetesynth.model.program import BufferSlice
from hetesynth.model.table import Table
from hetesynth.programs.layout import FileOptions
from hetesynth.programs.tables.lower import lower_table
from hetesynth.programs.tables.writer import write_table
from hetesynth.topology.language import parse_topology

ROOT = 3


@cache
def table_of(topology: Path | str, collective: CollectiveName, pieces: int = 2) -> Table:
    """By list scheduling, to or from rank 3. ``topology``: a file, or the name of a small cluster."""
    source = topology if isinstance(topology, Path) else parse_topology(SMALL[topology])
    root = ROOT if COLLECTIVES[collective].rooted else None
    made = synthesize(Request(source, collective, root=root, schedule_only=True, strategy="greedy"))
    return lower_table(made.problem, made.solution.schedule, FileOptions(collective), pieces)


def write_tables(folder: Path, topology: Path | str, pieces: int = 2) -> Path:
    """A file for each collective."""
    folder.mkdir()
    for name in COLLECTIVE_NAMES:
        (folder / f"{name}.torch.json").write_bytes(write_table(table_of(topology, name, pieces)))
    return folder


def wrong_source(table: Table) -> Table:
    """Another chunk of the same buffer is sent."""
    first, *others = table.rounds[0]
    source = BufferSlice(first.source.buffer, (first.source.offset + 1) % table.sizes[first.src][0])
    return replace(table, rounds=((replace(first, source=source), *others), *table.rounds[1:]))


def no_addition(table: Table) -> Table:
    return replace(table, rounds=tuple(tuple(replace(m, added=None) for m in part) for part in table.rounds))


def no_first_round(table: Table) -> Table:
    return replace(table, rounds=table.rounds[1:])


WRONG = [wrong_source, no_addition, no_first_round]
