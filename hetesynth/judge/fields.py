"""Values of JSON documents that anybody wrote: checked where they are used, and refused in words."""

from __future__ import annotations

from typing import Any, NoReturn


class NotReadable(Exception):
    """The text is no such document; says why."""


def fail(what: str) -> NoReturn:
    """Raise NotReadable(``what``)."""
    raise NotReadable(what)


def items(value: object, where: str, length: int | None = None) -> list[Any]:
    """``value``, a list (of so many)."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        fail(f"{where} is not a list" + ("" if length is None else f" of {length}"))
    return value


def integer(value: object, where: str, low: int, high: int) -> int:
    """``value``, an integer in a range."""
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        fail(f"{where}: {repr(value)[:40]} is not an integer from {low} to {high}")
    return value


def integers(value: object, where: str, high: int) -> tuple[int, ...]:
    """``value``, a list of integers from 0."""
    return tuple(integer(v, where, 0, high) for v in items(value, where))
