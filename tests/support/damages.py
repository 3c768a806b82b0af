"""Documents with one damage each, and the digest of what a judge says of all that are damaged in one place.

The damages are made by position, not by chance, so that a table of verdicts on them stays what it is.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

Damage = tuple[str, str, bytes]  # place, what was done there, the document

NUMBERS = (
    "",
    "-1",
    "-2",
    "0",
    "1",
    "2",
    "3",
    "9",
    "70000",
    "2147483647",
    "2147483648",
    "4294967298",
    "0x80000000",
    "-0x10",
    "-01",
    "9" * 20,
    "+1",
    " 1",
    "01",
    "1x",
    "x",
    "i",
    "o",
    "s",
    "cpy",
    "nop",
    "r",
    "é",
    "&lt;",
)
WORDS = {
    "name": ("", "a b", "n" * 200),
    "proto": ("", "LL", "LL128", "ll", "Simple "),
    "coll": ("", "allgather", "alltoall", "broadcast", "custom", "sum", "AllReduce"),
}
ODD = (
    "<",
    ">",
    "&",
    '"',
    "=",
    "/",
    "\0",
    "\x1b",
    "é",
    "\ufeff",
    "<!--",
    "-->",
    "<!DOCTYPE a [",
    "<?xml?>",
    "]]>",
    "\n",
)
VALUES: tuple[Any, ...] = (None, True, -1, 0, 1, 2, 3, 9, 70000, 1 << 33, 1.5, "", "x", "memory", "i", [], {})


def damaged_xml(text: str, *, last: bool = True) -> Iterator[Damage]:
    """``text`` with every attribute of the first tag of a kind changed, of the ``last`` too, and the tags."""
    kinds: dict[str, list[re.Match[str]]] = defaultdict(list)
    for tag in re.finditer(r"</?(\w+)[^>]*>", text):
        kinds[tag[0].split()[0]].append(tag)
    for kind, found in kinds.items():
        for which, tag in {"first": found[0], "last": found[-1]}.items():
            if which == "last" and (len(found) == 1 or not last):
                continue
            where = f"{which} {kind.rstrip('>')[1:]}"
            if not kind.startswith("</"):
                yield from _attributes(text, tag, where)
            before, after = text[: tag.start()], text[tag.end() :]
            for what, instead in {
                "gone": "",
                "twice": tag[0] * 2,
                "capitals": tag[0].upper(),
                "text": tag[0] + "words",
                "unknown": "<what a='1'/>" + tag[0],
                "comment": f"<!-- {tag[0]} -->",
            }.items():
                yield where, what, (before + instead + after).encode()
        for name in dict.fromkeys(re.findall(r' (\w+)="', found[0][0])):
            for value in ("x", "0x1", "9"):
                every = re.sub(rf'(<{kind[1:]} [^>]*?\b{name}=")[^"]*', rf"\g<1>{value}", text)
                yield f"every {kind[1:]} {name}", value, every.encode()
    if last:
        yield from _characters(text)


def _attributes(text: str, tag: re.Match[str], where: str) -> Iterator[Damage]:
    for attribute in re.finditer(r' (\w+)="([^"]*)"', tag[0]):
        before = text[: tag.start() + attribute.start()]
        after = text[tag.start() + attribute.end() :]
        name, value = attribute[1], attribute[2]
        others = [f' {name}="{other}"' for other in WORDS.get(name, NUMBERS) if other != value]
        spellings = [
            "",
            attribute[0] * 2,
            f' x{name}="{value}"',
            f" {name}='{value}'",
            f" {name}={value}",
            f' {name} = "{value}"',
        ]
        for other in (*others, *spellings):
            yield f"{where} {name}", other, (before + other + after).encode()


def _characters(text: str, places: int = 7) -> Iterator[Damage]:
    for number in range(places):
        at = (len(text) * (2 * number + 1)) // (2 * places)
        yield "cut", str(at), text[:at].encode()
        for odd in ODD:
            yield "character", f"{odd!r} at {at}", (text[:at] + odd + text[at:]).encode()
    data = text.encode()
    for what, whole in {
        "no UTF-8": data[:40] + b"\xff" + data[40:],
        "UTF-16": text.encode("utf-16"),
        "mark": b"\xef\xbb\xbf" + data,
        "returns": data.replace(b"\n", b"\r\n"),
        "declared": b'<?xml version="1.0"?>\n' + data,
        "nothing": b"",
        "twice": data * 2,
        "another root": b"<what/>",
        "a comment": b"<!-- a -->",
        "a step alone": b"<step/>",
        "a block alone": b"<algo><tb/></algo>",
    }.items():
        yield "whole", what, whole


def damaged_json(document: Any) -> Iterator[Damage]:
    """``document`` with the first and last value of every kind of place changed, gone, twice or exchanged."""
    places: dict[str, list[tuple[str | int, ...]]] = defaultdict(list)
    _walk(document, (), places)
    for place, paths in places.items():
        for path in dict.fromkeys((paths[0], paths[-1])):
            value = _at(document, path)
            near = (value - 1, value + 1) if isinstance(value, int) and not isinstance(value, bool) else ()
            for other in (*VALUES, *near):
                if type(other) is not type(value) or other != value:
                    yield (
                        place,
                        f"{path}: {other!r}",
                        _changed(document, path, partial(_put, other)),
                    )
            yield place, f"{path} gone", _changed(document, path, lambda at, key: at.pop(key))
            if isinstance(path[-1], int):
                yield place, f"{path} twice", _changed(document, path, lambda at, key: at.insert(key, at[key]))
                yield place, f"{path} last", _changed(document, path, lambda at, key: at.append(at.pop(key)))
            else:
                yield (
                    place,
                    f"{path} renamed",
                    _changed(document, path, _renamed),
                )


def _walk(value: Any, path: tuple[str | int, ...], places: dict[str, list[tuple[str | int, ...]]]) -> None:
    if path:
        places["/".join("*" if isinstance(key, int) else key for key in path)].append(path)
    if isinstance(value, dict):
        for key, inner in value.items():
            _walk(inner, (*path, key), places)
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            _walk(inner, (*path, number), places)


def _at(document: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def _put(value: Any, at: Any, key: Any) -> None:
    at[key] = value


def _renamed(at: Any, key: Any) -> None:
    at["x"] = at.pop(key)


def _changed(document: Any, path: tuple[str | int, ...], change: Callable[[Any, Any], object]) -> bytes:
    values = copy.deepcopy(document)
    change(_at(values, path[:-1]), path[-1])
    return json.dumps(values).encode()


def digests(damages: Iterable[tuple[str, str, Any]], verdict: Callable[[Any], str]) -> bytes:
    """A line for each place: how many documents were damaged there, and the digest of all that is said of them."""
    said: dict[str, list[str]] = defaultdict(list)
    for place, what, data in damages:
        said[place].append(f"{what}: {verdict(data)}")
    lines = [
        f"{hashlib.sha256(chr(10).join(verdicts).encode()).hexdigest()[:16]} {len(verdicts):4} {place}"
        for place, verdicts in said.items()
    ]
    return ("\n".join(lines) + "\n").encode()


LIKE: tuple[tuple[str, ...], ...] = (("memory", "port"), ("i", "o", "s"), ("Simple", "LL"))


def damaged_values(
    value: Any, words: tuple[tuple[str, ...], ...] = LIKE, place: str = ""
) -> Iterator[tuple[str, str, Any]]:
    """A record of records and tuples with one value changed: the first and the last of every tuple, whole tuples,
    numbers beside and far from theirs, words of a set of ``words`` by another one of it."""
    if is_dataclass(value) and not isinstance(value, type):
        for declared in fields(value):
            inner = damaged_values(getattr(value, declared.name), words, f"{place}/{declared.name}")
            for where, what, changed in inner:
                with suppress(ValueError):
                    yield where, what, replace(value, **{declared.name: changed})
    elif isinstance(value, tuple):
        for k in sorted({0, len(value) // 2, len(value) - 1} & set(range(len(value)))):
            for where, what, changed in damaged_values(value[k], words, f"{place}/*"):
                yield where, f"{k}: {what}", (*value[:k], changed, *value[k + 1 :])
        for k in range(len(value)):
            yield place, f"without {k}", value[:k] + value[k + 1 :]
            yield place, f"{k} twice", value[: k + 1] + value[k:]
            yield place, f"{k} first", (value[k], *value[:k], *value[k + 1 :])
    elif isinstance(value, bool):
        yield place, str(not value), not value
    elif isinstance(value, int):
        for other in dict.fromkeys((value - 1, value + 1, 0, 1, 2, 9, 70000, 1 << 33)):
            if other != value and other >= 0:
                yield place, str(other), other
    elif isinstance(value, str):
        for word in next((w for w in words if value in w), ("", "x")):
            if word != value:
                yield place, repr(word), word
