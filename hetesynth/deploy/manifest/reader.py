"""``hetesynth.toml`` to a ``Manifest``.

In: a path. Out: the manifest with every default filled in, or findings that point into the text, all together.
"""

from __future__ import annotations

from pathlib import Path

from hetesynth.deploy.manifest.cells import cells
from hetesynth.deploy.manifest.clusters import clusters
from hetesynth.deploy.manifest.document import read_document
from hetesynth.deploy.manifest.layout import check_apart, output
from hetesynth.deploy.manifest.values import Manifest

FILE_NAME = "hetesynth.toml"


def read_manifest(path: Path) -> Manifest:
    """The manifest at ``path``. Raises HetesynthError HS860 and, with all that is wrong, SourceError."""
    document = read_document(path)
    entries = clusters(document, path.parent)
    folders = output(document, path.parent)
    all_cells = cells(document, entries)
    if not document.findings:
        check_apart(folders, dict.fromkeys((cell.cluster, cell.target) for cell in all_cells), document)
    document.findings.raise_any()
    return Manifest(path, tuple(entries.values()), all_cells, folders.folder, folders.layout, folders.cache)
