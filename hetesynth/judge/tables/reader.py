"""Reads tables that anybody wrote: size, depth, types and ranges of numbers are checked. Does not judge."""

from pathlib import Path
from typing import Any

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.files.strict_json import JsonRefused, fail, integer, items, read_json
from hetesynth.model.collective import COLLECTIVE_NAMES, COLLECTIVES
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.table import TABLE_VERSION, Copy, Message, Table

MAX_BYTES = 256 * 1024 * 1024
MAX_NUMBER = 2**31 - 1
_BUFFERS: dict[str, Buffer] = {"i": "i", "o": "o", "s": "s"}
WAY_OUT = "give a table that `hetesynth synth --target torch` or `jax` wrote"


def load_table(path: Path) -> Table:
    """The table in file ``path``; HetesynthError HS540 when it cannot be read, else as ``read_table``."""
    try:
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HetesynthError(
            f"cannot read {str(path)!r}: {reason}", code="HS540", help="check the path"
        ) from error
    return read_table(data, str(path))


def read_table(data: bytes, filename: str = "<table>") -> Table:
    """The table in ``data``; HetesynthError HS533 when it is not one."""
    try:
        if len(data) > MAX_BYTES:
            fail(f"more than the {MAX_BYTES} bytes a table may have")
        values = read_json(data, 8, 20)
        if not isinstance(values, dict) or values.get("format") != "hetesynth-table":
            fail("it does not say 'hetesynth-table'")
        return _table(values)
    except JsonRefused as refusal:
        raise HetesynthError(f"{filename}: {refusal}", code="HS533", help=WAY_OUT) from refusal


def _table(values: dict[str, Any]) -> Table:
    version, name = values.get("version"), values.get("name")
    if type(version) is not int or version != TABLE_VERSION:
        fail(f"version {version!r}, and {TABLE_VERSION} is read")
    if not isinstance(name, str) or len(name) > 1000:
        fail("'name' is not a string of at most 1000 characters")
    collective = next((c for c in COLLECTIVE_NAMES if c == values.get("collective")), None)
    if collective is None:
        fail(f"'collective' is none of {', '.join(COLLECTIVE_NAMES)}")
    rows = items(values.get("sizes"), "'sizes'")
    if not 1 <= len(rows) <= 65536:
        fail(f"{len(rows)} ranks, not 1 to 65536")
    last, root = len(rows) - 1, values.get("root")
    if COLLECTIVES[collective].rooted:
        integer(root, "'root'", 0, last)
    elif root is not None:
        fail(f"'root' is stated, and {collective} has none")
    sizes = []
    for row in rows:
        i, o, s = (integer(n, "'sizes'", 0, MAX_NUMBER) for n in items(row, "'sizes'", 3))
        sizes.append((i, o, s))
    copies = []
    for row in items(values.get("copies"), "'copies'"):
        rank, *places, count = items(row, "a copy", 6)
        copies.append(
            Copy(
                _rank(rank, last), _place(places[:2]), _place(places[2:]), integer(count, "a count", 1, MAX_NUMBER)
            )
        )
    rounds = [
        tuple(_message(message, last) for message in items(messages, "a round"))
        for messages in items(values.get("rounds"), "'rounds'")
    ]
    low, high = (integer(values.get(key), f"{key!r}", 0, 2**50) for key in ("min_bytes", "max_bytes"))
    if 0 < high < low:
        fail(f"'min_bytes' is {low}, 'max_bytes' {high}")
    parts = tuple(sizes), tuple(copies), tuple(rounds)
    return Table(name, collective, root, *parts, low, high)


def _rank(value: object, last: int) -> int:
    return integer(value, "a rank", 0, last)


def _place(values: list[Any]) -> BufferSlice:
    buffer, offset = values
    if not isinstance(buffer, str) or buffer not in _BUFFERS:
        fail(f"{repr(buffer)[:40]} is no buffer: i, o or s")
    return BufferSlice(_BUFFERS[buffer], integer(offset, "an offset", 0, MAX_NUMBER))


def _message(value: object, last: int) -> Message:
    parts = items(value, "a message")
    if len(parts) not in (7, 9):
        fail(f"a message of {len(parts)} values, not 7 or 9")
    added = _place(parts[7:]) if len(parts) == 9 else None
    src, dst = _rank(parts[0], last), _rank(parts[1], last)
    count = integer(parts[6], "a count", 1, MAX_NUMBER)
    return Message(src, dst, _place(parts[2:4]), _place(parts[4:6]), count, added)
