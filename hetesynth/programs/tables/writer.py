"""Table -> JSON, a round a line: equal tables, equal bytes."""

import json

from hetesynth.model.program import BufferSlice
from hetesynth.model.table import TABLE_VERSION, Message, Table


def write_table(table: Table) -> bytes:
    """The JSON text of ``table``. A message is ``[src, dst, buffer, offset, buffer, offset, count]``, and where it
    is added buffer and offset of that; a copy ``[rank, buffer, offset, buffer, offset, count]``."""
    head: dict[str, object] = {
        "format": "hetesynth-table",
        "version": TABLE_VERSION,
        "name": table.name,
        "collective": table.collective,
        "root": table.root,
        "min_bytes": table.min_bytes,
        "max_bytes": table.max_bytes,
    }
    copies = [[c.rank, *_place(c.source), *_place(c.target), c.count] for c in table.copies]
    rounds = [[_message(m) for m in messages] for messages in table.rounds]
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in (("sizes", table.sizes), ("copies", copies), ("rounds", rounds)):
        body = ",\n".join(f"  {json.dumps(row, separators=(',', ':'))}" for row in rows)
        lines.append(f' "{key}": [\n{body}\n ]' if rows else f' "{key}": []')
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode("ascii")


def _place(place: BufferSlice) -> tuple[str, int]:
    return place.buffer, place.offset


def _message(m: Message) -> list[object]:
    added = () if m.added is None else _place(m.added)
    return [m.src, m.dst, *_place(m.source), *_place(m.landing), m.count, *added]
