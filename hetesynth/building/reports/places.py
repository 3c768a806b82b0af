"""Where a finding points: files by their path from the root of the repository, cells by a line of the manifest.

In: a root, a manifest's path and its text. Out: paths with ``/``, lines that begin at 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

_TABLE = re.compile(r"\s*\[")
_CLUSTER = re.compile(r"\s*\[\[\s*cluster\s*\]\]")
_STATED = re.compile(r"""\s*(name|topology)\s*=\s*(?:"([^"]*)"|'([^']*)')""")


@dataclass(frozen=True, slots=True)
class Places:
    """``manifest``: as reports name it. ``lines``: of each cluster in it."""

    root: Path
    manifest: str
    lines: Mapping[str, int] = field(default_factory=dict)

    def shown(self, path: str | Path) -> str:
        """``path`` from the root; as it is where it lies elsewhere."""
        return shown_path(path, self.root)

    def line(self, cluster: str) -> int:
        """The line of the manifest where ``cluster`` is stated; the first where that is not known."""
        return self.lines.get(cluster, 1)


def places(manifest: Path, root: Path, text: str = "") -> Places:
    """The places of ``manifest``, which holds ``text``."""
    return Places(root, shown_path(manifest, root), cluster_lines(text))


def shown_path(path: str | Path, root: Path) -> str:
    """``path`` from ``root`` with ``/``, without ``./``; as it is where it lies elsewhere."""
    below = os.path.relpath(os.path.abspath(path), os.path.abspath(root))
    outside = below == os.pardir or below.startswith(os.pardir + os.sep)
    return (str(path) if outside else below).replace(os.sep, "/")


def cluster_lines(text: str) -> dict[str, int]:
    """The line of each cluster's table in the text of a manifest, by the cluster's name."""
    lines: dict[str, int] = {}
    header, stated = 0, dict[str, str]()
    for number, line in enumerate([*text.split("\n"), "[end]"], 1):
        if _TABLE.match(line):
            _note(lines, header, stated)
            header, stated = (number if _CLUSTER.match(line) else 0), {}
        elif header and (match := _STATED.match(line)):
            stated.setdefault(match[1], match[2] or match[3] or "")
    return lines


def _note(lines: dict[str, int], header: int, stated: Mapping[str, str]) -> None:
    topology = PurePosixPath(stated.get("topology", ""))
    usual = topology.parent.name if topology.stem == "topo" else topology.stem
    name = stated.get("name", usual)
    if header and name:
        lines.setdefault(name, header)


def repository_root(manifest: Path) -> Path:
    """The folder above ``manifest`` that git manages, or else the current one."""
    for folder in Path(os.path.abspath(manifest)).parents:
        if (folder / ".git").exists():
            return folder
    return Path.cwd()
