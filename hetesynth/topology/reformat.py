"""Topology files -> the same files in the one layout, written whole or not at all.

In: paths. Out: the files whose layout differs, and their new text on disk unless only asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hetesynth.files.atomic import write_all
from hetesynth.topology.language.layout import formatted
from hetesynth.topology.language.source import STANDARD_INPUT, read_source


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
