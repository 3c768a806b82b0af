"""Clusters of the time tables that are text made here: TACOS's meshes and tori, the data centres 100 km apart.

In: a name such as ``mesh_16x16`` or ``torus_16x16``. Out: a source in the topology language.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from benchmarks.clusters import grid_links

_NAME = re.compile(r"(torus|mesh)_([0-9]{1,2})x([0-9]{1,2})(_hetero)?")


def source(name: str, examples: Path) -> str | None:
    """The text of the cluster ``name``, None when there is none of that name."""
    if name == "two_dc_100km":
        near = examples / "two_dc_50km" / "topo.dsl"
        return near.read_text(encoding="utf-8").replace("250 us", "500 us") if near.is_file() else None
    match = _NAME.fullmatch(name)
    if match is None or min(int(match[2]), int(match[3])) < 3:
        return None
    return _grid(
        name, int(match[2]), int(match[3]), wraps=match[1] == "torus", columns_rate=75 if match[4] else 50
    )


def ring_dump(order: Sequence[int]) -> str:
    """A ring of one server as NCCL dumps its graph."""
    gpus = "".join(f'<gpu dev="{gpu}"/>' for gpu in order)
    return f'<graphs version="1"><graph id="0" pattern="4"><channel>{gpus}</channel></graph></graphs>\n'


def _grid(name: str, rows: int, columns: int, *, wraps: bool, columns_rate: int) -> str:
    """Rows of 50 GiB/s, columns of ``columns_rate``, 0.5 us a link; closed to rings if it ``wraps``."""
    row, column = (f"{{ bandwidth {rate} GiB/s; latency 0.5 us }}" for rate in (50, columns_rate))
    body = grid_links(rows, columns, row, column, wraps=wraps)
    return (
        f"# {rows} x {columns} GPUs after the evaluation of TACOS, 1 MiB a rank.\n\nnode grid {{\n"
        f"  gpus {rows * columns}\n{body}}}\n\ncluster {name} {{\n  chunk 1 MiB\n  instance a = grid\n}}\n"
    )
