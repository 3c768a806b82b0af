"""``rocm-smi --showtopo`` and ``amd-smi topology`` (text or JSON) to a machine.

A pair is joined directly where its type is XGMI and its weight that of one hop; hops are not used, as the tools
state one for every pair that xGMI reaches. The number of links of a pair follows from the bandwidth that
amd-smi states; without that only for models whose pairs have one link. Neither tool tells the model or names NICs.
"""

import re
from collections.abc import Sequence
from itertools import combinations, permutations

from hetesynth.files.strict_json import JsonRefused, read_json
from hetesynth.topology.importers.gpu_models import AMD_MODELS, amd_model, cpu_rate, pcie_rate, xgmi_rate
from hetesynth.topology.importers.machine import Gpu, GpuLink, Machine, Place, Remark, one_nic_a_gpu
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, lines_of, refused

MAX_GPUS = 128
ONE_HOP = "15"  # the weight of a pair with an xGMI link of its own; two hops weigh twice as much
LINK_MB = 50_000  # MB/s of one xGMI link as amd-smi states it
MOST_LINKS = 16
HELP = "give the whole output of `amd-smi topology --json` or `rocm-smi --showtopo`, of one server"

_TABLES = ("weight", "link type", "bandwidth")  # what is used of what the tools say
_TITLE = re.compile(
    r"=+ *(Weight|Link Type) between two GPUs *=+|(WEIGHT|LINK TYPE|NUMA BW) TABLE:", re.IGNORECASE
)
_FIELDS = {"weight": "weight", "link_type": "link type", "bandwidth": "bandwidth", "numa_bandwidth": "bandwidth"}
_GPU = re.compile(r"GPU\d{1,3}|[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_NUMA = re.compile(r"GPU\[(\d{1,3})\]\s*: \(Topology\) Numa (?:Node|Affinity): (\d{1,4})")

Matrix = dict[tuple[int, int], str]  # what is said of ordered pairs of GPUs
Tables = tuple[Sequence[str], dict[str, Matrix]]  # names or bus ids of the GPUs, and a matrix for each property


def read_amd_smi(source: Source, options: ReadOptions) -> Reading:
    """Return the server of a file; HS732 where it is no such output, HS733 where a flag is needed."""
    lines = lines_of(source.data, source.name)
    is_text = any(_TITLE.fullmatch(line.strip()) for line in lines)
    names, tables = _text_tables(lines, source.name) if is_text else _json_tables(source)
    pairs = list(combinations(range(len(names)), 2))
    if any(pair not in tables[table] for table in _TABLES[:2] for pair in permutations(range(len(names)), 2)):
        raise refused(source.name, "no weight or no link type of every pair of GPUs", HELP)
    model = source.stated.model or options.model
    facts = amd_model(model)
    if facts is None:
        what = f"nothing is known of the GPU {model!r}, so the rate of a link is not known"
        way_out = f"state it with --model, or for this file with --model FILE=NAME ({AMD_MODELS})"
        raise lacking(source.name, what, way_out)
    rate = xgmi_rate(facts.arch, options.calibration)
    links = []
    for a, b in pairs:
        there, back = ([tables[table].get(pair, "N/A") for table in _TABLES] for pair in ((a, b), (b, a)))
        kind, weight, bandwidth = there[1].upper(), there[0], re.fullmatch(r"\d{1,9}-(\d{1,9})", there[2])
        count, rest = divmod(int(bandwidth[1]), LINK_MB) if bandwidth else (1, 0)
        if there != back or rest or not 1 <= count <= MOST_LINKS:
            what = f"GPUs {a} and {b}: {', '.join(there)} one way and {', '.join(back)} back is no number of links"
            raise refused(source.name, what, HELP)
        if (kind, weight) != ("XGMI", ONE_HOP):
            continue
        if bandwidth is None and not facts.single:
            way_out = "give `amd-smi topology --json` with bandwidths, or NCCL_TOPO_DUMP_FILE's XML"
            what = f"the number of xGMI links between GPUs {a} and {b} is not told"
            raise lacking(source.name, what, way_out)
        links.append(GpuLink(a, b, count, rate, "xgmi"))
    remarks = [Remark("found", f"{len(names)} GPUs, {len(links)} pairs with xGMI links")]
    degrees = [sum(link.count for link in links if gpu in (link.a, link.b)) for gpu in range(len(names))]
    usual = max(degrees, key=degrees.count)
    fewer = ((gpu, degree) for gpu, degree in enumerate(degrees) if degree < usual)
    doubts = [Remark("suspicious", f"GPU {gpu} has {n} xGMI links, and most have {usual}") for gpu, n in fewer]
    # CPUs, one a NUMA node, over which pairs meet that xGMI does not join
    is_whole = len(links) == len(pairs)
    numa = {int(match[1]): int(match[2]) for line in lines if (match := _NUMA.match(line))}
    cpus = {node: f"cpu{i}" for i, node in enumerate(sorted(set(numa.values())) or [0])}
    parents = ["" if is_whole else cpus.get(numa.get(gpu, 0), "cpu0") for gpu in range(len(names))]
    slot = None if is_whole else pcie_rate("16 GT/s", 0, options.calibration)
    gpus = tuple(
        Gpu(model, facts.arch, Place(parent, slot, name if ":" in name else ""))
        for name, parent in zip(names, parents, strict=True)
    )
    nics, of_nics = one_nic_a_gpu(parents, source.stated.nic_rate, options.nic_rate)
    remarks += [of_nics, *doubts]
    if not is_whole:
        remarks.append(Remark("assumed", "PCIe slots of 16 lanes at 16 GT/s: the tools have no such rates"))
    tree = (() if is_whole else tuple(cpus.values()), (), cpu_rate("AMD", "", 0))
    return Reading((Machine("", gpus, nics, *tree, tuple(links), remarks=tuple(remarks)),))


def _text_tables(lines: Sequence[str], name: str) -> Tables:
    """Return the GPUs and matrices of a text: a title, a line of GPUs, a row for each; HS732 if one is cut."""
    gpus: list[str] = []
    tables: dict[str, Matrix] = {table: {} for table in _TABLES}
    for number, line in enumerate(lines, 1):
        if not (match := _TITLE.fullmatch(line.strip())):
            continue
        title = (match[1] or match[2]).lower().replace("numa bw", "bandwidth")
        below = [words for text in lines[number : number + 2 * MAX_GPUS] if (words := text.split())]
        heading = below[0] if below else []
        rows = below[1 : len(heading) + 1]
        whole = [row[:1] for row in rows] == [[gpu] for gpu in heading] and all(map(_GPU.fullmatch, heading))
        if not whole or {len(row) for row in rows} != {len(heading) + 1} or len(set(heading)) != len(rows):
            raise refused(name, f"line {number}: no whole table of GPUs below it", HELP)
        if tables[title] or (gpus and heading != gpus):
            raise refused(name, f"line {number}: a second table, or one of other GPUs", HELP)
        gpus = heading
        tables[title] = {(i, j): word for i, row in enumerate(rows) for j, word in enumerate(row[1:])}
    return gpus, tables


def _json_tables(source: Source) -> Tables:
    """Return the GPUs and matrices of ``amd-smi topology --json``, in either of its layouts; HS732."""
    try:
        document = read_json(source.data, max_depth=12, max_digits=18)
        if isinstance(document, dict):
            document = document["topology"]
        gpus = [entry["gpu"] for entry in document]
        said: list[tuple[int, int, str, object]] = []  # place of a GPU, another, field, value
        for a, entry in enumerate(document):
            for link in entry.get("links", ()):
                said += [(a, gpus.index(link["gpu"]), field, link[field]) for field in _FIELDS if field in link]
            for field in _FIELDS if "links" not in entry else ():  # the older layout
                column = entry.get(field, {}).items()
                said += [(a, gpus.index(int(other.removeprefix("gpu_"))), field, value) for other, value in column]
        names = [str(entry.get("bdf")) for entry in document]
    except (JsonRefused, KeyError, TypeError, ValueError, AttributeError) as error:
        raise refused(source.name, "no list of GPUs with their links in JSON", HELP) from error
    if not 1 <= len(set(map(str, gpus))) == len(gpus) <= MAX_GPUS:
        raise refused(source.name, "no GPU, too many, or one that stands there twice", HELP)
    tables: dict[str, Matrix] = {table: {} for table in _TABLES}
    for a, b, field, value in said:
        tables[_FIELDS[field]][a, b] = str(value)[:100]
    bus_ids = all(map(_GPU.fullmatch, names)) and len(set(names)) == len(names)
    return names if bus_ids else [f"GPU{gpu}" for gpu in gpus], tables
