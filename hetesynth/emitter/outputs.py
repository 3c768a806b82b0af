"""Writing files so that nothing half-written is ever seen.

In: paths and bytes. Out: the files, or a HetesynthError and the old state. Knows nothing of formats.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hetesynth.errors import HetesynthError

_MODE = 0o666


def write_atomically(path: str | Path, data: bytes) -> None:
    """Write ``data`` to ``path``: a temporary file beside it, flushed to disk, then renamed.

    Raises HetesynthError HS510, exit code 2, when that cannot be done; ``path`` is then as before.
    """
    write_all({Path(path): data})


def write_all(files: Mapping[Path, bytes]) -> None:
    """Write several files. All are prepared before the first is renamed, so a full disk or a missing folder
    leaves every one of them as it was."""
    prepared: list[tuple[Path, Path]] = []
    try:
        for path, data in files.items():
            with _explained(path):
                target = Path(os.path.realpath(path))
                _refuse(path, target)
                prepared.append((_prepare(target, data), target))
        while prepared:
            temporary, target = prepared[0]
            with _explained(target):
                os.replace(temporary, target)
            prepared.pop(0)
    finally:
        for temporary, _ in prepared:
            with suppress(OSError):
                temporary.unlink()


def check_writable(directory: Path) -> None:
    """Raise HetesynthError HS510 now if no file can be made in ``directory``, rather than after the work."""
    with _explained(directory), tempfile.TemporaryFile(dir=directory):
        pass


class _explained:
    """Turns an OSError about ``path`` into a HetesynthError."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError | ValueError):
            reason = getattr(error, "strerror", None) or str(error)
            raise _failure(self.path, reason) from error


def _failure(path: Path, reason: str) -> HetesynthError:
    return HetesynthError(
        f"cannot write {str(path)!r}: {reason}",
        code="HS510",
        help="choose another output with -o, or make the folder writable",
    )


def _refuse(path: Path, target: Path) -> None:
    if target.is_dir():
        raise _failure(path, "it is a folder")
    if target.exists() and not target.is_file():
        raise _failure(path, "it is not a regular file")
    if not target.parent.is_dir():
        raise _failure(path, f"there is no folder {str(target.parent)!r}")
    if target.exists() and not os.access(target, os.W_OK):
        raise _failure(path, "it is write-protected")


def _prepare(target: Path, data: bytes) -> Path:
    """A complete temporary file in the folder of ``target``, with the mode a new file would have."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(_mode(target))
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    return temporary


def _mode(target: Path) -> int:
    try:
        return target.stat().st_mode & 0o777
    except OSError:
        mask = os.umask(0)
        os.umask(mask)
        return _MODE & ~mask
