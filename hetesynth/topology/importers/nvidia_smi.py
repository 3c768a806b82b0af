"""``nvidia-smi topo -m``, with ``-L`` and ``nvlink -s`` of the same server, to a machine.

The table does not tell the model of the GPUs (``-L`` or ``--model`` does), the rate of NICs (``--nic-rate``) or
that of PCIe slots (the model's is assumed).
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, takewhile

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.gpu_models import (
    KNOWN_MODELS,
    GpuModel,
    cpu_rate,
    gpu_model,
    nvlink_rate,
    pcie_rate,
    short_name,
)
from hetesynth.topology.importers.machine import (
    Bridge,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    SwitchPort,
    nearest,
    one_nic_a_gpu,
    remarks_on_gpus,
    switch_ports,
)
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, Stated, lacking, lines_of, refused
from hetesynth.topology.importers.wording import bandwidth, parts

MAX_DEVICES = 256
MOST_LINKS = 18  # of a GPU today, where the model is not known
PEER_STATUS = frozenset({"OK", "CNS", "GNS", "TNS", "NS", "DR", "U"})  # `topo -p2p`: whether, not how
HELP = "give the whole output of `nvidia-smi topo -m` of one server, from the line with GPU0 on"

_DEVICE = re.compile(
    r"(?:GPU|NIC)\d{1,4}|(?:mlx|hfi|bnxt|irdma|rdma|rocep?|ibp?|efa|erdma|cxi|ens|eno|eth)\w{1,40}"
)
_CELL = re.compile(r"X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR|U")
_GLUED = re.compile(rf"(?:{_CELL.pattern})[\dGNPSX-]")  # the beginning of a cell that runs into the next
_TRAILING = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID")
_LEGEND = re.compile(r"\s*(NIC\d{1,4}):\s*(\S{1,64})\s*")
_GPU = re.compile(r"\s*GPU (\d{1,4}): ?(\S.{0,200}?) *\(UUID: *[\w-]{1,80}\)\s*")
_LINK = re.compile(
    r"\s*Link (\d{1,3}): +(?:(\d{1,6}(?:\.\d{1,6})?) GB/s|<inactive>|inactive|Not Supported)\s*", re.I
)
_CPU = re.compile(r"\s*(Architecture|Vendor ID|Model):\s*(\S{1,40})\s*")
DISTANCES = ("PIX", "PXB", "PHB", "NODE", "SYS")  # nearest first
# the model that lscpu gives of the CPUs that servers of GPUs from a compute capability on mostly have
_USUAL_CPUS = {120: 0x8F, 100: 0xCF, 90: 0x8F, 70: 0x55, 0: 0x4F}


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
        """Return what the row of ``one`` says of ``other``, and that of ``other`` of ``one``, where they do."""
        pairs = ((one, other), (other, one))
        return [self.rows[row][column] for row, column in pairs if column in self.rows.get(row, ())]

    def cell(self, one: str, other: str) -> str:
        """Return the first of these; "" where neither is there."""
        return next(iter(self.cells(one, other)), "")

    def nvlinks(self) -> dict[tuple[int, int], int]:
        """Return the number of each ordered pair of GPUs whose cell states NVLinks."""
        gpus = [*enumerate(self.gpus)]
        cells = {(i, j): self.cell(a, b) for i, a in gpus for j, b in gpus if i != j}
        return {pair: int(cell[2:]) for pair, cell in cells.items() if cell.startswith("NV")}

    def sums(self) -> list[int]:
        """Return the number of NVLinks in the row of each GPU."""
        links = self.nvlinks()
        return [sum(n for (a, _), n in links.items() if a == i) for i in range(len(self.gpus))]


def tables(lines: Sequence[str], name: str) -> dict[int, DeviceTable]:
    """Return every table in ``lines`` by the number of its first line; other text between them is passed over.

    Lines that a terminal broke between columns are joined. Cells at the end of a row may be missing.
    """
    headings: dict[int, tuple[list[str], list[str]]] = {}
    broken = 0  # the line before, if it is of a heading
    for number, line in enumerate(lines, 1):
        rest = " ".join(line.split())
        devices = _TRAILING.sub("", rest).split()
        if devices[:1] == ["GPU0"] and (glued := re.search(r"\b(?:GPU|NIC)\d+(?:GPU|NIC)\d+\S*", rest)):
            raise _runs_together(name, number, "the heading", glued[0])
        trailing = _TRAILING.findall(rest)
        if rest and all(map(_DEVICE.fullmatch, devices)) and (devices or broken):
            if broken:
                headings[broken][0].extend(devices)
                headings[broken][1].extend(trailing)
            else:
                headings[number] = devices, trailing
                broken = number
        else:
            broken = 0
    whole = {}
    for start, end in zip(headings, [*headings, len(lines) + 1][1:], strict=True):
        devices, trailing = headings[start]
        rows: dict[str, dict[str, str]] = {}
        numa: dict[str, str] = {}
        for number, words in _rows(lines, start, end - 1, devices):
            label, own = words[0], words[1 : len(devices) + 1]
            cells = list(takewhile(lambda word: not word or _CELL.fullmatch(word), own))
            if len(cells) < len(own) and _GLUED.match(own[len(cells)]):
                raise _runs_together(name, number, devices[len(cells)], own[len(cells)])
            if not any(cells):
                continue
            values = {device: cell for device, cell in zip(devices, cells, strict=False) if cell}
            if label in rows or [device for device, value in values.items() if value == "X"] != [label]:
                raise refused(name, f"line {number}: not the one row of {label}, with X in its own column", HELP)
            rows[label] = values
            node = dict(zip(trailing, words[len(cells) + 1 :], strict=False)).get("NUMA Affinity", "")
            if re.fullmatch(r"[\d,-]{1,200}", node):
                numa[label] = node
        if len(devices) > MAX_DEVICES or len(set(devices)) != len(devices) or not rows:
            raise refused(name, f"line {start}: no table of that many devices below it, each once", HELP)
        matches = (_LEGEND.fullmatch(line) for line in lines[start : end - 1])
        names = {match[1]: match[2] for match in matches if match}
        kinds = {cell for row in rows.values() for cell in row.values()} - {"X"}
        if not kinds or not kinds <= PEER_STATUS:
            whole[start] = DeviceTable(tuple(devices), rows, numa, names)
    return whole


def _runs_together(name: str, number: int, column: str, word: str) -> HetesynthError:
    """Return HS732 for columns without a space between them."""
    what = f"line {number}: columns run into each other at {column}: {word[:40]!r}"
    return refused(name, what, "put the space back that was lost between them")


def _rows(lines: Sequence[str], start: int, end: int, devices: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the words of every row with the number of its line, up to the legend."""
    row: list[str] = []
    first = 0
    for number, line in enumerate(lines[start:end], start + 1):
        words = line.split()
        if "\t" in line:  # with tabs empty columns stay, as far as they are behind the cells
            words = [word.strip() for word in line.split("\t")]
            words = [*words[0].split(), *words[1:]]
        if "=" in words[:2] or words[:1] == ["Legend:"]:
            break
        if words and words[0] in devices:
            if row:
                yield first, row
            row, first = words, number
        elif (
            words and row and len(row) <= len(devices) + 2 and (_CELL.fullmatch(words[0]) or words[0][0].isdigit())
        ):
            row += words  # a terminal broke the line
    if row:
        yield first, row


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """A GPU of a list. ``links``: the raw GB/s of each NVLink that is named, "" where it is inactive."""

    index: int
    model: str
    links: dict[int, str]

    @property
    def active(self) -> int:
        """The number of active NVLinks."""
        return sum(bool(rate) for rate in self.links.values())


def gpu_lists(lines: Sequence[str], name: str) -> dict[int, list[ListedGpu]]:
    """Return every list in ``lines`` by the number of its first line; a new one begins where a GPU comes again."""
    lists: dict[int, list[ListedGpu]] = {}
    gpus: list[ListedGpu] = []
    for number, line in enumerate(lines, 1):
        if match := _GPU.fullmatch(line):
            index = int(match[1])
            if not gpus or index in {other.index for other in gpus}:
                gpus = lists[number] = []
            gpus.append(ListedGpu(index, match[2], {}))
        elif gpus and (match := _LINK.fullmatch(line)):
            links = gpus[-1].links
            if int(match[1]) in links or len(gpus) > MAX_DEVICES:
                raise refused(name, f"line {number}: a link that stands there twice, or too many GPUs", HELP)
            links[int(match[1])] = match[2] or ""
    return lists


@dataclass(slots=True)
class _Server:
    """The output from one server: a table, lists of GPUs without and with links, and lscpu's facts on CPUs."""

    source: Source  # of its table, with what is stated of the others
    table: DeviceTable | None = None
    models: list[ListedGpu] | None = None
    links: list[ListedGpu] | None = None
    cpus: dict[str, str] | None = None

    @property
    def listed(self) -> list[ListedGpu]:
        """The GPUs of both lists, models and links."""
        return [*(self.models or ()), *(self.links or ())]

    @property
    def names(self) -> list[str]:
        """The names of the models of the listed GPUs, each once."""
        return list(dict.fromkeys(gpu.model for gpu in self.listed))


def read_nvidia_smi(sources: Sequence[Source], options: ReadOptions) -> Reading:
    """Return the servers whose output the sources hold, in order; sections of one server may stand in several."""
    servers: list[_Server] = []
    for source in sources:
        lines = lines_of(source.data, source.name)
        sections: dict[int, tuple[str, DeviceTable | list[ListedGpu] | dict[str, str]]] = {
            line: ("table", table) for line, table in tables(lines, source.name).items()
        }
        facts: dict[str, str] = {}
        for number, match in enumerate(map(_CPU.fullmatch, lines), 1):
            if match and (not facts or match[1] in facts):
                facts = {}
                sections[number] = "cpus", facts
            if match:
                facts[match[1]] = match[2]
        for line, gpus in gpu_lists(lines, source.name).items():
            sections[line] = ("links" if any(gpu.links for gpu in gpus) else "models", gpus)
        for _, (kind, section) in sorted(sections.items()):
            if not servers or getattr(servers[-1], kind) is not None:
                servers.append(_Server(source))
            server = servers[-1]
            main, other = (source, server.source) if kind == "table" else (server.source, source)
            mine, more = main.stated, other.stated
            stated = Stated(mine.model or more.model, mine.nic_rate or more.nic_rate)
            server.source = replace(main, stated=stated)
            setattr(server, kind, section)
    machines = tuple(_machine(server, server.table, options) for server in servers or [_Server(sources[0])])
    return Reading(machines, files=tuple(server.source.name for server in servers))


def _machine(server: _Server, table: DeviceTable | None, options: ReadOptions) -> Machine:
    """Return the machine of a server. Raise HS732 if its sections contradict, HS733 if a flag is needed."""
    name = server.source.name
    if table is None:
        what = "no table says how the GPUs of a server are joined; `topo -p2p` tells whether, not how"
        raise lacking(name, what, "add the output of `nvidia-smi topo -m`")
    for gpu, other in ((gpu, other) for gpu in table.gpus for other in table.devices if other != gpu):
        cells = table.cells(gpu, other)
        untold = other in table.gpus or not any(table.cells(gpu, nic) for nic in table.nics)
        unlike = len(set(cells)) > 1 and not all(cell.startswith("NV") for cell in cells)
        if unlike or (untold and not cells):
            said = " and ".join(cells) or "nothing"
            raise refused(name, f"the rows of {gpu} and {other} say {said} of how they are joined", HELP)
    if any(f"GPU{gpu.index}" not in table.gpus for gpu in server.listed):
        raise refused(name, "a list of other GPUs than those of the table", "give one server's output a file")
    model_name, model = _model(server, table, options)
    ports, links = _nvlinks(server, table, model, options)
    gpus = tuple(Gpu(short_name(model_name), f"sm{model.sm}" if model else "") for _ in table.gpus)
    remarks = [Remark("found", f"{len(table.gpus)} GPUs and {len(table.nics)} NICs by nvidia-smi topo -m")]
    remarks += [Remark("found", f"GPUs: {gpu.model}") for gpu in server.listed[:1]]
    remarks += [Remark("suspicious", text) for text in _doubts(table, model, server.links or [])]
    machine = Machine("", gpus, ports=ports, links=links)
    remarks += remarks_on_gpus(machine)
    speed = model.pcie if model else "8 GT/s"
    slot = pcie_rate(speed, 0, options.calibration)
    if machine.is_joined:
        nics, more = _nearest_nics(server.source, table, options)
        ported = {port.gpu for port in ports}
        if ports and (apart := [i for i in range(len(gpus)) if i not in ported]):
            gpus = tuple(replace(gpu, place=Place(rate=slot)) if i in apart else gpu for i, gpu in enumerate(gpus))
            more = [*more, Remark("assumed", f"{parts('gpu', apart)}: PCIe slots of 16 lanes at {speed}")]
        return replace(machine, gpus=gpus, nics=nics, remarks=(*remarks, *more))
    # a PCIe tree, over which pairs meet that NVLink does not join
    cpus, bridges, parents = _slot_tree(table)
    stated = server.source.stated.nic_rate
    nics = tuple(Nic(table.nic_names.get(nic, nic), stated, place=Place(parents[nic])) for nic in table.nics)
    if not nics:
        nics, remark = one_nic_a_gpu([parents[gpu] for gpu in table.gpus], stated, options.nic_rate)
        remarks.append(remark)
    remarks.append(Remark("assumed", f"PCIe slots and uplinks of 16 lanes at {speed}: the table has no rates"))
    placed = (replace(gpu, place=Place(parents[name], slot)) for name, gpu in zip(table.gpus, gpus, strict=True))
    bridged = tuple(Bridge(name, Place(parent, slot)) for name, parent in bridges.items())
    between, remark = _between_cpus(server, model_name, model)
    remarks += [remark] if len(cpus) > 1 else []
    tree = (tuple(cpus), bridged, between)
    return Machine("", tuple(placed), nics, *tree, links, ports, tuple(remarks))


def _between_cpus(server: _Server, name: str, model: GpuModel | None) -> tuple[Fraction, Remark]:
    """Return NCCL's rate between two CPUs, as lscpu tells them, else the usual ones of the GPU, and a remark."""
    if facts := server.cpus:
        vendor, arch, number = (facts.get(key, "") for key in ("Vendor ID", "Architecture", "Model"))
        rate = cpu_rate(vendor, arch, int(number) if re.fullmatch(r"\d{1,4}", number) else 0)
        return rate, Remark("found", f"CPUs by lscpu: {vendor} {arch}, model {number}")
    is_grace = re.match(r"G[BH]\d", short_name(name)) is not None
    usual = next(cpu for least, cpu in _USUAL_CPUS.items() if (model.sm if model else 0) >= least)
    rate = cpu_rate("", "aarch64", 0) if is_grace else cpu_rate("GenuineIntel", "x86_64", usual)
    whose = "of Grace" if is_grace else "of the Intel CPUs that such GPUs mostly have"
    text = f"{bandwidth(rate)} between CPUs, {whose}: the output of `lscpu` in the same file states others"
    return rate, Remark("assumed", text)


def _model(server: _Server, table: DeviceTable, options: ReadOptions) -> tuple[str, GpuModel | None]:
    """Return the name and facts of the model: as stated of the file, as listed, or as stated of all files."""
    names = server.names
    stated, source = server.source.stated.model, server.source.name
    if len(names) > 1 and not (stated or options.model):
        raise lacking(source, f"GPUs of several models: {', '.join(names)[:200]}", "state one with --model")
    told = names[0] if len(names) == 1 and gpu_model(names[0]) else ""
    name = stated or told or options.model or (names[0] if names else "")
    model = gpu_model(name)
    if model is None and (len(table.gpus) > 1 or name):
        way_out = f"state it with --model, or for this file with --model FILE=NAME ({KNOWN_MODELS}), "
        way_out += "or add the output of `nvidia-smi -L`"
        what = f"nothing is known of the GPU {name!r}, so the rate of their links is not known"
        raise lacking(source, what, way_out)
    return name, model


def _nvlinks(
    server: _Server, table: DeviceTable, model: GpuModel | None, options: ReadOptions
) -> tuple[tuple[SwitchPort, ...], tuple[GpuLink, ...]]:
    """Return the ports into an NVSwitch, or the links between GPUs; HS732 if counts there and back differ."""
    counts = {pair: count for pair, count in table.nvlinks().items() if count}
    if not counts or model is None:
        return (), ()
    rate, gpus = nvlink_rate(model.sm, options.calibration), range(len(table.gpus))
    # links that are together more than a GPU has lead to a switch
    if max(table.sums()) > min(model.links or MOST_LINKS, MOST_LINKS):
        active = {gpu.index: gpu.active for gpu in server.links or () if gpu.links}
        told = [max((n for (a, _), n in counts.items() if a == i), default=0) for i in gpus]
        return switch_ports([min(n, active.get(i, n)) for i, n in enumerate(told)], [rate] * len(told)), ()
    if uneven := [pair for pair, count in counts.items() if counts.get(pair[::-1]) != count]:
        raise refused(server.source.name, f"GPUs {uneven[0]} have another number of NVLinks back", HELP)
    return (), tuple(GpuLink(a, b, count, rate) for (a, b), count in counts.items() if a < b)


def _slot_tree(table: DeviceTable) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """Return CPUs, PCIe switches with their parents, and each device's parent, from the table's distances.

    Cells with NVLink hide the distance, so what they join is placed by its other distances and its NUMA node.
    """
    numa = table.numa

    def at_one_cpu(a: str, b: str) -> bool:
        cell = table.cell(a, b)
        if cell.startswith("NV"):
            return a in numa and numa[a] == numa.get(b)
        return cell in ("PIX", "PXB", "PHB", "NODE")

    cpus: list[str] = []
    bridges: dict[str, str] = {}
    parents: dict[str, str] = {}

    def bridge(devices: Sequence[object], above: str) -> str:
        """Return a new switch below ``above`` if there are several devices to join, else ``above`` itself."""
        if len(devices) < 2:
            return above
        name = f"pcie{len(bridges)}"
        bridges[name] = above
        return name

    for number, socket in enumerate(_groups(table.devices, at_one_cpu)):
        cpus.append(f"cpu{number}")
        for group in _groups(socket, lambda a, b: table.cell(a, b) in ("PIX", "PXB")):
            switches = _groups(group, lambda a, b: table.cell(a, b) == "PIX")
            above = bridge(switches, cpus[-1])
            for switch in switches:
                parents |= dict.fromkeys(switch, bridge(switch, above))
    return cpus, bridges, parents


def _groups(devices: Sequence[str], joined: Callable[[str, str], bool]) -> list[list[str]]:
    """Return the devices in groups, each joined directly or by others, in the order of ``devices``."""
    import networkx as nx

    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(devices)
    graph.add_edges_from((a, b) for a, b in combinations(devices, 2) if joined(a, b))
    return [sorted(group, key=devices.index) for group in nx.connected_components(graph)]


def _nearest_nics(
    source: Source, table: DeviceTable, options: ReadOptions
) -> tuple[tuple[Nic, ...], Sequence[Remark]]:
    """Return the NICs in use with the GPUs nearest to them, shared evenly in order, and remarks on the choice."""
    rate = source.stated.nic_rate
    if not table.nics:
        nics, remark = one_nic_a_gpu([""] * len(table.gpus), rate, options.nic_rate)
        return nics, [remark]

    far = DISTANCES.index("SYS")
    near = {nic: [gpu for gpu in table.gpus if table.cell(gpu, nic) in DISTANCES[:far]] for nic in table.nics}
    nodes = {nic: {table.numa.get(gpu, gpu) for gpu in gpus} for nic, gpus in near.items()}

    def distance(gpu: str, nic: str) -> int:
        """Return the distance's index: NODE if on the NUMA node of a near GPU; NICs near none are farthest."""
        if gpu in near[nic]:
            return DISTANCES.index(table.cell(gpu, nic))
        return far - 1 if table.numa.get(gpu) in nodes[nic] else far if near[nic] else far + 1

    users = nearest([{nic: distance(gpu, nic) for nic in table.nics} for gpu in table.gpus], {})
    names = {nic: table.nic_names.get(nic, nic) for nic in table.nics}
    used = [nic for nic in table.nics if nic in users]
    remarks = []
    if idle := [names[nic] for nic in table.nics if nic not in users]:
        remarks.append(Remark("assumed", f"NICs that are nearest to no GPU are left out: {', '.join(idle)}"))
    least = [min(distance(gpu, nic) for nic in used) for gpu in table.gpus]
    if of_node := [i for i, steps in enumerate(least) if steps == far - 1]:
        remarks.append(Remark("assumed", f"{parts('gpu', of_node)}: NICs of the same NUMA node, shared in order"))
    if untold := [i for i, steps in enumerate(least) if steps >= far]:
        text = f"{parts('gpu', untold)}: the table does not tell which NICs are near: shared in order"
        remarks.append(Remark("assumed", text))
    return tuple(Nic(names[nic], rate, gpus=users[nic]) for nic in used), remarks


def _doubts(table: DeviceTable, model: GpuModel | None, links: Sequence[ListedGpu]) -> Iterator[str]:
    """Yield a message for more links than a GPU has, and for each GPU with fewer active links than others."""
    most = max(table.nvlinks().values(), default=0)
    if model and most > model.links:
        yield f"NV{most} in the table, and such a GPU has {model.links} NVLinks: is it another model?"
    active = max((gpu.active for gpu in links), default=0)
    for own in links:
        if own.active < active:
            yield f"GPU{own.index} has {own.active} active NVLinks, and others have {active}"
