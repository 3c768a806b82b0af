"""Results by their keys in a folder, which builds on one machine or many may share.

In: a key, a result. Out: the result for a key, or None. An entry is one file that appears by a rename and carries
its own digest: a killed writer leaves a temporary file, a damaged entry counts as absent and is made again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hetesynth.deploy.result import MAX_BYTES, CellResult, unpacked
from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.temporaries import PART, is_ours, is_stale, remove, temporary

ENVIRONMENT = "HETESYNTH_CACHE"
LOCK = "lock"
_DIGITS = 14  # of a key, which say the byte that is its lock


def default_cache() -> Path:
    """The user's own place: $HETESYNTH_CACHE, or below $XDG_CACHE_HOME or ~/.cache."""
    stated = os.environ.get(ENVIRONMENT)
    if stated:
        return Path(stated)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "hetesynth" / "cells"


class Cache:
    """The results in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, key: str) -> Path:
        """Where the entry for ``key`` is."""
        return self.folder / key[:2] / f"{key}.cell"

    def get(self, key: str) -> CellResult | None:
        """The result for ``key``; None where there is none that is whole."""
        try:
            with open_regular(self.path(key)) as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError:
            return None
        return unpacked(data, key) if len(data) <= MAX_BYTES else None

    def drop(self, key: str) -> None:
        """The entry for ``key`` goes away."""
        with suppress(OSError):
            self.path(key).unlink()

    def check(self) -> None:
        """Raise HetesynthError HS881 where anybody may write into the folder."""
        try:
            mode = self.folder.stat().st_mode
        except OSError:
            return
        if mode & stat.S_IWOTH:
            raise HetesynthError(
                f"anybody on this machine may write into the cache {self.folder}",
                code="HS881",
                help=f"chmod o-w {self.folder}, or name another folder with --cache",
            )

    def _make(self) -> None:
        """The folder, for this user alone; one that is there keeps its permissions."""
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self.folder.mkdir(mode=0o700, exist_ok=True)

    @property
    def _shared(self) -> int:
        """What the group may do with the folder, it may do with entries."""
        return self.folder.stat().st_mode & 0o070

    def put(self, result: CellResult) -> None:
        """Keep ``result``. Raises HetesynthError HS850 where that cannot be done; nothing else is changed then."""
        path = self.path(result.key)
        part = temporary(path)
        try:
            self._make()
            path.parent.mkdir(mode=0o700 | self._shared, exist_ok=True)
            if path.parent.is_symlink():
                raise NotADirectoryError(errno.ENOTDIR, f"{path.parent.name} in it is a link")
            try:
                with open(
                    os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 | self._shared & 0o060), "wb"
                ) as stream:
                    stream.write(result.packed())
                    stream.flush()
                    os.fsync(stream.fileno())
                os.replace(part, path)
            finally:
                with suppress(OSError):
                    part.unlink()
        except OSError as error:
            raise HetesynthError(
                f"cannot write into the cache {self.folder}: {error.strerror or error}",
                code="HS850",
                help="make room or name another folder with --cache; what is there stays",
            ) from error

    def tidy(self) -> None:
        """Temporary files that killed writers left long ago go away."""
        for path in self.folder.glob(f"??/.*{PART}"):
            if not path.parent.is_symlink() and is_ours(path) and is_stale(path, alone=False):
                remove(path)

    @contextmanager
    def making(self, key: str) -> Iterator[None]:
        """Only one process is inside for ``key``, where the file system has locks; others wait.

        A lock is a byte of one file for all keys, so that none is left behind; the system releases it when the
        process ends, however it ends.
        """
        try:
            import fcntl

            self._make()
            handle = os.open(
                self.folder / LOCK,
                os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0),
                0o600 | self._shared & 0o060,
            )
        except (ImportError, OSError):
            yield
            return
        try:
            with suppress(OSError):
                fcntl.lockf(handle, fcntl.LOCK_EX, 1, int(key[:_DIGITS], 16))
            yield
        finally:
            os.close(handle)
