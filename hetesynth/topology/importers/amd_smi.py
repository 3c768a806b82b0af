"""``rocm-smi --showtopo`` and ``amd-smi topology`` (text or JSON) to a machine.

The text forms have a matrix for each property of pairs, below a line that names it; the JSON forms have it by GPU.
A pair is joined directly where its type is XGMI and its weight that of one hop; hops are not used, as the tools
state one for every pair that xGMI reaches. The number of links of a pair follows from the bandwidth that
amd-smi states; without that only for models whose pairs have one link. Neither tool tells the model
(``--model``) or names NICs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, permutations

from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.topology.importers.gpu_models import AMD_MODELS, amd_model
from hetesynth.topology.importers.machine import Cpu, CpuLink, Gpu, GpuLink, Machine, Place, Remark, one_nic_a_gpu
from hetesynth.topology.importers.rates import cpu_rate, pcie_rate, xgmi_rate
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, lines_of, refused

MAX_GPUS = 128
ONE_HOP = 15  # the weight of a pair with an xGMI link of its own; two hops weigh twice as much
LINK_MB = 50_000  # MB/s of one xGMI link as amd-smi states it
MOST_LINKS = 16
HELP = "give the whole output of `amd-smi topology --json` or `rocm-smi --showtopo`"

WEIGHT, HOPS, LINK_TYPE, BANDWIDTH = "weight", "hops", "link type", "bandwidth"
_TITLES = {"weight": WEIGHT, "hops": HOPS, "link type": LINK_TYPE, "numa bw": BANDWIDTH}
_TITLE = re.compile(r"=+ *(Weight|Hops|Link Type) between two GPUs *=+", re.IGNORECASE)
_AMD_TITLE = re.compile(r"([A-Z][A-Z -]{1,30}?) TABLE:")
_GPU = re.compile(r"GPU\d{1,3}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_NUMA = re.compile(r"GPU\[(\d{1,3})\]\s*: \(Topology\) Numa (?:Node|Affinity): (-?\d{1,4})")
_FIELDS = {WEIGHT: "weight", HOPS: "num_hops", LINK_TYPE: "link_type", BANDWIDTH: "bandwidth"}
_OLD_FIELDS = {WEIGHT: "weight", HOPS: "hops", LINK_TYPE: "link_type", BANDWIDTH: "numa_bandwidth"}

Matrix = dict[tuple[int, int], str]  # what is said of ordered pairs of GPUs
Tables = tuple[Sequence[str], dict[str, Matrix]]  # names or bus ids of the GPUs, and a matrix for each property


def read_amd_smi(source: Source, options: ReadOptions) -> Reading:
    """Return the server of a file; HS732 where it is no such output, HS733 where a flag is needed."""
    lines = lines_of(source.data, source.name)
    numa: dict[int, int] = {}
    if any(_title(line) for line in lines):
        names, tables = _text_tables(lines, source.name)
        nodes = [match for line in lines if (match := _NUMA.match(line))]
        numa = {int(node[1]): int(node[2]) for node in nodes if int(node[2]) >= 0}
    else:
        names, tables = _json_tables(source.data, source.name)
    if WEIGHT not in tables or LINK_TYPE not in tables:
        what = "no weights or no link types of pairs: hops alone do not tell which are direct"
        raise refused(source.name, what, HELP)
    model = source.stated.model or options.model
    facts = amd_model(model)
    if facts is None:
        what = f"nothing is known of the GPU {model!r}" if model else "the tool does not name the model"
        way_out = f"state it with --model, or for this file with --model FILE=NAME ({AMD_MODELS})"
        raise lacking(source.name, f"{what}, so the rate of a link is not known", way_out)
    rate = xgmi_rate(facts.arch, options.calibration)
    pairs = list(combinations(range(len(names)), 2))
    links = []
    for a, b in pairs:
        there, back = ((tables[LINK_TYPE][pair].upper(), tables[WEIGHT][pair]) for pair in ((a, b), (b, a)))
        if there != back:
            what = f"GPUs {a} and {b}: {' '.join(there)} one way, {' '.join(back)} back"
            raise refused(source.name, what, HELP)
        if there == ("XGMI", str(ONE_HOP)):
            bandwidths = tables.get(BANDWIDTH, {})
            values = [bandwidths.get(pair) or "N/A" for pair in ((a, b), (b, a))]
            matches = [re.fullmatch(r"(\d{1,9})-(\d{1,9})", value) for value in values]
            count, most = 1, {int(match[2]) for match in matches if match}
            if all(matches):
                count, rest = divmod(max(most), LINK_MB)
                if len(most) != 1 or rest or not 1 <= count <= MOST_LINKS:
                    what = f"GPUs {a} and {b}: {values[0]} MB/s is no multiple of a link's {LINK_MB}"
                    raise refused(source.name, what, HELP)
            elif not facts.single:
                way_out = "give `amd-smi topology --json` with bandwidths, or NCCL_TOPO_DUMP_FILE's XML"
                what = f"the number of xGMI links between GPUs {a} and {b} is not told"
                raise lacking(source.name, what, way_out)
            links.append(GpuLink(a, b, count, rate, "xgmi"))
    gpus = tuple(
        Gpu(model, facts.arch, Place(bus=name if ":" in name else "", numa=numa.get(i)))
        for i, name in enumerate(names)
    )
    nics, of_nics = one_nic_a_gpu(len(gpus), source.stated.nic_rate, options.nic_rate)
    remarks = [Remark("found", f"{len(gpus)} GPUs, {len(links)} pairs with xGMI links"), *of_nics]
    degrees = [sum(link.count for link in links if gpu in (link.a, link.b)) for gpu in range(len(gpus))]
    usual = max(degrees, key=degrees.count)
    for gpu, degree in enumerate(degrees):
        if degree < usual:
            remarks.append(Remark("suspicious", f"GPU {gpu} has {degree} xGMI links, and most have {usual}"))
    machine = Machine("", gpus, nics, links=tuple(links), remarks=tuple(remarks))
    return Reading((machine if len(links) == len(pairs) else _over_pcie(machine, options),))


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
    cpus = tuple(Cpu(name, node) for node, name in names.items())
    between = cpu_rate("AMD", "", 0)
    cpu_links = tuple(CpuLink(a.name, b.name, between) for a, b in combinations(cpus, 2))
    remark = Remark("assumed", "PCIe slots of 16 lanes at 16 GT/s: the tools have no such rates")
    remarks = (*machine.remarks, remark)
    return replace(machine, gpus=gpus, nics=nics, cpus=cpus, cpu_links=cpu_links, remarks=remarks)


def _title(line: str) -> str:
    """The property that a line announces; "" where it announces none that is used here."""
    match = _TITLE.match(line.strip()) or _AMD_TITLE.fullmatch(line.strip())
    return _TITLES.get(match[1].lower(), "") if match else ""


def _text_tables(lines: Sequence[str], name: str) -> Tables:
    """The matrices of a text; HS732 where they are incomplete or contradict each other."""
    gpus: tuple[str, ...] = ()
    tables: dict[str, Matrix] = {}
    for number, line in enumerate(lines, 1):
        if not (title := _title(line)):
            continue
        if title in tables:
            raise refused(name, f"line {number}: a second table of {title}", "give one server a file")
        start = next((n for n in range(number, min(number + 3, len(lines))) if lines[n].split()), len(lines))
        devices = tuple(lines[start].split()) if start < len(lines) else ()
        distinct = 0 < len(set(devices)) == len(devices) <= MAX_GPUS
        if not distinct or not all(map(_GPU.fullmatch, devices)):
            raise refused(name, f"line {start + 1}: no line of GPUs below the title", HELP)
        matrix: Matrix = {}
        for row, device in enumerate(devices):
            at = start + 1 + row
            words = lines[at].split() if at < len(lines) else []
            if words[:1] != [device] or len(words) != len(devices) + 1:
                raise refused(name, f"line {at + 1}: no whole row of {device}", HELP)
            matrix |= {(row, column): word for column, word in enumerate(words[1:])}
        if gpus and devices != gpus:
            raise refused(name, f"line {number}: a table of other GPUs than the one before", HELP)
        gpus, tables[title] = devices, matrix
    return gpus, tables


def _json_tables(data: bytes, name: str) -> Tables:
    """What ``amd-smi topology --json`` says; both of its layouts."""
    try:
        document = read_json(data, JsonLimits(max_depth=12, max_digits=18))
    except JsonRefused as error:
        raise refused(name, str(error), HELP) from error
    if isinstance(document, dict) and isinstance(document.get("topology"), list):
        document = document["topology"]
    if not isinstance(document, list) or not 1 <= len(document) <= MAX_GPUS:
        raise refused(name, "no list of GPUs with their links", HELP)
    tables: dict[str, Matrix] = {table: {} for table in _FIELDS}
    said: list[tuple[int, int, str, str]] = []  # place of a GPU, number of another, table, value
    for a, entry in enumerate(document):
        links, older = (entry.get("links"), entry.get("weight")) if isinstance(entry, dict) else (None, None)
        if (not isinstance(links, list) and not isinstance(older, dict)) or type(entry.get("gpu")) is not int:
            raise refused(name, "no list of GPUs with their links", HELP)
        for link in links if isinstance(links, list) else ():
            if not isinstance(link, dict) or type(link.get("gpu")) is not int:
                raise refused(name, f"GPU {entry['gpu']} has a link without the number of a GPU", HELP)
            said += [(a, link["gpu"], table, link[key]) for table, key in _FIELDS.items() if key in link]
        if not isinstance(links, list):
            columns = {table: entry.get(key) for table, key in _OLD_FIELDS.items()}
            cells = [
                (t, *cell) for t, column in columns.items() if isinstance(column, dict) for cell in column.items()
            ]
            matches = [(re.fullmatch(r"gpu_(\d{1,3})", other), table, value) for table, other, value in cells]
            said += [(a, int(match[1]), table, value) for match, table, value in matches if match]
    gpus = [entry["gpu"] for entry in document]
    number = {gpu: place for place, gpu in enumerate(gpus)}
    if len(number) != len(gpus):
        raise refused(name, "a GPU stands there twice", "give one server a file")
    for a, gpu, table, value in said:
        if gpu in number:
            tables[table][a, number[gpu]] = str(value)[:100]
    for table, matrix in tables.items():
        for a, b in permutations(range(len(gpus)), 2):
            if matrix and (a, b) not in matrix:
                raise refused(name, f"{table} of GPUs {gpus[a]} and {gpus[b]} is not there", HELP)
    names = [entry.get("bdf") for entry in document]
    bus_ids = all(isinstance(bdf, str) and _GPU.fullmatch(bdf) for bdf in names) and len(set(names)) == len(names)
    shown = [str(bdf) for bdf in names] if bus_ids else [f"GPU{gpu}" for gpu in gpus]
    return shown, {table: matrix for table, matrix in tables.items() if matrix}
