"""``rocm-smi --showtopo`` and ``amd-smi topology`` to a machine.

A pair is joined directly where its type is XGMI and its weight that of one hop; hops are not used, as the tools
state one for every pair that xGMI reaches. The number of links of a pair follows from the bandwidth that
amd-smi states; without that only for models whose pairs have one link. Neither tool tells the model
(``--model``) or names NICs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hetesynth.topology.importers.amd_tables import (
    BANDWIDTH,
    LINK_TYPE,
    WEIGHT,
    PairTables,
    is_amd_text,
    json_tables,
    text_tables,
)
from hetesynth.topology.importers.machine import Cpu, CpuLink, Gpu, GpuLink, Machine, Place, Remark
from hetesynth.topology.importers.nearest_nics import one_nic_a_gpu
from hetesynth.topology.importers.rates import cpu_rate, pcie_rate, xgmi_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, refused
from hetesynth.topology.importers.tool_text import lines_of

ONE_HOP = 15  # the weight of a pair with an xGMI link of its own; two hops weigh twice as much
LINK_MB = 50_000  # MB/s of one xGMI link as amd-smi states it
MOST_LINKS = 16
HELP = "give the whole output of `amd-smi topology --json` or `rocm-smi --showtopo`"

_ARCHITECTURES = (
    (r"MI(50|60)", "gfx906", True),
    (r"MI100", "gfx908", True),
    (r"MI2[15]0X?", "gfx90a", False),
    (r"MI300A", "gfx942", False),
    (r"MI(300|308|325)X?", "gfx942", True),
    (r"MI3[5]\d[XA]?", "gfx950", True),
)  # name, architecture, whether a pair has one link at most
MODELS = "MI50, MI100, MI250X, MI300A, MI300X, MI325X, MI355X"


def read_amd_smi(source: Source, options: ReadOptions) -> Reading:
    """The server of a file. HS732 where it is no such output, HS733 where a flag or another tool is needed."""
    if is_amd_text(lines := lines_of(source.data, source.name)):
        tables = text_tables(lines, source.name)
    else:
        tables = json_tables(source.data, source.name)
    return Reading((_machine(source, tables, options),))


def _machine(source: Source, tables: PairTables, options: ReadOptions) -> Machine:
    """The machine that the tables describe."""
    if WEIGHT not in tables.tables or LINK_TYPE not in tables.tables:
        raise refused(
            source, "no weights or no link types of pairs: hops alone do not tell which are direct", HELP
        )
    model = source.stated.model or options.model
    arch, single = _architecture(source, model)
    rate = xgmi_rate(arch, options.calibration)
    pairs = [(a, b) for a in range(len(tables.gpus)) for b in range(a + 1, len(tables.gpus))]
    links = tuple(
        GpuLink(a, b, _count(source, tables, a, b, single), rate, "xgmi")
        for a, b in pairs
        if _direct(source, tables, a, b)
    )
    gpus = tuple(
        Gpu(model, arch, Place(bus=name if ":" in name else "", numa=tables.numa.get(i)))
        for i, name in enumerate(tables.gpus)
    )
    nics, remarks = one_nic_a_gpu(len(gpus), source.stated.nic_rate, options.nic_rate)
    notes = [Remark("found", f"{len(gpus)} GPUs, {len(links)} pairs with xGMI links"), *remarks]
    notes += [Remark("suspicious", text, "warning") for text in _unequal(tables, links)]
    machine = Machine("", gpus, nics, links=links, remarks=tuple(notes))
    return machine if len(links) == len(pairs) else _over_pcie(machine, options)


def architecture(model: str) -> tuple[str, bool] | None:
    """The architecture of a model, and whether a pair of its GPUs has one xGMI link at most; None: not known."""
    rows = (row for row in _ARCHITECTURES if re.search(row[0], model, re.IGNORECASE))
    return next(((arch, single) for _, arch, single in rows), None)


def _architecture(source: Source, model: str) -> tuple[str, bool]:
    """The architecture of the stated model, and whether a pair of its GPUs has one link at most."""
    if told := architecture(model):
        return told
    what = f"nothing is known of the GPU {model!r}" if model else "the tool does not name the model"
    raise lacking(source, f"{what}, so the rate of a link is not known",
        f"state it with --model, or for this file with --model FILE=NAME ({MODELS})")  # fmt: skip


def _direct(source: Source, tables: PairTables, a: int, b: int) -> bool:
    """Whether a pair has a link of its own; both directions have to say the same."""
    there = [(tables.value(LINK_TYPE, *pair) or "").upper() for pair in ((a, b), (b, a))]
    weights = [tables.value(WEIGHT, *pair) or "" for pair in ((a, b), (b, a))]
    if there[0] != there[1] or weights[0] != weights[1]:
        raise refused(
            source, f"GPUs {a} and {b}: {there[0]} {weights[0]} one way, {there[1]} {weights[1]} back", HELP
        )
    return there[0] == "XGMI" and weights[0] == str(ONE_HOP)


def _count(source: Source, tables: PairTables, a: int, b: int, single: bool) -> int:
    """How many links a pair has."""
    values = [tables.value(BANDWIDTH, *pair) or "N/A" for pair in ((a, b), (b, a))]
    matches = [re.fullmatch(r"(\d{1,9})-(\d{1,9})", value) for value in values]
    if not all(matches):
        if single:
            return 1
        raise lacking(source, f"the number of xGMI links between GPUs {a} and {b} is not told",
            "give `amd-smi topology --json` with bandwidths, or NCCL_TOPO_DUMP_FILE's XML")  # fmt: skip
    most = {int(match[2]) for match in matches if match}
    count, rest = divmod(max(most), LINK_MB)
    if len(most) != 1 or rest or not 1 <= count <= MOST_LINKS:
        raise refused(source, f"GPUs {a} and {b}: {values[0]} MB/s is no multiple of a link's {LINK_MB}", HELP)
    return count


def _unequal(tables: PairTables, links: Sequence[GpuLink]) -> Iterator[str]:
    """GPUs with fewer pairs than most have, where every pair should be alike."""
    degrees = [sum(link.count for link in links if gpu in (link.a, link.b)) for gpu in range(len(tables.gpus))]
    usual = max(degrees, key=degrees.count)
    for gpu, degree in enumerate(degrees):
        if degree < usual:
            yield f"GPU {gpu} has {degree} xGMI links, and most have {usual}"


def _over_pcie(machine: Machine, options: ReadOptions) -> Machine:
    """The machine with CPUs, one a NUMA node, over which pairs meet that xGMI does not join."""
    nodes = sorted({gpu.place.numa for gpu in machine.gpus if gpu.place.numa is not None}) or [0]
    names = {node: f"cpu{i}" for i, node in enumerate(nodes)}
    slot = pcie_rate("16 GT/s", 0, options.calibration)
    gpus = tuple(
        replace(gpu, place=replace(gpu.place, parent=names.get(gpu.place.numa or nodes[0], "cpu0"), rate=slot))
        for gpu in machine.gpus
    )
    nics = tuple(replace(nic, gpus=(), place=Place(gpus[nic.gpus[0]].place.parent)) for nic in machine.nics)
    between = cpu_rate("AMD", "", 0)
    cpus = tuple(Cpu(name, node, "AMD") for node, name in names.items())
    cpu_links = tuple(CpuLink(a.name, b.name, between) for i, a in enumerate(cpus) for b in cpus[i + 1 :])
    text = "PCIe slots of 16 lanes at 16 GT/s: the tools have no such rates"
    return replace(machine, gpus=gpus, nics=nics, cpus=cpus, cpu_links=cpu_links,
        remarks=(*machine.remarks, Remark("assumed", text)))  # fmt: skip
