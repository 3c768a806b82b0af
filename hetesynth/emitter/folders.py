"""Writing a folder of files, the whole folder or nothing.

In: a path, files by their names in it. Out: the folder, or a HetesynthError and the old state. A folder made here
before may be replaced; no other folder that has anything in it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

from hetesynth.errors import HetesynthError

INDEX = "index.json"


def check_replaceable(folder: Path, mark: bytes) -> None:
    """HetesynthError HS631 now, rather than after the work, when ``folder`` may not be written.

    It may when it does not exist, is empty, or holds an ``index.json`` that contains ``mark``.
    """
    try:
        if not folder.parent.is_dir():
            raise _failure(folder, f"there is no folder {str(folder.parent)!r}")
        if os.path.lexists(folder) and not folder.is_dir():
            raise _failure(folder, "it is not a folder")
        if folder.is_dir() and any(folder.iterdir()) and mark not in _start(folder / INDEX):
            raise _failure(folder, "it holds files of another kind")
        with tempfile.TemporaryFile(dir=folder.parent):
            pass
    except OSError as error:
        raise _failure(folder, error.strerror or str(error)) from error


def write_folder(folder: Path, files: Mapping[str, bytes], mark: bytes) -> None:
    """Write ``files`` (names relative to ``folder``), prepared beside it and renamed into place."""
    check_replaceable(folder, mark)
    target = Path(os.path.realpath(folder))
    fresh = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", suffix=".part", dir=target.parent))
    try:
        for name, data in files.items():
            path = fresh.joinpath(*PurePosixPath(name).parts)
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        fresh.chmod(0o777 & ~mask)
        _exchange(fresh, target)
    except OSError as error:
        raise _failure(folder, error.strerror or str(error)) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _exchange(fresh: Path, target: Path) -> None:
    """``fresh`` takes the place of ``target``, which comes back if that fails."""
    if not target.exists():
        fresh.rename(target)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{target.name[:40]}.", suffix=".old", dir=target.parent))
    target.rename(old / "was")
    try:
        fresh.rename(target)
    except OSError:
        with suppress(OSError):
            (old / "was").rename(target)
        raise
    finally:
        if target.exists():
            shutil.rmtree(old, ignore_errors=True)


def _start(path: Path) -> bytes:
    try:
        with path.open("rb") as stream:
            return stream.read(4096)
    except OSError:
        return b""


def _failure(folder: Path, reason: str) -> HetesynthError:
    return HetesynthError(
        f"cannot write the folder {str(folder)!r}: {reason}",
        code="HS631",
        help="choose another folder with -o: a new or an empty one, or an older atlas",
    )
