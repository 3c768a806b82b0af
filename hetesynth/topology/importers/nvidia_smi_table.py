"""The tables of ``nvidia-smi topo -m`` and ``topo -p2p``: lines in, the cell of each pair of devices out.

Tabs or spaces may separate the columns; the first column may lack its heading or its names; lines may be wrapped.
Affinities hold commas and may be absent, so columns are counted from the left and never cut at commas.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hetesynth.topology.importers.tool_text import refused

MAX_DEVICES = 256
SELF = "X"
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first
PEER_STATUS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
HELP = "give the whole output of `nvidia-smi topo -m`, from the line with GPU0 on"

_DEVICE = re.compile(
    r"(?:GPU|NIC)\d{1,4}|(?:mlx|hfi|bnxt|irdma|rdma|rocep?|ibp?|efa|erdma|cxi|ens|eno|eth)\w{1,40}"
)
_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR|U")
_TRAILING = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """A table: the devices of its columns, the rows that it has, each with the cells and the affinities."""

    line: int
    devices: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    numa: dict[str, str]
    nic_names: dict[str, str]

    def __post_init__(self) -> None:
        if any(len(cells) != len(self.devices) for cells in self.rows.values()):
            raise ValueError("a row has other columns than the table")

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices that are GPUs, in the order of the columns."""
        return tuple(device for device in self.devices if device.startswith("GPU"))

    @property
    def nics(self) -> tuple[str, ...]:
        """The devices that are NICs, in the order of the columns."""
        return tuple(device for device in self.devices if not device.startswith("GPU"))

    @property
    def of_peer_access(self) -> bool:
        """Whether it is a table of ``topo -p2p``: cells say whether, not how."""
        cells = {cell for row in self.rows.values() for cell in row} - {SELF}
        return bool(cells) and cells <= PEER_STATUS

    def cell(self, one: str, other: str) -> str | None:
        """What the row of ``one`` says of ``other``, else that of ``other`` of ``one``; None: neither."""
        for row, column in ((one, other), (other, one)):
            if row in self.rows:
                return self.rows[row][self.devices.index(column)]
        return None


def tables(lines: Sequence[str], name: str) -> list[DeviceTable]:
    """Every table in ``lines``; other text between them is passed over."""
    starts = [number for number, line in enumerate(lines) if _heading(line) is not None]
    wrapped = {
        start for start, before in zip(starts[1:], starts, strict=False) if _continues(lines, before, start)
    }
    starts = [start for start in starts if start not in wrapped]
    ends = [*starts[1:], len(lines)]
    return [_table(lines[start:end], start + 1, name) for start, end in zip(starts, ends, strict=False)]


def _heading(line: str) -> tuple[list[str], list[str]] | None:
    """The devices and the trailing columns of a line of headings; None where it is none."""
    rest = " ".join(line.split())
    trailing: list[str] = []
    for column in reversed(_TRAILING):
        if rest.endswith(column):
            trailing.insert(0, column)
            rest = rest[: -len(column)].rstrip()
    devices = rest.split()
    if not devices or not all(_DEVICE.fullmatch(device) for device in devices):
        return None
    return devices, trailing


def _continues(lines: Sequence[str], before: int, start: int) -> bool:
    """Whether the headings at ``start`` belong to those of the line before them, which was wrapped."""
    first = _heading(lines[before])
    return start == before + 1 and first is not None and not first[1]


def _table(lines: Sequence[str], number: int, name: str) -> DeviceTable:
    """The table that begins with the headings in the first of ``lines``."""
    devices: list[str] = []
    trailing: list[str] = []
    row = 0
    while row < len(lines) and (heading := _heading(lines[row])) is not None and not (trailing and heading[1]):
        devices += heading[0]
        trailing += heading[1]
        row += 1
    if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
        raise refused(name, f"line {number}: a table of too many devices, or with one twice", HELP)
    rows: dict[str, tuple[str, ...]] = {}
    numa: dict[str, str] = {}
    for line, cells, rest in _rows(lines[row:], devices):
        label = _label(cells, devices, number + row + line, name)
        if label in rows:
            raise refused(name, f"line {number + row + line}: a second row of {label}", HELP)
        rows[label] = cells[-len(devices) :]
        if value := _numa(rest, trailing):
            numa[label] = value
    if not rows:
        raise refused(name, f"line {number}: headings without rows", HELP)
    matches = (_LEGEND.fullmatch(line) for line in lines[row:])
    names = {match[1]: match[2] for match in matches if match}
    return DeviceTable(number, tuple(devices), rows, numa, names)


def _rows(lines: Sequence[str], devices: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...], list[str]]]:
    """(line, name and cells, affinities) of every row; a row whose line was wrapped goes on in the next."""
    pending: list[str] = []
    begun = 0
    for number, line in enumerate(lines):
        words = _words(line)
        if "=" in words[:2] or words[:1] == ["Legend:"]:
            return
        label = words[:1] if words and words[0] in devices else []
        cells: list[str] = []
        for word in words[len(label) :]:
            if not _CELL.fullmatch(word) or len(cells) == len(devices):
                break
            cells.append(word)
        if label or not pending:
            pending, begun = (label + cells, number) if cells else ([], 0)
        else:
            pending += cells
        count = sum(bool(_CELL.fullmatch(word)) for word in pending)
        if pending and count >= len(devices):
            yield begun, tuple(pending), words[len(label) + len(cells) :]
            pending = []


def _words(line: str) -> list[str]:
    """The words of a line; with tabs empty columns stay, as far as they are behind the cells."""
    if "\t" not in line:
        return line.split()
    words = [word.strip() for word in line.split("\t")]
    if words and " " in words[0]:
        words[:1] = words[0].split()
    return words[1:] if words and not words[0] else words


def _label(cells: tuple[str, ...], devices: Sequence[str], line: int, name: str) -> str:
    """The device of a row: its first word, else the column in which it is itself. Both have to agree."""
    values = cells[-len(devices) :]
    itself = [device for device, value in zip(devices, values, strict=True) if value == SELF]
    label = cells[0] if len(cells) > len(devices) else None
    if len(cells) > len(devices) + 1 or len(itself) != 1 or label not in (None, itself[0]):
        raise refused(name, f"line {line}: a row whose X is not in its own column", HELP)
    return itself[0]


def _numa(rest: list[str], trailing: Sequence[str]) -> str | None:
    """The NUMA affinity of a row; None where it is absent or not applicable."""
    if "NUMA Affinity" not in trailing or len(rest) <= trailing.index("NUMA Affinity"):
        return None
    value = rest[trailing.index("NUMA Affinity")]
    return value if re.fullmatch(r"[\d,-]{1,200}", value) else None
