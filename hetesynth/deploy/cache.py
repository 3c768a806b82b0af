"""Results by their keys in a folder, which builds on one machine or many may share."""

import errno
import hashlib
import io
import json
import os
import stat
import struct
import zipfile
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonRefused, read_json
from hetesynth.files.temporaries import PART, is_abandoned, remove, temporary

RECORD, DIGEST = "record.json", "sha256"
MAX_BYTES, MAX_FILES, MAX_DEPTH = 1 << 30, 1000, 32
_EPOCH = (1980, 1, 1, 0, 0, 0)
ENVIRONMENT = "HETESYNTH_CACHE"


def as_kept(record: dict[str, Any]) -> dict[str, Any]:
    """``record`` as it comes out of the cache: fields in order, lists for tuples."""
    values: dict[str, Any] = json.loads(json.dumps(record, sort_keys=True))
    return values


@dataclass(frozen=True, slots=True)
class CellResult:
    """The result of a job. ``files``: by name, without folders, programs first. ``record``: ``as_kept``."""

    key: str
    files: dict[str, bytes]
    record: dict[str, Any]

    def packed(self) -> bytes:
        """Return the result as one sequence of bytes, the same for the same result."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            record = json.dumps({"key": self.key, **self.record}, sort_keys=True).encode()
            for name, data in {**self.files, RECORD: record}.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
        body = out.getvalue()
        return hashlib.sha256(body).hexdigest().encode() + body


def unpacked(data: bytes, key: str) -> CellResult | None:
    """Return the result for ``key`` in ``data``, which anybody may have written; None where it is damaged, of
    another key, or has names, types or digests that no result has. ``objections`` tells whether it is right."""
    stated, body = data[:64], data[64:]
    if hashlib.sha256(body).hexdigest().encode() != stated:
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            large = len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_BYTES
            if large or any(entry.compress_type != zipfile.ZIP_DEFLATED for entry in entries):
                return None
            files = {entry.filename: archive.read(entry) for entry in entries}
        record = read_json(files.pop(RECORD), MAX_DEPTH)
        if len(files) != len(entries) - 1 or not isinstance(record, dict) or record.pop("key", None) != key:
            return None
        DeployedCell(key, key, key, record, files).check()
    except (
        zipfile.BadZipFile,
        zlib.error,
        struct.error,
        RuntimeError,
        EOFError,
        JsonRefused,
        KeyError,
        ValueError,
    ):
        return None  # no archive, one with a password or of another kind, no record
    return CellResult(key, files, record)


def default_cache() -> Path:
    """Return the user's cache folder: $HETESYNTH_CACHE, or one below $XDG_CACHE_HOME or ~/.cache."""
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
        """Return the path of the entry for ``key``."""
        return self.folder / key[:2] / f"{key}.cell"

    def get(self, key: str) -> CellResult | None:
        """Return the result for ``key``; None where it is missing or damaged."""
        try:
            with open_regular(self.path(key)) as stream:
                data = stream.read(MAX_BYTES + 1)
        except OSError:
            return None
        return unpacked(data, key) if len(data) <= MAX_BYTES else None

    def check(self) -> None:
        """Raise HetesynthError HS881 where anybody may write into the folder."""
        try:
            mode = self.folder.stat().st_mode
        except OSError:
            return
        if mode & stat.S_IWOTH:
            message = f"anybody on this machine may write into the cache {self.folder}"
            help_ = f"chmod o-w {self.folder}, or name another folder with --cache"
            raise HetesynthError(message, code="HS881", help=help_)

    @property
    def _shared(self) -> int:
        """The group's permissions on the folder, which entries get too."""
        return self.folder.stat().st_mode & 0o070

    def put(self, result: CellResult) -> None:
        """Keep ``result``. Raises HetesynthError HS850, and changes nothing else, if it cannot be written."""
        path = self.path(result.key)
        part = temporary(path)
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            self.folder.mkdir(mode=0o700, exist_ok=True)  # one that is there keeps its permissions
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
            message = f"cannot write into the cache {self.folder}: {error.strerror or error}"
            help_ = "make room or name another folder with --cache; what is there stays"
            raise HetesynthError(message, code="HS850", help=help_) from error

    def tidy(self) -> None:
        """Remove temporary files that killed writers left long ago."""
        for path in self.folder.glob(f"??/.*{PART}"):
            if not path.parent.is_symlink() and is_abandoned(path, alone=False):
                remove(path)
