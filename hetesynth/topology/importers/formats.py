"""The formats that can be imported: how each is recognized, and which module reads it.

A row for each. A reader takes a ``Source`` and ``ReadOptions`` and gives a ``Reading``; it is loaded when needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source

HEAD = 4096  # bytes by which a format is recognized

Reader = Callable[[Source, ReadOptions], Reading]
Several = Callable[[Sequence[Source], ReadOptions], Reading]


@dataclass(frozen=True, slots=True)
class Format:
    """``head``: what the beginning of a file of this format contains. ``reader``: ``module:function``.

    ``together``: neighbours of this format may describe one server; the reader takes all of them.
    """

    name: str
    what: str
    head: re.Pattern[bytes]
    reader: str
    together: bool = False

    def read(self, source: Source, options: ReadOptions) -> Reading:
        """The reader's answer."""
        if self.together:
            return self.read_together((source,), options)
        return cast("Reader", self._function())(source, options)

    def read_together(self, sources: Sequence[Source], options: ReadOptions) -> Reading:
        """The reader's answer to several files."""
        return cast("Several", self._function())(sources, options)

    def _function(self) -> object:
        module, _, function = self.reader.partition(":")
        return getattr(import_module(module), function)


FORMATS: tuple[Format, ...] = (
    Format(
        "edges",
        "a JSON list of nodes, directed links and groups",
        re.compile(rb'\A\s*\{(?=.*"(nodes|links)"\s*:)', re.DOTALL),
        "hetesynth.topology.importers.edge_list:read",
    ),
    Format(
        "nccl",
        "NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)",
        re.compile(rb"<(system|graphs)[\s>/]"),
        "hetesynth.topology.importers.nccl:read",
    ),
    Format(
        "hwloc",
        "hwloc's XML (lstopo --of xml)",
        re.compile(rb"<topology[\s>]"),
        "hetesynth.topology.importers.hwloc:read_hwloc",
    ),
    Format(
        "amd-smi",
        "amd-smi topology, as text or JSON, or rocm-smi --showtopo",
        re.compile(rb"between two GPUs|[A-Z]{2} TABLE:|\A\s*\[\s*\{\s*\"gpu\"\s*:"),
        "hetesynth.topology.importers.amd_smi:read_amd_smi",
    ),
    Format(
        "nvidia-smi",
        "nvidia-smi topo -m, with -L and nvlink -s of the same server",
        re.compile(rb"^[ \t]*(\x1b\[[0-9;]*m)?[ \t]*(GPU0[ \t]|GPU \d+: .{1,200}\(UUID: )", re.MULTILINE),
        "hetesynth.topology.importers.nvidia_smi:read_nvidia_smi",
        together=True,
    ),
    Format(
        "slurm",
        "Slurm's topology.conf",
        re.compile(rb"^[ \t]*(SwitchName|BlockName)[ \t]*=", re.IGNORECASE | re.MULTILINE),
        "hetesynth.topology.importers.slurm:read_slurm_conf",
    ),
    Format(
        "slurm-yaml",
        "Slurm's topology.yaml",
        re.compile(rb"^[ \t]*-[ \t]+topology[ \t]*:", re.MULTILINE),
        "hetesynth.topology.importers.slurm:read_slurm_yaml",
    ),
    Format(
        "ibnetdiscover",
        "the InfiniBand fabric, by ibnetdiscover",
        re.compile(rb"^(Switch|Ca|Rt)[ \t]+\d+[ \t]+\"[SHR]-|^# Topology file: generated", re.MULTILINE),
        "hetesynth.topology.importers.ibnetdiscover:read_ibnetdiscover",
    ),
    Format(
        "astra-sim",
        "a network of ASTRA-sim's analytical back end (YAML)",
        re.compile(rb"^[ \t]*npus_count[ \t]*:", re.MULTILINE),
        "hetesynth.topology.importers.astra_sim:read_astra_sim",
    ),
)


def format_named(name: str) -> Format:
    """The row; ValueError where there is none, as the command line offers only those that are there."""
    return next(row for row in FORMATS if row.name == name)


def recognized(source: Source) -> Format:
    """The first format whose mark the file bears; HetesynthError HS730 where it bears none."""
    head = source.data[:HEAD]
    for row in FORMATS:
        if row.head.search(head):
            return row
    raise HetesynthError(
        f"{source.name} is of no format that is known here",
        code="HS730",
        help=f"say which with --format: {', '.join(row.name for row in FORMATS)}",
    )
