"""The stored parser tables are those of the grammar, and nothing breaks without them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.topology.language import tables
from hetesynth.topology.language.library import dsl_directory, library_names, library_path

TEXTS = sorted(Path(__file__).resolve().parents[2].glob("examples/[fhtv]*/*.dsl"))
LIBRARY = [path for path in map(library_path, library_names()) if path is not None]
STORED = dsl_directory() / tables.TABLES


def test_they_are_of_this_grammar_and_parse_as_it_does() -> None:
    stamp = json.loads(STORED.read_text())["stamp"]
    assert stamp == tables.stamp(), "python -m hetesynth.topology.language.tables writes them anew"
    stored, built = tables.parser(), tables.built()
    for path in (*TEXTS, *LIBRARY):
        assert stored.parse(path.read_text()) == built.parse(path.read_text())


@pytest.mark.parametrize("damage", ["none", "no JSON", "no stamp", "another stamp", "no data", "no memo"])
def test_without_good_tables_the_grammar_is_read(
    tmp_path: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = json.loads(STORED.read_text())
    changed = {"another stamp": {"stamp": "0" * 64}, "no data": {"data": {}}, "no memo": {"memo": {}}}
    content = json.dumps({**stored, **changed.get(damage, {})}) if damage in changed else "[]"
    (tmp_path / tables.TABLES).write_text("\xff" if damage == "no JSON" else content)
    if damage == "none":
        (tmp_path / tables.TABLES).unlink()
    made: list[object] = []
    monkeypatch.setattr(tables, "dsl_directory", lambda: tmp_path)
    monkeypatch.setattr(tables, "built", lambda: made.append(damage))
    assert tables.parser() is None and made == [damage]
