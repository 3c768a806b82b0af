"""``nvidia-smi topo -m``, with ``-L`` and ``nvlink -s`` of the same server, to a machine.

The table tells which GPUs NVLink joins and by how many links, and what is near what. It does not tell the model
of the GPUs (``-L`` or ``--model`` does), the rate of NICs (``--nic-rate``) or that of PCIe slots (the model's
is assumed).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations

from hetesynth.topology.importers.gpu_models import (
    KNOWN_MODELS,
    GpuModel,
    gpu_model,
    model_by_raw_rate,
    short_name,
)
from hetesynth.topology.importers.machine import (
    Bridge,
    Cpu,
    CpuLink,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    SwitchPort,
    one_nic_a_gpu,
)
from hetesynth.topology.importers.pcie import spread
from hetesynth.topology.importers.rates import cpu_rate, nvlink_rate, pcie_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, lines_of, refused

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
        return {gpu: sum(n for (one, _), n in self.nvlinks().items() if one == gpu) for gpu in self.gpus}


def tables(lines: Sequence[str], name: str) -> list[DeviceTable]:
    """Return every table in ``lines``; other text between them is passed over."""
    headings = {number: heading for number, line in enumerate(lines) if (heading := _heading(line)) is not None}
    # a line of headings right behind one without trailing columns is the rest of it, wrapped
    starts = [at for at in headings if at - 1 not in headings or headings[at - 1][1]]
    ends = [*starts[1:], len(lines)]
    whole = []
    for start, end in zip(starts, ends, strict=False):
        every = lines[start:end]
        devices: list[str] = []
        trailing: list[str] = []
        row = 0
        while row < len(every) and (heading := _heading(every[row])) is not None and not (trailing and heading[1]):
            devices += heading[0]
            trailing += heading[1]
            row += 1
        if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
            raise refused(name, f"line {start + 1}: a table of too many devices, or with one twice", HELP)
        rows: dict[str, tuple[str, ...]] = {}
        numa: dict[str, str] = {}
        for line, cells, rest in _rows(every[row:], devices):
            # a row is of the column in which it is itself; a name in front has to agree
            values, where = tuple(cells[-len(devices) :]), f"line {start + 1 + row + line}"
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
            raise refused(name, f"line {start + 1}: headings without rows", HELP)
        matches = (_LEGEND.fullmatch(line) for line in every[row:])
        names = {match[1]: match[2] for match in matches if match}
        whole.append(DeviceTable(start + 1, tuple(devices), rows, numa, names))
    return whole


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


MOST_LINKS = 18  # of a GPU today, where the model is not known
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first


@dataclass(slots=True)
class _Server:
    """What was printed on one server. ``source``: the file of its table, with what is stated of the others."""

    source: Source
    table: DeviceTable | None = None
    access: DeviceTable | None = None
    models: GpuList | None = None
    links: GpuList | None = None


def read_nvidia_smi(sources: Sequence[Source], options: ReadOptions) -> Reading:
    """Return the servers whose output the sources hold, in order; sections of one server may stand in several."""
    servers: list[_Server] = []
    for source in sources:
        lines = lines_of(source.data, source.name)
        sections: list[tuple[str, DeviceTable | GpuList]] = [
            ("access" if table.of_peer_access else "table", table) for table in tables(lines, source.name)
        ]
        lists = gpu_lists(lines, source.name)
        sections += [("links" if any(gpu.states for gpu in of.gpus) else "models", of) for of in lists]
        for kind, section in sorted(sections, key=lambda section: section[1].line):
            if not servers or getattr(servers[-1], kind) is not None:
                servers.append(_Server(source))
            server = servers[-1]
            main, other = (source, server.source) if kind == "table" else (server.source, source)
            server.source = main.with_stated(other)
            setattr(server, kind, section)
    if not servers:
        raise refused(sources[0].name, "no table of `nvidia-smi topo -m`", HELP)
    machines = tuple(_machine(server, options) for server in servers)
    return Reading(machines, files=tuple(server.source.name for server in servers))


def _machine(server: _Server, options: ReadOptions) -> Machine:
    """The machine of one server; HS733 where a flag is needed for it."""
    table, source = server.table, server.source
    if table is None:
        what = "a list of GPUs, which says not"
        if server.access:
            what = "`topo -p2p`, which says what GPUs may do, not"
        way_out = "add the output of `nvidia-smi topo -m`"
        raise lacking(source.name, f"only {what} how they are joined", way_out)
    for gpu, other in ((gpu, other) for gpu in table.gpus for other in table.devices if other != gpu):
        cells = [
            table.rows[row][table.devices.index(column)]
            for row, column in ((gpu, other), (other, gpu))
            if row in table.rows
        ]
        if not cells:
            missing = ", ".join(device for device in table.gpus if device not in table.rows)
            what = f"the table lacks rows ({missing}), so nothing says how {gpu} and {other} are joined"
            raise refused(source.name, what, HELP)
        if cells[0] != cells[-1] and not all(cell.startswith("NV") for cell in cells):
            what = f"the row of {gpu} says {cells[0]} of {other}, and that of {other} says {cells[1]} of {gpu}"
            raise refused(source.name, what, HELP)
    for of in (server.models, server.links):
        strange = [gpu.index for gpu in of.gpus if f"GPU{gpu.index}" not in table.gpus] if of else []
        if strange:
            what = f"a list names GPU {strange[0]}, which the table lacks"
            raise refused(source.name, what, "give one server's output")
    name, model = _model(server, table, options)
    ports, links = _nvlinks(server, table, model, options)
    arch = f"sm{model.sm}" if model else ""
    nodes = [table.numa.get(gpu, "") for gpu in table.gpus]
    gpus = tuple(Gpu(short_name(name), arch, Place(numa=int(n) if n.isdigit() else None)) for n in nodes)
    texts = [f"{len(table.gpus)} GPUs and {len(table.nics)} NICs by nvidia-smi topo -m"]
    if (listed := server.models or server.links) and listed.gpus:
        texts.append(f"GPUs: {listed.gpus[0].model}")
    doubts = [*_doubts(table, model, server.links)]
    for one, other in combinations(server.access.gpus if server.access else (), 2):
        cell = server.access.cell(one, other) if server.access else None
        if cell not in (None, "OK"):
            doubts.append(f"{one} and {other} have no peer access ({cell}): their traffic passes through the host")
    remarks = (
        *(Remark("found", text) for text in texts),
        *(Remark("suspicious", text) for text in doubts),
    )
    machine = Machine("", gpus, ports=ports, links=links, remarks=remarks)
    if ports or len(links) == len(gpus) * (len(gpus) - 1) // 2:
        nics, more = _nearest_nics(source, table, options)
        return replace(machine, nics=nics, remarks=(*remarks, *more))
    return _with_slots(source, table, machine, model, options)


def _model(server: _Server, table: DeviceTable, options: ReadOptions) -> tuple[str, GpuModel | None]:
    """The name of the model and what is known of it: as stated of the file, as listed, as stated otherwise, or by
    the raw rate of the links."""
    listed = [gpu for of in (server.models, server.links) if of for gpu in of.gpus]
    names = list(dict.fromkeys(gpu.model for gpu in listed))
    stated, source = server.source.stated.model, server.source.name
    if len(names) > 1 and not (stated or options.model):
        raise lacking(source, f"GPUs of several models: {', '.join(names)[:200]}", "state one with --model")
    told = names[0] if len(names) == 1 and gpu_model(names[0]) else ""
    name = stated or told or options.model or (names[0] if names else "")
    model = gpu_model(name)
    if model is None and server.links:
        raw = {str(float(rate)) for gpu in server.links.gpus for _, rate in gpu.links if rate}
        model = model_by_raw_rate(raw.pop()) if len(raw) == 1 else None
    if model is None and (len(table.gpus) > 1 or name):
        said = f"nothing is known of the GPU {name!r}" if name else "nothing says which GPUs these are"
        way_out = f"state it with --model, or for this file with --model FILE=NAME ({KNOWN_MODELS}), "
        way_out += "or add the output of `nvidia-smi -L`"
        raise lacking(source, f"{said}, so the rate of their links is not known", way_out)
    return name, model


def _nvlinks(
    server: _Server, table: DeviceTable, model: GpuModel | None, options: ReadOptions
) -> tuple[tuple[SwitchPort, ...], tuple[GpuLink, ...]]:
    """Ports into an NVSwitch, or links between GPUs."""
    counts = {pair: count for pair, count in table.nvlinks().items() if count}
    if not counts or model is None:
        return (), ()
    rate = nvlink_rate(model.sm, options.calibration)
    name, gpus = server.source.name, table.gpus
    # all pairs have links: they lead to a switch if together they are more than a GPU has
    whole = len(counts) == len(gpus) * (len(gpus) - 1)
    if whole and min(table.sums().values()) > min(model.links or MOST_LINKS, MOST_LINKS):
        active = {gpu.index: gpu.active for gpu in (server.links.gpus if server.links else ()) if gpu.states}
        lanes = [max(count for (a, _), count in counts.items() if a == gpu) for gpu in gpus]
        lanes = [min(lane, active.get(i, lane)) for i, lane in enumerate(lanes)]
        if 0 in lanes:
            way_out = "repair it, or import the server without it"
            raise lacking(name, f"no NVLink of GPU {lanes.index(0)} is active", way_out)
        return tuple(SwitchPort(i, lane, rate) for i, lane in enumerate(lanes)), ()
    number = {gpu: i for i, gpu in enumerate(gpus)}
    for (a, b), count in counts.items():
        if counts.get((b, a)) != count:
            what = f"{a} has {count} NVLinks to {b}, and {b} has {counts.get((b, a), 0)} back"
            raise refused(name, what, HELP)
    links = [GpuLink(number[a], number[b], n, rate) for (a, b), n in counts.items() if number[a] < number[b]]
    return (), tuple(links)


def _with_slots(
    source: Source, table: DeviceTable, machine: Machine, model: GpuModel | None, options: ReadOptions
) -> Machine:
    """The machine with its PCIe tree, over which pairs meet that NVLink does not join."""
    speed = model.pcie if model else "8 GT/s"
    slot = pcie_rate(speed, 0, options.calibration)
    cpus, bridges, parents = _slot_tree(table)
    gpus = tuple(
        replace(gpu, place=Place(parents[name], slot, numa=gpu.place.numa))
        for name, gpu in zip(table.gpus, machine.gpus, strict=True)
    )
    nics = tuple(
        Nic(table.nic_names.get(nic, nic), source.stated.nic_rate, place=Place(parents[nic])) for nic in table.nics
    )
    remarks = machine.remarks
    if not nics:
        alike, more = one_nic_a_gpu(len(gpus), source.stated.nic_rate, options.nic_rate)
        nics = tuple(
            Nic(nic.name, nic.rate, place=Place(gpu.place.parent)) for nic, gpu in zip(alike, gpus, strict=False)
        )
        remarks += more
    between = cpu_rate("", "", 0)
    return replace(
        machine,
        gpus=gpus,
        nics=nics,
        cpus=tuple(cpus),
        bridges=tuple(replace(bridge, place=replace(bridge.place, rate=slot)) for bridge in bridges),
        cpu_links=tuple(CpuLink(a.name, b.name, between) for a, b in combinations(cpus, 2)),
        remarks=(
            *remarks,
            Remark("assumed", f"PCIe slots and uplinks of 16 lanes at {speed}: the table has no rates"),
        ),
    )


def _slot_tree(table: DeviceTable) -> tuple[list[Cpu], list[Bridge], dict[str, str]]:
    """CPUs, PCIe switches (parents first) and the parent of each device, in a tree that has the table's distances.

    PIX: one PCIe switch between two devices; PXB: several; PHB and NODE: one CPU; SYS: two. Cells with NVLink hide
    the distance, so what they join is placed by its other distances and its NUMA node.
    """
    numa = table.numa

    def at_one_cpu(a: str, b: str) -> bool:
        cell = table.cell(a, b) or ""
        if cell.startswith("NV"):
            return a in numa and numa[a] == numa.get(b)
        return cell in ("PIX", "PXB", "PHB", "NODE")

    cpus: list[Cpu] = []
    bridges: list[Bridge] = []
    parents: dict[str, str] = {}
    for number, socket in enumerate(_groups(table.devices, at_one_cpu)):
        cpu = f"cpu{number}"
        nodes = {numa[device] for device in socket if device in numa}
        node = nodes.pop() if len(nodes) == 1 else ""
        cpus.append(Cpu(cpu, int(node) if node.isdigit() else None))
        for group in _groups(socket, lambda a, b: table.cell(a, b) in ("PIX", "PXB")):
            switches = _groups(group, lambda a, b: table.cell(a, b) == "PIX")
            above = cpu
            if len(switches) > 1:
                above = f"pcie{len(bridges)}"
                bridges.append(Bridge(above, Place(cpu)))
            for switch in switches:
                below = above
                if len(switch) > 1:
                    below = f"pcie{len(bridges)}"
                    bridges.append(Bridge(below, Place(above)))
                parents |= dict.fromkeys(switch, below)
    return cpus, bridges, parents


def _groups(devices: Sequence[str], joined: Callable[[str, str], bool]) -> list[list[str]]:
    """The devices in groups: those joined, directly or by others, together; in the order of the first of each."""
    groups: list[list[str]] = []
    for device in devices:
        joining = [group for group in groups if any(joined(device, other) for other in group)]
        merged = [other for group in joining for other in group] + [device]
        position = groups.index(joining[0]) if joining else len(groups)
        groups = [group for group in groups if group not in joining]
        groups.insert(position, merged)
    return [sorted(group, key=devices.index) for group in groups]


def _nearest_nics(
    source: Source, table: DeviceTable, options: ReadOptions
) -> tuple[tuple[Nic, ...], tuple[Remark, ...]]:
    """The NICs in use with the GPUs next to them, spread evenly in their order, and remarks on those left out."""
    if not table.nics:
        return one_nic_a_gpu(len(table.gpus), source.stated.nic_rate, options.nic_rate)

    def distance(gpu: str, nic: str) -> int:
        cell = table.cell(gpu, nic)
        return DISTANCES.index(cell) if cell in DISTANCES else len(DISTANCES) - 1  # SOC is what SYS was before

    sharers: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, gpu in enumerate(table.gpus):
        least = min(distance(gpu, nic) for nic in table.nics)
        sharers[tuple(nic for nic in table.nics if distance(gpu, nic) == least)].append(index)
    users = spread(sharers)
    names = {nic: table.nic_names.get(nic, nic) for nic in table.nics}
    used = [nic for nic in table.nics if nic in users]
    remarks = []
    if idle := [names[nic] for nic in table.nics if nic not in users]:
        remarks.append(Remark("assumed", f"NICs that are nearest to no GPU are left out: {', '.join(idle)}"))
    if any(distance(table.gpus[users[nic][0]], nic) >= DISTANCES.index("NODE") for nic in used):
        text = "the table does not tell which NIC is near a GPU: they are shared in order"
        remarks.append(Remark("assumed", text))
    rate = source.stated.nic_rate
    return tuple(Nic(names[nic], rate, gpus=users[nic]) for nic in used), tuple(remarks)


def _doubts(table: DeviceTable, model: GpuModel | None, links: GpuList | None) -> Iterator[str]:
    """GPUs with fewer links than most, distances that contradict NUMA nodes, links that are hidden or too many."""
    sums = table.sums()
    usual = max(set(sums.values()), key=list(sums.values()).count) if sums else 0
    for gpu, count in sums.items():
        if count < usual:
            peers = len(table.gpus) - 1
            yield f"{gpu} has fewer NVLinks than most: {count} in its row, {usual} in theirs ({peers} peers)"
    for one, other in combinations(table.gpus, 2):
        cell, a, b = table.cell(one, other), table.numa.get(one), table.numa.get(other)
        if a is None or b is None:
            continue
        if cell in ("SYS", "SOC") and a == b:
            yield f"{one} and {other} are at NUMA node {a}, and the table says {cell}: between NUMA nodes"
        elif cell in ("PIX", "PXB", "PHB", "NODE") and a != b:
            yield f"{one} is at NUMA node {a} and {other} at {b}, and the table says {cell}: within one node"
    if model and model.switched and len(table.gpus) > 1 and not any(sums.values()):
        yield "no NVLink between GPUs that mostly have it: `topo -mp` hides it, and so do some virtual machines"
    most = max(table.nvlinks().values(), default=0)
    if model and most > model.links:
        yield f"NV{most} in the table, and such a GPU has {model.links} NVLinks: is it another model?"
    listed = links.gpus if links else []
    rates = [rate for gpu in listed for _, rate in gpu.links if rate]
    active = max((gpu.active for gpu in listed), default=0)
    for own in listed:
        name = f"GPU{own.index}"
        stated = {count for (gpu, _), count in table.nvlinks().items() if gpu == name}
        if own.active < active:
            yield f"{name} has {own.active} active NVLinks, and others have {active}"
        if own.active not in {*stated, sums[name]}:
            yield f"{name} has {own.active} active NVLinks by nvlink -s, NV{max(stated, default=0)} in the table"
        if any(rate and rate < max(rates) for _, rate in own.links):
            yield f"{name} has NVLinks that are slower than others"
