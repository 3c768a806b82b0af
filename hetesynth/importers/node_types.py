"""The node library by name: which file has a type, and whether a word is one."""

from __future__ import annotations

import re

from hetesynth.errors import HetesynthError
from hetesynth.frontend.language import library_names, library_path

_NODE = re.compile(r"^node\s+([A-Za-z_][A-Za-z0-9_]*)", re.MULTILINE)


def node_types() -> dict[str, str]:
    """Every type of the library with the name of its file."""
    paths = {name: library_path(name) for name in library_names()}
    texts = {name: path.read_text(encoding="utf-8") for name, path in paths.items() if path is not None}
    return {node: name for name, text in texts.items() for node in _NODE.findall(text)}


def file_of(node_type: str) -> str:
    """The library file with ``node_type``; HetesynthError HS734 where none has it."""
    types = node_types()
    if node_type not in types:
        raise HetesynthError(
            f"--node-type: the node library has no type {node_type[:40]!r}",
            code="HS734",
            help=f"one of: {', '.join(sorted(types))}",
        )
    return types[node_type]


def gpus_of(node_type: str) -> int:
    """How many GPUs a type of the library has."""
    from hetesynth.frontend import parse_topology

    file = file_of(node_type)
    text = f"import {file}\ncluster c {{ instance a = {node_type} }}"
    return parse_topology(text, f"the library's {node_type}").ranks
