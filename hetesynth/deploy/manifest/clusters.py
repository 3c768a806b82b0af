"""The clusters of a manifest: their files, names and losses."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.document import Document, Path
from hetesynth.deploy.manifest.keys import LAYOUT, NAME
from hetesynth.deploy.manifest.values import ClusterEntry, Manifest
from hetesynth.model.diagnostics import SourceError, Span
from hetesynth.topology.language.overridden import OverriddenFile, overridden
from hetesynth.topology.language.source import SUFFIX, is_topology_file, no_standard_input
from hetesynth.topology.language.syntax import Loss

USUAL_NAME = "topo"  # the stem of topology files that are named after their folder
LOSSES = ("without", "degrade")
PLACE: Path = ("output", "layout")
ASIDE = "aside"  # where in the output results are that are not deployed: a folder that no cluster can have
_FIELD = re.compile(r"\{[^{}]*\}")


def cluster_name(topology: FilePath) -> str:
    """What the cluster of a file is called if nothing is said: as the file, or as the folder of a topo.dsl."""
    return topology.stem if topology.stem != USUAL_NAME else FilePath(os.path.abspath(topology)).parent.name


def clusters(document: Document, folder: FilePath) -> dict[int, ClusterEntry]:
    """The clusters that are right, by their places in the document; paths are seen from ``folder``."""
    entries: dict[int, ClusterEntry] = {}
    names: dict[str, str] = {}
    for number, table in enumerate(document.values.get("cluster", ())):
        path = ("cluster", number)
        if "topology" not in table:
            continue
        stated = table["topology"]
        topology, place = no_standard_input(folder / stated), (*path, "topology")
        try:
            is_folder, is_file = topology.is_dir(), topology.is_file()
            near = [] if is_folder or is_file else [one.name for one in topology.parent.glob("*.dsl")]
        except (OSError, ValueError):
            is_folder, is_file, near = False, False, []
        if is_folder:
            help_ = f'name the file in it: "{stated.rstrip("/")}/topo.dsl"'
            document.add("HS866", place, f"`{stated}` is a folder", help_)
        elif not is_file:
            near = difflib.get_close_matches(topology.name, sorted(near)[:500], n=1, cutoff=0.6)
            help_ = f"paths are seen from the folder of the manifest, {folder.as_posix()}"
            if near:
                help_ = f"did you mean `{stated[: len(stated) - len(topology.name)]}{near[0]}`?"
            document.add("HS866", place, f"there is no file `{stated}`", help_)
        elif not is_topology_file(topology):
            document.add("HS866", place, f"`{stated}` is no topology file", f"call it {topology.stem}{SUFFIX}")
        place = (*path, "name" if "name" in table else "topology")
        name = str(table.get("name") or cluster_name(topology))
        if not re.fullmatch(NAME, name):
            usable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-_")[:40] or "cluster"
            help_ = f'letters, digits, `-`, `_` and `.`, at most 64, such as name = "{usable}"'
            document.add("HS868", place, f"`{name[:60]}` is no name of a folder", help_)
        if name.casefold() in names:
            other = names[name.casefold()]
            says = (
                f"two clusters are called `{name}`" if name == other else f"`{name}` and `{other}` are one folder"
            )
            document.add("HS868", place, says, f'give one another name = "{name}-2"')
        names.setdefault(name.casefold(), name)
        losses = {key: tuple(text for text in table.get(key, ()) if text is not None) for key in LOSSES}
        line = document.positions.key(path).line
        entry = ClusterEntry(name, topology, stated, losses["without"], losses["degrade"], line)
        entries[number] = replace(entry, read=_read(entry, table, path, document))
    return entries


def _read(entry: ClusterEntry, table: dict[str, Any], path: Path, document: Document) -> OverriddenFile | None:
    """The file with its losses, whose spans lie in the document; None where there are none."""
    losses: list[Loss] = []
    for key in LOSSES:
        for number, text in enumerate(table.get(key, ())):
            if text is None:
                continue
            place = (*path, key, number)

            def moved(span: Span, place: Path = place) -> Span:
                return document.positions.inside(place, span.column - 1, span.length)

            try:
                losses += [_moved(loss, moved) for loss in overridden(entry.topology, **{key: [text]}).losses]
            except SourceError as error:
                for finding in error.diagnostics:
                    help_ = finding.help.replace('--degrade "', '"')
                    document.findings.add("HS866", moved(finding.span), finding.message, help_)
    if not losses:
        return None
    return OverriddenFile(str(entry.topology), tuple(losses), ((document.file, document.text),))


def _moved(value: Any, moved: Callable[[Span], Span]) -> Any:
    """A loss, or what it is made of, with every span in it moved."""
    if isinstance(value, Span):
        return moved(value)
    if isinstance(value, tuple):
        return tuple(_moved(part, moved) for part in value)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{part.name: _moved(getattr(value, part.name), moved) for part in fields(value)})


def output(document: Document, folder: FilePath) -> tuple[FilePath, str, FilePath | None]:
    """The folder that is deployed, the layout in it, and the cache of results, all seen from ``folder``."""
    table = document.values.get("output", {})
    layout = table.get("layout", "{cluster}/{target}")
    shown, parts = f"`{layout[:60]}`", layout.split("/")
    fields = [one for one in _FIELD.findall(layout) if one not in ("{cluster}", "{target}")]
    wrong = ("", "")
    if fields:
        wrong = (f"there is no `{fields[0][:40]}` in a layout", "use {cluster} and {target}")
    elif layout.startswith(("/", "~")) or re.match("[A-Za-z]:", layout):
        wrong = (f"{shown} is outside of the output", "write a path below it, and the output in `folder`")
    elif any(part in ("", ".", "..") for part in parts):
        wrong = (
            f"{shown} has a part that names no folder",
            'write folders below the output: "{cluster}/{target}"',
        )
    elif not re.fullmatch(LAYOUT, layout):
        wrong = (f"{shown} is no layout", "use letters, digits, `.`, `_`, `-`, `/`, {cluster} and {target}")
    elif any(part.startswith(".") for part in parts):
        wrong = (f"{shown} has a hidden folder", "begin each part with a letter or a digit")
    if wrong[0]:
        document.add("HS868", PLACE, *wrong)
        layout = "{cluster}/{target}"
    for key in ("folder", "cache"):
        if table.get(key, "").startswith("~"):
            message = f"`{table[key][:60]}`: `~` stands for nothing in a manifest"
            help_ = "write a path from the folder of the manifest, or from /"
            document.add("HS868", ("output", key), message, help_)
    cache = table.get("cache")
    return folder / table.get("folder", "schedules"), layout, None if cache is None else folder / cache


def check_apart(stated: Manifest, document: Document) -> None:
    """A finding where two folders are one place, whatever the case of letters, where one is for what is not
    deployed, or where the cache is in one, which is exchanged as a whole."""
    places: dict[str, tuple[str, str]] = {}
    cache = None if stated.cache is None else FilePath(os.path.abspath(stated.cache))
    for cluster, target in dict.fromkeys((cell.cluster, cell.target) for cell in stated.cells):
        place = stated.layout.format(cluster=cluster, target=target)
        if cache is not None and cache.is_relative_to(os.path.abspath(stated.output / place)):
            message = f"the cache is inside of `{place}`, which is exchanged as a whole"
            document.add("HS868", ("output", "cache"), message, "name a folder beside the output")
            return
        if place.casefold().split("/")[0] == ASIDE:
            number = [entry.name for entry in stated.clusters].index(cluster)
            named = "name" if "name" in document.values["cluster"][number] else "topology"
            at = PLACE if "layout" in document.values.get("output", {}) else ("cluster", number, named)
            message = f"`{place}` is for what is not deployed: `{ASIDE}` of the output"
            document.add("HS868", at, message, "give it another name or layout")
            return
        other = places.setdefault(place.casefold(), (cluster, target))
        if other != (cluster, target):
            message = f"{'/'.join(other)} and {cluster}/{target} have one folder, `{place}`"
            document.add("HS868", PLACE, message, 'use both: layout = "{cluster}/{target}"')
            return
