"""The stored parser tables are those of the grammar, and nothing breaks without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.topology.language import tables
from hetesynth.topology.language.library import dsl_directory, library_names, library_path

TEXTS = sorted(Path(__file__).resolve().parents[2].glob("examples/*/*.dsl"))
LIBRARY = [path for path in map(library_path, library_names()) if path is not None]
STORED = dsl_directory() / tables.TABLES


def test_they_are_of_this_grammar() -> None:
    stamp = json.loads(STORED.read_text())["stamp"]
    assert stamp == tables.stamp(), "python -m hetesynth.topology.language.tables writes them anew"


@pytest.mark.parametrize("path", [*TEXTS, *LIBRARY], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_they_parse_as_the_grammar_does(path: Path) -> None:
    stored = tables._stored(STORED)
    assert stored is not None
    assert stored.parse(path.read_text()) == BUILT.parse(path.read_text())


BUILT = tables.built()


@pytest.mark.parametrize("content", [None, b"", b"\xff", b"[]", b'{"stamp": 1}', b'{"data": {}}'], ids=str)
def test_without_good_tables_the_grammar_is_read(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / tables.TABLES
    if content is not None:
        path.write_bytes(content)
    assert tables._stored(path) is None


def test_damaged_tables_with_the_right_stamp_are_refused(tmp_path: Path) -> None:
    stored = json.loads(STORED.read_text())
    for part in ("data", "memo"):
        damaged = {**stored, part: {}}
        (tmp_path / tables.TABLES).write_text(json.dumps(damaged))
        assert tables._stored(tmp_path / tables.TABLES) is None


def test_tables_of_another_grammar_are_refused(tmp_path: Path) -> None:
    stored = json.loads(STORED.read_text())
    (tmp_path / tables.TABLES).write_text(json.dumps({**stored, "stamp": "0" * 64}))
    assert tables._stored(tmp_path / tables.TABLES) is None
