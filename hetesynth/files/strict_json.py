"""JSON that anybody wrote: bytes in, values out; limits on depth and numbers, and no field twice in an object."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, NoReturn

_BRACKETS = re.compile(
    r'[\[\]{}]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL
)  # linear: an open string runs to the end


class JsonRefused(Exception):
    """Why a text is refused, in words."""


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """What a text may have. ``max_digits``: of an integer; None: as many as Python converts."""

    max_depth: int
    max_digits: int | None = None


def read_json(data: bytes, limits: JsonLimits) -> Any:
    """The value in ``data``; JsonRefused where it is no JSON in UTF-8 or beyond ``limits``."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"not a text: {error.reason} at byte {error.start}") from error
    depth = 0
    for match in _BRACKETS.finditer(text):  # those in strings aside
        depth += 1 if match[0] in "[{" else -1 if match[0] in "]}" else 0
        if depth > limits.max_depth:
            raise JsonRefused(f"brackets are nested more than {limits.max_depth} deep")

    def integer(digits: str) -> int:
        if limits.max_digits is not None and len(digits) > limits.max_digits + 1:  # a sign stands before them
            _refuse(f"{digits[:40]}... is too large a number")
        return int(digits)

    try:
        return json.loads(
            text,
            parse_constant=lambda name: _refuse(f"{name} is not a JSON number"),
            parse_float=lambda digits: (
                value if math.isfinite(value := float(digits)) else _refuse(f"{digits[:40]} is too large a number")
            ),
            parse_int=None if limits.max_digits is None else integer,
            object_pairs_hook=lambda pairs: (
                values if len(values := dict(pairs)) == len(pairs) else _refuse("an object names one field twice")
            ),
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise JsonRefused(f"not JSON: {str(error)[:200]}") from error


def _refuse(why: str) -> NoReturn:
    raise JsonRefused(why)
