"""Where the folders of a manifest are: each below the output, no two in one place.

In: the table ``[output]`` of a document, clusters and targets. Out: findings; the output and its layout.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path as FilePath

from hetesynth.deploy.manifest.clusters import cluster_name
from hetesynth.deploy.manifest.document import Document
from hetesynth.deploy.manifest.keys import LAYOUT
from hetesynth.deploy.manifest.positions import Path

PLACE: Path = ("output", "layout")
ASIDE = "aside"
"""Where in the output results are that are not deployed: a folder that no cluster can have."""
_FIELD = re.compile(r"\{[^{}]*\}")


@dataclass(frozen=True, slots=True)
class Output:
    """``folder`` that is deployed, ``layout`` in it, ``cache`` of results."""

    folder: FilePath
    layout: str
    cache: FilePath | None


def output(document: Document, folder: FilePath) -> Output:
    """What ``[output]`` says; paths are seen from ``folder``."""
    table = document.values.get("output", {})
    layout = table.get("layout", "{cluster}/{target}")
    message, help_ = _wrong(layout)
    if message:
        document.add("HS868", PLACE, message, help_)
        layout = "{cluster}/{target}"
    for key in ("folder", "cache"):
        if table.get(key, "").startswith("~"):
            message = f"`{table[key][:60]}`: `~` stands for nothing in a manifest"
            document.add(
                "HS868", ("output", key), message, "write a path from the folder of the manifest, or from /"
            )
    cache = table.get("cache")
    return Output(folder / table.get("folder", "schedules"), layout, None if cache is None else folder / cache)


def _wrong(layout: str) -> tuple[str, str]:
    """What is wrong with ``layout`` and the way out; nothing where it is right."""
    fields = [one for one in _FIELD.findall(layout) if one not in ("{cluster}", "{target}")]
    if fields:
        return f"there is no `{fields[0][:40]}` in a layout", "use {cluster} and {target}"
    if layout.startswith(("/", "~")) or re.match("[A-Za-z]:", layout):
        return f"`{layout[:60]}` is outside of the output", "write a path below it, and the output in `folder`"
    parts = layout.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return (
            f"`{layout[:60]}` has a part that names no folder",
            'write folders below the output: "{cluster}/{target}"',
        )
    if not re.fullmatch(LAYOUT, layout):
        return f"`{layout[:60]}` is no layout", "use letters, digits, `.`, `_`, `-`, `/`, {cluster} and {target}"
    if any(part.startswith(".") and not part.startswith("..") for part in parts):
        return f"`{layout[:60]}` has a hidden folder", "begin each part with a letter or a digit"
    return "", ""


def check_apart(stated: Output, folders: Iterable[tuple[str, str]], document: Document) -> None:
    """A finding where two of ``folders`` (cluster, target) are one place, whatever the case of letters, where one
    is for what is not deployed, or where the cache is in one, which is exchanged as a whole."""
    places: dict[str, tuple[str, str]] = {}
    cache = None if stated.cache is None else FilePath(os.path.abspath(stated.cache))
    for cluster, target in folders:
        place = stated.layout.format(cluster=cluster, target=target)
        if cache is not None and cache.is_relative_to(os.path.abspath(stated.folder / place)):
            message = f"the cache is inside of `{place}`, which is exchanged as a whole"
            document.add("HS868", ("output", "cache"), message, "name a folder beside the output")
            return
        if place.casefold().split("/")[0] == ASIDE:
            message = f"`{place}` is for what is not deployed: `{ASIDE}` of the output"
            document.add("HS868", _stated(cluster, document), message, "give it another name or layout")
            return
        other = places.setdefault(place.casefold(), (cluster, target))
        if other != (cluster, target):
            message = f"{'/'.join(other)} and {cluster}/{target} have one folder, `{place}`"
            document.add("HS868", PLACE, message, 'use both: layout = "{cluster}/{target}"')
            return


def _stated(cluster: str, document: Document) -> Path:
    """The layout where it is stated, or else the name of ``cluster``, or the file that gives it."""
    if "layout" in document.values.get("output", {}):
        return PLACE
    for number, table in enumerate(document.values["cluster"]):
        if table.get("name") == cluster:
            return ("cluster", number, "name")
        if "name" not in table and cluster_name(FilePath(document.file).parent / table["topology"]) == cluster:
            return ("cluster", number, "topology")
    return ("cluster",)
