"""Writing a folder of files, the whole folder or nothing."""

import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
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

INDEX, DIGESTS, PLOT = "index.json", "sha256", "bandwidth.svg"
"""The index of a folder, its field with the digests of the files, and the drawing beside it."""


def with_digests(index: dict[str, Any], files: Mapping[str, bytes]) -> dict[str, Any]:
    """Return ``index`` with the SHA-256 of ``files``."""
    return {**index, DIGESTS: {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}}


OLD = ".old"  # the folder that is replaced, where two names cannot be exchanged in one step
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of Linux


def check_replaceable(folder: Path, mark: bytes) -> None:
    """Raise HetesynthError HS631 now, rather than after the work, if ``folder`` may not be written.

    It may if it does not exist, is empty, or holds an ``index.json`` with ``mark`` in its first 4096 bytes.
    """
    with explained(partial(_failure, folder)):
        if not folder.parent.is_dir():
            raise _failure(folder, f"there is no folder {str(folder.parent)!r}")
        if os.path.lexists(folder) and not folder.is_dir():
            raise _failure(folder, "it is not a folder")
        with suppress(OSError):
            if folder.samefile(os.curdir):
                raise _failure(folder, "it is the current folder, which cannot be exchanged for another")
        start = b""
        with suppress(OSError), open_regular(folder / INDEX) as stream:
            start = stream.read(4096)
        if folder.is_dir() and any(folder.iterdir()) and mark not in start:
            raise _failure(folder, "it holds files of another kind")
        with tempfile.TemporaryFile(dir=folder.parent):
            pass


def write_folder(folder: Path, files: Mapping[str, bytes], mark: bytes) -> None:
    """Write ``files`` (names relative to ``folder``), prepared beside it and renamed into place. Leftovers of a
    killed run beside ``folder`` are tidied up first."""
    update_folder(folder, lambda: files, mark)


def update_folder(folder: Path, contents: Callable[[], Mapping[str, bytes]], mark: bytes) -> Mapping[str, bytes]:
    """Write the files that ``contents`` returns, as ``write_folder``, and return them. ``contents`` may read the
    older folder: no other run changes it until it is replaced."""
    with explained(partial(_failure, folder)), _tidied(folder) as (target, check):
        check_replaceable(folder, mark)
        files = contents()
        fresh = temporary(target)
        try:
            fresh.mkdir()
            for name, data in files.items():
                parts = PurePosixPath(name).parts
                if not parts or ".." in parts or parts[0] == "/":
                    raise ValueError(f"{name[:80]!r} is no name in it")
                path = fresh.joinpath(*parts)
                path.parent.mkdir(parents=True, exist_ok=True)
                write_down(path, data, check)
            for place in (fresh, *(path for path in fresh.rglob("*") if path.is_dir())):
                sync(place)
            check()
            _exchange(fresh, target)
        finally:
            remove(fresh)
        return files


def tidy_folder(folder: Path) -> None:
    """Remove leftovers of killed runs beside ``folder``, and restore the older folder if a killed run was about to
    replace it."""
    with suppress(OSError), _tidied(folder):
        pass


@contextmanager
def _tidied(folder: Path) -> Iterator[tuple[Path, Callable[[], None]]]:
    """Yield the real path of ``folder``, locked and tidied, and a function that checks for held back signals."""
    with held_back() as check:
        target = Path(os.path.realpath(folder))
        with locked({target.parent}, check) as alone:
            for left in (*leftovers(target, OLD), *leftovers(target)):
                if left.is_dir() and is_abandoned(left, alone=alone):
                    if left.suffix == OLD and not target.exists():
                        left.rename(target)
                    remove(left)
            yield target, check


def cut_off(path: Path) -> Path | None:
    """Return the path of the older folder if ``path`` is in a folder that a killed run was about to replace."""
    target = Path(os.path.realpath(path))
    while not target.parent.exists():
        target = target.parent
    return None if target.exists() else next(filter(Path.is_dir, leftovers(target, OLD)), None)


def _exchange(fresh: Path, target: Path) -> None:
    """Put ``fresh`` in the place of ``target``, in one step where the system can."""
    if not target.exists():
        fresh.rename(target)
    elif not _swapped(fresh, target):
        old = temporary(target, OLD)  # ``target`` aside, then ``fresh`` to its place
        os.utime(target)  # not abandoned
        target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            old.rename(target)
            raise
        remove(old)
    sync(target.parent)


def _swapped(first: Path, second: Path) -> bool:
    """Exchange two names in one step and return True, or return False: only Linux can, on some file systems."""
    import ctypes

    call = getattr(ctypes.CDLL(None), "renameat2", None)
    return call is not None and call(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0


def _failure(folder: Path, reason: str) -> HetesynthError:
    return HetesynthError(
        f"cannot write the folder {str(folder)!r}: {reason}",
        code="HS631",
        help="choose another folder with -o: a new or an empty one, or an older atlas",
    )
