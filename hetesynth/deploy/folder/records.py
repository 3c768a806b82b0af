"""The record of a cell as it comes from a disk or another machine: every field that is read has its type.

In: a name, or a value that anybody may have made. Out: whether it is one, or a ValueError that says what is wrong.
Knows nothing of programs and schedules: whether what it says is true, the judges tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

from hetesynth.deploy.folder.programs import of_record
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

INSTEAD_OF = "instead_of"
"""Of the record of an older cell that stays: the record of what was made and is not deployed."""
MEASURED_ON = "measured_on"
"""Of the same record: the SHA-256 of the cluster that its times are of."""
MAX_TEXT = 4000
MOST = 2**63
MAX_SIZES = 64
"""Each is simulated anew; a build writes three."""
_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,255}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def is_plain_name(name: object) -> bool:
    """True for the name of a file beside others: one component of letters, digits, dots, ``-`` and ``_``."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_sha256(text: object) -> bool:
    """True for 64 lower-case hexadecimal digits."""
    return isinstance(text, str) and _SHA256.fullmatch(text) is not None


def check_record(record: object) -> None:
    """Raise ValueError unless ``record`` is one of a cell. Fields that nobody reads may be anything."""
    if not isinstance(record, dict):
        raise ValueError("it has no record")
    for name in _NEEDED - record.keys():
        raise ValueError(f"its record has no {name}")
    for name, holds in _FIELDS.items():
        if name in record and not holds(record[name]):
            raise ValueError(f"{name} in its record is not what a build writes")
    for row in record.get("programs", []):
        of_record(row)
    if INSTEAD_OF in record:
        if INSTEAD_OF in record[INSTEAD_OF]:
            raise ValueError(f"{INSTEAD_OF} in its record is not what a build writes")
        check_record(record[INSTEAD_OF])


def _is_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_TEXT and value.isprintable()


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < MOST


def _is_figure(value: object) -> bool:
    """A text, a flag, a finite number or none."""
    if isinstance(value, float):
        return math.isfinite(value)
    return (
        value is None or isinstance(value, bool) or (type(value) is int and abs(value) < MOST) or _is_text(value)
    )


def _is_size(row: object) -> bool:
    return (
        isinstance(row, dict)
        and all(_is_text(name) and _is_figure(value) for name, value in row.items())
        and _is_count(row.get("size"))
        and row["size"] > 0
        and all(isinstance(row.get(name), int | float | None) for name in _NUMBERS)
        and not any(isinstance(row.get(name), bool) for name in _NUMBERS)
    )


def _or_none(holds: Callable[[object], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or holds(value)


def _each(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


def _by_name(is_name: Callable[[object], bool], holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(is_name(k) and holds(v) for k, v in value.items())


_NUMBERS = (
    "program_us", "limit_us", "percent_of_limit", "percent_of_tree_limit", "library_us", "factor_over_library",
)  # fmt: skip
_NEEDED = {"collective", "ranks", "sizes", "files"}
_FIELDS: dict[str, Callable[[Any], bool]] = {
    **dict.fromkeys(("cell", "cluster", "extent", "strategy"), _is_text),
    **dict.fromkeys(("chunks", "steps", "channels"), _is_count),
    **dict.fromkeys(("root", "lower_bound"), _or_none(_is_count)),
    "collective": lambda value: value in COLLECTIVE_NAMES,
    "target": lambda value: isinstance(value, str) and value in TARGETS,
    "ranks": lambda value: _is_count(value) and value > 0,
    "candidate": _or_none(_is_text),
    "proven_optimal": lambda value: isinstance(value, bool),
    "calls": lambda value: _each(_is_count)(value) and len(value) == 2,
    "topology_sha256": is_sha256,
    MEASURED_ON: is_sha256,
    "sizes": lambda value: _each(_is_size)(value) and len(value) <= MAX_SIZES,
    "warnings": _each(_by_name(_is_text, lambda value: _is_figure(value) or _each(_is_text)(value))),
    "programs": _each(lambda row: isinstance(row, dict)),
    "options": lambda value: isinstance(value, dict),
    "versions": _by_name(_is_text, _is_text),
    "files": _by_name(is_plain_name, is_sha256),
    INSTEAD_OF: lambda value: isinstance(value, dict),
}
