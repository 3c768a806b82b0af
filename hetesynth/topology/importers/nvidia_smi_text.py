"""What nvidia-smi prints as values: tables of ``topo -m`` and ``topo -p2p``, lists of ``-L`` and ``nvlink -s``.

Tabs or spaces may separate a table's columns; the first may lack its heading or its names; lines may be wrapped.
Affinities hold commas and may be absent, so columns are counted from the left and never cut at commas. Lists have
``GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)`` for each GPU; ``nvlink -s`` has lines for its links below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.topology.importers.reading import refused

MAX_DEVICES = 256
MAX_GPUS = 256
MAX_LINKS = 64
SELF = "X"
PEER_STATUS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})
HELP = "give the whole output of `nvidia-smi topo -m`, from the line with GPU0 on"

_DEVICE = re.compile(
    r"(?:GPU|NIC)\d{1,4}|(?:mlx|hfi|bnxt|irdma|rdma|rocep?|ibp?|efa|erdma|cxi|ens|eno|eth)\w{1,40}"
)
_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR|U")
_TRAILING = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")
_GPU = re.compile(r"\s*GPU (\d{1,4}): ?(\S.{0,200}?) *\(UUID: *[\w-]{1,80}\)\s*")
_LINK = re.compile(
    r"\s*Link (\d{1,3}): +(?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<inactive>|(?:inactive|Not Supported))\s*", re.I
)
_NO_LINKS = re.compile(r"\s*(?:NVML: )?Unable to retrieve NVLink information.*")


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """A table: the devices of its columns, the cells of the rows that it has, NUMA nodes, names of NICs."""

    line: int
    devices: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]
    numa: dict[str, str]
    nic_names: dict[str, str]

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
        """True for a table of ``topo -p2p``: cells say whether, not how."""
        cells = {cell for row in self.rows.values() for cell in row} - {SELF}
        return bool(cells) and cells <= PEER_STATUS

    def cell(self, one: str, other: str) -> str | None:
        """Return what the row of ``one`` says of ``other``, else that of ``other`` of ``one``; None: neither."""
        for row, column in ((one, other), (other, one)):
            if row in self.rows:
                return self.rows[row][self.devices.index(column)]
        return None

    def nvlinks(self) -> dict[tuple[str, str], int]:
        """Return the number of each ordered pair of GPUs whose cell states NVLinks."""
        cells = {(a, b): self.cell(a, b) or "" for a in self.gpus for b in self.gpus if a != b}
        return {pair: int(cell[2:]) for pair, cell in cells.items() if cell.startswith("NV")}

    def sums(self) -> dict[str, int]:
        """Return the number of NVLinks in the row of each GPU."""
        nvlinks = self.nvlinks()
        return {gpu: sum(count for (one, _), count in nvlinks.items() if one == gpu) for gpu in self.gpus}


def tables(lines: Sequence[str], name: str) -> list[DeviceTable]:
    """Return every table in ``lines``; other text between them is passed over."""
    headings = {number: heading for number, line in enumerate(lines) if (heading := _heading(line)) is not None}
    # a line of headings right behind one without trailing columns is the rest of it, wrapped
    starts = [at for at in headings if at - 1 not in headings or headings[at - 1][1]]
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


def _table(lines: Sequence[str], number: int, name: str) -> DeviceTable:
    """The table that begins with the headings in the first of ``lines``, line ``number`` of the text."""
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
        # a row is of the column in which it is itself; a name in front has to agree
        values, where = tuple(cells[-len(devices) :]), f"line {number + row + line}"
        itself = [device for device, value in zip(devices, values, strict=True) if value == SELF]
        if len(cells) > len(devices) + 1 or len(itself) != 1 or cells[: -len(devices)] not in ([], itself):
            raise refused(name, f"{where}: a row whose X is not in its own column", HELP)
        label = itself[0]
        if label in rows:
            raise refused(name, f"{where}: a second row of {label}", HELP)
        rows[label] = values
        affinities = dict(zip(trailing, rest, strict=False))
        if re.fullmatch(r"[\d,-]{1,200}", node := affinities.get("NUMA Affinity", "")):
            numa[label] = node
    if not rows:
        raise refused(name, f"line {number}: headings without rows", HELP)
    matches = (_LEGEND.fullmatch(line) for line in lines[row:])
    names = {match[1]: match[2] for match in matches if match}
    return DeviceTable(number, tuple(devices), rows, numa, names)


def _rows(lines: Sequence[str], devices: Sequence[str]) -> Iterator[tuple[int, list[str], list[str]]]:
    """(line, name and cells, affinities) of every row; a row whose line was wrapped goes on in the next."""
    pending: list[str] = []
    begun = 0
    for number, line in enumerate(lines):
        words = line.split()
        if "\t" in line:  # with tabs empty columns stay, as far as they are behind the cells
            words = [word.strip() for word in line.split("\t")]
            if " " in words[0]:
                words[:1] = words[0].split()
            words = words[1:] if not words[0] else words
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
            yield begun, pending, words[len(label) + len(cells) :]
            pending = []


@dataclass(slots=True)
class ListedGpu:
    """A GPU of a list. ``links``: the raw GB/s of each NVLink that is named, None where it is inactive."""

    index: int
    model: str
    links: list[tuple[int, Fraction | None]] = field(default_factory=list)
    states: bool = False  # the list says something of its links

    @property
    def active(self) -> int:
        """How many NVLinks work."""
        return sum(rate is not None for _, rate in self.links)


@dataclass(frozen=True, slots=True)
class GpuList:
    """The GPUs of one list, in its order, and the line where it begins."""

    line: int
    gpus: list[ListedGpu]


def gpu_lists(lines: Sequence[str], name: str) -> list[GpuList]:
    """Return every list in ``lines``; a new one begins where the number of a GPU comes again."""
    lists: list[GpuList] = []
    for number, line in enumerate(lines, 1):
        if match := _GPU.fullmatch(line):
            index = int(match[1])
            if not lists or index in {other.index for other in lists[-1].gpus}:
                lists.append(GpuList(number, []))
            lists[-1].gpus.append(ListedGpu(index, match[2]))
            if len(lists[-1].gpus) > MAX_GPUS:
                what = f"line {number}: more than {MAX_GPUS} GPUs in a list"
                raise refused(name, what, "give one server's output")
        elif lists and (match := _LINK.fullmatch(line)):
            gpu, link = lists[-1].gpus[-1], int(match[1])
            if link in dict(gpu.links) or len(gpu.links) >= MAX_LINKS:
                raise refused(name, f"line {number}: link {link} of GPU {gpu.index} twice", "give the output once")
            gpu.links.append((link, Fraction(match[2]) if match[2] else None))
            gpu.states = True
        elif lists and _NO_LINKS.fullmatch(line):
            lists[-1].gpus[-1].states = True
    return lists
