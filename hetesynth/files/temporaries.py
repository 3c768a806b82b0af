"""Temporary files and folders beside what they become, and what a run that was killed left of them."""

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from hetesynth.errors import HetesynthError

PART = ".part"
WAIT_SECONDS = 10.0  # for another run that writes into the same folder: it takes as long as its disk
STALE_SECONDS = 600.0  # where there are no locks: older than this, nobody is writing it any more


def temporary(target: Path, ending: str = PART) -> Path:
    """Return a new name beside ``target`` for a temporary that is to become ``target``."""
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}{ending}")


def leftovers(target: Path, ending: str = PART) -> list[Path]:
    """Return the temporaries of ``target`` that exist."""
    name = re.compile(f"{re.escape(_prefix(target))}[0-9a-f]{{8}}{re.escape(ending)}")
    try:
        return [target.with_name(one) for one in sorted(os.listdir(target.parent)) if name.fullmatch(one)]
    except OSError:
        return []


def is_abandoned(path: Path, *, alone: bool) -> bool:
    """Return True if ``path`` is of this user, no link, and no run can be writing it. ``alone``: this process has
    the lock on its folder."""
    try:
        state = path.lstat()
    except OSError:
        return False
    ours = not stat.S_ISLNK(state.st_mode) and state.st_uid == os.geteuid()
    return ours and (alone or time.time() - state.st_mtime > STALE_SECONDS)


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def write_down(path: Path, data: bytes, check: Callable[[], None]) -> None:
    """Write ``data`` to a new file, on disk before this returns; ``check`` is called before each 4 MiB."""
    with path.open("xb") as stream:
        for start in range(0, len(data), 2**22):
            check()
            stream.write(data[start : start + 2**22])
        stream.flush()
        os.fsync(stream.fileno())


def sync(folder: Path) -> None:
    """Flush the names in ``folder`` to disk, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(folders: Iterable[Path], check: Callable[[], None]) -> Iterator[bool]:
    """Lock ``folders`` and yield True, or yield False where locks do not work or take over ``WAIT_SECONDS``.

    ``check`` is called while another process is waited for. The lock ends with the process and leaves no file.
    """
    handles, alone, late = [], True, time.monotonic() + WAIT_SECONDS
    try:
        for folder in sorted(set(folders)):
            try:
                handles.append(os.open(folder, os.O_RDONLY))
                while True:
                    with suppress(BlockingIOError):
                        fcntl.flock(handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    if time.monotonic() > late:
                        raise TimeoutError
                    check()
                    time.sleep(0.02)
            except OSError:
                alone = False
        yield alone
    finally:
        for handle in handles:
            os.close(handle)


def _prefix(target: Path) -> str:
    """Return the start of temporary names of ``target``: the first 40 letters of its name and a digest of it."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]
    return f".{target.name[:40]}.{digest}."


@contextmanager
def explained(failure: Callable[[str], HetesynthError]) -> Iterator[None]:
    """Turn an OSError or ValueError inside into the error that ``failure`` makes of its reason."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise failure(getattr(error, "strerror", None) or str(error)) from error


_ENDING = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)  # Ctrl-C last, so that the others are always put back


@contextmanager
def held_back() -> Iterator[Callable[[], None]]:
    """Hold back SIGHUP, SIGTERM and SIGINT inside. The yielded check raises KeyboardInterrupt if one came; all but
    SIGINT are raised again at the end, so that a Ctrl-C after the last check is too late.

    Signals that are ignored stay so. Outside the main thread, where signals do not arrive, nothing is held.
    """
    came: list[int] = []
    before = {}

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, lambda number, frame: came.append(number))
        yield check
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for noted in came:
            if noted != signal.SIGINT:
                signal.raise_signal(noted)
