"""What an ``index.json`` of ours says that its folder holds: which programs, for which targets, their digests."""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.folders import DIGESTS, INDEX
from hetesynth.files.regular_files import read_regular
from hetesynth.files.strict_json import JsonRefused, read_json
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

ATLAS, DEPLOYMENT = "hetesynth atlas", "hetesynth deployment"
COLLECTIVES, LOSSES = f"{ATLAS} of several collectives", f"{ATLAS} of single losses"
KINDS = (ATLAS, COLLECTIVES, LOSSES, DEPLOYMENT)
OURS = ("algorithms", "schedules")  # folders beside an index that is ours, however damaged it is
MAX_INDEX_BYTES = 1 << 26


@dataclass(frozen=True, slots=True)
class FolderIndex:
    """The index of a folder. ``targets``: runtimes that its programs are for. ``files``: SHA-256 ("": not stated)
    of each file that it names, by name in the folder; empty where it names none. ``document``: its JSON."""

    folder: Path
    kind: str
    targets: tuple[str, ...]
    files: dict[str, str]
    document: dict[str, Any]

    def targets_of(self, name: str) -> tuple[str, ...]:
        """Return the runtimes that the program ``name`` is for: the one its path names, else all ``targets``."""
        path = PurePosixPath(name)
        named = [part for part in (path.parent.name, *path.name.split(".")) if part in self.targets]
        return (named[0],) if named else self.targets


def read_index(folder: Path) -> FolderIndex | None:
    """Return the index of ``folder``, None if it has none that hetesynth wrote. Raises HetesynthError HS876 if
    such an index cannot be used."""
    path, data = folder / INDEX, b""
    try:
        if not path.is_file():
            return None
        data = read_regular(path, MAX_INDEX_BYTES)
        document = read_json(data, 32)
        kind = document["kind"]
        targets = [document["target"]] if kind == DEPLOYMENT else document["targets"]
        if kind not in KINDS or not targets or any(name not in TARGETS for name in targets):
            raise ValueError("it does not name its kind and the targets that its programs are for")
        return FolderIndex(folder, kind, tuple(targets), _files(document, kind), document)
    except (OSError, JsonRefused, ValueError, KeyError, TypeError, AttributeError) as error:
        if (
            data
            and b'"kind": "hetesynth ' not in data[:4096]
            and not any((folder / name).is_dir() for name in OURS)
        ):
            return None
        reason = getattr(error, "strerror", None) or f"it is damaged ({error})"
        help_ = "write the folder again; an atlas with --replace"
        raise HetesynthError(f"{path} is no index: {reason}", code="HS876", help=help_) from error


def _files(document: dict[str, Any], kind: str) -> dict[str, str]:
    """Return every file that the index names, with its digest; ValueError if the index or a name is malformed."""
    names: dict[str, str] = dict(document["files"]) if kind == DEPLOYMENT else {}
    atlases = document["collectives"] if kind == COLLECTIVES else {document.get("collective"): document}
    for collective, atlas in atlases.items() if kind != DEPLOYMENT else ():
        stated = atlas["collective"] == collective and collective in COLLECTIVE_NAMES
        if not stated or type(atlas["cluster"]) is not str:
            raise ValueError("it does not name its collectives and its cluster")
        if kind != LOSSES:
            names |= {name: "" for row in atlas["ranges"] for name in row["files"]}
        names |= atlas.get(DIGESTS, {})
    for name, digest in names.items():
        parts = PurePosixPath(name).parts  # a name in the folder: no way out of it
        odd = not parts or ".." in parts or PurePosixPath(*parts).is_absolute() or "/".join(parts) != name
        if odd or "\0" in name or len(name) > 1000 or not re.fullmatch("([0-9a-f]{64})?", digest):
            raise ValueError(f"{name[:80]!r} is no name of a file in the folder, or it has no SHA-256")
    return names
