"""What an ``index.json`` of ours says that its folder holds: which programs, for which targets, their digests."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.folders import DIGESTS, INDEX
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

ATLAS, DEPLOYMENT = "hetesynth atlas", "hetesynth deployment"
COLLECTIVES, LOSSES = f"{ATLAS} of several collectives", f"{ATLAS} of single losses"
KINDS = (ATLAS, COLLECTIVES, LOSSES, DEPLOYMENT)
"""The field of an atlas with the SHA-256 of each of its files; of a deployed folder it is ``files``."""
OURS = ("algorithms", "schedules")  # folders beside an index that is ours, however damaged it is
ASIDE = b'"kind": "hetesynth aside"'
"""In the index of results that a build did not deploy: their files are judged as any others are."""
MAX_INDEX_BYTES = 1 << 26
MAX_INDEX_DEPTH = 32
MAX_LISTED = 100_000


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """``targets``: runtimes that its programs are for. ``files``: all that it names, by their names in the folder,
    with their SHA-256 (empty: not told); none where it does not say which there are. ``document``: all it says."""

    folder: Path
    kind: str
    targets: tuple[str, ...]
    files: dict[str, str]
    document: dict[str, Any]

    @property
    def lists(self) -> bool:
        """True where it says which files there are."""
        return self.kind == DEPLOYMENT or bool(self.files)

    def targets_of(self, name: str) -> tuple[str, ...]:
        """The runtimes that the program ``name`` is for: as its folder is called, or a part of its own name."""
        path = PurePosixPath(name)
        named = [part for part in (path.parent.name, *path.name.split(".")) if part in self.targets]
        return (named[0],) if named else self.targets


def read_index(folder: Path) -> FolderIndex | None:
    """The index of ``folder``, None where it has none or is ``ASIDE``. HetesynthError HS876 where it is ours and
    says nothing that can be used."""
    path = folder / INDEX
    help_ = "write the folder again; an atlas with --replace"
    try:
        if not path.is_file():
            return None
        with open_regular(path) as stream:
            data = stream.read(MAX_INDEX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HetesynthError(f"{path} is no index: {reason}", code="HS876", help=help_) from error
    if ASIDE in data[:4096]:
        return None
    try:
        if len(data) > MAX_INDEX_BYTES:
            raise ValueError(f"it has more than {MAX_INDEX_BYTES} bytes")
        document = _object(read_json(data, JsonLimits(MAX_INDEX_DEPTH)), INDEX)
        kind = document.get("kind")
        if kind not in KINDS:
            raise ValueError(f"there is no kind {kind!r}"[:80])
        stated = [document.get("target")] if kind == DEPLOYMENT else document.get("targets")
        if not isinstance(stated, list) or not stated or any(name not in TARGETS for name in map(_text, stated)):
            raise ValueError("it does not name the targets that its programs are for")
        if kind == DEPLOYMENT:
            _list(document.get("cells", []), "cells")
        else:
            _demand_collectives(document, kind)
        files = dict(_files(document, kind))
        if len(files) > MAX_LISTED:
            raise ValueError(f"it names more than {MAX_LISTED} files")
        return FolderIndex(folder, kind, tuple(stated), files, document)
    except (JsonRefused, ValueError) as error:
        if b'"kind": "hetesynth ' in data[:4096] or any((folder / name).is_dir() for name in OURS):
            raise HetesynthError(f"{path} is no index: {error}", code="HS876", help=help_) from error
        return None


def _demand_collectives(document: dict[str, Any], kind: str) -> None:
    """Names of files are made of these."""
    _text(document.get("cluster"))
    if kind != COLLECTIVES:
        if _text(document.get("collective")) not in COLLECTIVE_NAMES:
            raise ValueError("it names no collective")
        return
    parts = _object(document.get("collectives"), "collectives")
    if not parts or any(_object(part, "collectives").get("collective") != name for name, part in parts.items()):
        raise ValueError("it names no collectives")
    for part in parts.values():
        _demand_collectives(part, ATLAS)


def _files(document: dict[str, Any], kind: str) -> Iterator[tuple[str, str]]:
    """Every file that the index names, with its digest."""
    if kind == COLLECTIVES:
        for part in document["collectives"].values():
            yield from _files(part, ATLAS)
        return
    if kind == ATLAS:
        for row in _list(document.get("ranges"), "ranges"):
            for name in _list(_object(row, "ranges").get("files"), "files"):
                yield _name(name), ""
    field = "files" if kind == DEPLOYMENT else DIGESTS
    digests = document.get(field, None if kind == DEPLOYMENT else {})
    for name, digest in _object(digests, field).items():
        if not re.fullmatch("[0-9a-f]{64}", _text(digest)):
            raise ValueError(f"{field!r} has something that is no SHA-256")
        yield _name(name), digest


def _name(value: Any) -> str:
    """A name in the folder: no way out of it."""
    parts = PurePosixPath(_text(value)).parts
    odd = not parts or ".." in parts or PurePosixPath(*parts).is_absolute() or "/".join(parts) != value
    if odd or "\0" in value or len(value) > 1000:
        raise ValueError(f"{_text(value)[:80]!r} is no name of a file in the folder")
    return _text(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("there is something else where a text is expected")
    return value


def _object(value: Any, field: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{field!r} is no object")
    return value


def _list(value: Any, field: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{field!r} is no list")
    return value
