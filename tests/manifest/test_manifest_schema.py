"""The published schema is that of the reader: the same keys, the same limits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hetesynth.deploy.manifest.keys import MANIFEST, Key, Several, Table, Tables, Text
from hetesynth.deploy.manifest.reader import NoRange, read_manifest, size_range
from hetesynth.deploy.manifest.schema import schema, schema_text
from hetesynth.errors import HetesynthError

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "hetesynth.schema.json"
WRONG = Path(__file__).resolve().parent / "wrong"
RIGHT = Path(__file__).resolve().parent / "right"


def test_the_published_schema_is_the_one_of_the_table(golden: Callable[[Path, bytes], None]) -> None:
    golden(PUBLISHED, schema_text().encode())


def keys(table: Table) -> Iterator[Key]:
    for key in table.keys:
        yield key
        inner = key.kind.of if isinstance(key.kind, Tables) else key.kind
        if isinstance(inner, Table):
            yield from keys(inner)


def test_every_key_has_a_sentence_and_examples_of_its_kind() -> None:
    for key in keys(MANIFEST):
        assert key.meaning.endswith((".", "]")), key.name
        assert key.examples or isinstance(key.kind, Table | Tables), key.name
        for example in key.examples:
            assert fits(example, schema_of(key)), (key.name, example)


def schema_of(key: Key) -> dict[str, Any]:
    from hetesynth.deploy.manifest.schema import _kind

    return _kind(key.kind)


def fits(value: object, rules: dict[str, Any]) -> bool:
    """Whether ``value`` keeps ``rules``: of JSON Schema what this one uses, judged without any other code."""
    types = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    right = isinstance(value, types[rules["type"]]) and (isinstance(value, bool) == (rules["type"] == "boolean"))
    if not right:
        return False
    if isinstance(value, str):
        return (
            ("enum" not in rules or value in rules["enum"])
            and re.search(rules.get("pattern", ""), value) is not None
            and rules.get("minLength", 0) <= len(value) <= rules.get("maxLength", 1 << 30)
        )
    if isinstance(value, list):
        count = rules["minItems"] <= len(value) <= rules["maxItems"]
        unique = not rules.get("uniqueItems") or len(value) == len({json.dumps(one) for one in value})
        return count and unique and all(fits(one, rules["items"]) for one in value)
    if isinstance(value, dict):
        return set(rules.get("required", ())) <= set(value) <= set(rules["properties"]) and all(
            fits(one, rules["properties"][name]) for name, one in value.items()
        )
    if isinstance(value, int | float) and not isinstance(value, bool):
        above = value > rules["exclusiveMinimum"] if "exclusiveMinimum" in rules else value >= rules["minimum"]
        return above and value <= rules["maximum"]
    return True


@pytest.mark.parametrize("name", sorted(path.name for path in RIGHT.glob("*.toml")))
def test_what_is_read_keeps_the_schema(name: str) -> None:
    from hetesynth.deploy.manifest.document import tomllib

    values = tomllib.loads((RIGHT / name).read_text())
    assert read_manifest(RIGHT / name).cells
    assert fits(values, schema())


TOLD_BY_BOTH = [
    *("unknown_keys", "wrong_types", "out_of_range", "unknown_target", "size_without_unit", "layout_field"),
    *("other_version", "no_topology", "named_twice", "empty_lists"),
]


@pytest.mark.parametrize("name", TOLD_BY_BOTH)
def test_what_an_editor_can_tell_the_schema_tells(name: str) -> None:
    from hetesynth.deploy.manifest.document import tomllib

    path = WRONG / f"{name}.toml"
    assert not fits(tomllib.loads(path.read_text()), schema())
    with pytest.raises(HetesynthError):
        read_manifest(path)


TEXTS = [
    "1MB..2MB",
    "..2MB",
    "2MB..",
    " 1.5 MB .. 2 GiB ",
    "1KiB",
    "",
    "..",
    "64",
    "1mb",
    "1MB...2MB",
    "-1MB",
    "1,5MB",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_pattern_of_ranges_is_what_is_read(text: str) -> None:
    kinds = [key.kind.of for key in keys(MANIFEST) if key.name == "sizes" and isinstance(key.kind, Several)]
    assert kinds and all(isinstance(kind, Text) for kind in kinds)
    try:
        size_range(text)
        read = True
    except NoRange:
        read = False
    assert {re.search(kind.pattern, text) is not None for kind in kinds} == {read}
