"""No input makes the reader or the judge fall over, and damage to a good file never makes a wrong one pass."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from program_builders import survives

from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.linter import lint_targets
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.target import TARGETS

FIXTURES = sorted((Path(__file__).parent / "fixtures").glob("*.xml"))
PIECES = [
    b"<algo", b"<gpu", b"<tb", b"<step", b"</tb>", b"</gpu>", b"</algo>", b"/>", b">", b'"', b"'", b"=", b" ",
    b"\t", b"\n", b"<!--", b"-->", b"<?xml", b"<!DOCTYPE", b"&amp;", b"-1", b"0", b"7", b"99999", b"0x1", b"\x00",
    b"\xff", b'type="rrcs"', b'hasdep="1"', b'depid="0"', b'cnt="2"',
]  # fmt: skip


def _judged(text: bytes) -> None:
    read = read_program(text, "fuzz")
    found = program_violations(read)
    profile_violations(read)
    lint_targets(read, TARGETS.values())
    assert read.program is not None or found


@settings(max_examples=120, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=9)), max_size=40))
def test_pieces_in_any_order(pieces: list[bytes]) -> None:
    _judged(b"".join(pieces))


@settings(max_examples=120, deadline=None)
@given(
    st.sampled_from(FIXTURES),
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 12), st.sampled_from(PIECES)), min_size=1, max_size=3),
)
def test_damaged_files(path: Path, edits: list[tuple[float, int, bytes]]) -> None:
    text = path.read_bytes()
    for where, cut, piece in edits:
        at = int(where * len(text))
        text = text[:at] + piece + text[at + cut :]
    _judged(text)


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(FIXTURES), st.floats(0, 1), st.sampled_from([b"0", b"1", b"2", b"3"]), st.integers(0, 3))
def test_a_changed_digit_that_passes_is_harmless(path: Path, where: float, digit: bytes, seed: int) -> None:
    text = path.read_bytes()
    digits = [k for k, c in enumerate(text) if chr(c).isdigit()]
    at = digits[int(where * (len(digits) - 1))]
    read = read_program(text[:at] + digit + text[at + 1 :], "fuzz")
    if read.program is not None and not program_violations(read) and read.program.ranks <= 8:
        for in_place in (False, True):
            if read.program.in_place if in_place else read.program.out_of_place:
                assert survives(read.program, in_place, seed)
