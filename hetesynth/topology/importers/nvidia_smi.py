"""``nvidia-smi topo -m``, with ``-L`` and ``nvlink -s`` of the same server, to a machine.

The table tells which GPUs NVLink joins and by how many links, and what is near what. It does not tell the model
of the GPUs (``-L`` or ``--model`` does), the rate of NICs (``--nic-rate``) or that of PCIe slots (the model's
is assumed).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hetesynth.topology.importers.gpu_models import (
    KNOWN_MODELS,
    GpuModel,
    gpu_model,
    model_by_raw_rate,
    short_name,
)
from hetesynth.topology.importers.machine import (
    Bridge,
    CpuLink,
    Gpu,
    GpuLink,
    Machine,
    Nic,
    Place,
    Remark,
    SwitchPort,
)
from hetesynth.topology.importers.nearest_nics import nearest_nics, one_nic_a_gpu
from hetesynth.topology.importers.nvidia_smi_lists import GpuList, gpu_lists
from hetesynth.topology.importers.nvidia_smi_remarks import remarks_on
from hetesynth.topology.importers.nvidia_smi_table import HELP, DeviceTable, tables
from hetesynth.topology.importers.rates import cpu_rate, nvlink_rate, pcie_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused
from hetesynth.topology.importers.slot_tree import slot_tree
from hetesynth.topology.importers.tool_text import lines_of

MOST_LINKS = 18  # of a GPU today, where the model is not known


@dataclass(frozen=True, slots=True)
class Sections:
    """What was printed on one server."""

    table: DeviceTable | None = None
    models: GpuList | None = None
    links: GpuList | None = None
    access: DeviceTable | None = None

    def with_section(self, field: str, section: DeviceTable | GpuList) -> Sections:
        """The sections with one more."""
        if isinstance(section, DeviceTable):
            return replace(self, table=section) if field == "table" else replace(self, access=section)
        return replace(self, links=section) if field == "links" else replace(self, models=section)


Section = tuple[str, DeviceTable | GpuList]


def read_nvidia_smi(sources: Sequence[Source], options: ReadOptions) -> Reading:
    """The servers whose output the sources hold, in order; several sections of one server may stand in several."""
    servers: list[tuple[Source, Sections]] = []
    for source in sources:
        for field, section in _sections(source):
            if not servers or getattr(servers[-1][1], field) is not None:
                servers.append((source, Sections()))
            of, sections = servers[-1]
            main, other = (source, of) if field == "table" else (of, source)
            servers[-1] = (main.with_stated(other), sections.with_section(field, section))
    if not servers:
        raise refused(sources[0], "no table of `nvidia-smi topo -m`", HELP)
    machines = tuple(_machine(source, sections, options) for source, sections in servers)
    return Reading(machines, files=tuple(source.name for source, _ in servers))


def _sections(source: Source) -> list[Section]:
    """Every table and list of a source with its field in Sections, in the order of the text."""
    lines = lines_of(source.data, source.name)
    sections: list[Section] = [
        ("access" if table.of_peer_access else "table", table) for table in tables(lines, source.name)
    ]
    sections += [("links" if listed.of_links else "models", listed) for listed in gpu_lists(lines, source.name)]
    return sorted(sections, key=lambda section: section[1].line)


def _machine(source: Source, sections: Sections, options: ReadOptions) -> Machine:
    """The machine of one server; HS733 where a flag is needed for it."""
    table = sections.table
    if table is None:
        what = (
            "`topo -p2p`, which says what GPUs may do, not"
            if sections.access
            else "a list of GPUs, which says not"
        )
        raise lacking(source, f"only {what} how they are joined", "add the output of `nvidia-smi topo -m`")
    _check_whole(source, table)
    _check_lists(source, table, sections)
    name, model = _model(source, table, sections, options)
    ports, links = _nvlinks(source, table, sections, model, options)
    gpus = tuple(Gpu(short_name(name), f"sm{model.sm}" if model else "", Place(numa=_node(table, gpu)))
        for gpu in table.gpus)  # fmt: skip
    remarks = remarks_on(table, sections.models, sections.links, sections.access, model)
    machine = Machine("", gpus, ports=ports, links=links, remarks=remarks)
    if ports or len(links) == len(gpus) * (len(gpus) - 1) // 2:
        nics, remark = nearest_nics(table, source.stated.nic_rate, options.nic_rate)
        return replace(machine, nics=nics, remarks=(*remarks, *remark))
    return _with_slots(source, table, machine, model, options)


def _node(table: DeviceTable, gpu: str) -> int | None:
    node = table.numa.get(gpu, "")
    return int(node) if node.isdigit() else None


def _check_whole(source: Source, table: DeviceTable) -> None:
    """Every pair of a GPU and another device must be stated by a row of one of them, and both must agree."""
    for gpu in table.gpus:
        for other in table.devices:
            if other != gpu and table.cell(gpu, other) is None:
                missing = [device for device in table.gpus if device not in table.rows]
                raise refused(source, f"the table lacks rows ({', '.join(missing)}), so nothing says how {gpu} "
                    f"and {other} are joined", HELP)  # fmt: skip
            if gpu in table.rows and other in table.rows:
                _check_agreement(source, table, gpu, other)


def _check_agreement(source: Source, table: DeviceTable, one: str, other: str) -> None:
    """The rows of two devices say the same of the two; numbers of links are compared elsewhere."""
    there, back = table.cell(one, other) or "", table.cell(other, one) or ""
    if there != back and not (there.startswith("NV") and back.startswith("NV")):
        raise refused(
            source, f"the row of {one} says {there} of {other}, and that of {other} says {back} of {one}", HELP
        )


def _check_lists(source: Source, table: DeviceTable, sections: Sections) -> None:
    """Lists of a server name GPUs that its table has."""
    for listed in (sections.models, sections.links):
        strange = [gpu.index for gpu in listed.gpus if f"GPU{gpu.index}" not in table.gpus] if listed else []
        if strange:
            raise refused(
                source, f"a list names GPU {strange[0]}, which the table lacks", "give one server's output"
            )


def _model(
    source: Source, table: DeviceTable, sections: Sections, options: ReadOptions
) -> tuple[str, GpuModel | None]:  # fmt: skip
    """The name of the model and what is known of it: as stated of the file, as listed, as stated otherwise, or by
    the raw rate of the links."""
    listed = [*(sections.models.gpus if sections.models else ()), *(sections.links.gpus if sections.links else ())]
    names = list(dict.fromkeys(gpu.model for gpu in listed))
    stated = source.stated.model
    if len(names) > 1 and not (stated or options.model):
        raise lacking(source, f"GPUs of several models: {', '.join(names)[:200]}", "state one with --model")
    told = names[0] if len(names) == 1 and gpu_model(names[0]) else ""
    name = stated or told or options.model or (names[0] if names else "")
    model = gpu_model(name)
    if model is None and sections.links:
        raw = {str(float(rate)) for gpu in sections.links.gpus for _, rate in gpu.links if rate}
        model = model_by_raw_rate(raw.pop()) if len(raw) == 1 else None
    if model is None and (len(table.gpus) > 1 or name):
        said = f"nothing is known of the GPU {name!r}" if name else "nothing says which GPUs these are"
        raise lacking(source, f"{said}, so the rate of their links is not known",
            f"state it with --model, or for this file with --model FILE=NAME ({KNOWN_MODELS}), "
            "or add the output of `nvidia-smi -L`")  # fmt: skip
    return name, model


def _counts(table: DeviceTable) -> dict[tuple[str, str], int]:
    """The number of NVLinks that the row of a GPU (else the other's) states for each ordered pair."""
    cells = {(a, b): table.cell(a, b) or "" for a in table.gpus for b in table.gpus if a != b}
    return {pair: int(cell[2:]) for pair, cell in cells.items() if cell.startswith("NV") and int(cell[2:])}


def _nvlinks(
    source: Source, table: DeviceTable, sections: Sections, model: GpuModel | None, options: ReadOptions
) -> tuple[tuple[SwitchPort, ...], tuple[GpuLink, ...]]:  # fmt: skip
    """Ports into an NVSwitch, or links between GPUs."""
    counts = _counts(table)
    if not counts or model is None:
        return (), ()
    rate = nvlink_rate(model.sm, options.calibration)
    if _switched(table, counts, model):
        active = {gpu.index: gpu.active for gpu in (sections.links.gpus if sections.links else ()) if gpu.states}
        lanes = [max(count for (a, _), count in counts.items() if a == gpu) for gpu in table.gpus]
        lanes = [min(lane, active.get(i, lane)) for i, lane in enumerate(lanes)]
        if 0 in lanes:
            raise lacking(source, f"no NVLink of GPU {lanes.index(0)} is active",
                "repair it, or import the server without it")  # fmt: skip
        return tuple(SwitchPort(i, lane, rate) for i, lane in enumerate(lanes)), ()
    number = {gpu: i for i, gpu in enumerate(table.gpus)}
    for (a, b), count in counts.items():
        if counts.get((b, a)) != count:
            raise refused(
                source, f"{a} has {count} NVLinks to {b}, and {b} has {counts.get((b, a), 0)} back", HELP
            )
    links = [GpuLink(number[a], number[b], n, rate) for (a, b), n in counts.items() if number[a] < number[b]]
    return (), tuple(links)


def _switched(table: DeviceTable, counts: dict[tuple[str, str], int], model: GpuModel) -> bool:
    """Whether the numbers are of links to a switch: all pairs have some, and together more than a GPU has."""
    peers = len(table.gpus) - 1
    if len(counts) != peers * (peers + 1):
        return False
    least = min(sum(n for (a, _), n in counts.items() if a == gpu) for gpu in table.gpus)
    return least > min(model.links or MOST_LINKS, MOST_LINKS)


def _with_slots(
    source: Source, table: DeviceTable, machine: Machine, model: GpuModel | None, options: ReadOptions
) -> Machine:  # fmt: skip
    """The machine with its PCIe tree, over which pairs meet that NVLink does not join."""
    tree = slot_tree(table.devices, table.cell, table.numa)
    slot = pcie_rate(model.pcie if model else "", 0, options.calibration)
    gpus = tuple(replace(gpu, place=Place(tree.parents[name], slot, numa=gpu.place.numa))
        for name, gpu in zip(table.gpus, machine.gpus, strict=True))  # fmt: skip
    nics = tuple(
        Nic(table.nic_names.get(nic, nic), source.stated.nic_rate, place=Place(tree.parents[nic]))
        for nic in table.nics
    )
    if not nics:
        alike, more = one_nic_a_gpu(len(gpus), source.stated.nic_rate, options.nic_rate)
        nics = tuple(
            Nic(nic.name, nic.rate, place=Place(gpu.place.parent)) for nic, gpu in zip(alike, gpus, strict=False)
        )
        machine = replace(machine, remarks=(*machine.remarks, *more))
    bridges = tuple(Bridge(bridge.name, replace(bridge.place, rate=slot)) for bridge in tree.bridges)
    between = cpu_rate("", "", 0)
    cpus = [cpu.name for cpu in tree.cpus]
    cpu_links = tuple(CpuLink(a, b, between) for i, a in enumerate(cpus) for b in cpus[i + 1 :])
    text = f"PCIe slots and uplinks of 16 lanes at {model.pcie if model else '8 GT/s'}: the table has no rates"
    return replace(machine, gpus=gpus, nics=nics, cpus=tree.cpus, bridges=bridges, cpu_links=cpu_links,
        remarks=(*machine.remarks, Remark("assumed", text)))  # fmt: skip
