"""The journal of a set of files that are renamed one after the other."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hetesynth.files.temporaries import is_ours, is_stale, is_temporary, locked, remove, sync, temporary

PREFIX, ENDING = ".hetesynth.", ".writing"
MAX_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the set: its temporary, the file it becomes, the digest of both."""

    part: Path
    target: Path
    sha256: str

    def is_written(self) -> bool:
        """True where the file is what the run wrote."""
        return digest_of(self.target) == self.sha256


@dataclass(frozen=True, slots=True)
class Journal:
    """The set and where its journal lies. Paths are real ones."""

    path: Path
    entries: tuple[Entry, ...]

    def is_mixed(self) -> bool:
        """Neither the old files nor the new ones: not all temporaries are there, and not all files are new."""
        return not all(e.part.exists() for e in self.entries) and not all(e.is_written() for e in self.entries)

    def names(self, target: Path) -> bool:
        """True where ``target``, a real path, is of the set."""
        return any(entry.target == target for entry in self.entries)


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None when it cannot be read."""
    digest = hashlib.sha256()
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            while block := stream.read(2**20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()


def write_journals(entries: Sequence[Entry]) -> list[Path]:
    """A journal in every folder that has a file of the set: on disk before this returns. Raises OSError."""
    written: list[Path] = []
    try:
        for folder in sorted({entry.target.parent for entry in entries}):
            first = next(entry.target for entry in entries if entry.target.parent == folder)
            path = folder / f"{PREFIX}{secrets.token_hex(4)}{ENDING}"
            draft = temporary(first)
            written += [draft, path]
            with draft.open("xb") as stream:
                rows = [
                    {
                        "file": os.path.relpath(e.target, folder),
                        "part": os.path.relpath(e.part, folder),
                        "sha256": e.sha256,
                    }
                    for e in entries
                ]
                stream.write(json.dumps({"hetesynth-writing": 1, "files": rows}, indent=1).encode() + b"\n")
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
        return next((j for j in journals(target.parent) if j.names(target) and j.is_mixed()), None)

    if mixed() is None:
        return None
    with locked({target.parent}, lambda: None):  # the run may be about to end
        return mixed()


def recover(targets: Collection[Path], *, alone: bool) -> None:
    """End what killed runs began with one of ``targets``: their renames where some were made, else nothing.

    ``alone``: no other process writes into these folders. Files of other users are not moved.
    """
    for folder in sorted({target.parent for target in targets}):
        for journal in journals(folder):
            if any(journal.names(target) for target in targets) and is_stale(journal.path, alone=alone):
                _end(journal)


def _end(journal: Journal) -> None:
    """Every journal of the set goes before the first temporary that was not renamed: a journal that outlives one
    of them says that renames were made, and whoever ends those mixes the set."""
    folders = sorted({entry.target.parent for entry in journal.entries})

    def sync_all() -> None:
        for folder in folders:
            sync(folder)

    if is_ours(journal.path) and journal.is_mixed():
        for entry in journal.entries:
            if is_ours(entry.part) and digest_of(entry.part) == entry.sha256:
                with suppress(OSError):
                    os.replace(entry.part, entry.target)
        sync_all()
    # those of the same run, whose temporaries are of no other
    alike = [x.path for folder in folders for x in journals(folder) if set(x.entries) == set(journal.entries)]
    for path in alike:
        with suppress(OSError):
            path.unlink()
    sync_all()
    for entry in journal.entries:
        with suppress(OSError):
            entry.part.unlink()


def journals(folder: Path) -> list[Journal]:
    """All that lie in ``folder``, a real path. What is no journal is passed over."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    candidates = (_read(folder / name) for name in names if name.startswith(PREFIX) and name.endswith(ENDING))
    return [journal for journal in candidates if journal is not None]


def _read(path: Path) -> Journal | None:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        document = json.loads(path.read_bytes())
        entries = []
        for row in document["files"]:
            part, target = (Path(os.path.normpath(path.parent / row[key])) for key in ("part", "file"))
            if not is_temporary(part, target):
                return None
            entries.append(Entry(part, target, str(row["sha256"])))
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return Journal(path, tuple(entries)) if entries and document.get("hetesynth-writing") == 1 else None
