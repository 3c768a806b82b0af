"""Where the language lives as data: the grammar and the node library of dsl/.

A wheel carries dsl/ as hetesynth/_dsl; an editable install has it at the top of the checkout.
Out: paths and texts. Knows nothing of parsing.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path

from hetesynth.errors import InternalError

_PACKAGE = Path(__file__).resolve().parents[2]


def dsl_directory() -> Path:
    """The folder with ``topology.lark`` and ``library/``: in the package first, else in the checkout."""
    for candidate in (_PACKAGE / "_dsl", _PACKAGE.parent / "dsl"):
        if (candidate / "topology.lark").is_file():
            return candidate
    raise InternalError(f"the language data (dsl/) is neither in {_PACKAGE} nor next to it: broken install")


def grammar_text() -> str:
    """The Lark grammar."""
    return (dsl_directory() / "topology.lark").read_text(encoding="utf-8")


def library_names() -> list[str]:
    """The names ``import`` knows, sorted."""
    return sorted(path.stem for path in (dsl_directory() / "library").glob("*.dsl"))


@functools.cache
def library_types() -> dict[str, str]:
    """The file of each node type and pod of the library, by the type's name."""
    declared = re.compile(r"^(?:node|pod)\s+(\w+)", re.MULTILINE)
    texts = {name: library_path(name) for name in library_names()}
    return {
        node: name
        for name, path in texts.items()
        if path is not None
        for node in declared.findall(path.read_text(encoding="utf-8"))
    }


def library_path(name: str) -> Path | None:
    """The library file behind ``import NAME``, or None."""
    return dsl_directory() / "library" / f"{name}.dsl" if name in library_names() else None
