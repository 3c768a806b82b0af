"""What was made and is not deployed, beside the folders that runtimes load: for people to look at.

In: the cells of one cluster and target that are not deployed. Out: their folder, written whole, or none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from hetesynth.building.result import CellResult
from hetesynth.commands.folder_index import ASIDE
from hetesynth.deployment.folder import MAX_INDEX_BYTES, place
from hetesynth.files.folders import INDEX, write_folder
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
    rows = [{"name": r.record.get("cell"), "key": r.key, "record": r.record} for r in results]
    index = {"kind": KIND, "cells": rows}
    return {**files, INDEX: (json.dumps(index, indent=1) + "\n").encode()}


def read_aside(folder: Path) -> dict[str, CellResult]:
    """The results in ``folder`` by key, those whose files are whole."""
    from hetesynth.strict_json import JsonLimits, JsonRefused, read_json

    try:
        path = folder / INDEX
        if path.stat().st_size > MAX_INDEX_BYTES:
            return {}
        values = read_json(path.read_bytes(), JsonLimits(32))
    except (OSError, JsonRefused):
        return {}
    if not isinstance(values, dict) or values.get("kind") != KIND or not isinstance(values.get("cells"), list):
        return {}
    results = {}
    for row in values["cells"]:
        with suppress(KeyError, TypeError, AttributeError, OSError, ValueError):
            results[str(row["key"])] = _result(folder, row)
    return results


def _result(folder: Path, row: dict[str, Any]) -> CellResult:
    files = {}
    for name, digest in row["record"]["files"].items():
        if Path(name).name != name:
            raise ValueError("not a name in the folder")
        files[name] = (folder / place(name)).read_bytes()
        if hashlib.sha256(files[name]).hexdigest() != digest:
            raise ValueError("changed")
    return CellResult(row["key"], files, row["record"])


def _removed(folder: Path) -> bool:
    """Take ``folder`` away in one step, if it is one of ours; then what is empty above it."""
    try:
        with (folder / INDEX).open("rb") as stream:
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
