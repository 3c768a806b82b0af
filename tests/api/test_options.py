"""What options take, by the same words on the command line and in Python: a coded error, or the answer."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetesynth import api
from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError

CLUSTER = str(Path(__file__).resolve().parents[2] / "examples" / "ring8" / "topo.dsl")
WRONG: list[tuple[str, Any, str]] = [
    ("rounding", "up", "HS308"), ("seed", -1, "HS308"), ("seed", 1.5, "HS308"), ("effort", math.nan, "HS308"),
    ("effort", 0, "HS308"), ("effort", "much", "HS308"), ("chunks", "2", "HS308"), ("chunks", 0, "HS308"),
    ("chunks", True, "HS308"), ("size", -5, "HS307"), ("size", 0, "HS307"), ("size", "many", "HS307"),
    ("size", 2**60, "HS307"), ("size", 1.5, "HS308"), ("root", -1, "HS308"), ("root", "0", "HS308"),
    ("time_budget", math.inf, "HS308"), ("time_budget", -1, "HS308"), ("objective", "money", "HS308"),
    ("exclusion", "never", "HS308"), ("max_peers", 0, "HS308"), ("schedule_only", "yes", "HS308"),
    ("always", 1, "HS308"), ("tau_ref", 3, "HS308"), ("strategy", None, "HS308"), ("target", 7, "HS308"),
    ("target", "nvidia", "HS500"), ("chunk_size", "big", "HS307"), ("speed", 1, "HS308"), ("sketch", 3, "HS308"),
    ("time_budget", 10**30, "HS308"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "code"), WRONG)
def test_a_wrong_value_is_a_coded_error(name: str, value: Any, code: str) -> None:
    for function in (api.request, api.synthesize, api.bounds):
        with pytest.raises(HetesynthError) as caught:
            function(CLUSTER, "allgather", **{name: value})
        assert caught.value.code == code and caught.value.help


@pytest.mark.parametrize("name", ["AllGather", "all_gather", "ALL-GATHER"])
def test_collectives_as_people_write_them(name: Any) -> None:
    assert api.request(CLUSTER, name).collective == "allgather"


@pytest.mark.parametrize("name", ["gossip", "", 3, None])
def test_what_is_no_collective(name: Any) -> None:
    with pytest.raises(HetesynthError) as caught:
        api.request(CLUSTER, name)
    assert caught.value.code == "HS301"


def test_a_repair_takes_the_same(tmp_path: Path) -> None:
    for name, value in (("seed", -1), ("effort", math.nan), ("always", "no")):
        with pytest.raises(HetesynthError) as caught:
            api.repair(tmp_path / "no.json", CLUSTER, CLUSTER, **{name: value})  # type: ignore[arg-type]
        assert caught.value.code == "HS308"


MOST_WRONG: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *(("atlas", (CLUSTER, "allgather"), {"sizes": sizes}, "HS308") for sizes in ([], None, 1.5, [None], True)),
    *(("compare", (CLUSTER, "allgather"), {"sizes": sizes}, "HS307") for sizes in (0, -1, [0], "", "1MB..1KB")),
    ("pareto", (CLUSTER, "allgather"), {"sizes": 0}, "HS307"),
    ("pareto", (CLUSTER, "allgather"), {"most": "6"}, "HS308"),
    ("pareto", (CLUSTER, "allgather"), {"extra": -1}, "HS308"),
    ("compare", (CLUSTER, "allgather"), {"strategies": []}, "HS308"),
    ("single_losses", (CLUSTER, "allgather"), {"losses": ["rack"]}, "HS308"),
    ("simulate", ("no.xml", CLUSTER), {"calibration": "guess"}, "HS308"),
    ("simulate", ("no.xml", CLUSTER), {"target": 3}, "HS308"),
    ("simulate", ("no.xml", CLUSTER), {"page": 3}, "HS308"),
    ("simulate", (3, CLUSTER), {}, "HS308"),
    ("import_file", ("no.xml",), {"tau_ref": None}, "HS308"),
    ("import_file", ("no.xml",), {"chunk_size": 1.5}, "HS308"),
    ("verify", ("no.xml",), {"root": "a"}, "HS308"),
    ("verify", (None,), {}, "HS308"),
    *(("verify", ("no.xml", cluster), {}, "HS308") for cluster in ([], {}, 3)),
    *((name, (None, "allgather"), {}, "HS308") for name in ("synthesize", "limits", "compose", "bounds")),
    *((name, (None,), {}, "HS308") for name in ("load", "parse", "size_of")),
    ("parse", ("cluster c {}", None), {}, "HS308"),
    ("write", (None, "x"), {}, "HS308"),
    ("synthesize", (CLUSTER, "allgather"), {"began": "now"}, "HS308"),
    ("synthesize", (CLUSTER, "allgather"), {"bogus": 1}, "HS308"),
    ("simulate", ("no.xml", CLUSTER), {"target": ["x"]}, "HS500"),
    ("repair", ("no.json", CLUSTER, 3), {}, "HS308"),
]


@pytest.mark.parametrize(("name", "arguments", "options", "code"), MOST_WRONG)
def test_every_function_says_what_it_takes(
    name: str, arguments: tuple[Any, ...], options: dict[str, Any], code: str
) -> None:
    with pytest.raises(HetesynthError) as caught:
        getattr(api, name)(*arguments, **options)
    assert caught.value.code == code and caught.value.help


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=9),
    st.lists(st.text(max_size=3), max_size=2),
)
NAMES = [*sorted({name for name, *_ in WRONG} - {"sketch"}), "rings", "single_root", "runtime_costs"]


@given(name=st.sampled_from(NAMES), value=VALUES)
def test_nothing_but_a_coded_error_is_raised(name: str, value: Any) -> None:
    try:
        api.request(CLUSTER, "allgather", **{name: value})
    except HetesynthError as error:
        assert error.code and error.help


def test_a_number_alone_is_bytes_and_powers_of_two_are_binary(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [
        "synth",
        CLUSTER,
        "--coll",
        "allgather",
        "--strategy",
        "greedy",
        "--schedule-only",
        "-o",
        str(tmp_path),
    ]
    assert run([*asked, "--size", "67108864"]) == 0
    assert capsys.readouterr().out.startswith("64 MiB: ")
