"""``synth --delay``: the worst case over a range of delays between data centres."""

import json
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.engine.delays import delay_range, delayed
from hetesynth.errors import HetesynthError
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TWO_CENTRES = EXAMPLES / "two_dc_50km" / "topo.dsl"
SYNTH = ("synth", str(TWO_CENTRES), "--coll", "allgather", "--size", "1MB", "--chunks", "1")


def test_ranges() -> None:
    assert delay_range("20ms..60ms") == (Fraction(20, 1000), Fraction(60, 1000))
    assert delay_range("250us") == (Fraction(250, 10**6),) * 2


@pytest.mark.parametrize(
    ("text", "code"), [("60ms..20ms", "HS626"), ("1us..2ms", "HS626"), ("20..60ms", "HS307"), ("..", "HS307")]
)
def test_what_is_no_range(text: str, code: str) -> None:
    with pytest.raises(HetesynthError) as error:
        delay_range(text)
    assert error.value.code == code


def test_lines_between_centres_alone_are_delayed() -> None:
    near = load_topology(TWO_CENTRES)  # 250 us, and 0.7 of the router that a line enters
    far = delayed(near, Fraction(1, 100))
    for before, after in zip(near.links, far.links, strict=True):
        longer = before.src // 6 != before.dst // 6
        assert after.latency - before.latency == (Fraction(1, 100) - Fraction(2507, 10**7) if longer else 0)
    with pytest.raises(HetesynthError, match="no wire of 10 us"):
        delayed(load_topology(EXAMPLES / "dgx1" / "topo.dsl"), Fraction(1, 100))


def test_the_far_end_is_optimized_and_both_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    more = ("--strategy", "wan", "--delay", "250us..750us", "--json", "-o", str(tmp_path / "x"))
    assert run([*SYNTH, *more]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = document["delays"]
    assert [row["delay_us"] for row in rows] == [250, 500, 750]
    times = [row["predicted_us"] for row in rows]
    assert times == sorted(times) and times[-1] == pytest.approx(document["program_predicted_us"])
    assert all(row["limit_us"] <= row["predicted_us"] and row["percent_of_limit"] <= 100 for row in rows)
    assert rows[-1]["percent_of_limit"] == pytest.approx(document["percent_of_limit"])
    assert times[-1] - times[0] >= 499  # one crossing, at least


def test_a_collective_with_a_root_has_its_own_limit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ("synth", str(TWO_CENTRES), "--coll", "broadcast", "--root", "0", "--single-root", "--size", "1MB")
    more = ("--chunks", "1", "--strategy", "wan", "--delay", "1ms..2ms", "--json", "-o", str(tmp_path / "x"))
    assert run([*question, *more]) == 0
    rows = json.loads(capsys.readouterr().out)["delays"]
    assert [row["delay_us"] for row in rows] == [1000, 1500, 2000]
    assert all(row["delay_us"] < row["limit_us"] <= row["predicted_us"] for row in rows)


def test_composition_takes_no_delay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*SYNTH, "--strategy", "composition", "--delay", "20ms", "-o", str(tmp_path / "x")]) == 2
    assert "--delay is not for" in capsys.readouterr().err
