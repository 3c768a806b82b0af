"""A topology file -> the same cluster in the block form or JSON, or the same file in the one layout.

In: paths. Out: text; files in another layout are written whole or not at all. JSON holds the cluster as it was
worked out, every number exact.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hetesynth.files.atomic import write_all
from hetesynth.model.topology import Topology
from hetesynth.topology.language.conversion import to_block
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.layout import formatted
from hetesynth.topology.language.source import STANDARD_INPUT, read_source

FORMS = ("block", "json")
VERSION = 1


def converted(path: Path, form: str) -> str:
    """The file at ``path`` in ``form``, one of ``FORMS``."""
    source = read_source(path)
    if form == "json":
        return json.dumps(topology_document(topology_of(source)), indent=1) + "\n"
    return to_block(source)


def topology_document(topology: Topology) -> dict[str, Any]:
    """Return ``topology`` as JSON: bytes per second and seconds as texts, exact fractions such as `7/10`."""
    document = {"format": "hetesynth topology", "version": VERSION, **asdict(topology)}
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain


def reformat(paths: Sequence[Path], *, check: bool) -> list[Path]:
    """The files that have another layout; unless ``check`` all of them have the new one afterwards."""
    texts = {path: formatted(read_source(path)).encode() for path in dict.fromkeys(paths)}
    changed = {path: text for path, text in texts.items() if path.read_bytes() != text}
    if not check:
        write_all(changed)
    return list(changed)


def reformatted_input() -> tuple[str, bool]:
    """The topology on standard input in the one layout, and whether it had another."""
    source = read_source(STANDARD_INPUT)
    text = formatted(source)
    return text, text != (source.written or source.text)
