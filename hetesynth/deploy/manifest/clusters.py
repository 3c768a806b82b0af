"""The clusters of a manifest: their files, names and losses.

In: the tables ``[[cluster]]`` of a document. Out: ``ClusterEntry``s whose losses point into the manifest, so that
what is wrong with one is shown there, by the reader or later, when the topology is loaded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.document import Document
from hetesynth.deploy.manifest.keys import NAME
from hetesynth.deploy.manifest.positions import Path
from hetesynth.deploy.manifest.values import ClusterEntry
from hetesynth.model.diagnostics import SourceError, Span
from hetesynth.topology.language.overridden import OverriddenFile, overridden
from hetesynth.topology.language.source import SUFFIX, is_topology_file, no_standard_input
from hetesynth.topology.language.syntax import Down, Loss, Without, Word

USUAL_NAME = "topo"
"""The stem of topology files that are named after their folder."""
LOSSES = ("without", "degrade")


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
        topology = _topology(table["topology"], folder, path, document)
        name = _name(table, topology, path, document)
        if name.casefold() in names:
            place = (*path, "name" if "name" in table else "topology")
            other = names[name.casefold()]
            says = (
                f"two clusters are called `{name}`" if name == other else f"`{name}` and `{other}` are one folder"
            )
            document.add("HS868", place, says, f'give one another name = "{name}-2"')
        names.setdefault(name.casefold(), name)
        losses = {key: tuple(text for text in table.get(key, ()) if text is not None) for key in LOSSES}
        line = document.positions.key(path).line
        entry = ClusterEntry(name, topology, table["topology"], losses["without"], losses["degrade"], line)
        entries[number] = replace(entry, read=_read(entry, table, path, document))
    return entries


def _topology(stated: str, folder: FilePath, path: Path, document: Document) -> FilePath:
    topology = no_standard_input(folder / stated)
    place = (*path, "topology")
    try:
        is_folder, is_file = topology.is_dir(), topology.is_file()
    except (OSError, ValueError):
        is_folder = is_file = False
    if is_folder:
        document.add(
            "HS866", place, f"`{stated}` is a folder", f'name the file in it: "{stated.rstrip("/")}/topo.dsl"'
        )
    elif not is_file:
        help_ = _near(topology, stated) or f"paths are seen from the folder of the manifest, {folder.as_posix()}"
        document.add("HS866", place, f"there is no file `{stated}`", help_)
    elif not is_topology_file(topology):
        document.add("HS866", place, f"`{stated}` is no topology file", f"call it {topology.stem}{SUFFIX}")
    return topology


def _near(topology: FilePath, stated: str) -> str:
    """A question with the name of a file beside it that is called nearly so."""
    import difflib

    try:
        names = [one.name for one in topology.parent.glob("*.dsl")]
    except (OSError, ValueError):
        return ""
    near = difflib.get_close_matches(topology.name, sorted(names)[:500], n=1, cutoff=0.6)
    before = stated[: len(stated) - len(topology.name)]
    return f"did you mean `{before}{near[0]}`?" if near else ""


def _name(table: dict[str, Any], topology: FilePath, path: Path, document: Document) -> str:
    name = table.get("name") or cluster_name(topology)
    if not re.fullmatch(NAME, name):
        usable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-_")[:40] or "cluster"
        help_ = f'letters, digits, `-`, `_` and `.`, at most 64, such as name = "{usable}"'
        place = (*path, "name" if "name" in table else "topology")
        document.add("HS868", place, f"`{name[:60]}` is no name of a folder", help_)
    return str(name)


# --- losses


def _read(entry: ClusterEntry, table: dict[str, Any], path: Path, document: Document) -> OverriddenFile | None:
    """The file with its losses, whose spans lie in the document; None where there are none."""
    losses: list[Loss] = []
    for key in LOSSES:
        for number, text in enumerate(table.get(key, ())):
            if text is not None:
                losses += _loss(entry, key, text, (*path, key, number), document)
    if not losses:
        return None
    return OverriddenFile(str(entry.topology), tuple(losses), ((document.file, document.text),))


def _loss(entry: ClusterEntry, key: str, text: str, place: Path, document: Document) -> Sequence[Loss]:
    def moved(span: Span) -> Span:
        return document.positions.inside(place, span.column - 1, span.length)

    try:
        file = overridden(entry.topology, **{key: [text]})
    except SourceError as error:
        for finding in error.diagnostics:
            help_ = finding.help.replace('--degrade "', '"')
            document.findings.add("HS866", moved(finding.span), finding.message, help_)
        return ()
    return [_moved(loss, moved) for loss in file.losses]


def _moved(loss: Loss, moved: Callable[[Span], Span]) -> Loss:
    def words(several: Sequence[Word]) -> tuple[Word, ...]:
        return tuple(replace(word, span=moved(word.span)) for word in several)

    if isinstance(loss, Without):
        return replace(loss, targets=words(loss.targets), span=moved(loss.span))
    if isinstance(loss, Down):
        return replace(loss, left=words(loss.left), right=words(loss.right), span=moved(loss.span))
    lanes = None if loss.lanes is None else replace(loss.lanes, span=moved(loss.lanes.span))
    return replace(
        loss, left=words(loss.left), right=words(loss.right), span=moved(loss.span), lanes=lanes,
        amount=replace(loss.amount, span=moved(loss.amount.span)),
    )  # fmt: skip
