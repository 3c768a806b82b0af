"""The formats that can be imported: how each is recognized, and which module reads it.

A row for each. A reader takes a ``Source`` and ``ReadOptions`` and gives a ``Reading``; it is loaded when needed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from hetesynth.errors import HetesynthError
from hetesynth.importers.reading import Reading, ReadOptions, Source

HEAD = 4096  # bytes by which a format is recognized

Reader = Callable[[Source, ReadOptions], Reading]


@dataclass(frozen=True, slots=True)
class Format:
    """``head``: what the beginning of a file of this format contains. ``reader``: ``module:function``."""

    name: str
    what: str
    head: re.Pattern[bytes]
    reader: str

    def read(self, source: Source, options: ReadOptions) -> Reading:
        """The reader's answer."""
        module, _, function = self.reader.partition(":")
        return cast("Reader", getattr(import_module(module), function))(source, options)


FORMATS: tuple[Format, ...] = (
    Format(
        "nccl",
        "NCCL's or RCCL's topology XML (NCCL_TOPO_DUMP_FILE)",
        re.compile(rb"<(system|graphs)[\s>/]"),
        "hetesynth.importers.nccl:read",
    ),
    Format(
        "edges",
        "a JSON list of nodes, directed links and groups",
        re.compile(rb'\A\s*\{(?=.*"(nodes|links|units|source|name)")', re.DOTALL),
        "hetesynth.importers.edge_list:read",
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
