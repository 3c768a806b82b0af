"""Conformance data, when it is there: shipped programs are right, and one-defect files are refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import load_program


def _data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


CASES = _data() / "xml_cases"
SHIPPED = sorted((_data() / "msccl_xml").glob("*.xml"))
needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason="no conformance data")

# case: (fatal or profile, kind, words of the message)
EXPECTED = {
    "badclose": ("fatal", "syntax", "does not match"),
    "badtype": ("fatal", "attribute", 'type="send"'),
    "chan_1": ("fatal", "connection", "channel 1 is never connected: nchannels=1"),
    "chan_127": ("profile", "limit", "channel 127 exceeds"),
    "chan_128": ("fatal", "limit", "channel 128 exceeds 127"),
    "chan_129": ("fatal", "limit", "channel 129 exceeds 127"),
    "chan_31": ("fatal", "connection", "channel 31 is never connected"),
    "chan_33": ("profile", "limit", "channel 33 exceeds"),
    "chan_minus1": ("fatal", "attribute", "chan=-1"),
    "cnt_0": ("fatal", "range", "cnt=0"),
    "cnt_72": ("fatal", "limit", "cnt=72 exceeds 71"),
    "comment_eq": ("fatal", "syntax", "comment"),
    "cpl_mismatch": ("fatal", "attribute", "nchunksperloop=5"),
    "custom": ("profile", "attribute", 'coll="custom"'),
    "dep_missing_tb": ("fatal", "dependence", "thread block 9, which gpu 0 does not have"),
    "dup_connection": ("fatal", "connection", "duplicate connection"),
    "empty": ("fatal", "syntax", "empty"),
    "entity": ("profile", "syntax", "entity"),
    "eqspace": ("fatal", "syntax", "beside `=`"),
    "hex": ("profile", "attribute", "hexadecimal"),
    "long_name": ("fatal", "syntax", "longer than 255"),
    "min_gt_max": ("profile", "attribute", "minBytes=100 exceeds maxBytes=10"),
    "missing_gpu": ("fatal", "missing-gpu", "no gpu 1"),
    "nch_500": ("fatal", "limit", "nchannels=500"),
    "neg_scratch": ("fatal", "attribute", "s_chunks=-1"),
    "newline_attr": ("fatal", "syntax", "newline"),
    "no_minBytes": ("profile", "attribute", "`minBytes` is missing"),
    "no_name": ("profile", "attribute", "`name` is missing"),
    "no_nchannels": ("fatal", "attribute", "`nchannels` is missing"),
    "no_outofplace": ("profile", "attribute", "`outofplace` is missing"),
    "nodes_4097": ("fatal", "limit", "4097 stored nodes"),
    "nop_badbuf": ("fatal", "attribute", 'srcbuf="x"'),
    "nop_last": ("fatal", "dependence", "stands last"),
    "nop_nodep": ("fatal", "dependence", "nop without a dependence"),
    "o_chunks_0": ("fatal", "range", "o_chunks=0"),
    "off_plus_cnt_oob": ("fatal", "range", "i[0..4]"),
    "peer_minus2": ("fatal", "attribute", "send=-2"),
    "peer_self": ("fatal", "connection", "own rank"),
    "peer_too_big": ("fatal", "connection", "peer 7 is no rank"),
    "prolog": ("fatal", "syntax", "`<?xml`"),
    "proto_SIMPLE": ("fatal", "attribute", 'proto="SIMPLE"'),
    "proto_simple": ("fatal", "attribute", 'proto="simple"'),
    "r_src_oob": ("profile", "attribute", "does not repeat"),
    "ra": ("fatal", "attribute", "`ra`"),
    "rcs_src_oob": ("profile", "limit", "`rcs`"),
    "re_chain": ("fatal", "connection", "sends 1 messages but receives 0"),
    "reducescatter": ("fatal", "attribute", "i_chunks=1"),
    "rrs_dst_oob": ("profile", "limit", "`rrs`"),
    "s_all_zero_80": ("profile", "limit", "80 steps"),
    "s_dst_oob": ("profile", "attribute", "does not repeat"),
    "s_unordered": ("profile", "attribute", "s=1 stands at position 0"),
    "send_no_peer": ("fatal", "connection", "no send peer"),
    "sendpeer_nosteps_33": ("profile", "limit", "33 thread blocks send on channel 0"),
    "steps_256": ("profile", "limit", "256 steps"),
    "steps_64": ("fatal", "connection", "sends 64 messages but receives 1"),
    "steps_65": ("profile", "limit", "65 steps"),
    "tabs": ("fatal", "syntax", "tab"),
    "tb_dup": ("fatal", "attribute", "id 0 stands twice"),
    "tb_gap": ("fatal", "attribute", "gap"),
    "tbs_216": ("profile", "limit", "216 thread blocks"),
    "tbs_33": ("fatal", "connection", "unpaired"),
    "tbs_65": ("profile", "limit", "65 thread blocks"),
    "text": ("fatal", "syntax", "text content"),
}
CLEAN = {"crlf", "extra_attr_redop", "noindent", "ok", "proto_LL128", "spaceslash", "tb_reordered"}


@needs_cases
@pytest.mark.parametrize("case", sorted(EXPECTED))
def test_each_defect_is_named(case: str) -> None:
    path = CASES / f"{case}.xml"
    if not path.exists():
        pytest.skip(f"no case {case} in the conformance data")
    read = load_program(path)
    where, kind, words = EXPECTED[case]
    found = program_violations(read) if where == "fatal" else profile_violations(read)
    assert any(v.kind == kind and words in v.message for v in found), [v.message for v in found]


@needs_cases
@pytest.mark.parametrize("case", sorted(CLEAN))
def test_harmless_variants_have_no_finding(case: str) -> None:
    read = load_program(CASES / f"{case}.xml")
    assert program_violations(read) == []
    assert profile_violations(read) == []


@needs_cases
def test_no_case_is_left_out_and_every_refusal_has_a_finding() -> None:
    verdicts = dict(
        line.split("\t", 1) for line in (CASES / "VERDICTS.tsv").read_text().splitlines() if "\t" in line
    )
    assert set(verdicts) == set(EXPECTED) | CLEAN
    for case in sorted(path.stem for path in CASES.glob("*.xml")):
        read = load_program(CASES / f"{case}.xml")
        refused = "ERROR" in verdicts[case] or "CRASH" in verdicts[case]
        assert not refused or program_violations(read) or profile_violations(read), case


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_programs_are_right(path: Path) -> None:
    read = load_program(path)
    assert program_violations(read) == []
    assert len(read.lines) > 1


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_programs_without_one_step_are_wrong(path: Path) -> None:
    """One data-moving line taken out, at five places: connections, data or races must show it."""
    lines = path.read_bytes().splitlines(keepends=True)
    steps = [k for k, line in enumerate(lines) if b"<step" in line and b'type="nop"' not in line]
    from hetesynth.judge.msccl.reader import read_program

    for k in steps[:: max(1, len(steps) // 5)]:
        read = read_program(b"".join(lines[:k] + lines[k + 1 :]), path.name)
        assert program_violations(read), lines[k]
