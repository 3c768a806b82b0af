"""The published schema is that of the reader: the same keys, the same limits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hetesynth.deploy.manifest.document import Document, _value
from hetesynth.deploy.manifest.keys import MANIFEST, RANGE, schema_text
from hetesynth.deploy.manifest.reader import size_range
from hetesynth.topology.language.findings import Findings

ROOT = Path(__file__).resolve().parents[2]


def test_the_published_schema_is_the_one_of_the_table(golden: Callable[[Path, bytes], None]) -> None:
    golden(ROOT / "docs" / "hetesynth.schema.json", schema_text().encode())


def keys(rules: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    inner = rules.get("items", rules)
    for name, key in inner.get("properties", {}).items():
        yield name, key
        yield from keys(key)


def test_every_key_has_a_sentence_and_examples_that_are_read() -> None:
    for name, key in keys(MANIFEST):
        assert key["description"].endswith((".", "]")), name
        assert "examples" in key or "properties" in key or "properties" in key["items"], name
        for example in key.get("examples", ()):
            document = Document("f", "", Findings())
            assert _value(example, key, (name,), document) == example
            assert not document.findings, (name, example)


TEXTS = ["1MB..2MB", "..2MB", "2MB..", " 1.5 MB .. 2 GiB ", "1KiB", "", "..", "64", "1mb", "1MB...2MB", "-1MB"]


@pytest.mark.parametrize("text", TEXTS)
def test_the_pattern_of_ranges_is_what_is_read(text: str) -> None:
    try:
        size_range(text)
        read = True
    except ValueError:
        read = False
    assert (re.search(RANGE, text) is not None) == read
