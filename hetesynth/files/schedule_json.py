"""Schedule <-> JSON: the document that keeps a schedule with its collective, its links and how it was made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from hetesynth.errors import HetesynthError
from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank

FORMAT = "hetesynth-schedule"
VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 16
MAX_RANKS = 65536
MAX_INTEGER = 2**53

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
_KEYS = ("format", "version", "header", "collective", "ranks", "chunks_per_rank", "root", "makespan")
_LISTS = ("links", "transfers")


@dataclass(frozen=True, slots=True)
class ScheduleDocument:
    """A schedule and what it is a schedule of.

    ``links``: (index, source rank, destination rank) of every link a transfer uses. ``header``: name, bound,
    versions, seed, budget: whatever the writer wants to keep, as JSON values.
    """

    collective: CollectiveName
    ranks: int
    chunks_per_rank: int
    root: Rank | None
    links: tuple[tuple[int, Rank, Rank], ...]
    schedule: Schedule
    header: Mapping[str, JsonValue] = field(default_factory=dict)


def schedule_document(problem: Problem, schedule: Schedule, header: Mapping[str, JsonValue]) -> ScheduleDocument:
    """The document of ``schedule``, a solution of ``problem``."""
    used = sorted({t.link for t in schedule.transfers})
    links = tuple((i, problem.arcs[i].src, problem.arcs[i].dst) for i in used)
    collective = problem.collective
    return ScheduleDocument(
        collective.name, collective.ranks, collective.chunks_per_rank, collective.root, links, schedule, header
    )


def write_schedule_json(problem: Problem, schedule: Schedule, header: Mapping[str, JsonValue]) -> bytes:
    """The JSON text of ``schedule`` with ``header``, whose keys are sorted: equal input, equal bytes."""
    return write_document(schedule_document(problem, schedule, header))


def write_document(document: ScheduleDocument) -> bytes:
    """The JSON text of ``document``; ``read_schedule_json`` gives it back."""
    values: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "header": document.header,
        "collective": document.collective,
        "ranks": document.ranks,
        "chunks_per_rank": document.chunks_per_rank,
        "root": document.root,
        "makespan": document.schedule.makespan,
    }
    transfers = [[t.start, t.end, t.chunk, t.link, int(t.reduce)] for t in document.schedule.transfers]
    parts = [f" {_text(key)}: {_text(values[key])}" for key in _KEYS]
    parts += [_lines("links", [list(link) for link in document.links]), _lines("transfers", transfers)]
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode("ascii")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True)


def _lines(name: str, rows: list[list[int]]) -> str:
    body = ",\n".join(f"  {_text(row)}" for row in rows)
    return f' "{name}": [\n{body}\n ]' if rows else f' "{name}": []'


def read_schedule_json(data: bytes, filename: str = "<schedule>") -> ScheduleDocument:
    """The document in ``data``. Raises HetesynthError HS520, exit code 2, when it is not one."""
    return _Reader(filename).document(data)


class _Reader:
    """Checks one text; ``filename`` is only for messages."""

    def __init__(self, filename: str) -> None:
        self.filename = filename

    def fail(self, what: str) -> NoReturn:
        raise HetesynthError(
            f"{self.filename}: {what}",
            code="HS520",
            help="give a schedule JSON that `hetesynth synth` wrote",
        )

    def document(self, data: bytes) -> ScheduleDocument:
        if len(data) > MAX_BYTES:
            self.fail(f"{len(data)} bytes is more than the {MAX_BYTES} a schedule may have")
        try:
            values = read_json(data, JsonLimits(MAX_DEPTH))
        except JsonRefused as refusal:
            self.fail(str(refusal))
        if not isinstance(values, dict):
            self.fail("not a JSON object")
        if values.get("format") != FORMAT:
            self.fail(f"this is not a schedule: its format is not {FORMAT!r}")
        if values.get("version") != VERSION or isinstance(values.get("version"), bool):
            self.fail(f"format version {_shown(values.get('version'))} is not supported, only {VERSION}")
        fields = (*_KEYS, *_LISTS)
        if missing := [key for key in fields if key not in values]:
            self.fail(f"{missing[0]!r} is missing")
        if others := sorted(values.keys() - fields):
            self.fail(f"{_shown(others[0])} is not a field of a schedule")
        name = next((n for n in COLLECTIVE_NAMES if n == values["collective"]), None)
        if name is None:
            self.fail(f"there is no collective {_shown(values['collective'])}")
        ranks = self._integer(values["ranks"], "ranks", 1, MAX_RANKS)
        chunks = self._integer(values["chunks_per_rank"], "chunks_per_rank", 1, MAX_INTEGER)
        root = values["root"]
        if (name in ROOTED) != (root is not None):
            self.fail(f"{name} {'needs' if name in ROOTED else 'has no'} root")
        if root is not None:
            root = self._integer(root, "root", 0, ranks - 1)
        if not isinstance(values["header"], dict):
            self.fail("'header' is not an object")
        makespan = self._integer(values["makespan"], "makespan", 0, MAX_INTEGER)
        links: list[tuple[int, Rank, Rank]] = []
        for at, row in self._rows(values["links"], "links", 3):
            index = self._integer(row[0], at, links[-1][0] + 1 if links else 0, MAX_INTEGER)
            src, dst = (self._integer(end, at, 0, ranks - 1) for end in row[1:])
            if src == dst:
                self.fail(f"{at}: a link from rank {src} to itself")
            links.append((index, src, dst))
        transfers: list[Transfer] = []
        link_indices = {index for index, _, _ in links}
        for at, row in self._rows(values["transfers"], "transfers", 5):
            start = self._integer(row[0], at, 0, makespan)
            end = self._integer(row[1], at, start + 1, makespan)
            chunk = self._integer(row[2], at, 0, MAX_INTEGER)
            link = self._integer(row[3], at, 0, MAX_INTEGER)
            if link not in link_indices:
                self.fail(f"{at}: link {link} is not in 'links'")
            transfers.append(Transfer(start, end, chunk, link, bool(self._integer(row[4], at, 0, 1))))
        schedule = Schedule.of(transfers, makespan)
        return ScheduleDocument(name, ranks, chunks, root, tuple(links), schedule, values["header"])

    def _rows(self, rows: object, name: str, width: int) -> Iterator[tuple[str, list[Any]]]:
        if not isinstance(rows, list):
            self.fail(f"{name!r} is not a list")
        for i, row in enumerate(rows):
            if not isinstance(row, list) or len(row) != width:
                self.fail(f"{name}[{i}] is not a list of {width} integers")
            yield f"{name}[{i}]", row

    def _integer(self, value: object, what: str, low: int, high: int) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            self.fail(f"{what}: {_shown(value)} is not an integer")
        if not low <= value <= high:
            allowed = f"it must be from {low} to {high}" if low <= high else "nothing fits there"
            self.fail(f"{what}: {_shown(value)} is out of range, {allowed}")
        return value


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."
