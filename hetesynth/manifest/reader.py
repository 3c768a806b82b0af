"""``hetesynth.toml`` to a ``Manifest``.

In: a path. Out: the manifest with every default filled in, or findings that point into the text.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.manifest.values import Cell, CellOptions, ClusterEntry, Gates, Manifest, SizeRange

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME = "hetesynth.toml"


def read_manifest(path: Path) -> Manifest:
    """The manifest at ``path``."""
    from hetesynth.frontend.quantity import parse_quantity

    try:
        values: dict[str, Any] = tomllib.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise HetesynthError(f"cannot read {path}: {error}", code="HS860", help="give a manifest") from error

    def size(text: str) -> int:
        return int(parse_quantity(text, "size", "sizes"))

    clusters, cells = [], []
    for table in values["cluster"]:
        stated = {**values.get("defaults", {}), **table}
        topology = path.parent / table["topology"]
        name = table.get("name", topology.stem if topology.stem != "topo" else topology.parent.name)
        clusters.append(
            ClusterEntry(
                name, topology, table["topology"], tuple(table.get("without", ())), tuple(table.get("degrade", ()))
            )
        )
        ranges = []
        for text in stated.get("sizes", ()):
            low, _, high = text.partition("..")
            ranges.append(SizeRange(size(low) if low else 0, size(high) if high else None, text))
        ranges = [SizeRange(r.low, r.high, r.text, all(r.high != other.low for other in ranges)) for r in ranges]
        extents: list[SizeRange | int] = [*ranges] or [stated.get("chunks", 1)]
        cells += [
            Cell(name, collective, extent, target, CellOptions(), Gates())
            for target in stated["targets"]
            for collective in stated["collectives"]
            for extent in extents
        ]
    output = path.parent / values.get("output", {}).get("folder", "schedules")
    return Manifest(path, tuple(clusters), tuple(cells), output)
