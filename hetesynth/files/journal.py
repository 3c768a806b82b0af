"""The journal of a set of files that are renamed one after the other."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hetesynth.files.regular_files import digest_of
from hetesynth.files.temporaries import is_ours, is_stale, is_temporary, locked, remove, sync, temporary

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

    def names(self, target: Path) -> bool:
        """True where ``target``, a real path, is of the set."""
        return any(entry.target == target for entry in self.entries)


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
    for journal in [j for folder in sorted({target.parent for target in targets}) for j in journals(folder)]:
        named = any(journal.names(target) for target in targets)
        if not named or not is_stale(journal.path, alone=alone) or not os.path.lexists(journal.path):
            continue
        folders = sorted({entry.target.parent for entry in journal.entries})
        if is_ours(journal.path) and journal.is_mixed():
            for entry in journal.entries:
                if is_ours(entry.part) and digest_of(entry.part) == entry.sha256:
                    with suppress(OSError):
                        os.replace(entry.part, entry.target)
            for folder in folders:
                sync(folder)
        # every journal of the set goes before the first temporary that was not renamed: one that outlives one of
        # them says that renames were made, and whoever ends those mixes the set
        for path in [x.path for f in folders for x in journals(f) if set(x.entries) == set(journal.entries)]:
            remove(path)
        for folder in folders:
            sync(folder)
        for entry in journal.entries:
            with suppress(OSError):
                entry.part.unlink()


def journals(folder: Path) -> list[Journal]:
    """All that lie in ``folder``, a real path. What is no journal is passed over."""
    read = []
    for path in sorted(folder.glob(f"{PREFIX}*{ENDING}")):
        try:
            if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_BYTES:
                continue
            document = json.loads(path.read_bytes())
            entries = []
            for row in document["files"]:
                part, target = (Path(os.path.normpath(path.parent / row[key])) for key in ("part", "file"))
                entries.append(Entry(part, target, str(row["sha256"])))
            whole = entries and document.get("hetesynth-writing") == 1
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            continue
        if whole and all(is_temporary(entry.part, entry.target) for entry in entries):
            read.append(Journal(path, tuple(entries)))
    return read
