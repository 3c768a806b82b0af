"""The atlas of one collective into a folder that has those of others.

In: a folder, the index and the files of a new atlas. Out: every file that the folder is to hold. Nothing that is
there is lost but the older atlas of the same collective; a folder of another cluster or for other targets is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth import __version__
from hetesynth.deploy.folder_index import ATLAS, COLLECTIVES, LOSSES, FolderIndex, read_index
from hetesynth.engine.recipe import topology_hash
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import DIGESTS, INDEX, PLOT
from hetesynth.files.regular_files import read_regular
from hetesynth.model.topology import Topology

MAX_BYTES = 1 << 32
"""Of a folder that is added to."""


@dataclass(frozen=True, slots=True)
class AtlasIdentity:
    """What an atlas is of. ``kind``: of its index."""

    cluster: str
    topology_sha256: str
    targets: tuple[str, ...]
    collective: str
    kind: str = ATLAS


def atlas_identity(request: Request, topology: Topology, kind: str = ATLAS) -> AtlasIdentity:
    """Of the atlas that ``request`` asks for."""
    targets = tuple(target.name for target in request.targets)
    return AtlasIdentity(topology.name, topology_hash(topology), targets, request.collective, kind)


def collectives_beside(folder: Path, identity: AtlasIdentity) -> tuple[str, ...]:
    """The collectives in ``folder`` beside which, or in place of which, the atlas of ``identity`` comes.

    HetesynthError HS879 where it may not; HS876 where the folder's index cannot be used.
    """
    older = read_index(folder)
    return () if older is None else tuple(_addable(older, identity))


def combined(folder: Path, identity: AtlasIdentity, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """What ``folder`` is to hold once ``files``, of the atlas of ``identity``, are in it. Raises as
    ``collectives_beside`` does."""
    older = read_index(folder)
    parts = {} if older is None else _addable(older, identity)
    replaced = parts.pop(identity.collective, None)
    if older is None or not parts or identity.kind == LOSSES:
        return dict(files)
    index = json.loads(files[INDEX])
    dropped = {*_named(replaced), INDEX, PLOT, _plot(identity.collective)}
    contents = {name: data for name, data in _contents(folder) if name not in dropped}
    if older.kind == ATLAS:
        contents |= {_plot(name): read_regular(folder / PLOT) for name in parts if (folder / PLOT).is_file()}
    contents |= {name: data for name, data in files.items() if name not in (INDEX, PLOT)}
    contents[_plot(identity.collective)] = files[PLOT]
    parts = {name: _with_own_plot(name, part) for name, part in {**parts, identity.collective: index}.items()}
    contents[INDEX] = (json.dumps(_index_of_several(identity, parts), indent=2) + "\n").encode()
    return contents


def _index_of_several(identity: AtlasIdentity, parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The same whatever was added first."""
    return {
        "kind": COLLECTIVES,
        "generator": f"hetesynth {__version__}",
        "cluster": identity.cluster,
        "topology_sha256": identity.topology_sha256,
        "targets": list(identity.targets),
        "collectives": dict(sorted(parts.items())),
    }


def _addable(older: FolderIndex, identity: AtlasIdentity) -> dict[str, dict[str, Any]]:
    """The indices of the atlases in a folder, by collective; HetesynthError where one of ``identity`` cannot be
    among them."""
    document = older.document
    single = document.get("collective")
    parts = document["collectives"] if older.kind == COLLECTIVES else {single: document}
    _demand_same(older, "of a cluster called", document.get("cluster"), identity.cluster)
    _demand_same(older, "for", ", ".join(sorted(older.targets)), ", ".join(sorted(identity.targets)))
    if (older.kind == LOSSES) != (identity.kind == LOSSES):
        raise refusal(older.folder, "has an atlas of the other kind: of single losses, or of sizes")
    if older.kind == LOSSES and single != identity.collective:
        raise refusal(older.folder, f"has an atlas of single losses of {str(single)[:40]}")
    stated = document.get("topology_sha256")
    if stated != identity.topology_sha256 and not (stated is None and set(parts) == {identity.collective}):
        raise refusal(older.folder, f"is of another topology called {identity.cluster}")
    return dict(parts)


def _demand_same(older: FolderIndex, words: str, stated: Any, asked: str) -> None:
    if stated != asked:
        raise refusal(older.folder, f"is {words} {str(stated)[:80]}, and this atlas is {words} {asked}")


def refusal(folder: Path, reason: str, help_: str = "") -> HetesynthError:
    """Why an atlas is not added to ``folder``."""
    return HetesynthError(
        f"{folder} {reason}",
        code="HS879",
        help=help_ or "choose another folder with -o, or give --replace: then all that is in the folder is gone",
    )


def _plot(collective: str) -> str:
    """The name of a plot in a folder of several collectives."""
    return f"bandwidth-{collective}.svg"


def _named(part: dict[str, Any] | None) -> Iterator[str]:
    """The files of an atlas, as its index names them."""
    if part is not None:
        for row in part["ranges"]:
            yield from row["files"]
        yield from part.get(DIGESTS, {})


def _with_own_plot(name: str, part: dict[str, Any]) -> dict[str, Any]:
    """The index of an atlas whose plot is called after its collective."""
    digests = part.get(DIGESTS)
    if digests is None:
        return part
    return {**part, DIGESTS: {_plot(name) if file == PLOT else file: sha256 for file, sha256 in digests.items()}}


def _contents(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Every file of ``folder`` by its name in it. HetesynthError for links, and for more than is copied."""
    size = 0
    for path in sorted(folder.rglob("*")):
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise refusal(
                folder, f"has {path.name}, which is no file and no folder", "remove it, or use another -o"
            )
        if path.is_file():
            data = read_regular(path)
            size += len(data)
            if size > MAX_BYTES:
                raise refusal(folder, f"holds more than the {MAX_BYTES} bytes that are copied")
            yield path.relative_to(folder).as_posix(), data
