"""What making a cell gives: files, and what is known of them.

In: bytes by name, a record. Out: a ``CellResult``, one sequence of bytes in the cache and back. The same result is
always the same bytes, and a damaged one is told from a whole one.
"""

from __future__ import annotations

import hashlib
import io
import json
import struct
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json

RECORD, DIGEST = "record.json", "sha256"
MAX_BYTES, MAX_FILES, MAX_DEPTH = 1 << 30, 1000, 32
_EPOCH = (1980, 1, 1, 0, 0, 0)


def as_kept(record: dict[str, Any]) -> dict[str, Any]:
    """``record`` as it comes out of the cache: fields in order, lists for tuples."""
    values: dict[str, Any] = json.loads(json.dumps(record, sort_keys=True))
    return values


@dataclass(frozen=True, slots=True)
class CellResult:
    """``files``: by their names beside each other, programs first. ``record``: figures, ``as_kept``."""

    key: str
    files: dict[str, bytes]
    record: dict[str, Any]

    def packed(self) -> bytes:
        """One sequence of bytes, the same for the same result."""
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            record = json.dumps({"key": self.key, **self.record}, sort_keys=True).encode()
            for name, data in {**self.files, RECORD: record}.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
        body = out.getvalue()
        return hashlib.sha256(body).hexdigest().encode() + body


def unpacked(data: bytes, key: str) -> CellResult | None:
    """The result for ``key`` in ``data``, which anybody may have written; None where it is damaged, another one,
    or its names, types and digests are not those of a result. Whether it is right, ``objections`` tells."""
    stated, body = data[:64], data[64:]
    if hashlib.sha256(body).hexdigest().encode() != stated:
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES or sum(entry.file_size for entry in entries) > MAX_BYTES:
                return None
            if any(entry.compress_type != zipfile.ZIP_DEFLATED for entry in entries):
                return None
            files = {entry.filename: archive.read(entry) for entry in entries}
        record = read_json(files.pop(RECORD), JsonLimits(MAX_DEPTH))
        if len(files) != len(entries) - 1 or not isinstance(record, dict) or record.pop("key", None) != key:
            return None
        DeployedCell(key, key, key, record, files).check()
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError, JsonRefused):
        return None  # no archive, one with a password or of another kind, no record
    except (KeyError, ValueError, struct.error):
        return None
    return CellResult(key, files, record)
