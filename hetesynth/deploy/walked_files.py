"""Files and folders to the files that are judged, with what their index says of each.

In: paths. Out: a ``Walk``: candidates in order, and how many other files were passed over. A folder is walked in
the order of names; links are not followed out of it, and what begins with a dot is left alone.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.deploy.folder_index import FolderIndex, read_index
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import open_regular

MAX_FILES = 100_000
HEAD = 65_536
"""Bytes of a JSON file that say whether it is a plan, a schedule or a composition."""
ALGORITHMS = "algorithms"
"""A folder of which runtimes read every file."""
BLOCK = 1 << 20
CHANGED = "it was changed: index.json has another SHA-256"
EXTRA = "index.json does not name it"
MISSING = "it is missing: index.json names it"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to be judged. ``named``: on the command line, not by a folder. ``targets``: of its folder.
    ``problem``: what is wrong with its place; ``judged``: whether there is a file to judge at all. ``sha256``: as
    the index has it; empty: it does not say."""

    path: Path
    named: bool = False
    targets: tuple[str, ...] = ()
    sha256: str = ""
    problem: str = ""
    judged: bool = True


@dataclass(frozen=True, slots=True)
class Walk:
    """``passed``: files in folders that are no programs, schedules or compositions."""

    candidates: tuple[Candidate, ...]
    passed: int


def walked(paths: Sequence[Path]) -> Walk:
    """The files at ``paths``, each once. HetesynthError HS875: more than are judged at once; HS877: a folder in
    which there is nothing to judge."""
    candidates: dict[Path, Candidate] = {}
    passed = 0
    for path in paths:
        if not path.is_dir():
            candidates.setdefault(path, Candidate(path, named=True))
            continue
        folder = _Folder(path)
        rows = folder.candidates(MAX_FILES - len(candidates) - passed)
        if not rows:
            raise HetesynthError(
                f"there is no program, schedule or composition in {path}",
                code="HS877",
                help="name a folder that `hetesynth build` or `hetesynth atlas` wrote, or files",
            )
        passed += folder.passed
        for row in rows:
            candidates.setdefault(row.path, row)
    return Walk(tuple(candidates.values()), passed)


@dataclass
class _Folder:
    """One folder of the command line."""

    root: Path
    indices: dict[Path, FolderIndex | None] = field(default_factory=dict)
    passed: int = 0

    def candidates(self, most: int) -> list[Candidate]:
        """Of every file that is judged, and of every one that an index names and that is not there."""
        rows: list[Candidate] = []
        seen: set[Path] = set()
        for number, path in enumerate(self._entries(rows)):
            if number >= most:
                raise HetesynthError(
                    f"{self.root} holds more than the {MAX_FILES} files that are judged at once",
                    code="HS875",
                    help="name smaller folders",
                )
            seen.add(path)
            row = self._candidate(path)
            if row is None:
                self.passed += 1
            else:
                rows.append(row)
        for index in self.indices.values():
            if index is not None:
                rows += _missing(index, seen)
        return sorted(rows, key=lambda row: row.path.parts)

    def _entries(self, rows: list[Candidate]) -> Iterator[Path]:
        """Every file; folders that cannot be read and indices that say nothing become rows."""

        def unreadable(error: OSError) -> None:
            reason = f"the folder cannot be read: {error.strerror}"
            rows.append(Candidate(Path(error.filename), problem=reason, judged=False))

        real = os.path.realpath(self.root)
        for place, folders, names in os.walk(self.root, onerror=unreadable):
            folder = Path(place)
            links = [name for name in folders if (folder / name).is_symlink()]
            self.passed += len(links)
            folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
            try:
                self.indices[folder] = read_index(folder) if INDEX in names else self.indices.get(folder.parent)
            except HetesynthError as error:
                self.indices[folder] = None
                rows.append(Candidate(folder / INDEX, problem=error.message, judged=False))
                names.remove(INDEX)
            for name in sorted(names):
                path = folder / name
                if name.startswith(".") or not _inside(path, real):
                    self.passed += 1
                else:
                    yield path

    def _candidate(self, path: Path) -> Candidate | None:
        index = self.indices[path.parent]
        if index is None:
            return Candidate(path) if _is_meant(path) else None
        name = path.relative_to(index.folder).as_posix()
        targets, stated = index.targets_of(name), index.files.get(name)
        if not _is_meant(path):
            changed = stated and digest(path) != stated
            return Candidate(path, problem=CHANGED, judged=False) if changed else None
        extra = EXTRA if index.lists and stated is None else ""
        return Candidate(path, False, targets, stated or "", extra)


def _missing(index: FolderIndex, seen: set[Path]) -> Iterator[Candidate]:
    for name in index.files:
        if index.folder / name not in seen:
            yield Candidate(index.folder / name, problem=MISSING, judged=False)


def _inside(path: Path, real: str) -> bool:
    """Whether ``path`` is a file in the folder ``real``, be it by a link."""
    if not path.is_symlink():
        return True
    try:
        return Path(os.path.realpath(path)).is_relative_to(real)
    except (OSError, ValueError):
        return False


def _is_meant(path: Path) -> bool:
    """Whether a file of a folder is to be judged."""
    suffix = path.suffix.lower()
    if suffix == ".xml" or (path.parent.name == ALGORITHMS and path.name != INDEX):
        return True
    if suffix != ".json" or path.name == INDEX:
        return False
    try:
        if not path.is_file():
            return False
        with open_regular(path) as stream:
            head = stream.read(HEAD)
    except OSError:
        return True  # reading it will say why
    kinds = (b'"hetesynth-schedule"', b'"hetesynth-composition"')
    return any(kind in head for kind in kinds) or (b'"collective"' in head and b'"gpus"' in head)


def digest(path: Path) -> str:
    """The SHA-256 of the file at ``path``; empty where it cannot be read."""
    try:
        if not path.is_file():
            return ""
        sha256 = hashlib.sha256()
        with open_regular(path) as stream:
            while block := stream.read(BLOCK):
                sha256.update(block)
        return sha256.hexdigest()
    except OSError:
        return ""
