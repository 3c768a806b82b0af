"""Temporary files and folders beside what they become, and what a run that was killed left of them."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from hetesynth.errors import HetesynthError

PART = ".part"
WAIT_SECONDS = 10.0  # for another run that writes into the same folder: it takes as long as its disk
STALE_SECONDS = 600.0  # where there are no locks: older than this, nobody is writing it any more


def temporary(target: Path, ending: str = PART) -> Path:
    """A new name beside ``target`` that says what it becomes."""
    return target.with_name(f"{_prefix(target)}{secrets.token_hex(4)}{ending}")


def is_temporary(path: Path, target: Path, ending: str = PART) -> bool:
    """True where ``path`` is a name that ``temporary`` gives for ``target``."""
    middle = path.name.removeprefix(_prefix(target)).removesuffix(ending)
    full = f"{_prefix(target)}{middle}{ending}" == path.name
    return full and path.parent == target.parent and re.fullmatch("[0-9a-f]{8}", middle) is not None


def leftovers(target: Path, ending: str = PART) -> list[Path]:
    """Temporaries of ``target`` that are there."""
    try:
        names = os.listdir(target.parent)
    except OSError:
        return []
    candidates = (target.with_name(name) for name in sorted(names) if name.endswith(ending))
    return [path for path in candidates if is_temporary(path, target, ending)]


def is_ours(path: Path) -> bool:
    """True where ``path`` is of this user, and no link."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return not path.is_symlink() and state.st_uid == os.geteuid()


def is_stale(path: Path, *, alone: bool) -> bool:
    """True where no run can be writing ``path``. ``alone``: this process has the lock on its folder."""
    try:
        return alone or time.time() - path.lstat().st_mtime > STALE_SECONDS
    except OSError:
        return False


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there and that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def sync(folder: Path) -> None:
    """Make the names in ``folder`` last, where the system can."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def locked(folders: Iterable[Path], check: Callable[[], None]) -> Iterator[bool]:
    """True inside where this process alone writes into ``folders``; False where there are no such locks.

    ``check`` is called while another process is waited for. The lock ends with the process and leaves no file.
    """
    handles, alone, late = [], True, time.monotonic() + WAIT_SECONDS
    try:
        for folder in sorted(set(folders)):
            try:
                handles.append(os.open(folder, os.O_RDONLY))
            except OSError:
                alone = False
                continue
            while True:
                try:
                    fcntl.flock(handles[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() <= late:
                        check()
                        time.sleep(0.02)
                        continue
                    alone = False
                except OSError:
                    alone = False
                break
        yield alone
    finally:
        for handle in handles:
            os.close(handle)


def _prefix(target: Path) -> str:
    """Of long names the beginning; the digest tells those that begin alike apart."""
    digest = hashlib.sha256(os.fsencode(target.name)).hexdigest()[:8]
    return f".{target.name[:40]}.{digest}."


@contextmanager
def explained(failure: Callable[[str], HetesynthError]) -> Iterator[None]:
    """Turns an OSError inside into what ``failure`` makes of its reason."""
    try:
        yield
    except (OSError, ValueError) as error:
        raise failure(getattr(error, "strerror", None) or str(error)) from error


_ENDING = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)  # Ctrl-C last, so that the others are always put back


class Interruptions:
    """The signals that came."""

    def __init__(self) -> None:
        self.noted: list[int] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        """A signal handler."""
        self.noted.append(number)

    def check(self) -> None:
        """KeyboardInterrupt when a signal came."""
        if self.noted:
            raise KeyboardInterrupt


@contextmanager
def held_back() -> Iterator[Interruptions]:
    """What comes inside takes effect at ``check``, or at the end; a Ctrl-C after the last check is too late.

    Signals that are ignored stay so. Outside the main thread, where signals do not arrive, nothing is held.
    """
    interruptions = Interruptions()
    before = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in _ENDING:
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    before[number] = signal.signal(number, interruptions.note)
        yield interruptions
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for noted in interruptions.noted:
            if noted != signal.SIGINT:
                signal.raise_signal(noted)
