"""Writing files so that nothing half-written is ever seen, and several files as one set.

A set is renamed file after file; a journal lies beside it meanwhile, and tells a set that was cut off.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import digest_of, read_regular
from hetesynth.files.temporaries import (
    explained,
    held_back,
    is_abandoned,
    leftovers,
    locked,
    remove,
    sync,
    temporary,
    write_down,
)

PREFIX, ENDING = ".hetesynth.", ".writing"
MAX_JOURNAL_BYTES = 2**20
_COLUMNS = ("part", "file", "sha256")


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path``: a temporary file beside it, flushed to disk, then renamed.

    Raises HetesynthError HS510, exit code 2, when that cannot be done; ``path`` is then as before.
    """
    write_all({Path(path): data})


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write several files. All are prepared before the first is renamed, so a full disk, a missing folder or an
    interrupt leaves each file as it was. A killed run's temporaries of the same files are removed first."""
    with held_back() as check:
        targets = check_targets(files)
        with locked({target.parent for target in targets.values()}, check) as alone:
            for part in (part for target in targets.values() for part in leftovers(target)):
                if part.is_file() and is_abandoned(part, alone=alone):
                    remove(part)
            entries: list[Entry] = []
            try:
                for path, data in files.items():
                    with explained(partial(_failure, path)):
                        target = targets[path]
                        entries.append(Entry(temporary(target), target, hashlib.sha256(data).hexdigest()))
                        write_down(entries[-1].part, data, check)
                        with suppress(FileNotFoundError):  # the mode of the file that it replaces
                            entries[-1].part.chmod(target.stat().st_mode & 0o777)
                check()
                _rename(entries)
            except BaseException:
                for entry in entries:  # after a rename the journal stays, and tells that the set is mixed
                    remove(entry.part)
                raise


def check_targets(paths: Iterable[Path]) -> dict[Path, Path]:
    """Return the real path of each path; HetesynthError HS510 if one cannot be written or two are the same."""
    targets: dict[Path, Path] = {}
    for path in paths:
        with explained(partial(_failure, path)):
            try:
                path.stat()
            except OSError as error:  # for links that form a loop and names that are too long
                if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
            target = Path(os.path.realpath(path))
            if target.is_dir():
                raise _failure(path, "it is a folder")
            if target.exists() and not target.is_file():
                raise _failure(path, "it is not a regular file")
            if not target.parent.is_dir():
                raise _failure(path, f"there is no folder {str(target.parent)!r}")
            if target.exists() and not os.access(target, os.W_OK):
                raise _failure(path, "it is write-protected")
        if target in targets.values():
            raise _failure(path, "another file of the same run is written there")
        targets[path] = target
    return targets


def check_writable(directory: Path) -> None:
    """Raise HetesynthError HS510 now if no file can be made in ``directory``, rather than after the work."""
    with explained(partial(_failure, directory)), tempfile.TemporaryFile(dir=directory):
        pass


def _failure(path: Path, reason: str) -> HetesynthError:
    return HetesynthError(
        f"cannot write {str(path)!r}: {reason}",
        code="HS510",
        help="choose another output with -o, or make the folder writable",
    )


def _rename(entries: Sequence[Entry]) -> None:
    """Rename every temporary to its file; between the first and the last, journals say that the set is mixed."""
    journals: list[Path] = []
    if len(entries) > 1:
        with explained(partial(_failure, entries[0].target.parent)):
            journals = write_journals(entries)
    targets = {entry.target for entry in entries}
    folders = {target.parent for target in targets}
    for folder in folders:
        sync(folder)
    for done, entry in enumerate(entries):
        try:
            os.replace(entry.part, entry.target)
        except OSError as error:
            for journal in () if done else journals:
                remove(journal)
            written = "; the files before it are written" if done else ""
            raise _failure(entry.target, f"{error.strerror or error}{written}") from error
    for folder in folders:
        sync(folder)
        for older in journals_in(folder):  # of sets of which every file is new
            if is_abandoned(older.path, alone=True) and {e.target for e in older.entries} <= targets:
                remove(older.path)


# -- the journal


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a set: its temporary, the file that the temporary becomes, and the digest of both."""

    part: Path
    target: Path
    sha256: str


@dataclass(frozen=True, slots=True)
class Journal:
    """The journal of a set of files: its path and the entries of the set. Paths are real ones."""

    path: Path
    entries: tuple[Entry, ...]

    def is_mixed(self) -> bool:
        """Return True if some files are new and some old: temporaries are missing, and not all files are new."""
        begun = not all(e.part.exists() for e in self.entries)
        return begun and not all(digest_of(e.target) == e.sha256 for e in self.entries)


def write_journals(entries: Sequence[Entry]) -> list[Path]:
    """Write a journal to every folder of the set, on disk before this returns the paths. Raises OSError."""
    written: list[Path] = []
    try:
        for folder, target in sorted({entry.target.parent: entry.target for entry in entries}.items()):
            path, draft = folder / f"{PREFIX}{secrets.token_hex(4)}{ENDING}", temporary(target)
            written += [draft, path]
            rows = [
                (os.path.relpath(e.part, folder), os.path.relpath(e.target, folder), e.sha256) for e in entries
            ]
            document = {"hetesynth-writing": 1, "files": [dict(zip(_COLUMNS, row, strict=True)) for row in rows]}
            write_down(draft, json.dumps(document, indent=1).encode() + b"\n", lambda: None)
            os.replace(draft, path)
            sync(folder)
    except BaseException:
        for path in written:
            remove(path)
        raise
    return written[1::2]


def cut_off(path: Path) -> Journal | None:
    """Return the journal of a run that wrote ``path`` with other files and left some new, some old; or None."""
    target = Path(os.path.realpath(path))

    def mixed() -> Journal | None:
        naming = (j for j in journals_in(target.parent) if any(entry.target == target for entry in j.entries))
        return next((journal for journal in naming if journal.is_mixed()), None)

    if mixed() is None:
        return None
    with locked({target.parent}, lambda: None):  # the run may be about to end
        return mixed()


def journals_in(folder: Path) -> list[Journal]:
    """Return all journals in ``folder``, a real path; files that cannot be read as one are passed over."""
    read = []
    for path in sorted(folder.glob(f"{PREFIX}*{ENDING}")):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if path.is_symlink():
                continue
            document = json.loads(read_regular(path, MAX_JOURNAL_BYTES))
            entries = []
            for row in document["files"]:
                part, target = (Path(os.path.normpath(folder / row[name])) for name in _COLUMNS[:2])
                entries.append(Entry(part, target, str(row["sha256"])))
            if entries and document["hetesynth-writing"] == 1:
                read.append(Journal(path, tuple(entries)))
    return read
