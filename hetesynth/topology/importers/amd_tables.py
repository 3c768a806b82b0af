"""What ``rocm-smi --showtopo`` and ``amd-smi topology`` (text or JSON) say of each pair of GPUs, as one value.

The text forms have a matrix for each property, below a line that names it; the JSON forms have it by GPU.
Neither tool says how many links a pair has: weights say whether xGMI joins it without another GPU between,
bandwidths how much.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.topology.importers.tool_text import refused

MAX_GPUS = 128
MAX_DEPTH = 12
MAX_DIGITS = 18
HELP = "give the whole output of `amd-smi topology --json` or `rocm-smi --showtopo`"
WEIGHT, HOPS, LINK_TYPE, BANDWIDTH = "weight", "hops", "link type", "bandwidth"

_TITLES = {"weight": WEIGHT, "hops": HOPS, "link type": LINK_TYPE, "numa bw": BANDWIDTH}
_ROCM_TITLE = re.compile(r"=+ *(Weight|Hops|Link Type) between two GPUs *=+", re.IGNORECASE)
_AMD_TITLE = re.compile(r"([A-Z][A-Z -]{1,30}?) TABLE:")
_GPU = re.compile(r"GPU\d{1,3}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_NUMA = re.compile(r"GPU\[(\d{1,3})\]\s*: \(Topology\) Numa (?:Node|Affinity): (-?\d{1,4})")
_FIELDS = {WEIGHT: "weight", HOPS: "num_hops", LINK_TYPE: "link_type", BANDWIDTH: "bandwidth"}
_OLD_FIELDS = {WEIGHT: "weight", HOPS: "hops", LINK_TYPE: "link_type", BANDWIDTH: "numa_bandwidth"}

Matrix = dict[tuple[int, int], str]


@dataclass(frozen=True, slots=True)
class PairTables:
    """The GPUs in order (names or bus ids) and what is said of each ordered pair, by property, as text."""

    gpus: tuple[str, ...]
    tables: Mapping[str, Matrix]
    numa: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs = {(a, b) for a in range(len(self.gpus)) for b in range(len(self.gpus)) if a != b}
        if any(not pairs <= set(matrix) for matrix in self.tables.values()):
            raise ValueError("a table lacks a pair")

    def value(self, table: str, a: int, b: int) -> str | None:
        """What ``table`` says of the pair; None where there is no such table."""
        return self.tables[table][a, b] if table in self.tables else None


def is_amd_text(lines: Sequence[str]) -> bool:
    """Whether a line is the title of such a matrix."""
    return any(_title(line) in _TITLES.values() for line in lines)


def text_tables(lines: Sequence[str], name: str) -> PairTables:
    """The matrices of a text; HS732 where they are incomplete or contradict each other."""
    gpus: tuple[str, ...] = ()
    tables: dict[str, Matrix] = {}
    for number, line in enumerate(lines):
        title = _title(line)
        if title in _TITLES.values():
            if title in tables:
                raise refused(name, f"line {number + 1}: a second table of {title}", "give one server a file")
            devices, matrix = _matrix(lines, number + 1, name)
            if gpus and devices != gpus:
                raise refused(name, f"line {number + 1}: a table of other GPUs than the one before", HELP)
            gpus, tables[title] = devices, matrix
    if not tables:
        raise refused(name, "no table of weights, hops, link types or bandwidths", HELP)
    numa = {int(match[1]): int(match[2]) for line in lines if (match := _NUMA.match(line)) and int(match[2]) >= 0}
    return PairTables(gpus, tables, {gpu: node for gpu, node in numa.items() if gpu < len(gpus)})


def _title(line: str) -> str:
    """The property that a line announces; "" where it announces none, and its own words for another table."""
    match = _ROCM_TITLE.match(line.strip()) or _AMD_TITLE.fullmatch(line.strip())
    return _TITLES.get(match[1].lower(), match[1]) if match else ""


def _matrix(lines: Sequence[str], start: int, name: str) -> tuple[tuple[str, ...], Matrix]:
    """The matrix below a title: a line of GPUs, then a line for each."""
    start = next((n for n in range(start, min(start + 3, len(lines))) if lines[n].split()), len(lines))
    devices = tuple(lines[start].split()) if start < len(lines) else ()
    if not devices or not all(map(_GPU.fullmatch, devices)) or not _distinct(devices):
        raise refused(name, f"line {start + 1}: no line of GPUs below the title", HELP)
    matrix: Matrix = {}
    for row, device in enumerate(devices):
        number = start + 1 + row
        words = lines[number].split() if number < len(lines) else []
        if words[:1] != [device] or len(words) != len(devices) + 1:
            raise refused(name, f"line {number + 1}: no whole row of {device}", HELP)
        matrix |= {(row, column): word for column, word in enumerate(words[1:])}
    return devices, matrix


def _distinct(devices: Sequence[str]) -> bool:
    return len(devices) <= MAX_GPUS and len(set(devices)) == len(devices)


def json_tables(data: bytes, name: str) -> PairTables:
    """What ``amd-smi topology --json`` says; both of its layouts."""
    try:
        document = read_json(data, JsonLimits(MAX_DEPTH, MAX_DIGITS))
    except JsonRefused as error:
        raise refused(name, str(error), HELP) from error
    if isinstance(document, dict) and isinstance(document.get("topology"), list):
        document = document["topology"]
    if not is_amd_document(document) or len(document) > MAX_GPUS:
        raise refused(name, "no list of GPUs with their links", HELP)
    gpus = [entry["gpu"] for entry in document]
    if len(set(gpus)) != len(gpus):
        raise refused(name, "a GPU stands there twice", "give one server a file")
    rows = {gpu: _row(entry, name) for gpu, entry in zip(gpus, document, strict=True)}
    tables: dict[str, Matrix] = {}
    for table in _FIELDS:
        matrix = {
            (a, b): rows[one][table][other]
            for a, one in enumerate(gpus)
            for b, other in enumerate(gpus)
            if other in rows[one].get(table, {})
        }
        missing = [(a, b) for a in range(len(gpus)) for b in range(len(gpus)) if a != b and (a, b) not in matrix]
        if matrix and missing:
            raise refused(
                name, f"{table} of GPUs {gpus[missing[0][0]]} and {gpus[missing[0][1]]} is not there", HELP
            )
        tables |= {table: matrix} if matrix else {}
    names = [entry.get("bdf") for entry in document]
    bus_ids = all(isinstance(bdf, str) and _GPU.fullmatch(bdf) for bdf in names) and len(set(names)) == len(names)
    return PairTables(tuple(map(str, names)) if bus_ids else tuple(f"GPU{gpu}" for gpu in gpus), tables)


def is_amd_document(document: object) -> bool:
    """Whether a JSON value has the shape of ``amd-smi topology``: a list of GPUs with links or tables."""
    return (
        isinstance(document, list)
        and bool(document)
        and all(isinstance(entry, dict) and type(entry.get("gpu")) is int for entry in document)
        and all(
            isinstance(entry.get("links"), list) or isinstance(entry.get("weight"), dict) for entry in document
        )
    )


def _row(entry: Mapping[str, Any], name: str) -> dict[str, dict[int, str]]:
    """What a GPU says of the others, by table and GPU."""
    row: dict[str, dict[int, str]] = {table: {} for table in _FIELDS}
    if isinstance(entry.get("links"), list):
        for link in entry["links"]:
            if not isinstance(link, dict) or type(link.get("gpu")) is not int:
                raise refused(name, f"GPU {entry['gpu']} has a link without the number of a GPU", HELP)
            for table, key in _FIELDS.items():
                if key in link:
                    row[table][link["gpu"]] = str(link[key])[:100]
        return row
    for table, key in _OLD_FIELDS.items():
        values = entry.get(key)
        for other, value in values.items() if isinstance(values, dict) else ():
            if match := re.fullmatch(r"gpu_(\d{1,3})", other):
                row[table][int(match[1])] = str(value)[:100]
    return row
