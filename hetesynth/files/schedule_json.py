"""Schedule <-> JSON: the document that keeps a schedule with its collective, its links and how it was made."""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.strict_json import JsonRefused, fail, integer, items, read_json
from hetesynth.model.collective import COLLECTIVE_NAMES, REDUCING, ROOTED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank

FORMAT = "hetesynth-schedule"
VERSION = 1
MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 16
MAX_RANKS = 65536
MAX_INTEGER = 2**53
MAX_ROUNDS = 100_000

JsonValue = None | bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"]
_KEYS = ("format", "version", "header", "collective", "ranks", "chunks_per_rank", "root", "makespan")
_LISTS = ("links", "transfers")


_Holds = Callable[[Any], bool]
_STATED: dict[str, tuple[str, _Holds]] = {
    "lower_bound": ("a number of steps", lambda value: type(value) is int and 0 <= value <= MAX_INTEGER),
    "chunk_bytes": ("a positive integer", lambda value: type(value) is int and value > 0),
    "tau_ref_us": ("a positive number", lambda v: type(v) in (int, float) and 0 < v <= sys.float_info.max),
    "rounding": ("ceil, floor or nearest", lambda value: value in ("ceil", "floor", "nearest")),
    "exclusion": ("step or program", lambda value: value in ("step", "program")),
    **dict.fromkeys(("proven_optimal", "latencies"), ("true or false", lambda value: isinstance(value, bool))),
    **dict.fromkeys(("bound_method", "bound_proof", "topology_sha256"), ("text", lambda v: isinstance(v, str))),
}
"""What the values of a header have to be where they are read; others are the writer's own."""


@dataclass(frozen=True, slots=True)
class ScheduleDocument:
    """A schedule with its collective and its links.

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

    @property
    def exclusive_reduction(self) -> bool:
        """Return True if eq. 8 holds in every step: for a reduction, unless the header leaves it to programs."""
        return self.collective in REDUCING and self.header.get("exclusion") != "program"


def schedule_document(
    problem: Problem, schedule: Schedule, header: Mapping[str, JsonValue], numbers: Sequence[int] = ()
) -> ScheduleDocument:
    """Return the document of ``schedule``, a solution of ``problem``. ``numbers``: indices of the problem's links
    in the whole cluster, if it has only some. A reduction's header says whether eq. 8 holds in its steps."""
    used = sorted({t.link for t in schedule.transfers})
    links = tuple((numbers[i] if numbers else i, problem.arcs[i].src, problem.arcs[i].dst) for i in used)
    if numbers:
        moved = (replace(t, link=numbers[t.link]) for t in schedule.transfers)
        schedule = Schedule.of(moved, schedule.makespan, schedule.rounds)
    of = problem.collective
    if of.reduces:
        header = {**header, "exclusion": "step" if problem.exclusive_reduction else "program"}
    return ScheduleDocument(of.name, of.ranks, of.chunks_per_rank, of.root, links, schedule, header)


def write_schedule_json(
    problem: Problem, schedule: Schedule, header: Mapping[str, JsonValue], numbers: Sequence[int] = ()
) -> bytes:
    """Return the JSON text of ``schedule`` with ``header``, keys sorted: equal input, equal bytes."""
    return write_document(schedule_document(problem, schedule, header, numbers))


def write_document(document: ScheduleDocument) -> bytes:
    """Return the JSON text of ``document``; ``read_schedule_json`` reads it back."""
    stated = (document.header, document.collective, document.ranks, document.chunks_per_rank, document.root)
    values = (FORMAT, VERSION, *stated, document.schedule.makespan)
    transfers = [[t.start, t.end, t.chunk, t.link, int(t.reduce)] for t in document.schedule.transfers]
    parts = [f" {_text(key)}: {_text(value)}" for key, value in zip(_KEYS, values, strict=True)]
    if document.schedule.rounds:
        parts.append(f' "rounds": {_text(list(document.schedule.rounds))}')
    for name, rows in (("links", document.links), ("transfers", transfers)):
        lines = ",\n".join(f"  {_text(row)}" for row in rows)
        parts.append(f' "{name}": [\n{lines}\n ]' if rows else f' "{name}": []')
    return ("{\n" + ",\n".join(parts) + "\n}\n").encode("ascii")


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True)


def read_schedule_json(data: bytes, filename: str = "<schedule>") -> ScheduleDocument:
    """Return the document in ``data``. Raises HetesynthError HS520, exit code 2, when it is not one."""
    try:
        _demand(len(data) <= MAX_BYTES, f"{len(data)} bytes is more than the {MAX_BYTES} a schedule may have")
        return _document(read_json(data, MAX_DEPTH))
    except JsonRefused as refusal:
        help_ = "give a schedule JSON that `hetesynth synth` wrote"
        raise HetesynthError(f"{filename}: {refusal}", code="HS520", help=help_) from None


def _document(values: Any) -> ScheduleDocument:
    """Return the schedule document that ``values`` state; raise JsonRefused if they do not state one."""
    _demand(isinstance(values, dict), "not a JSON object")
    _demand(values.get("format") == FORMAT, f"this is not a schedule: its format is not {FORMAT!r}")
    version = values.get("version")
    _demand(type(version) is int and version == VERSION, f"format version {_shown(version)} is not supported")
    others = sorted((values.keys() - {"rounds"}) ^ {*_KEYS, *_LISTS})
    _demand(not others, f"{_shown(others[:1])} is missing or not a field of a schedule")
    name = next((n for n in COLLECTIVE_NAMES if n == values["collective"]), None)
    if name is None:
        fail(f"there is no collective {_shown(values['collective'])}")
    ranks = integer(values["ranks"], "ranks", 1, MAX_RANKS)
    chunks = integer(values["chunks_per_rank"], "chunks_per_rank", 1, MAX_INTEGER)
    makespan = integer(values["makespan"], "makespan", 0, MAX_INTEGER)
    root = None if values["root"] is None else integer(values["root"], "root", 0, ranks - 1)
    _demand((name in ROOTED) == (root is not None), f"{name} {'needs' if name in ROOTED else 'has no'} root")
    _demand(isinstance(values["header"], dict), "'header' is not an object")
    for key, value in values["header"].items():
        what, holds = _STATED.get(key, ("", lambda _: True))
        _demand(holds(value), f"header: {key} is {_shown(value)}, not {what}")
    links: list[tuple[int, Rank, Rank]] = []
    least = 0
    for at, (index, src, dst) in _rows(values["links"], "links", 3):
        right = least <= index <= MAX_INTEGER and 0 <= src < ranks and 0 <= dst < ranks and src != dst
        _demand(right, f"{at} is out of range, or a link from a rank to itself")
        links.append((index, src, dst))
        least = index + 1
    indices = {index for index, _, _ in links}
    transfers: list[Transfer] = []
    for at, (start, end, chunk, link, reduce) in _rows(values["transfers"], "transfers", 5):
        right = 0 <= start < end <= makespan and 0 <= chunk <= MAX_INTEGER and reduce in (0, 1)
        _demand(right and link in indices, f"{at} is out of range, or its link is not in 'links'")
        transfers.append(Transfer(start, end, chunk, link, bool(reduce)))
    stated = items(values.get("rounds", []), "'rounds'")
    _demand(len(stated) <= MAX_ROUNDS, f"more than {MAX_ROUNDS} steps have rounds")
    rounds = tuple(integer(value, f"rounds[{i}]", 1, MAX_ROUNDS) for i, value in enumerate(stated))
    _demand(not rounds or sum(rounds) == makespan, f"its rounds are {sum(rounds)}, its makespan is {makespan}")
    schedule = Schedule.of(transfers, makespan, rounds)
    return ScheduleDocument(name, ranks, chunks, root, tuple(links), schedule, values["header"])


def _rows(rows: object, name: str, width: int) -> Iterator[tuple[str, list[int]]]:
    for i, row in enumerate(items(rows, repr(name))):
        right = isinstance(row, list) and len(row) == width and all(type(value) is int for value in row)
        _demand(right, f"{name}[{i}] is not a list of {width} integers")
        yield f"{name}[{i}]", row


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        fail(otherwise)


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**30 else "a huge number"
    return text if len(text) <= 60 else f"{text[:57]}..."
