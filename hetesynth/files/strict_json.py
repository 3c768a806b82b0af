"""JSON that anybody wrote: bytes in, values out; limits on depth and numbers, and no field twice in an object."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import partial
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
    if _depth(text) > limits.max_depth:
        raise JsonRefused(f"brackets are nested more than {limits.max_depth} deep")

    parse_int = None if limits.max_digits is None else partial(_integer, limits.max_digits)
    try:
        return json.loads(
            text, parse_constant=_constant, parse_float=_float, parse_int=parse_int, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise JsonRefused(f"not JSON: {str(error)[:200]}") from error


def _constant(name: str) -> NoReturn:
    raise JsonRefused(f"{name} is not a JSON number")


def _integer(max_digits: int, digits: str) -> int:
    if len(digits) > max_digits + 1:  # a sign stands before them
        raise JsonRefused(f"{digits[:40]}... is too large a number")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise JsonRefused(f"{digits[:40]} is too large a number")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise JsonRefused("an object names one field twice")
    return values


def _depth(text: str) -> int:
    """How deep brackets nest, those in strings aside."""
    depth = deepest = 0
    for match in _BRACKETS.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif token in "]}":
            depth -= 1
    return deepest
