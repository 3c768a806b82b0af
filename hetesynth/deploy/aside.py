"""What was made and is not deployed, beside the folders that runtimes load: for people to look at.

In: the cells of one cluster and target that are not deployed. Out: their folder, written whole, or none.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from hetesynth.deploy.folder.folder import FORMAT, cells_of, place
from hetesynth.deploy.folder_index import ASIDE
from hetesynth.deploy.result import CellResult
from hetesynth.files.folders import INDEX, write_folder
from hetesynth.files.regular_files import open_regular
from hetesynth.files.temporaries import is_ours, leftovers, remove, temporary

KIND = "hetesynth aside"
MARK = ASIDE


def keep_aside(folder: Path, results: Sequence[CellResult]) -> bool:
    """Let ``folder`` hold ``results`` and nothing else; without any it is removed. Whether anything changed."""
    if not results:
        return _removed(folder)
    if read_aside(folder) == {result.key: result for result in results}:
        return False
    folder.parent.mkdir(parents=True, exist_ok=True)
    write_folder(folder, _contents(results), MARK)
    return True


def _contents(results: Iterable[CellResult]) -> dict[str, bytes]:
    files = {place(name): data for result in results for name, data in result.files.items()}
    rows = [{"name": r.record["cell"], "key": r.key, "made_for": r.key, "record": r.record} for r in results]
    index = {"kind": KIND, "format": FORMAT, "cells": rows}
    return {**files, INDEX: (json.dumps(index, indent=1) + "\n").encode()}


def read_aside(folder: Path) -> dict[str, CellResult]:
    """The results in ``folder`` by key, those whose files are whole."""
    return {cell.key: CellResult(cell.key, cell.files, cell.record) for cell in cells_of(folder, KIND)}


def _removed(folder: Path) -> bool:
    """Take ``folder`` away in one step, if it is one of ours; then what is empty above it."""
    try:
        with open_regular(folder / INDEX) as stream:
            if MARK not in stream.read(4096):
                return False
        gone = temporary(folder)
        folder.rename(gone)
    except (FileNotFoundError, NotADirectoryError):
        return False
    for path in (gone, *(old for old in leftovers(folder) if is_ours(old))):
        remove(path)
    with suppress(OSError):
        folder.parent.rmdir()
        folder.parent.parent.rmdir()
    return True
