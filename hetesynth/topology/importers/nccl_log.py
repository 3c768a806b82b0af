"""The tree of a server that NCCL and RCCL print with NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=GRAPH (ncclTopoPrint).

The tree becomes a dump of the library, which ``nccl`` reads. Its rates are those that the library counts; how many
links they are is told by the GPU's model, else by the rates themselves.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from lxml import etree

from hetesynth.model.calibration import PCIE_RATES, XGMI_RATES
from hetesynth.topology.importers import nccl
from hetesynth.topology.importers.gpu_models import MODELS, amd_model, gpu_model, nvlink_rate
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lacking, lines_of, refused

_HELP = "give the log of a run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH, with all its spaces"
_INFO = "NCCL INFO "
_RANK = re.compile(r"([\w.-]{1,253}):\d{1,9}:\d{1,9} \[[\w-]{1,9}\] $")
_BEGIN = re.compile(r"=== System : max(Bw|Width) ")
_LINE = re.compile(
    r" *(?:\+ (?P<link>[A-Z\d]{3,4})\[(?P<rate>\d{1,6}\.\d)\] - )?"
    r"(?P<node>(?P<kind>[A-Z\d]{3,4})/(?:(?P<system>[\da-fA-F]{1,16})-)?(?P<id>[\da-fA-F]{1,16})"
    r"(?: \((?P<facts>[^)]{1,99})\))?.{0,40})"
)
_ARCHES = {"1": "x86_64", "2": "ppc64le", "3": "arm64"}  # as the library numbers them
_VENDORS = {"1": "GenuineIntel", "2": "AuthenticAMD"}
_MODELS = {"2": "85", "3": "143", "4": "207"}  # the first of each class of Intel's
# compute capability, GB/s that are counted of a link, links of a GPU: the first that all rates are multiples of
_NVLINKS = tuple(
    (sm, Fraction(rate), most)
    for sm, rate, most in (
        (100, "40.1", 18), (90, "20.6", 18), (70, "20", 6), (80, "20", 12), (90, "20", 18), (60, "18", 4),
        (86, "12", 4),
    )
)  # fmt: skip
_SLOTS = {  # speed and width by the rate as printed; sixteen lanes and late generations before others
    f"{float(PCIE_RATES[speed][1]) * width:.1f}": (f"{speed} GT/s", str(width))
    for speeds in (("2.5", "5"), ("8", "16", "32", "64"))
    for width in (1, 2, 4, 8, 16)
    for speed in speeds
}


@dataclass(frozen=True, slots=True)
class _Gpu:
    """A GPU; ``links``: kind, address of the other end ("" for a switch), GB/s."""

    element: etree._Element
    name: str  # of its model, "" where the tree does not tell
    rank: str
    links: list[tuple[str, str, Fraction]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Tree:
    """A printed tree as a dump in which links of GPUs are missing; ``whole``: its last line was there."""

    root: etree._Element
    gpus: dict[str, _Gpu]  # by system and address
    whole: bool

    @property
    def ranks(self) -> dict[str, str]:
        """The rank of each GPU."""
        return {address: gpu.rank for address, gpu in self.gpus.items()}


def read_nccl_log(source: Source, options: ReadOptions) -> Reading:
    """Return the server of each host whose ranks print its tree; HS732 where trees contradict each other."""
    hosts: dict[str, list[_Tree]] = defaultdict(list)
    for host, lines, whole in _printed(lines_of(source.data, source.name)):
        hosts[host].append(_tree(lines, whole, source, options))
    if not hosts:
        raise lacking(source.name, "the log has no tree (`=== System : maxBw`)", _HELP)
    machines: list[Machine] = []
    remarks: list[Remark] = []
    for host, trees in hosts.items():
        tree = max(trees, key=lambda tree: len(tree.gpus))
        # a smaller group of ranks has some of the GPUs
        if any(other.ranks != tree.ranks and not other.gpus.keys() < tree.gpus.keys() for other in trees):
            what = f"the trees of host {host!r} differ: they are of several servers"
            raise refused(source.name, what, "give the log of each server as a file")
        _add_links(tree, source)
        reading = nccl.read(replace(source, data=etree.tostring(tree.root)), options)
        machines += [replace(machine, host=host * (len(hosts) > 1)) for machine in reading.machines]
        remarks += reading.remarks
        if not tree.whole:
            text = f"{source.name}: the tree has no last line (`=====`): is it cut off?"
            remarks.append(Remark("suspicious", text))
    return Reading(tuple(machines), remarks=tuple(remarks))


def _printed(lines: Sequence[str]) -> Iterator[tuple[str, list[str], bool]]:
    """Yield the host of each tree, its lines without prefixes, True with its end; ranks may alternate."""
    begun: dict[str, tuple[str, list[str]]] = {}  # by what stands before the lines of a rank
    for line in lines:
        before, _, text = line.rpartition(_INFO)
        match = _RANK.search(before[-400:])
        rank = match[0] if match else ""
        if _BEGIN.search(text):
            if rank in begun:
                yield *begun.pop(rank), False
            begun[rank] = match[1] if match else "", []
        elif rank in begun and text.lstrip().startswith("====="):
            yield *begun.pop(rank), True
        elif rank in begun and _LINE.fullmatch(text):
            begun[rank][1].append(text)
    yield from ((*tree, False) for tree in begun.values())


def _tree(lines: Sequence[str], whole: bool, source: Source, options: ReadOptions) -> _Tree:
    """Return the dump that a tree stands for: a line is below the one whose name begins where its ``+`` stands."""
    root, gpus = etree.Element("system"), dict[str, _Gpu]()
    above: dict[int, etree._Element | _Gpu | None] = {}  # by column; None for what is passed over
    for match in filter(None, map(_LINE.fullmatch, lines)):
        link, kind, facts = match["link"], match["kind"], (match["facts"] or "").split("/")
        column = len(match[0]) - len(match[0].lstrip())
        if link and column not in above:
            raise refused(source.name, f"{match[0].strip()[:60]!r} is below no line of its tree", _HELP)
        parent, address = above.get(column), _address(match["id"])
        above = {place: node for place, node in above.items() if place <= column}
        node: etree._Element | _Gpu | None = None
        if isinstance(parent, _Gpu):
            if link == "LOC" and kind == "DEV":
                raise refused(source.name, "parts of GPUs (MLOPart) are not read", "take the log with whole GPUs")
            if link in ("NVL", "XGMI") and kind in ("NVS", "GPU", "DEV"):
                parent.links.append((link, "" if kind == "NVS" else address, Fraction(match["rate"])))
        elif kind == "CPU" and not link:
            arch, vendor, model = [*facts, "", "", ""][:3]
            cpu = {"arch": _ARCHES.get(arch, ""), "vendor": _VENDORS.get(vendor, "")}
            node = etree.SubElement(root, "cpu", cpu, host_hash=match["system"] or "")
            node.set("modelid", _MODELS.get(model, ""))
        elif parent is not None and link == kind == "NET":
            number = str(int(match["id"], 16))
            rate = Fraction(facts[-1] if re.fullmatch(r"\d{1,6}\.\d{1,9}", facts[-1]) else match["rate"])
            etree.SubElement(parent, "net", dev=number, name=f"net{number}", speed=str(round(rate * 8000)))
        elif parent is not None and link == "PCI":
            node = slot = _slot(parent, match, address)
            if kind == "NIC":
                node = etree.SubElement(slot, "nic")
            elif kind in ("GPU", "DEV"):
                ids = (slot.get("vendor", ""), slot.get("device", ""))
                name = source.stated.model or MODELS.get(ids, "") or options.model
                rank = facts[0] if kind == "GPU" and facts[0].isdecimal() else ""
                node = _Gpu(etree.SubElement(slot, "gpu", rank=rank), name, rank)
                gpus[f"{match['system']}-{address}"] = node
        above[match.start("node")] = node
    for dev, gpu in enumerate(sorted(gpus.values(), key=lambda gpu: int(gpu.rank or 0))):
        gpu.element.set("dev", str(dev))
    if not gpus:
        raise refused(source.name, "a tree without a GPU", _HELP)
    return _Tree(root, gpus, whole)


def _slot(parent: etree._Element, match: re.Match[str], address: str) -> etree._Element:
    """Return the slot of a device below a CPU or a bridge; the parent itself for a NIC without one."""
    kind, device = match["kind"], match["facts"] or ""
    speed, width = _SLOTS.get(match["rate"], ("", ""))
    if kind == "NIC" and not speed:
        return parent
    told = device.zfill(16) if kind != "GPU" and re.fullmatch(r"[\da-fA-F]{9,16}", device) else "0" * 16
    ids = {"vendor": f"0x{told[:4]}", "device": f"0x{told[4:8]}"}
    ids["class"] = {"NIC": "0x020000", "PCI": "0x060400"}.get(kind, "0x030200")
    return etree.SubElement(parent, "pci", ids, busid=address, link_speed=speed, link_width=width)


def _address(number: str) -> str:
    """Return the PCI address that a number of the library stands for: 84000 is 0000:84:00.0."""
    digits = number.lower().zfill(9)
    return f"{digits[:-5]}:{digits[-5:-3]}:{digits[-3:-1]}.{digits[-1]}"


def _add_links(tree: _Tree, source: Source) -> None:
    """Give every GPU as many links as their rates say. Raise HS733 if the number cannot be told."""
    nvlinks = [[rate for kind, _, rate in gpu.links if kind == "NVL"] for gpu in tree.gpus.values()]
    names = {gpu.name for gpu in tree.gpus.values()}
    model = gpu_model(next(iter(names))) if len(names) == 1 else None
    rows = _NVLINKS
    if model:
        own = (model.sm, nvlink_rate(model.sm, "nccl") / 10**9, 36)
        rows = (own, *(row for row in _NVLINKS if row[0] == model.sm))
    fitting = [row for row in rows if all(_are_links(rates, *row[1:]) for rates in nvlinks)]
    if not fitting:
        what = "the rates of NVLinks are no multiples of what the library counts of one"
        raise lacking(source.name, what, "state the GPU with --model")
    sm, counted, _ = fitting[0]
    for gpu in tree.gpus.values():
        if model or any(nvlinks):
            gpu.element.set("sm", str(sm))
        for kind, address, rate in gpu.links:
            tag, one = "nvlink", counted
            if kind == "XGMI":
                tag, (arch, one) = "xgmi", _xgmi(gpu.name, rate, source)
                gpu.element.set("gcn", arch)
            tclass = "0x030200" if address else "0x068000"
            count = str(max(1, round(rate / one)))
            etree.SubElement(gpu.element, tag, target=address, count=count, tclass=tclass)


def _are_links(rates: Sequence[Fraction], one: Fraction, most: int) -> bool:
    """Return True where rates, as printed, are those of whole numbers of links, together at most ``most``."""
    counts = [max(1, round(rate / one)) for rate in rates]
    off = (abs(rate - count * one) for rate, count in zip(rates, counts, strict=True))
    return sum(counts) <= most and all(gap <= Fraction(6, 100) for gap in off)


def _xgmi(name: str, rate: Fraction, source: Source) -> tuple[str, Fraction]:
    """Return the architecture of a GPU of AMD, and what is counted of one of its links."""
    model = amd_model(name)
    archs = [arch for arch, rates in XGMI_RATES.items() if rate % Fraction(rates[1]) == 0]
    if model is None and len(archs) != 1:
        what = f"XGMI[{float(rate):g}] is what the library counts of several models, or of none"
        raise lacking(source.name, what, "state the GPU with --model, for example --model MI300X")
    arch = model.arch if model else archs[0]
    return arch, next(Fraction(rates[1]) for start, rates in XGMI_RATES.items() if arch.startswith(start))
