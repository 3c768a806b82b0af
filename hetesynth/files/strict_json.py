"""JSON that anybody wrote: values within limits, no field twice in an object; their types checked at their use."""

import json
import math
import re
from typing import Any, NoReturn

_BRACKETS = re.compile(
    r'[\[\]{}]|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL
)  # linear: an open string runs to the end


class JsonRefused(Exception):
    """An error for text that is not the expected document; its message says why."""


def read_json(data: bytes, max_depth: int, max_digits: int | None = None) -> Any:
    """Return the value in ``data``; JsonRefused if that is no JSON in UTF-8 or nested deeper than ``max_depth``.
    ``max_digits``: the most digits of an integer; None: as many as Python converts."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise JsonRefused(f"not a text: {error.reason} at byte {error.start}") from error
    depth = 0
    for match in _BRACKETS.finditer(text):  # those in strings aside
        depth += 1 if match[0] in "[{" else -1 if match[0] in "]}" else 0
        if depth > max_depth:
            raise JsonRefused(f"brackets are nested more than {max_depth} deep")

    def limited(digits: str) -> int:
        if max_digits is not None and len(digits) > max_digits + 1:  # a sign stands before them
            fail(f"{digits[:40]}... is too large a number")
        return int(digits)

    try:
        return json.loads(
            text,
            parse_constant=lambda name: fail(f"{name} is not a JSON number"),
            parse_float=lambda digits: (
                value if math.isfinite(value := float(digits)) else fail(f"{digits[:40]} is too large a number")
            ),
            parse_int=None if max_digits is None else limited,
            object_pairs_hook=lambda pairs: (
                values if len(values := dict(pairs)) == len(pairs) else fail("an object names one field twice")
            ),
        )
    except json.JSONDecodeError as error:
        raise JsonRefused(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise JsonRefused(f"not JSON: {str(error)[:200]}") from error


def fail(why: str) -> NoReturn:
    """Raise JsonRefused(``why``)."""
    raise JsonRefused(why)


def items(value: object, where: str, length: int | None = None) -> list[Any]:
    """Return ``value`` if it is a list (of ``length`` items); else raise JsonRefused."""
    if not isinstance(value, list) or (length is not None and len(value) != length):
        fail(f"{where} is not a list" + ("" if length is None else f" of {length}"))
    return value


def integer(value: object, where: str, low: int, high: int) -> int:
    """Return ``value`` if it is an integer from ``low`` to ``high``; else raise JsonRefused."""
    if type(value) is not int or not low <= value <= high:
        fail(f"{where}: {repr(value)[:40]} is not an integer from {low} to {high}")
    return value


def integers(value: object, where: str, high: int) -> tuple[int, ...]:
    """Return ``value`` as a tuple if it is a list of integers from 0 to ``high``; else raise JsonRefused."""
    return tuple(integer(v, where, 0, high) for v in items(value, where))
