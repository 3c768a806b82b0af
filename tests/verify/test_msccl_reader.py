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


def test_findings_name_gpu_thread_block_step_and_line() -> None:
    text = TEXT.replace(
        b's" srcbuf="i" srcoff="0" dstbuf="o" dstoff="1"', b's" srcbuf="i" srcoff="9" dstbuf="o" dstoff="1"'
    )
    line = next(k for k, row in enumerate(text.splitlines(), 1) if b'srcoff="9"' in row)
    found = next(v for v in program_violations(read_program(text, "x")) if v.kind == "range")
    assert found.line is not None and (found.line, found.rank) == (line, 1)
    assert (found.thread_block, found.step) == (0, 0)
    assert found.message.startswith("gpu 1 thread block 0 step 0: ")


HARMLESS = [
    ("line ends of Windows", lambda t: t.replace(b"\n", b"\r\n")),
    ("one line", lambda t: t.replace(b"\n", b"")),
    ("comments", lambda t: b"<!-- made by hand a=b -->\n" + t.replace(b"<tb", b"<!-- x --><tb") + b"<!-- end -->"),
    ("blank before the slash", lambda t: t.replace(b"/>", b" />")),
    ("closing tag of step", lambda t: t.replace(b"/>", b"></step>")),
    ("two blanks", lambda t: t.replace(b" chan=", b"  chan=")),
    ("other attributes", lambda t: t.replace(b" proto=", b' redop="nop" nthreads="256" proto=')),
]


@pytest.mark.parametrize(("name", "change"), HARMLESS, ids=[row[0] for row in HARMLESS])
def test_what_readers_accept(name, change) -> None:  # type: ignore[no-untyped-def]
    read = read_program(change(TEXT), name)
    assert read.program == GOOD["ring_allgather_2"]
    assert read.violations == () and read.portability == ()


REFUSED = [
    ("declaration", lambda t: b'<?xml version="1.0"?>\n' + t, "<?xml"),
    ("doctype", lambda t: b"<!DOCTYPE algo>\n" + t, "DOCTYPE"),
    ("byte order mark", lambda t: b"\xef\xbb\xbf" + t, "byte order mark"),
    ("tab between elements", lambda t: t.replace(b"    <tb", b"\t<tb"), "tab stands between the elements"),
    ("tab between attributes", lambda t: t.replace(b" chan", b"\tchan"), "tab stands between attributes"),
    ("newline between attributes", lambda t: t.replace(b" chan", b"\n chan"), "newline"),
    ("single quotes", lambda t: t.replace(b'chan="0"', b"chan='0'"), "single quotes"),
    ("blank after =", lambda t: t.replace(b'chan="0"', b'chan= "0"'), "beside `=`"),
    ("blank before =", lambda t: t.replace(b'chan="0"', b'chan ="0"'), "beside `=`"),
    ("no quotes", lambda t: t.replace(b'chan="0"', b"chan=0"), "not name="),
    ("text", lambda t: t.replace(b"</tb>", b"words</tb>"), "text content 'words'"),
    ("text before", lambda t: b"generated:\n" + t, "before the first element"),
    ("text after", lambda t: t + b"done\n", "text content 'done'"),
    ("comment with =", lambda t: b"<!--a=b -->\n" + t, "comment"),
    ("open comment", lambda t: t + b"<!-- ", "not closed"),
    ("wrong closing tag", lambda t: t.replace(b"</tb>", b"</tx>", 1), "</tx> does not match"),
    ("blank in closing tag", lambda t: t.replace(b"</algo>", b"</algo >"), "closing tag"),
    ("never closed", lambda t: t.replace(b"</algo>", b""), "never closed"),
    ("cut off", lambda t: t[: len(t) // 2], "never closed"),
    ("CDATA", lambda t: t.replace(b"</tb>", b"<![CDATA[x]]></tb>", 1), "`<!` declaration"),
    ("less-than in a value", lambda t: t.replace(b'name="allgather"', b'name="a<b"'), "inside a value"),
    ("other root", lambda t: t.replace(b"<algo", b"<system").replace(b"</algo", b"</system"), "not <algo>"),
    ("empty", lambda t: b"", "empty"),
    ("blank", lambda t: b" \n\n", "empty"),
    ("binary", lambda t: b"\x7fELF\x00\x01" + t, "not a text file"),
    ("UTF-16", lambda t: t.decode().encode("utf-16"), "not a text file"),
    ("plain text", lambda t: b"hello", "text content"),
]


@pytest.mark.parametrize(("name", "change", "words"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_every_reader_refuses(name, change, words) -> None:  # type: ignore[no-untyped-def]
    found = program_violations(read_program(change(TEXT), name))
    assert any(v.kind == "syntax" and words in v.message for v in found), found


def test_readers_take_the_first_of_two_roots() -> None:
    alone, read = read_program(TEXT, "one"), read_program(TEXT + TEXT, "two")
    assert read.program == alone.program and read.violations == () and profile_violations(read) == []
    assert [(v.rule, "second root" in v.message) for v in read.warnings] == [("HX127", True)]
    assert alone.warnings == ()
    assert program_violations(read) == []
    unnumbered = read_program(TEXT + b'<algo><gpu id="0"></gpu><gpu></gpu></algo>', "two")
    assert [v.rule for v in unnumbered.violations] == ["HX201"]  # readers ask for the id to find their own
    assert read_program(TEXT + b"<plan><gpu></gpu></plan>", "two").violations == ()


VALUES = [
    (b'proto="Simple"', b'proto="simple"', True, "case counts"),
    (b'proto="Simple"', b'proto="Fast"', True, "case counts"),
    (b'coll="allgather"', b'coll="all_gather"', True, "all_gather"),
    (b'coll="allgather"', b'coll="custom"', False, "not checked"),
    (b'ngpus="2"', b'ngpus="two"', True, "plain decimal"),
    (b'ngpus="2"', b'ngpus="0"', True, "out of range"),
    (b'ngpus="2"', b'ngpus="999999999"', True, "out of range"),
    (b'nchunksperloop="2"', b'nchunksperloop="0"', True, "out of range"),
    (b'ngpus="2"', b'ngpus="0x2"', False, "hexadecimal"),
    (b'ngpus="2"', b'ngpus="02"', False, "octal"),
    (b'ngpus="2"', b'ngpus="+2"', False, "with a sign"),
    (b'ngpus="2"', b'ngpus="99999999999999999999"', True, "plain decimal"),
    (b' nchannels="1"', b"", True, "`nchannels` is missing"),
    (b' inplace="0"', b"", True, "`inplace` is missing"),
    (b' outofplace="1"', b"", False, "`outofplace` is missing"),
    (b' maxBytes="0"', b"", False, "`maxBytes` is missing"),
    (b'outofplace="1"', b'outofplace="0"', False, "neither"),
    (b'outofplace="1"', b'outofplace="7"', True, "neither 0 nor 1"),
    (b'name="allgather"', b'name="a&amp;b"', False, "entity"),
    (b'name="allgather"', b'name="' + b"n" * 300 + b'"', True, "longer than 255"),
    (b'name="allgather"', b'name="x" name="y"', False, "stands twice"),
    (b'name="allgather"', b'name="\xc3\xa9"', False, "ASCII"),
    (b' hasdep="0"', b"", True, "`hasdep` is missing"),
    (b'hasdep="0"', b'hasdep="2"', True, "hasdep=2"),
    (b'depid="-1"', b'depid="-2"', True, "depid=-2"),
    (b'type="s"', b'type="send"', True, 'type="send"'),
    (b'type="s"', b'type="ra"', True, "executed by none"),
    (b'srcbuf="i"', b'srcbuf="x"', True, 'srcbuf="x"'),
    (b'send="1"', b'send="-2"', True, "send=-2"),
    (b'chan="0"', b'chan="-1"', True, "chan=-1"),
    (b's_chunks="0"', b's_chunks="-1"', True, "s_chunks=-1"),
    (b'<step s="0"', b'<step s="4"', False, "s=4 stands at position 0"),
    (b"    <tb", b'    <copy i_off="0" o_off="0"/><tb', False, "<copy> under <gpu> is ignored"),
]


@pytest.mark.parametrize(("old", "new", "fatal", "words"), VALUES)
def test_values_and_attributes(old: bytes, new: bytes, fatal: bool, words: str) -> None:
    assert old in TEXT
    read = read_program(TEXT.replace(old, new, 1), "x")
    found = read.violations if fatal else read.portability
    assert any(words in v.message for v in found), (read.violations, read.portability)
    assert fatal or program_violations(read) == []


def test_both_spellings_of_reducescatter() -> None:
    text = (FIXTURES / "reducescatter_4.xml").read_bytes()
    other = read_program(text.replace(b'coll="reducescatter"', b'coll="reduce_scatter"'), "x")
    assert other.program is not None and other.program.collective == "reducescatter"
    assert program_violations(other) == []
    assert any("reduce_scatter" in v.message for v in profile_violations(other))


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
    assert raised.value.code == "HS541"


def test_a_file_has_findings_of_the_program_and_of_the_portable_profile() -> None:
    read = read_program(TEXT.replace(b' minBytes="0"', b"").replace(b'send="1"', b'send="0"', 1), "x.xml")
    messages = [v.message for v in (*program_violations(read), *profile_violations(read))]
    assert any("own rank" in m for m in messages) and any("minBytes" in m for m in messages)
