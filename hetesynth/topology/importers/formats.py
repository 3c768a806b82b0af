"""The formats that can be imported: how each is recognized, and which module reads it.

A row for each. A reader takes a ``Source`` and ``ReadOptions`` and gives a ``Reading``; it is loaded when needed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source

HEAD = 4096  # bytes by which a format is recognized


@dataclass(frozen=True, slots=True)
class Format:
    """``head``: what the beginning of a file of this format contains. ``reader``: ``module:function``.

    ``together``: neighbours of this format may describe one server; the reader takes all of them.
    """

    name: str
    head: re.Pattern[bytes]
    reader: str
    together: bool = False

    def read(self, sources: Sequence[Source], options: ReadOptions) -> Reading:
        """Return the reader's answer to a file, or to several where it takes them together."""
        module, _, function = self.reader.partition(":")
        reader = getattr(import_module(f"hetesynth.topology.importers.{module}"), function)
        reading: Reading = reader(sources if self.together else sources[0], options)
        return reading


FORMATS: tuple[Format, ...] = (
    # a JSON list of nodes, directed links and groups
    Format("edges", re.compile(rb'\A\s*\{(?=.*"(nodes|links)"\s*:)', re.DOTALL), "edge_list:read"),
    # NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)
    Format("nccl", re.compile(rb"<(system|graphs)[\s>/]"), "nccl:read"),
    # hwloc's XML (lstopo --of xml)
    Format("hwloc", re.compile(rb"<topology[\s>]"), "hwloc:read_hwloc"),
    # amd-smi topology, as text or JSON, or rocm-smi --showtopo
    Format(
        "amd-smi",
        re.compile(rb"between two GPUs|[A-Z]{2} TABLE:|\A\s*\[\s*\{\s*\"gpu\"\s*:"),
        "amd_smi:read_amd_smi",
    ),
    # nvidia-smi topo -m, with -L and nvlink -s of the same server
    Format(
        "nvidia-smi",
        re.compile(rb"^[ \t]*(\x1b\[[0-9;]*m)?[ \t]*(GPU0[ \t]|GPU \d+: .{1,200}\(UUID: )", re.MULTILINE),
        "nvidia_smi:read_nvidia_smi",
        together=True,
    ),
    # Slurm's topology.conf
    Format(
        "slurm",
        re.compile(rb"^[ \t]*(SwitchName|BlockName)[ \t]*=", re.IGNORECASE | re.MULTILINE),
        "slurm:read_slurm_conf",
    ),
    # Slurm's topology.yaml
    Format("slurm-yaml", re.compile(rb"^[ \t]*-[ \t]+topology[ \t]*:", re.MULTILINE), "slurm:read_slurm_yaml"),
    # the InfiniBand fabric, by ibnetdiscover
    Format(
        "ibnetdiscover",
        re.compile(rb"^(Switch|Ca|Rt)[ \t]+\d+[ \t]+\"[SHR]-|^# Topology file: generated", re.MULTILINE),
        "ibnetdiscover:read_ibnetdiscover",
    ),
    # a network of ASTRA-sim's analytical back end (YAML)
    Format("astra-sim", re.compile(rb"^[ \t]*npus_count[ \t]*:", re.MULTILINE), "astra_sim:read_astra_sim"),
)


def format_named(name: str) -> Format:
    """Return the row; ValueError where there is none, as the command line offers only those that are there."""
    return next(row for row in FORMATS if row.name == name)


def recognized(source: Source) -> Format:
    """Return the first format whose mark the file bears; HetesynthError HS730 where it bears none."""
    head = source.data[:HEAD]
    for row in FORMATS:
        if row.head.search(head):
            return row
    what = f"{source.name} is of no format that is known here"
    help_ = f"say which with --format: {', '.join(row.name for row in FORMATS)}"
    raise HetesynthError(what, code="HS730", help=help_)


@dataclass(frozen=True, slots=True)
class Told:
    """What one file told, or several of one server: ``count`` is how many servers it stands for."""

    names: tuple[str, ...]
    count: int
    format: str
    reading: Reading

    def named_machines(self) -> list[tuple[str, Machine]]:
        """Return every machine with the name of its file, as often as it stands for a server."""
        names = self.reading.files or self.names[:1] * len(self.reading.machines)
        return list(zip(names, self.reading.machines, strict=True)) * self.count


def read_in_order(inputs: Sequence[tuple[Source, int]], format_name: str, options: ReadOptions) -> list[Told]:
    """Return what the files tell, in their order, neighbours of one server together."""
    groups: list[tuple[Format, int, list[Source]]] = []
    for source, count in inputs:
        row = format_named(format_name) if format_name else recognized(source)
        if groups and row.together and groups[-1][0] is row and groups[-1][1] == count == 1:
            groups[-1][2].append(source)
        else:
            groups.append((row, count, [source]))
    return [
        Told(tuple(source.name for source in sources), count, row.name, row.read(sources, options))
        for row, count, sources in groups
    ]
