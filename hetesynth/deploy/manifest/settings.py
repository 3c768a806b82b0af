"""What holds for a cell: values of [defaults], of its cluster and of rules, each with its place.

In: tables of a document. Out: ``Settings``, later ones laid over earlier ones; gates are laid over key by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.manifest.keys import DEFAULTS, GATES
from hetesynth.deploy.manifest.positions import Path

EXTENT = ("sizes", "chunks")
"""Keys of which a table that states one overrules both, and with sizes the size of chunks too."""


@dataclass(frozen=True, slots=True)
class Settings:
    """``stated``: (value, place) by key; those of gates as ``gates.steps``."""

    stated: dict[str, tuple[Any, Path]]

    def over(self, table: dict[str, Any], path: Path) -> Settings:
        """With what ``table``, which stands at ``path``, says laid over."""
        overruled = {*(EXTENT if set(EXTENT) & set(table) else ()), *(("chunk_size",) if "sizes" in table else ())}
        stated = {name: one for name, one in self.stated.items() if name not in overruled}
        for name, value in table.items():
            if name == "gates":
                stated |= {f"gates.{gate}": (one, (*path, name, gate)) for gate, one in value.items()}
                continue
            stated[name] = (value, (*path, name))
        return Settings(stated)

    def get(self, name: str) -> Any:
        """The value of ``name``, or its default."""
        if name in self.stated:
            return self.stated[name][0]
        table, _, gate = name.partition(".")
        key = GATES.key(gate) if table == "gates" and gate else DEFAULTS.key(name)
        return None if key is None else key.default

    def place(self, name: str, otherwise: Path) -> Path:
        """Where the value of ``name`` stands."""
        return self.stated[name][1] if name in self.stated else otherwise
