"""Where an atlas goes: a folder of its own, or one with atlases of other collectives."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth import __version__
from hetesynth.engine.atlas import MARK
from hetesynth.engine.recipe import topology_hash
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.files.folder_index import COLLECTIVES, LOSSES, read_index
from hetesynth.files.folders import DIGESTS, INDEX, PLOT, check_replaceable, update_folder
from hetesynth.files.regular_files import read_regular
from hetesynth.topology.believable import load_topology


@dataclass(frozen=True, slots=True)
class Destination:
    """The folder that an atlas of ``collective`` goes into. ``kind``: of its index; ``stated``: its cluster and
    targets, as indices say them; None: all files there are replaced. ``beside``: collectives that are there."""

    folder: Path
    collective: str
    kind: str
    stated: dict[str, Any] | None = None
    beside: tuple[str, ...] = ()

    @property
    def others(self) -> list[str]:
        """The collectives of the other atlases in the folder."""
        return [name for name in self.beside if name != self.collective]

    @property
    def words(self) -> str:
        """The words of a report about the other atlases in the folder; empty: there are none."""
        return f"beside {', '.join(self.others)}" if self.others else ""

    def told(self, contents: Mapping[str, bytes]) -> dict[str, Any]:
        """Return the folder, its files and what became of older atlases, for JSON."""
        replaced = len(self.others) < len(self.beside)
        told = {"directory": str(self.folder), "files": sorted(contents)}
        return {**told, "beside": self.others, "replaced": replaced}

    def write(self, files: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Write ``files`` into the folder, beside its other atlases; return all files that it then holds."""
        return update_folder(self.folder, lambda: self._combined(files), MARK)

    def parts(self) -> dict[str, dict[str, Any]]:
        """Return the indices of the atlases in the folder, by collective. Raises HetesynthError HS879 where this
        atlas cannot be among them, HS876 where the folder's index cannot be used."""
        older = None if self.stated is None else read_index(self.folder)
        if older is None or self.stated is None:
            return {}
        document, losses = older.document, older.kind == LOSSES
        parts = document["collectives"] if older.kind == COLLECTIVES else {document.get("collective"): document}
        there = [document.get("cluster"), document.get("topology_sha256"), sorted(older.targets), losses]
        cluster, sha256, targets = self.stated.values()
        asked = [cluster, sha256, sorted(targets), self.kind == LOSSES]
        if there != asked or (losses and set(parts) != {self.collective}):
            message = (
                f"{self.folder} has an atlas of another cluster or topology, for other targets, or of another kind"
            )
            help_ = "choose another folder with -o, or give --replace: then all that is in the folder is gone"
            raise HetesynthError(message, code="HS879", help=help_)
        return dict(parts)

    def _combined(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        parts = self.parts()
        replaced = parts.pop(self.collective, None)
        if not parts or self.kind == LOSSES or self.stated is None:
            return dict(files)
        dropped = {INDEX, PLOT, _plot(self.collective)}
        if replaced is not None:
            dropped |= {name for row in replaced["ranges"] for name in row["files"]}
            dropped |= set(replaced.get(DIGESTS, ()))
        there = (path for path in sorted(self.folder.rglob("*")) if path.is_file() and not path.is_symlink())
        contents = {path.relative_to(self.folder).as_posix(): read_regular(path) for path in there}
        if PLOT in contents:  # of one collective; where there are several each is called after its own
            contents |= {_plot(name): contents[PLOT] for name in parts}
        contents = {name: data for name, data in contents.items() if name not in dropped}
        contents |= {name: data for name, data in files.items() if name not in (INDEX, PLOT)}
        contents[_plot(self.collective)] = files[PLOT]
        parts[self.collective] = json.loads(files[INDEX])
        for name, part in parts.items():
            digests = part.get(DIGESTS, {}).items()
            part[DIGESTS] = {_plot(name) if file == PLOT else file: digest for file, digest in digests}
        index = {
            "kind": COLLECTIVES,
            "generator": f"hetesynth {__version__}",
            **self.stated,
            "collectives": dict(sorted(parts.items())),  # the same whatever was added first
        }
        contents[INDEX] = (json.dumps(index, indent=2) + "\n").encode()
        return contents


def destination_of(folder: Path, replace: bool, request: Request, kind: str) -> Destination:
    """Return where an atlas with an index of ``kind`` goes. Raises HetesynthError if it cannot go there."""
    check_replaceable(folder, MARK)
    if replace:
        return Destination(folder, request.collective, kind)
    topology = load_topology(request.topology)
    stated = {
        "cluster": topology.name,
        "topology_sha256": topology_hash(topology),
        "targets": [target.name for target in request.targets],
    }
    there = Destination(folder, request.collective, kind, stated).parts()
    return Destination(folder, request.collective, kind, stated, tuple(there))


def _plot(collective: str) -> str:
    return f"bandwidth-{collective}.svg"
