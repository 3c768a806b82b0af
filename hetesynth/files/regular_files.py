"""Opening files that somebody named: regular ones, and what a shell hands over as a numbered descriptor.

A pipe or a device in the place of a file would be waited for, or read, for ever.
"""

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import BinaryIO

MAX_BYTES = 1 << 30
_HANDED_OVER = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


def open_regular(path: Path) -> BinaryIO:
    """Return ``path`` opened for reading. Raises OSError if it cannot be opened, or is neither a regular file nor
    handed over by the shell, as in ``hetesynth topo show <(command)``; ValueError for a NUL byte in its name."""
    if str(path).startswith(_HANDED_OVER):
        return path.open("rb")
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(handle).st_mode
    if stat.S_ISREG(mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    kind = "a pipe: hand it over as standard input, or as <(...)" if stat.S_ISFIFO(mode) else "no regular file"
    raise OSError(errno.EINVAL, f"it is {kind}")


def read_regular(path: Path, most: int = MAX_BYTES) -> bytes:
    """Return the content of ``path``. Raises as ``open_regular``, and OSError for more than ``most`` bytes."""
    with open_regular(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, "it is too large")
    return data


def digest_of(path: Path) -> str | None:
    """Return the SHA-256 of a file; None when it cannot be read."""
    digest = hashlib.sha256()
    try:
        if not path.is_file():
            return None
        with open_regular(path) as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    except OSError:
        return None
    return digest.hexdigest()
