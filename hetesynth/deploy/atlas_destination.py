"""Where an atlas goes: a folder of its own, an atlas of other collectives, or a folder that a build wrote.

In: a folder, what is asked for. Out: a ``Destination``, looked at before the work, and the folder written whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth.deploy.atlas_cells import beside_cells, with_atlas
from hetesynth.deploy.atlas_folder import AtlasIdentity, atlas_identity, collectives_beside, combined
from hetesynth.deploy.folder import folder as deployment
from hetesynth.deploy.folder_index import ATLAS, DEPLOYMENT, read_index
from hetesynth.engine.atlas import MARK, Atlas
from hetesynth.engine.request import Request
from hetesynth.files.folders import check_replaceable, update_folder
from hetesynth.topology.language import load_topology


@dataclass(frozen=True, slots=True)
class Destination:
    """``identity``: of the atlas; None: all that is there is replaced. ``beside``: collectives that are there.
    ``deployed``: whether a build wrote the folder."""

    folder: Path
    identity: AtlasIdentity | None
    beside: tuple[str, ...] = ()
    deployed: bool = False

    @property
    def others(self) -> list[str]:
        """The collectives beside which this one comes."""
        return [name for name in self.beside if self.identity is None or name != self.identity.collective]

    @property
    def replaces(self) -> bool:
        """Whether an older atlas of the same collective is replaced."""
        return self.identity is not None and self.identity.collective in self.beside

    @property
    def words(self) -> str:
        """What else is in the folder, for a report."""
        parts = [f"beside {', '.join(self.others)}"] if self.others else []
        if self.identity is not None and self.replaces:
            parts.append(f"the older {self.identity.collective} is replaced")
        return "; ".join(parts)

    def told(self, contents: Mapping[str, bytes]) -> dict[str, Any]:
        """For JSON."""
        printed = {"directory": str(self.folder), "files": sorted(contents)}
        return {**printed, "beside": self.others, "replaced": self.replaces}

    def write(self, files: Mapping[str, bytes], result: Atlas | None = None) -> Mapping[str, bytes]:
        """The folder with ``files`` in it, those of ``result``. Returns all that it holds."""
        if self.identity is None:
            return update_folder(self.folder, lambda: files, MARK)
        identity = self.identity
        if self.deployed and result is not None:
            return update_folder(self.folder, lambda: with_atlas(self.folder, result), deployment.MARK)
        return update_folder(self.folder, lambda: combined(self.folder, identity, files), MARK)


def destination_of(folder: Path, replace: bool, request: Request, kind: str) -> Destination:
    """The destination of an atlas whose index is of ``kind``. HetesynthError where the atlas cannot go there."""
    index = None if replace else read_index(folder)
    if index is not None and index.kind == DEPLOYMENT and kind == ATLAS:
        check_replaceable(folder, deployment.MARK)
        topology = load_topology(request.topology)
        return Destination(
            folder, atlas_identity(request, topology, kind), beside_cells(index, topology, request), True
        )
    check_replaceable(folder, MARK)
    if replace:
        return Destination(folder, None)
    identity = atlas_identity(request, load_topology(request.topology), kind)
    return Destination(folder, identity, collectives_beside(folder, identity))
