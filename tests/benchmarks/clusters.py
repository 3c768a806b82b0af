"""Clusters of the benchmark that are text made here rather than examples: large scale points, tori and meshes.

In: a name such as ``h20_8x32``, ``torus_32x32`` or ``mesh_32x32``. Out: a source in the topology language.
"""

from __future__ import annotations

import re
from pathlib import Path

from hetesynth.errors import HetesynthError

_NAME = re.compile(r"(h20|torus|mesh)_([0-9]+)x([0-9]+)")
_RATE = "{ bandwidth 50 GB/s; latency 0.5 us }"


def source(name: str) -> str | None:
    """The text of the generated cluster ``name``, None when there is none of that name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    kind, first, second = match[1], int(match[2]), int(match[3])
    if kind == "h20":
        return _servers(name, second) if first == 8 and second > 0 else None
    return _grid(name, first, second, wraps=kind == "torus") if min(first, second) > 2 else None


def no_example(name: str, examples: Path) -> HetesynthError:
    """That the example is not there."""
    return HetesynthError(
        f"there is no example {name} in {examples}",
        code="HS901",
        help="run it in a checkout of hetesynth, or name its examples with --examples",
    )


def _servers(name: str, servers: int) -> str:
    """``servers`` 8-GPU H20 servers on one fabric."""
    return (
        f"# {servers} 8-GPU H20 servers, {8 * servers} GPUs.\n\nimport h20\n\ncluster {name} {{\n  chunk 16 MB\n"
        f"  instance b[0-{servers - 1}] = h20x8\n  fabric ib {{ join *.nic*; latency 1.3 us }}\n}}\n"
    )


def _grid(name: str, rows: int, columns: int, *, wraps: bool) -> str:
    """GPUs in row-major order with links both ways to their neighbours, closed to rings if it ``wraps``."""
    body = grid_links(rows, columns, _RATE, _RATE, wraps=wraps)
    what = "torus" if wraps else "mesh"
    return (
        f"# A {what} of {rows} x {columns} GPUs.\n\nnode {name} {{\n  gpus {rows * columns}\n{body}}}\n\n"
        f"cluster {name} {{\n  chunk 1 MB\n  instance a = {name}\n}}\n"
    )


def grid_links(rows: int, columns: int, row: str, column: str, *, wraps: bool) -> str:
    """The links of a grid of GPUs in row-major order, a statement a line; ``row`` and ``column``: their rates."""
    last = rows * columns - 1
    links = []
    for start in range(0, rows * columns, columns):
        end = start + columns - 1
        links.append(f"gpu[{start}-{end - 1}] <-> gpu[{start + 1}-{end}] {row}")
        if wraps:
            links.append(f"gpu{end} <-> gpu{start} {row}")
    links.append(f"gpu[0-{last - columns}] <-> gpu[{columns}-{last}] {column}")
    if wraps:
        links.append(f"gpu[{last - columns + 1}-{last}] <-> gpu[0-{columns - 1}] {column}")
    return "".join(f"  link {link}\n" for link in links)
