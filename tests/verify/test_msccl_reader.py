"""The reader of MSCCL XML: what it takes in, and the name it gives to each lexical or textual defect."""

from __future__ import annotations

from pathlib import Path

import pytest
from program_builders import good_programs

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl import reader as msccl_xml
from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import load_program, read_program

FIXTURES = Path(__file__).parent / "fixtures"
GOOD = good_programs()
TEXT = (FIXTURES / "ring_allgather_2.xml").read_bytes()


@pytest.mark.parametrize("name", sorted(GOOD))
def test_the_fixtures_are_read_to_the_programs_they_were_written_from(name: str) -> None:
    read = load_program(FIXTURES / f"{name}.xml")
    assert read.program == GOOD[name]
    assert read.violations == () and read.portability == ()
    assert program_violations(read) == []


def test_readers_take_the_first_of_two_roots() -> None:
    alone, read = read_program(TEXT, "one"), read_program(TEXT + TEXT, "two")
    assert read.program == alone.program and read.violations == () and profile_violations(read) == []
    assert [(v.rule, "second root" in v.message) for v in read.warnings] == [("HX127", True)]
    assert alone.warnings == ()
    assert program_violations(read) == []
    unnumbered = read_program(TEXT + b'<algo><gpu id="0"></gpu><gpu></gpu></algo>', "two")
    assert [v.rule for v in unnumbered.violations] == ["HX201"]  # readers ask for the id to find their own
    assert read_program(TEXT + b"<plan><gpu></gpu></plan>", "two").violations == ()


def test_custom_collectives_are_executed_but_their_data_is_not_checked() -> None:
    text = TEXT.replace(b'coll="allgather"', b'coll="custom"')
    assert program_violations(read_program(text, "x")) == []
    racy = text.replace(b'dstoff="0" cnt="1"', b'dstoff="1" cnt="1"')
    assert program_violations(read_program(racy, "x"))


def test_hostile_input_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = b"<algo>" + b"<gpu>" * 100_000
    assert any(v.kind == "limit" for v in read_program(deep, "x").violations)
    bomb = b'<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c "&b;&b;">]><algo name="&c;"/>'
    assert any("DOCTYPE" in v.message for v in read_program(bomb, "x").violations)
    for text in (
        b"<" * 100_000,
        b'<a b="' * 50_000,
        b"<a " + b"x=" * 30_000,
        b"<a b='\"" * 30_000,
        b"x" * 10_000_000,
    ):
        assert read_program(text, "x").violations
    many = b"".join(b"t%d<!-- -->" % k for k in range(20_000))
    assert len(read_program(many, "x").violations) <= 60
    monkeypatch.setattr(msccl_xml, "MAX_FILE_BYTES", 10)
    assert [v.kind for v in read_program(TEXT, "x").violations] == ["limit"]


def test_paths_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for bad in (tmp_path, tmp_path / "missing.xml", tmp_path / ("x" * 5000), Path("/dev/zero"), Path("a\0b")):
        with pytest.raises(HetesynthError) as raised:
            load_program(bad)
        assert raised.value.code == "HS540" and raised.value.help
    monkeypatch.setattr(msccl_xml, "MAX_FILE_BYTES", 10)
    with pytest.raises(HetesynthError) as raised:
        load_program(FIXTURES / "allreduce_2.xml")
    assert raised.value.code == "HS540"
