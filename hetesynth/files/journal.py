"""The journal of a set of files that are renamed one after the other: it tells a set that was cut off."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.files.regular_files import digest_of, read_regular
from hetesynth.files.temporaries import is_ours, locked, remove, sync, temporary

PREFIX, ENDING = ".hetesynth.", ".writing"
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the set: its temporary, the file it becomes, the digest of both."""

    part: Path
    target: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Journal:
    """The set and where its journal lies. Paths are real ones."""

    path: Path
    entries: tuple[Entry, ...]

    def is_mixed(self) -> bool:
        """Neither the old files nor the new ones: not all temporaries are there, and not all files are new."""
        begun = not all(e.part.exists() for e in self.entries)
        return begun and not all(digest_of(e.target) == e.sha256 for e in self.entries)


def write_journals(entries: Sequence[Entry]) -> list[Path]:
    """A journal in every folder that has a file of the set: on disk before this returns. Raises OSError."""
    written: list[Path] = []
    names = ("part", "file", "sha256")
    try:
        for folder in sorted({entry.target.parent for entry in entries}):
            path = folder / f"{PREFIX}{secrets.token_hex(4)}{ENDING}"
            draft = temporary(next(entry.target for entry in entries if entry.target.parent == folder))
            written += [draft, path]
            rows = [
                (os.path.relpath(e.part, folder), os.path.relpath(e.target, folder), e.sha256) for e in entries
            ]
            document = {"hetesynth-writing": 1, "files": [dict(zip(names, row, strict=True)) for row in rows]}
            with draft.open("xb") as stream:
                stream.write(json.dumps(document, indent=1).encode() + b"\n")
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(draft, path)
            sync(folder)
    except BaseException:
        for path in written:
            remove(path)
        raise
    return written[1::2]


def cut_off(path: Path) -> Journal | None:
    """The journal of a run that wrote ``path`` with other files, and left some new and others old."""
    target = Path(os.path.realpath(path))

    def mixed() -> Journal | None:
        naming = (j for j in journals(target.parent) if any(entry.target == target for entry in j.entries))
        return next((journal for journal in naming if journal.is_mixed()), None)

    if mixed() is None:
        return None
    with locked({target.parent}, lambda: None):  # the run may be about to end
        return mixed()


def forget(targets: Collection[Path]) -> None:
    """Remove our journals of sets of which every file is among ``targets``, which are new."""
    for folder in {target.parent for target in targets}:
        for journal in journals(folder):
            if is_ours(journal.path) and {entry.target for entry in journal.entries} <= {*targets}:
                remove(journal.path)


def journals(folder: Path) -> list[Journal]:
    """All that lie in ``folder``, a real path. What is no journal is passed over."""
    read = []
    for path in sorted(folder.glob(f"{PREFIX}*{ENDING}")):
        try:
            if path.is_symlink() or not path.is_file():
                continue
            document = json.loads(read_regular(path, MAX_BYTES))
            rows = [[str(row[key]) for key in ("part", "file", "sha256")] for row in document["files"]]
            if rows and document["hetesynth-writing"] == 1:
                parts = (
                    (Path(os.path.normpath(folder / p)), Path(os.path.normpath(folder / f)), d) for p, f, d in rows
                )
                read.append(Journal(path, tuple(Entry(*part) for part in parts)))
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
    return read
