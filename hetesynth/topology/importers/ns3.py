"""The link table of ns-3 that HPCC, ASTRA-sim and SimAI simulate: a cluster of hosts, switches and cables.

The first line has counts, then come the numbers of the switches, then lines of source, destination, rate, delay
and error rate. A cable carries its rate each way; a delay is of one cable: a way through a switch takes two.
Sources: astra-sim/astra-network-ns3, scratch/common.h; aliyun/SimAI, network_frontend/ns3/common.h; units as in
ns-3's DataRate and Time.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import islice
from typing import Any

from hetesynth.model.words import counted
from hetesynth.topology.importers.edge_list import MAX_LINKS, MAX_NODES, reading_of
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lines_of, refused

# the counts of the first line, by how many there are: ns-3's own, and SimAI's with the GPUs' type behind them
_HEADERS = {3: ("nodes", "switches", "links"), 5: ("nodes", "gpus_per_server", "nvswitches", "switches", "links")}
HELP = (
    "a line has source, destination, rate (100Gbps), delay (0.0005ms or 25ns) and error rate, as ns-3 reads them"
)
HEADER_HELP = (
    "the first line has nodes, switches and links, in SimAI nodes, GPUs a server, NVSwitches, switches, links"
)
_DECIMAL = r"(\d{1,15}(?:\.\d{1,15})?(?:[eE][+-]?\d{1,2})?)"
_RATE = re.compile(_DECIMAL + r"(?:([kKMGT]?)(i?)(b|B)(?:ps|/s))?")
_DELAY = re.compile(_DECIMAL + r"(h|min|s|ms|us|ns|ps|fs)?")
_PREFIXES = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}
_SECONDS = {"h": Fraction(3600), "min": Fraction(60), "s": Fraction(1)} | {
    unit: Fraction(1, 1000**power) for power, unit in enumerate(("ms", "us", "ns", "ps", "fs"), 1)
}

Row = tuple[int, list[str]]  # the number of a line and its words


def read_ns3(source: Source, options: ReadOptions) -> Reading:
    """Return the cluster as text; HS732 names the line that is wrong."""
    rows = ((n, line.split()) for n, line in enumerate(lines_of(source.data, source.name), 1) if line.strip())
    counts, gpu_type = _header(source.name, rows)
    forwarding = _switches(source.name, rows, counts)
    nodes, per_server = counts["nodes"], counts.get("gpus_per_server", 1)
    gpus = [node for node in range(nodes) if node not in forwarding]
    server = {gpu: i // per_server for i, gpu in enumerate(gpus)}
    joined: dict[int, set[int]] = {switch: set() for switch in forwarding}  # the servers at each, -1 for a switch
    links: list[dict[str, Any]] = []
    lossy = 0
    for line, words in islice(rows, counts["links"]):
        ends, rate, delay, loss = _link(f"{source.name}: line {line}", words, nodes)
        lossy += loss > 0
        kind = "".join({forwarding.get(end, "") for end in ends})
        outer = sorted(ends, key=server.__contains__)  # switches before GPUs
        for a, b in (outer, outer[::-1]):
            links.append({"src": a, "dst": b, "GBps": rate / 10**9, "alpha_us": delay * 10**6, "kind": kind})
            joined.get(a, set()).add(server.get(b, -1))
    if len(links) != 2 * counts["links"]:
        what = f"the first line states {counts['links']} links, and {len(links) // 2} follow"
        raise refused(source.name, what, HEADER_HELP)
    remarks = [
        Remark("found", f"{counted(len(gpus), 'GPU')}, switches: {len(forwarding)}, as a simulator has them")
    ]
    if rest := list(islice(rows, 1)):
        text = f"line {rest[0][0]} and what follows is not read: the first line states no more links"
        remarks.append(Remark("suspicious", text))
    if lossy:
        remarks.append(Remark("found", f"{lossy} links lose packets in the simulator; here no link does"))
    if "gpus_per_server" not in counts:
        remarks.append(Remark("assumed", "every node that is no switch is a server of one GPU"))
    model = source.stated.model or options.model or gpu_type.replace("NONE", "")
    inside: dict[int, list[int]] = defaultdict(list)  # NVSwitches of a server
    for switch, at in joined.items():
        if forwarding[switch] and len(at) == 1 and -1 not in at:
            inside[min(at)].append(switch)
    names = {
        switch: {"server": number, "name": f"nvswitch{i}"}
        for number, own in inside.items()
        for i, switch in enumerate(own)
    }
    document = {
        "name": source.name.rpartition(".")[0] or source.name,
        "nodes": [{"id": gpu, "server": server[gpu], "model": model} for gpu in gpus]
        + [{"id": s, "type": "switch", "name": f"switch{s}"} | names.get(s, {}) for s in forwarding],
        "links": links,
        "measured": ["nvlink"] * any(link["kind"] for link in links),
    }
    return reading_of(document, source.name, remarks)


def _header(name: str, rows: Iterator[Row]) -> tuple[dict[str, int], str]:
    """Return the counts of the first line by name, and SimAI's type of GPU; HS732."""
    line, words = next(rows, (1, [""]))
    numbers = [word for word in words if re.fullmatch(r"\d{1,7}", word)]
    keys = _HEADERS.get(len(numbers))
    if keys is None or words[: len(numbers)] != numbers:
        raise refused(f"{name}: line {line}", f"{' '.join(words)[:60]!r} has other counts", HEADER_HELP)
    counts = dict(zip(keys, map(int, numbers), strict=True))
    too_many = counts["nodes"] > MAX_NODES or counts["links"] > MAX_LINKS // 2
    if too_many or not counts.get("gpus_per_server", 1):
        what = f"more than {MAX_NODES} nodes or {MAX_LINKS // 2} links, or servers of no GPU"
        raise refused(f"{name}: line {line}", what, "import a smaller network of the same shape")
    return counts, " ".join(words[len(numbers) :])[:40]


def _switches(name: str, rows: Iterator[Row], counts: dict[str, int]) -> dict[int, str]:
    """Return every switch and the kind of its cables: SimAI's NVSwitches come first. HS732."""
    nvswitches, line = counts.get("nvswitches", 0), 1
    size, words = nvswitches + counts["switches"], list[str]()
    while len(words) < size:
        line, more = next(rows, (line, [""]))
        words += more
        numbers = [int(word) for word in words if re.fullmatch(r"\d{1,7}", word)]
        if len(numbers) < len(words) or len(words) > size or max(numbers) >= counts["nodes"]:
            what = f"not {size} numbers of switches below {counts['nodes']}, as the first line states them"
            raise refused(f"{name}: line {line}", what, HEADER_HELP)
    kinds = {int(word): "nvlink" if i < nvswitches else "" for i, word in enumerate(words)}
    if len(kinds) < size or size >= counts["nodes"]:
        raise refused(f"{name}: line {line}", "a switch is there twice, or no node is a GPU", HEADER_HELP)
    return kinds


def _link(where: str, words: list[str], nodes: int) -> tuple[tuple[int, int], Fraction, Fraction, float]:
    """Return the ends of a link, its bytes per second, its seconds of delay and its error rate; HS732."""
    matches = (_RATE.fullmatch(words[2]), _DELAY.fullmatch(words[3])) if len(words) == 5 else (None, None)
    rate, delay = matches
    ends = [int(word) for word in words[:2] if re.fullmatch(r"\d{1,7}", word) and int(word) < nodes]
    if (
        rate is None
        or delay is None
        or not float(rate[1])
        or len({*ends}) < 2
        or not re.fullmatch(_DECIMAL, words[4])
    ):
        raise refused(where, f"{' '.join(words)[:60]!r} is no link between two of {nodes} nodes", HELP)
    scale = (1024 if rate[3] else 1000) ** _PREFIXES[rate[2] or ""] * (1 if rate[4] == "B" else Fraction(1, 8))
    seconds = Fraction(delay[1]) * _SECONDS[delay[2] or "s"]
    return (ends[0], ends[1]), Fraction(rate[1]) * scale, seconds, float(words[4])
