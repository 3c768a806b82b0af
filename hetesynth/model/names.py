"""Names that tell things apart."""

from __future__ import annotations

from collections.abc import Iterable


def told_apart(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, the second and later of one name numbered: ``a->b``, ``a->b (2)``."""
    used: set[str] = set()
    apart: list[str] = []
    for name in names:
        fresh, number = name, 1
        while fresh in used:
            number += 1
            fresh = f"{name} ({number})"
        used.add(fresh)
        apart.append(fresh)
    return tuple(apart)
