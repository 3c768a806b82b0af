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
_TRAILING = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")
_GPU = re.compile(r"\s*GPU (\d{1,4}): ?(\S.{0,200}?) *\(UUID: *[\w-]{1,80}\)\s*")
_LINK = re.compile(
    r"\s*Link (\d{1,3}): +(?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<inactive>|(?:inactive|Not Supported))\s*", re.I
)
_NO_LINKS = re.compile(r"\s*(?:NVML: )?Unable to retrieve NVLink information.*")
MOST_LINKS = 18  # of a GPU today, where the model is not known
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first


@dataclass(frozen=True, slots=True)
class DeviceTable:
    """A table: the devices of its columns, the cells of the rows that it has, NUMA nodes, names of NICs."""

    devices: tuple[str, ...]
    rows: dict[str, dict[str, str]]
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

    def cells(self, one: str, other: str) -> list[str]:
        """Return what the row of ``one`` says of ``other``, and that of ``other`` of ``one``, where they are."""
        return [self.rows[row][column] for row, column in ((one, other), (other, one)) if row in self.rows]

    def cell(self, one: str, other: str) -> str:
        """Return the first of these; "" where neither is there."""
        return next(iter(self.cells(one, other)), "")

    def nvlinks(self) -> dict[tuple[str, str], int]:
        """Return the number of each ordered pair of GPUs whose cell states NVLinks."""
        pairs = [(a, b, self.cell(a, b)) for a in self.gpus for b in self.gpus if a != b]
        return {(a, b): int(cell[2:]) for a, b, cell in pairs if cell.startswith("NV")}

    def sums(self) -> dict[str, int]:
        """Return the number of NVLinks in the row of each GPU."""
        return {gpu: sum(n for (one, _), n in self.nvlinks().items() if one == gpu) for gpu in self.gpus}


def tables(lines: Sequence[str], name: str) -> dict[int, DeviceTable]:
    """Return every table in ``lines`` by the number of its first line; other text between them is passed over."""
    headings = {}
    for number, line in enumerate(lines):
        rest = " ".join(line.split())
        devices, trailing = _TRAILING.sub("", rest).split(), _TRAILING.findall(rest)
        if devices and all(map(_DEVICE.fullmatch, devices)):
            headings[number] = devices, trailing
    whole = {}
    for start, end in zip(headings, [*headings, len(lines)][1:], strict=True):
        devices, trailing = headings[start]
        if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices):
            raise refused(name, f"line {start + 1}: a table of too many devices, or with one twice", HELP)
        rows: dict[str, dict[str, str]] = {}
        numa: dict[str, str] = {}
        for number, line in enumerate(lines[start + 1 : end], start + 2):
            words = line.split()
            if "\t" in line:  # with tabs empty columns stay, as far as they are behind the cells
                words = [word.strip() for word in line.split("\t")]
                words = [*words[0].split(), *words[1:]]
            if "=" in words[:2] or words[:1] == ["Legend:"]:
                break
            cells = words[1 : len(devices) + 1]
            if words[:1] == [] or words[0] not in devices or not all(map(_CELL.fullmatch, cells)):
                continue
            label = words[0]
            values = dict(zip(devices, cells, strict=False))
            if len(cells) == len(devices):
                if [device for device, value in values.items() if value == SELF] != [label]:
                    raise refused(name, f"line {number}: a row whose X is not in its own column", HELP)
                if label in rows:
                    raise refused(name, f"line {number}: a second row of {label}", HELP)
                rows[label] = values
                affinities = dict(zip(trailing, words[len(devices) + 1 :], strict=False))
                if re.fullmatch(r"[\d,-]{1,200}", node := affinities.get("NUMA Affinity", "")):
                    numa[label] = node
        if not rows:
            raise refused(name, f"line {start + 1}: headings without rows", HELP)
        matches = (_LEGEND.fullmatch(line) for line in lines[start + 1 : end])
        names = {match[1]: match[2] for match in matches if match}
        whole[start + 1] = DeviceTable(tuple(devices), rows, numa, names)
    return whole


@dataclass(slots=True)
class ListedGpu:
    """A GPU of a list. ``links``: the raw GB/s of each NVLink that is named, None where it is inactive."""

    index: int
    model: str
    links: dict[int, Fraction | None] = field(default_factory=dict)
    states: bool = False  # the list says something of its links

    @property
    def active(self) -> int:
        """How many NVLinks work."""
        return sum(rate is not None for rate in self.links.values())


def gpu_lists(lines: Sequence[str], name: str) -> dict[int, list[ListedGpu]]:
    """Return every list in ``lines`` by the number of its first line; a new one begins where a GPU comes again."""
    lists: dict[int, list[ListedGpu]] = {}
    gpus: list[ListedGpu] = []
    for number, line in enumerate(lines, 1):
        if match := _GPU.fullmatch(line):
            index = int(match[1])
            if not gpus or index in {other.index for other in gpus}:
                gpus = lists[number] = []
            gpus.append(ListedGpu(index, match[2]))
            if len(gpus) > MAX_GPUS:
                what = f"line {number}: more than {MAX_GPUS} GPUs in a list"
                raise refused(name, what, "give one server's output")
        elif gpus and (match := _LINK.fullmatch(line)):
            gpu, link = gpus[-1], int(match[1])
            if link in gpu.links or len(gpu.links) >= MAX_LINKS:
                raise refused(name, f"line {number}: link {link} of GPU {gpu.index} twice", "give the output once")
            gpu.links[link] = Fraction(match[2]) if match[2] else None
            gpu.states = True
        elif gpus and _NO_LINKS.fullmatch(line):
            gpus[-1].states = True
    return lists


@dataclass(slots=True)
class _Server:
    """What was printed on one server. ``source``: the file of its table, with what is stated of the others.

    ``access``: the table of ``topo -p2p``, whose cells say whether, not how; ``links``: the list of ``nvlink -s``.
    """

    source: Source
    table: DeviceTable | None = None
    access: DeviceTable | None = None
    models: list[ListedGpu] | None = None
    links: list[ListedGpu] | None = None


def read_nvidia_smi(sources: Sequence[Source], options: ReadOptions) -> Reading:
    """Return the servers whose output the sources hold, in order; sections of one server may stand in several."""
    servers: list[_Server] = []
    for source in sources:
        lines = lines_of(source.data, source.name)
        sections: dict[int, tuple[str, DeviceTable | list[ListedGpu]]] = {}
        for line, table in tables(lines, source.name).items():
            cells = {cell for row in table.rows.values() for cell in row.values()} - {SELF}
            sections[line] = ("access" if cells and cells <= PEER_STATUS else "table", table)
        for line, gpus in gpu_lists(lines, source.name).items():
            sections[line] = ("links" if any(gpu.states for gpu in gpus) else "models", gpus)
        for _, (kind, section) in sorted(sections.items()):
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
        cells = table.cells(gpu, other)
        if not cells:
            missing = ", ".join(device for device in table.gpus if device not in table.rows)
            what = f"the table lacks rows ({missing}), so nothing says how {gpu} and {other} are joined"
            raise refused(source.name, what, HELP)
        if cells[0] != cells[-1] and not all(cell.startswith("NV") for cell in cells):
            what = f"the row of {gpu} says {cells[0]} of {other}, and that of {other} says {cells[1]} of {gpu}"
            raise refused(source.name, what, HELP)
    for of in (server.models, server.links):
        strange = [listed.index for listed in of or () if f"GPU{listed.index}" not in table.gpus]
        if strange:
            what = f"a list names GPU {strange[0]}, which the table lacks"
            raise refused(source.name, what, "give one server's output")
    name, model = _model(server, table, options)
    ports, links = _nvlinks(server, table, model, options)
    arch = f"sm{model.sm}" if model else ""
    nodes = [table.numa.get(gpu, "") for gpu in table.gpus]
    gpus = tuple(Gpu(short_name(name), arch, Place(numa=int(n) if n.isdigit() else None)) for n in nodes)
    texts = [f"{len(table.gpus)} GPUs and {len(table.nics)} NICs by nvidia-smi topo -m"]
    if listing := server.models or server.links:
        texts.append(f"GPUs: {listing[0].model}")
    doubts = [*_doubts(table, model, server.links or [])]
    for one, other in combinations(server.access.gpus, 2) if server.access else ():
        if (cell := server.access.cell(one, other) if server.access else "") not in ("", "OK"):
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
    listed = [*(server.models or ()), *(server.links or ())]
    names = list(dict.fromkeys(gpu.model for gpu in listed))
    stated, source = server.source.stated.model, server.source.name
    if len(names) > 1 and not (stated or options.model):
        raise lacking(source, f"GPUs of several models: {', '.join(names)[:200]}", "state one with --model")
    told = names[0] if len(names) == 1 and gpu_model(names[0]) else ""
    name = stated or told or options.model or (names[0] if names else "")
    model = gpu_model(name)
    if model is None and server.links:
        raw = {str(float(rate)) for gpu in server.links for rate in gpu.links.values() if rate}
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
        active = {gpu.index: gpu.active for gpu in server.links or () if gpu.states}
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
        cell = table.cell(a, b)
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


def _doubts(table: DeviceTable, model: GpuModel | None, links: Sequence[ListedGpu]) -> Iterator[str]:
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
    rates = [rate for gpu in links for rate in gpu.links.values() if rate]
    active = max((gpu.active for gpu in links), default=0)
    for own in links:
        name = f"GPU{own.index}"
        stated = {count for (gpu, _), count in table.nvlinks().items() if gpu == name}
        if own.active < active:
            yield f"{name} has {own.active} active NVLinks, and others have {active}"
        if own.active not in {*stated, sums[name]}:
            yield f"{name} has {own.active} active NVLinks by nvlink -s, NV{max(stated, default=0)} in the table"
        if any(rate and rate < max(rates) for rate in own.links.values()):
            yield f"{name} has NVLinks that are slower than others"
