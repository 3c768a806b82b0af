"""``init`` in a folder with topologies: a manifest with comments, of every cluster that is described there."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.manifest.clusters import ASIDE, USUAL_NAME, cluster_name
from hetesynth.deploy.manifest.keys import MAX_TEXT, NAME
from hetesynth.deploy.manifest.reader import FILE_NAME
from hetesynth.deploy.manifest.schema import schema_text
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import HIDDEN, visible
from hetesynth.model.target import PORTABLE

SCHEMA_NAME = "hetesynth.schema.json"
MAX_DEPTH = 4
MAX_FILES = 200
MAX_FOLDERS = 5000
_NO_CLUSTER = "there is no cluster in this file"


@dataclass(frozen=True, slots=True)
class DescribedCluster:
    """A topology file with a cluster. ``path``: from the manifest; ``stated_name``: None where the usual one does
    and is not that of the manifest's own folder, which another checkout may call otherwise; ``gpus``: in words."""

    path: str
    name: str
    stated_name: str | None
    gpus: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FirstManifest:
    """What goes into the file at ``path``. ``skipped``: files that are wrong, with what is said of them; ``more``:
    whether there are more files than are looked at."""

    path: Path
    clusters: tuple[DescribedCluster, ...]
    skipped: tuple[tuple[str, str], ...]
    more: bool

    @property
    def targets(self) -> tuple[str, ...]:
        """Those of most clusters."""
        return Counter(cluster.targets for cluster in self.clusters).most_common(1)[0][0]


def first_manifest(place: Path) -> FirstManifest:
    """What is to be in the manifest of the folder ``place``, or at ``place`` where that is named like one.

    Raises HetesynthError HS644 for a file that exists, HS869 where no file describes a cluster.
    """
    path = place if place.suffix == ".toml" and not place.is_dir() else place / FILE_NAME
    if os.path.lexists(path):
        help_ = "init never replaces a file: edit it, or remove it first"
        raise HetesynthError(f"{str(path)!r} exists", code="HS644", help=help_)
    files = list(_files(path.parent))
    clusters: list[DescribedCluster] = []
    skipped = []
    for file in files[:MAX_FILES]:
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
    return FirstManifest(path, tuple(clusters), tuple(skipped), len(files) > MAX_FILES)


def write_first_manifest(first: FirstManifest) -> tuple[Path, ...]:
    """Write the manifest, and the schema beside it where there is none."""
    from hetesynth.files.atomic import write_all

    files = {first.path: text(first).encode()}
    schema = first.path.with_name(SCHEMA_NAME)
    if not os.path.lexists(schema):
        files[schema] = schema_text().encode()
    write_all(files)
    return tuple(files)


# --- the files


def _files(folder: Path) -> Iterator[Path]:
    """Topology files to a depth of ``MAX_DEPTH``, in the order of their names; one more than are looked at."""
    count = 0
    for number, (where, folders, names) in enumerate(os.walk(folder)):
        if number >= MAX_FOLDERS:
            return
        depth = len(Path(where).relative_to(folder).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < MAX_DEPTH else []
        for name in sorted(names):
            path = Path(where) / name
            if name.endswith(".dsl") and not name.startswith(".") and path.is_file():
                yield path
                count += 1
                if count > MAX_FILES:
                    return


def _described(file: Path, stated: str, names: set[str]) -> DescribedCluster | None:
    """What ``file`` describes; None for one of node types. ``names``: of other clusters, as they are compared."""
    from hetesynth.engine.program_warnings import fitting_targets
    from hetesynth.topology.language import load_topology

    if HIDDEN.search(stated) or "\n" in stated or len(stated) > MAX_TEXT:
        raise HetesynthError("a path that no manifest can name", code="HS869")
    try:
        topology = load_topology(file)
    except HetesynthError as error:
        if error.code == "HS110" or error.message == _NO_CLUSTER:
            return None
        raise
    of_checkout = file.stem == USUAL_NAME and "/" not in stated
    usual = topology.name if of_checkout else cluster_name(file)
    # a name that no other cluster has: the usual one, with its folder's, with a number
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", usual).strip(".-_")[:40]
    parent = re.sub(r"[^A-Za-z0-9._-]+", "-", file.absolute().parent.name).strip(".-_")[:20]
    candidates = [usual, stem, f"{parent}-{stem}", *(f"{stem or 'cluster'}-{i}" for i in range(2, MAX_FILES + 3))]
    name = next(c for c in candidates if re.fullmatch(NAME, c) and c.casefold() not in {*names, ASIDE})
    models = Counter(topology.models)
    counts = [f"{count} {model}".rstrip() for model, count in models.items()]
    gpus = " and ".join(", ".join(counts).rsplit(", ", 1))
    stated_name = None if name == usual and not of_checkout else name
    targets = fitting_targets(models) or (PORTABLE.name,)
    return DescribedCluster(stated, name, stated_name, f"{gpus} GPU{'s' * (topology.ranks != 1)}", targets)


# --- the text


def text(first: FirstManifest) -> str:
    """The manifest with its comments."""
    schema = f"#:schema ./{SCHEMA_NAME}\n"
    parts = [schema + _HEAD.format(targets=_list(first.targets))]
    for cluster in first.clusters:
        lines = [_comment(f"# {cluster.gpus}"), "[[cluster]]", f"topology = {_quoted(cluster.path)}"]
        if cluster.stated_name is not None:
            lines.append(f"name = {_quoted(cluster.stated_name)}")
        if cluster.targets != first.targets:
            lines.append(f"targets = {_list(cluster.targets)}")
        parts.append("\n".join(lines) + "\n")
    if first.skipped:
        lines = [_comment(f"#   {path}: {why}") for path, why in first.skipped]
        parts.append("\n".join(["# Skipped, as they are wrong:", *lines, ""]))
    if first.more:
        parts.append(f"# There are more than {MAX_FILES} .dsl files; add those that are missing.\n")
    return "\n".join([*parts, _RULES])


def _comment(line: str) -> str:
    return visible(" ".join(line.split()) if "\n" in line else line).replace("\x7f", "?")[:MAX_TEXT]


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


_HEAD = """\
# Which schedules are kept: written by `hetesynth init` to be edited. What begins with # is a comment.
#
#   hetesynth build    makes those that are stale, and nothing else
#
# An editor that knows TOML schemas shows what each key means.

version = 1

[output]
folder = "schedules"  # what is deployed
# layout = "{{cluster}}/{{target}}"  # a folder in it for each cluster and runtime
# cache = ".hetesynth-cache"  # where results are kept; without it the user's own place

# What holds for every cluster below that does not say otherwise.
[defaults]
collectives = ["allgather", "allreduce"]
targets = {targets}
# As few programs as are near the best at every size; what a library does quicker is left to it. Several ranges are
# reported, and may have rules, one by one. For one program for all sizes write chunks = 1 instead.
sizes = ["1KB.."]
# effort = 4  # how much is tried
# single_root = true  # for broadcast, reduce, gather and scatter: all calls have root 0

# What every program must reach, at each of its sizes where it is judged:
# [defaults.gates]
# percent_of_limit = 80
# factor_over_library = 1.0
# proven = true

# The clusters. Hardware that is lost or slow: without = ["a.gpu3"], degrade = ["a.nic*=18Gbps"]
"""

_RULES = """\
# Cells that differ; later rules win.
# [[rule]]
# collectives = ["allreduce"]
# effort = 2
"""
