"""How thresholds are declared: a value, its unit and the measurement that justifies it; and records of them.

Every command loads the policy, so a section is a record whose methods are written here once: those that
``dataclass`` makes for each class take some 30 ms for all sections.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, field, fields
from typing import Any, TypeVar

T = TypeVar("T")


def threshold(value: T, unit: str, why: str) -> T:
    """A field of a policy. ``unit``: of ``value``; ``why``: what it decides and what was measured, or that nothing
    was."""
    declared: T = field(default=value, metadata={"unit": unit, "why": why})
    return declared


class Record:
    """A frozen record; its classes are dataclasses without methods of their own. Values are given by name."""

    def __init__(self, **values: Any) -> None:
        for declared in fields(self):  # type: ignore[arg-type]
            default = declared.default if declared.default_factory is MISSING else declared.default_factory()
            self.__dict__[declared.name] = values.pop(declared.name, default)
        if values:
            raise TypeError(f"{type(self).__name__} has no field {', '.join(values)}")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    def __hash__(self) -> int:
        return hash(tuple(self.__dict__.values()))
