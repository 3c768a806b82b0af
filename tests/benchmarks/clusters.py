"""Clusters of the benchmarks that are text made here: large scale points, meshes and tori, those of the papers.

In: a name such as ``h20_8x32``, ``torus_32x32`` or ``mesh_16x16_hetero``. Out: a source in the topology language.
"""

from __future__ import annotations

import re
from pathlib import Path

from hetesynth.errors import HetesynthError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
_FABRIC = "  fabric ib { join *.nic*; latency 1.3 us }\n"
_TEXTS = {
    "v100_4p8_nic18G": (
        "# V100 (4+8), one NIC of the 4-GPU server at 18 Gbps: HeteCCL, Appendix E, read differently.\n\n"
        "import v100\n\ncluster v100_4p8_nic18G {\n"
        "  instance a = v100x4 {\n    set nic[0-2] { bandwidth 64 Gbps }\n"
        f"    set nic3 {{ bandwidth 18 Gbps }}\n  }}\n  instance b = v100x8\n{_FABRIC}}}\n"
    ),
    "a100_4p8": (
        "# One 4-GPU and one 8-GPU A100 server: HeteCCL, Appendix G.\n\nimport a100\n\n"
        f"cluster a100_4p8 {{\n  instance a = a100x4\n  instance b = a100x8\n{_FABRIC}}}\n"
    ),
} | {
    f"a100_8x{servers}": (
        f"# {servers} 8-GPU A100 servers: HeteCCL, Appendix D.\n# Assumed: their number, one fabric.\n\n"
        "import a100\n\n"
        f"cluster a100_8x{servers} {{\n  instance a[0-{servers - 1}] = a100x8\n{_FABRIC}}}\n"
    )
    for servers in (2, 4)
}  # fmt: skip


def topology(name: str, examples: Path, folder: Path) -> Path:
    """The cluster's example, or its text in ``folder``. Raises HetesynthError HS901 where there is neither."""
    example = examples / name if name.endswith(".dsl") else examples / name / "topo.dsl"
    if example.is_file():
        return example
    text = source(name)
    if text is None:
        raise HetesynthError(
            f"there is no example {name} in {examples}", code="HS901", help="name a cluster of examples/"
        )
    path = folder / f"{name}.dsl"
    path.write_text(text, encoding="utf-8")
    return path


def source(name: str) -> str | None:
    """The text of the generated cluster ``name``, None when there is none of that name."""
    if name in _TEXTS:
        return _TEXTS[name]
    if name == "two_dc_100km":
        near = EXAMPLES / "two_dc_50km" / "topo.dsl"
        return near.read_text(encoding="utf-8").replace("250 us", "500 us")
    if match := re.fullmatch(r"h20_8x([1-9][0-9]*)", name):
        servers = int(match[1])
        return (
            f"# {servers} 8-GPU H20 servers, {8 * servers} GPUs.\n\nimport h20\n\n"
            f"cluster {name} {{\n  chunk 16 MB\n  instance b[0-{servers - 1}] = h20x8\n{_FABRIC}}}\n"
        )
    match = re.fullmatch(r"(torus|mesh)_([0-9]+)x([0-9]+)(_hetero)?", name)
    if match is None or min(int(match[2]), int(match[3])) < 3:
        return None
    rows, columns, wraps = int(match[2]), int(match[3]), match[1] == "torus"
    unit = "GB" if rows == 32 else "GiB"  # the others as in the evaluation of TACOS
    rates = [f"{{ bandwidth {rate} {unit}/s; latency 0.5 us }}" for rate in (50, 75 if match[4] else 50)]
    last = rows * columns - 1
    links = []  # GPUs in row-major order, joined to their neighbours, and to rings in a torus
    for start in range(0, rows * columns, columns):
        end = start + columns - 1
        links.append(f"gpu[{start}-{end - 1}] <-> gpu[{start + 1}-{end}] {rates[0]}")
        links += [f"gpu{end} <-> gpu{start} {rates[0]}"] if wraps else []
    links.append(f"gpu[0-{last - columns}] <-> gpu[{columns}-{last}] {rates[1]}")
    links += [f"gpu[{last - columns + 1}-{last}] <-> gpu[0-{columns - 1}] {rates[1]}"] if wraps else []
    body = "".join(f"  link {link}\n" for link in links)
    return (
        f"# A {match[1]} of {rows} x {columns} GPUs.\n\nnode grid {{\n  gpus {rows * columns}\n{body}}}\n\n"
        f"cluster {name} {{\n  chunk 1 {unit.replace('G', 'M')}\n  instance a = grid\n}}\n"
    )
