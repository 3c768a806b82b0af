"""``init`` in a folder with topologies: a manifest with comments, of every cluster that is described there."""

import json
import os
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.manifest.keys import MAX_TEXT, NAME, schema_text
from hetesynth.deploy.manifest.reader import FILE_NAME, USUAL_NAME, cluster_name
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import HIDDEN, visible
from hetesynth.model.target import PORTABLE

SCHEMA_NAME = "hetesynth.schema.json"
MAX_DEPTH = 4
MAX_FILES = 200


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """A topology file with a cluster. ``path``: from the manifest."""

    path: str
    name: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstManifest:
    """A manifest to be written at ``path``. ``skipped``: files that are wrong, with the error about each."""

    path: Path
    clusters: tuple[DescribedCluster, ...]
    skipped: tuple[tuple[str, str], ...]


def first_manifest(place: Path) -> FirstManifest:
    """Return the first manifest of the folder ``place``, or at ``place`` where that is named like a manifest.
    Raises HetesynthError HS644 for a file that exists, HS869 where no file describes a cluster."""
    path = place if place.suffix == ".toml" and not place.is_dir() else place / FILE_NAME
    if os.path.lexists(path):
        help_ = "init never replaces a file: edit it, or remove it first"
        raise HetesynthError(f"{str(path)!r} exists", code="HS644", help=help_)
    clusters: list[DescribedCluster] = []
    skipped = []
    for file in _files(path.parent):
        stated = file.relative_to(path.parent).as_posix()
        try:
            described = _described(file, stated, {cluster.name.casefold() for cluster in clusters})
        except HetesynthError as error:
            skipped.append((stated, f"{error.code}: {error.message}"))
        else:
            clusters += [described] if described else []
    if not clusters:
        why = f" ({skipped[0][0]}: {skipped[0][1]})" if skipped else ""
        raise HetesynthError(
            visible(f"no .dsl file in {path.parent} or below it describes a cluster{why}"),
            code="HS869",
            help="for a first topology name the type of its servers, as hetesynth topo library lists them: "
            "hetesynth init --node-type h100x8; for a manifest of topologies elsewhere name their folder: "
            "hetesynth init DIR",
        )
    return FirstManifest(path, tuple(clusters), tuple(skipped))


def write_first_manifest(first: FirstManifest) -> tuple[Path, ...]:
    """Write the manifest, and the schema beside it where there is none."""
    from hetesynth.files.atomic import write_all

    files = {first.path: text(first).encode()}
    schema = first.path.with_name(SCHEMA_NAME)
    if not os.path.lexists(schema):
        files[schema] = schema_text().encode()
    write_all(files)
    return tuple(files)


def _files(folder: Path) -> list[Path]:
    """Topology files to a depth of ``MAX_DEPTH``, in the order of their names."""
    files: list[Path] = []
    for where, folders, names in os.walk(folder):
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
        paths = (Path(where) / name for name in sorted(names) if not name.startswith("."))
        files += [path for path in paths if path.suffix == ".dsl" and path.is_file()]
        if len(files) >= MAX_FILES:
            break
    return files[:MAX_FILES]


def _described(file: Path, stated: str, names: set[str]) -> DescribedCluster | None:
    """Return the cluster that ``file`` describes; None for a file of node types. ``names``: taken, case-folded."""
    from hetesynth.engine.program_warnings import fitting_targets
    from hetesynth.topology.language import load_topology

    if HIDDEN.search(stated) or "\n" in stated or len(stated) > MAX_TEXT:
        raise HetesynthError("a path that no manifest can name", code="HS869")
    try:
        topology = load_topology(file)
    except HetesynthError as error:
        if error.code == "HS110" or error.message == "there is no cluster in this file":
            return None
        raise
    # the same in another checkout, whatever its folder is called
    name = topology.name if file.stem == USUAL_NAME and "/" not in stated else cluster_name(file)
    if not re.fullmatch(NAME, name) or name.casefold() in names:
        raise HetesynthError(f"`{name}` is no name of a folder, or that of another cluster", code="HS868")
    return DescribedCluster(stated, name, fitting_targets(Counter(topology.models)) or (PORTABLE.name,))


def text(first: FirstManifest) -> str:
    """The manifest with its comments."""
    tables = []
    for cluster in first.clusters:
        words = (cluster.path, cluster.name, *cluster.targets)
        path, name, *targets = (json.dumps(word, ensure_ascii=False) for word in words)
        tables.append(f"[[cluster]]\ntopology = {path}\nname = {name}\ntargets = [{', '.join(targets)}]\n")
    written = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")
    return written.replace("@CLUSTERS@", "\n".join(tables))
