"""Names that tell things apart."""

from __future__ import annotations

from collections.abc import Iterable


def told_apart(names: Iterable[str]) -> tuple[str, ...]:
    """The names in their order, the second and later of one name numbered: ``a->b``, ``a->b (2)``."""
    taken: set[str] = set()
    apart: list[str] = []
    for name in names:
        fresh, number = name, 1
        while fresh in taken:
            number += 1
            fresh = f"{name} ({number})"
        taken.add(fresh)
        apart.append(fresh)
    return tuple(apart)
