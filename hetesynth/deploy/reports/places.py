"""Where a finding points: files by their path from the root of the repository, cells by a line of the manifest.

In: a root, a manifest's path and the lines of its clusters. Out: paths with ``/``, lines that begin at 1.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


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


def shown_path(path: str | Path, root: Path) -> str:
    """``path`` from ``root`` with ``/``, without ``./``; as it is where it lies elsewhere."""
    below = os.path.relpath(os.path.abspath(path), os.path.abspath(root))
    outside = below == os.pardir or below.startswith(os.pardir + os.sep)
    return (str(path) if outside else below).replace(os.sep, "/")


def repository_root(manifest: Path) -> Path:
    """The folder above ``manifest`` that git manages, or else the current one."""
    for folder in Path(os.path.abspath(manifest)).parents:
        if (folder / ".git").exists():
            return folder
    return Path.cwd()
