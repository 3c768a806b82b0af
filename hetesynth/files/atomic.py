"""Writing files so that nothing half-written is ever seen, and several files as one set."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.journal import Entry, forget, write_journals
from hetesynth.files.temporaries import (
    explained,
    held_back,
    is_abandoned,
    leftovers,
    locked,
    remove,
    sync,
    temporary,
)


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path``: a temporary file beside it, flushed to disk, then renamed.

    Raises HetesynthError HS510, exit code 2, when that cannot be done; ``path`` is then as before.
    """
    write_all({Path(path): data})


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write several files. All are prepared before the first is renamed, so a full disk, a missing folder or an
    interrupt leaves every one of them as it was. What a killed run left of the same files is tidied up first."""
    with held_back() as check:
        targets = check_targets(files)
        with locked({target.parent for target in targets.values()}, check) as alone:
            for part in (part for target in targets.values() for part in leftovers(target)):
                if part.is_file() and is_abandoned(part, alone=alone):
                    remove(part)
            entries: list[Entry] = []
            try:
                for path, data in files.items():
                    check()
                    with explained(partial(_failure, path)):
                        target = targets[path]
                        entries.append(Entry(temporary(target), target, hashlib.sha256(data).hexdigest()))
                        handle = os.open(entries[-1].part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
                        with os.fdopen(handle, "wb") as stream:
                            for start in range(0, len(data), 2**22):
                                stream.write(data[start : start + 2**22])
                                check()
                            stream.flush()
                            os.fsync(stream.fileno())
                        with suppress(FileNotFoundError):  # the mode of the file that it replaces
                            entries[-1].part.chmod(target.stat().st_mode & 0o777)
                _rename(entries, check)
            except BaseException:
                for entry in entries:  # after a rename the journal stays, and tells that the set is mixed
                    remove(entry.part)
                raise


def check_targets(paths: Iterable[Path]) -> dict[Path, Path]:
    """The file behind each path. HetesynthError HS510 where one cannot be written or two are the same."""
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


def _rename(entries: Sequence[Entry], check: Callable[[], None]) -> None:
    """Every temporary to its file: between the first and the last the journal says so."""
    journals: list[Path] = []
    check()
    if len(entries) > 1:
        with explained(partial(_failure, entries[0].target.parent)):
            journals = write_journals(entries)
    folders = {entry.target.parent for entry in entries}
    for folder in folders:
        sync(folder)
    for done, entry in enumerate(entries):
        try:
            os.replace(entry.part, entry.target)
        except OSError as error:
            reason = error.strerror or str(error)
            if done:
                raise _failure(entry.target, f"{reason}; the files before it are written") from error
            for journal in journals:
                remove(journal)
            raise _failure(entry.target, reason) from error
    for folder in folders:
        sync(folder)
    forget([entry.target for entry in entries])
