"""Which reader a file gets, what it is given and gives back, and text, XML and YAML of anybody's within limits."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib import import_module
from typing import TYPE_CHECKING

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.gpu_models import Calibration
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Network

if TYPE_CHECKING:
    from lxml import etree


MAX_LINES = 200_000
MAX_LINE = 20_000
MAX_XML = 8_000_000
MAX_YAML = 1_000_000
HEAD = 4096  # bytes by which a format is recognized
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# what the beginning of a file of each format has, and the function that reads it; the first that fits counts
_FORMATS = {
    "taccl": (rb'(?s)\A\s*\{(?=.*"gpus_per_node"\s*:)', "taccl:read_taccl"),
    "nccl-log": (
        rb"NCCL INFO |=== System : max(Bw|Width) |# nThread \d|# {1,9}Rank +\d",  # or the heading of nccl-tests
        "nccl_log:read_nccl_log",
    ),
    "edges": (rb'(?s)\A\s*\{(?=.*"(nodes|links)"\s*:)(?!.*"link_type"\s*:)', "edge_list:read"),
    "nccl": (rb"<(system|graphs)[\s>/]", "nccl:read"),
    "hwloc": (rb"<topology[\s>]", "hwloc:read_hwloc"),
    "amd-smi": (
        rb'(?s)between two GPUs|[A-Z]{2} TABLE:|\A\s*[\[{](?=.*"gpu"\s*:)(?=.*"(weight|link_type)"\s*:)',
        "amd_smi:read_amd_smi",
    ),
    "nvidia-smi": (
        rb"(?m)^[ \t]*(\x1b\[[0-9;]*m)?[ \t]*(GPU0[ \t]|Vendor ID:|GPU \d+: .{1,200}\(UUID: )",
        "nvidia_smi:read_nvidia_smi",
    ),
    "slurm": (rb"(?im)^[ \t]*(SwitchName|BlockName)[ \t]*=", "slurm:read_slurm_conf"),
    "slurm-yaml": (rb"(?m)^([ \t]*-)?[ \t]+topology[ \t]*:", "slurm:read_slurm_yaml"),
    "ibnetdiscover": (
        rb"(?m)^(Switch|Ca|Rt)[ \t]+\d+[ \t]+\"[SHR]-|^# Topology file: generated",
        "ibnetdiscover:read_ibnetdiscover",
    ),
    "astra-sim": (rb"(?m)^[ \t]*npus_count[ \t]*:", "astra_sim:read_astra_sim"),
    "topograph": (rb"(?m)^(switches|blocks|capacity_blocks)[ \t]*:", "slurm:read_topograph"),
    "ns3": (
        rb"\A\s*\d+([ \t]+\d+){2,4}([ \t]+[A-Za-z][\w-]*)?[ \t]*\r?\n[\d\s]*"  # counts, switches and two ends
        rb"(\Z|(\.\d*)?([eE][+-]?\d+)?[kKMGT]?i?[bB](ps|/s))",
        "ns3:read_ns3",
    ),
}
FORMAT_NAMES = tuple(_FORMATS)
_TOGETHER = "nvidia-smi"  # neighbours of this format may describe one server: the reader takes all of them


@dataclass(frozen=True, slots=True)
class Stated:
    """The model and NIC rate that the user states of one file; they go before what the file says."""

    model: str = ""
    nic_rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name for messages, its bytes, and what the user states of it."""

    name: str
    data: bytes
    stated: Stated = Stated()
    servers: int = 1  # that it stands for


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The user's additions to what files tell; rates are in bytes per second.

    ``nic_rate`` and ``model``: where a file does not tell and nothing is stated of it. Readers leave NICs without
    a rate, so that the network's files are asked before ``nic_rate`` is taken.
    """

    calibration: Calibration = "spec"
    nic_rate: Fraction | None = None
    model: str = ""
    node_type: str = ""  # of the library
    uplink: Fraction | None = None  # of cables between switches whose rate no file tells
    oversubscription: Fraction = Fraction(1)  # of such cables
    hosts: str = "*"  # patterns with commas between, of the hosts of a network that are taken
    topology: str = ""  # of several in one file, by name


@dataclass(frozen=True, slots=True)
class Reading:
    """The content of a file, or of several of one server: servers, the network between, or a cluster as text."""

    machines: tuple[Machine, ...] = ()
    text: str = ""
    remarks: tuple[Remark, ...] = ()
    network: Network | None = None
    files: tuple[str, ...] = ()  # that of each machine, where the reading is of several
    names: tuple[str, ...] = ()  # of all files
    format: str = ""
    count: int = 1  # of servers that it stands for

    def named_machines(self) -> list[tuple[str, Machine]]:
        """Return every machine with the name of its file, as often as it stands for a server."""
        return list(zip(self.files or self.names * len(self.machines), self.machines, strict=False)) * self.count


def format_of(source: Source) -> str:
    """Return the format whose mark the file bears. Raise HetesynthError HS730 if it bears none."""
    for name, (mark, _) in _FORMATS.items():
        if re.search(mark, source.data[:HEAD]):
            return name
    help_ = f"say which with --format: {', '.join(_FORMATS)}"
    raise HetesynthError(f"{source.name} is of no format that is known here", code="HS730", help=help_)


def read_as(format_name: str, sources: Sequence[Source], options: ReadOptions) -> Reading:
    """Return the reader's answer to a file, or to several where it takes them together."""
    module, _, function = _FORMATS[format_name][1].partition(":")
    reader = getattr(import_module(f"hetesynth.topology.importers.{module}"), function)
    reading: Reading = reader(sources if format_name == _TOGETHER else sources[0], options)
    return reading


def read_in_order(inputs: Sequence[tuple[Source, int]], format_name: str, options: ReadOptions) -> list[Reading]:
    """Return the readings of the files, in order; neighboring files of one server are read together."""
    groups: list[tuple[str, int, list[Source]]] = []
    for source, count in ((replace(source, servers=count), count) for source, count in inputs):
        name = format_name or format_of(source)
        if groups and groups[-1][:2] == (name, count) == (_TOGETHER, 1):
            groups[-1][2].append(source)
        else:
            groups.append((name, count, [source]))
    readings = []
    for name, count, sources in groups:
        names = tuple(source.name for source in sources)
        readings.append(replace(read_as(name, sources, options), names=names, format=name, count=count))
    return readings


def refused(where: str, what: str, way_out: str = "see docs/importing.md") -> HetesynthError:
    """Return HS732: the file is not what its format asks for."""
    return HetesynthError(f"{where}: {what}", code="HS732", help=way_out)


def lacking(name: str, what: str, way_out: str) -> HetesynthError:
    """Return HS733: the file is in order, but a cluster needs more than it tells; ``way_out`` names the flag."""
    return HetesynthError(f"{name}: {what}", code="HS733", help=way_out)


def _too_large(name: str) -> HetesynthError:
    what, help_ = f"{name} is larger than its reader takes", "give the tool's output only"
    return HetesynthError(what, code="HS741", help=help_)


def lines_of(data: bytes, name: str) -> list[str]:
    """Return the lines of a tool's output, without colors; HS741 past a limit, HS732 for no text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refused(name, "it is no text in UTF-8", "save the tool's output as UTF-8 text") from error
    text = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ")
    lines = text.split("\n")
    if len(lines) > MAX_LINES or any(len(line) > MAX_LINE for line in lines):
        raise _too_large(name)
    if "\0" in text:
        raise refused(name, "it has a NUL byte", "save the tool's output as UTF-8 text")
    return lines


def root_of(name: str, data: bytes) -> etree._Element:
    """Return the root of an XML text, read without entities, document type and network; HS732 for no such text."""
    from lxml import etree

    if len(data) > MAX_XML:
        raise _too_large(name)
    if b"\0" in data or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise refused(name, "it declares a document type, or is no text of one byte a character")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        return etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise refused(name, f"it is no XML: {str(error)[:200]}") from error


def plain_yaml(data: bytes, name: str) -> object:
    """Return the value of a YAML text: plain values only, without tags and aliases, within limits."""
    import yaml

    if len(data) > MAX_YAML:
        raise _too_large(name)
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(data, Loader=yaml.SafeLoader)):
            raise ValueError("aliases")
        return yaml.safe_load(data)
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        what = f"not YAML that is read here: {' '.join(str(error).split())[:200]}"
        raise refused(name, what, "YAML is read without tags and aliases") from error
