"""Files for one root as a user meets them: which runtimes are written for, and what is said of the other roots."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.judge.msccl.reader import load_program
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import load_plan
from hetesynth.model.collective import ROOTED
from hetesynth.model.target import TARGETS

FIG10 = str(Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl")
DGX1 = FIG10.replace("fig10", "dgx1")
FIXTURES = Path(__file__).resolve().parents[1] / "verify" / "fixtures"
ROOT_3 = str(FIXTURES / "broadcast_8_root3.xml")
SYNTH = ["synth", FIG10, "--strategy", "greedy", "-o", "x"]
BLIND = [t for t in TARGETS.values() if t.name != "portable" and not t.tells_roots]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert run([*arguments, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("target", BLIND, ids=lambda t: t.name)
def test_a_runtime_that_does_not_look_at_the_root_is_written_for_only_on_a_promise(
    target: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in sorted(ROOTED & target.collectives):
        asked = [*SYNTH, "--coll", name, "--root", "2", "--target", target.name]
        assert run(asked) == 2
        shown = capsys.readouterr().err
        assert "HS514" in shown and "wrong data" in shown and "--single-root" in shown
        assert not list(Path().iterdir())
        found = told(capsys, *asked, "--single-root")
        assert Path("x.xml").exists() and load_program(Path("x.xml")).program.root == 2  # type: ignore[union-attr]
        assert [w["targets"] for w in found["warnings"] if "root" in w["message"]] == [[target.name]]
        for path in Path().iterdir():
            path.unlink()


def of_calls(told: dict[str, Any]) -> list[dict[str, Any]]:
    """The warnings but for those about what a library takes."""
    return [warned for warned in told["warnings"] if "quicker" not in warned["message"]]


def test_a_portable_file_for_one_root_is_written_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*SYNTH, "--coll", "broadcast", "--root", "4"]
    assert run([*asked, "--report", "page.html"]) == 0
    shown = capsys.readouterr().out
    assert "WARNING" in shown and "root 4" in shown and "wrong data for all others" in shown
    assert "WARNING: runtimes of MSCCL XML do not look at the root" in Path("page.html").read_text()
    warned = told(capsys, *asked)["warnings"][0]
    assert warned["targets"] == ["portable"] and "root 4" in warned["help"]


def test_an_atlas_and_an_import_ask_for_the_promise_too(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--sizes", "1MB,64MB"]
    atlas = ["atlas", DGX1, "--coll", "broadcast", *sizes, "-o", "atlas"]
    assert run([*atlas, "--target", "rccl-6"]) == 2
    assert "HS514" in capsys.readouterr().err and not Path("atlas").exists()
    assert run([*atlas, "--target", "rccl-6", "--single-root"]) == 0
    assert "WARNING" in capsys.readouterr().out
    assert json.loads(Path("atlas/index.json").read_text())["warnings"][0]["targets"] == ["rccl-6"]
    imported = ["import", ROOT_3, "-o", "again"]
    assert run([*imported, "--target", "rccl-5"]) == 2
    assert "HS514" in capsys.readouterr().err and not list(Path().glob("again*"))
    assert told(capsys, *imported, "--target", "rccl-5", "--single-root")["warnings"]
    assert told(capsys, *imported, "--target", "portable")["warnings"]
    assert told(capsys, *imported)["warnings"] == []


def test_verify_warns_of_other_roots_for_every_target(capsys: pytest.CaptureFixture[str]) -> None:
    named = ["--target", "rccl-6,rccl-5,msccl-executor"]
    document = told(capsys, "verify", ROOT_3, *named)
    assert document["ok"] and document["violations"] == []
    (warned,) = document["warnings"]
    assert warned["rule"] == "HX228" and "root 3" in warned["message"]
    assert warned["targets"] == ["rccl-6", "rccl-5", "msccl-executor"]
    assert run(["verify", ROOT_3, *named]) == 0
    assert "warning: attribute: it is for root 3" in capsys.readouterr().out
    assert run(["verify", ROOT_3, *named, "--portable"]) == 1
    capsys.readouterr()
    assert told(capsys, "verify", ROOT_3)["warnings"] == []


def _with_a_second(path: Path, rank: int, steps: int) -> Path:
    """The sound file of the fixtures, and after it an algorithm that holds ``steps`` for one rank."""
    block = '<tb id="0">' + "<step/>" * steps + "</tb>"
    path.write_text(Path(ROOT_3).read_text() + f'<algo><gpu id="{rank}">{block}</gpu></algo>\n')
    return path


def test_a_second_algorithm_counts_among_the_elements_that_readers_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """4095 are stored for a rank: 9 and its own of the first algorithm, then <algo>, <gpu>, <tb> and the steps."""
    program = load_program(Path(ROOT_3)).program
    assert program is not None
    own = sum(1 + len(b.instructions) for b in program.gpus[3].thread_blocks)
    most = 4095 - (1 + program.ranks + own) - 3
    for rank, steps, taken in ((3, most, True), (3, most + 1, False), (99, 5000, True)):
        file = str(_with_a_second(tmp_path / "two.xml", rank, steps))
        for name in ("rccl-6", "rccl-5", "msccl-executor", "msccl"):
            run(["verify", file, "--target", name, "--json"])
            document = json.loads(capsys.readouterr().out)
            assert document["targets"][name]["reader"] == ("accepted" if taken else "refused")
            assert ("HX302" in {v["rule"] for v in document["violations"]}) is not taken
        assert run(["verify", file]) == int(not taken)
        capsys.readouterr()


def test_the_hint_for_a_file_warns_of_other_roots(capsys: pytest.CaptureFixture[str]) -> None:
    assert [w["rule"] for w in told(capsys, "install-hint", "rccl-6", ROOT_3)["warnings"]] == ["HX228"]
    assert run(["install-hint", "rccl-6", ROOT_3]) == 0
    assert "WARNING [HX228]: it is for root 3" in capsys.readouterr().out
    assert run([*SYNTH, "--coll", "broadcast", "--target", "mscclpp"]) == 0
    capsys.readouterr()
    hint = told(capsys, "install-hint", "mscclpp", "x.mscclpp.json")
    assert [w["rule"] for w in hint["warnings"]] == ["HX864"] and any("request.hints" in s for s in hint["steps"])
    assert told(capsys, "verify", "x.mscclpp.json", "--target", "mscclpp")["warnings"][0]["rule"] == "HX864"


def test_files_for_every_root_in_one_command(capsys: pytest.CaptureFixture[str]) -> None:
    asked = [*SYNTH, "--coll", "broadcast", "--root", "all", "--target", "mscclpp"]
    found = told(capsys, *asked)
    suffixes = ("mscclpp.json", "mscclpp.inplace.json", "schedule.json")
    assert found["outputs"] == [f"x-root{root}.{suffix}" for root in range(6) for suffix in suffixes]
    assert [one["root"] for one in found["roots"]] == list(range(6))
    assert found["roots"][4]["outputs"] == found["outputs"][12:15]
    names = set()
    for root in range(6):
        plan = load_plan(Path(f"x-root{root}.mscclpp.json"))
        names.add(plan.name)
        assert plan_violations(plan, root=root) == []
    assert len(names) == 6  # selectors know plans by name
    first = {path.name: path.read_bytes() for path in Path().iterdir()}
    assert run(asked) == 0
    shown = capsys.readouterr().out
    assert "root 5" in shown and "register plans for all roots" in shown
    assert first == {path.name: path.read_bytes() for path in Path().iterdir()}


def test_a_budget_is_for_all_roots_and_says_what_it_cut(capsys: pytest.CaptureFixture[str]) -> None:
    """Time enough changes no byte; none at all is no result."""
    asked = [*SYNTH, "--coll", "broadcast", "--root", "all", "--schedule-only"]
    assert run(asked) == 0
    first = {path.name: path.read_bytes() for path in Path().iterdir()}
    capsys.readouterr()
    assert run([*asked, "--time-budget", "500"]) == 0
    assert "cut short" not in capsys.readouterr().out
    assert first == {path.name: path.read_bytes() for path in Path().iterdir()}
    assert run([*asked, "--time-budget", "0.001", "--json"]) in (0, 3)
    said = json.loads(capsys.readouterr().out)
    if "error" in said:
        assert said["error"]["code"] == "HS602"
    elif not any(root["cut_short"] for root in said["roots"]):  # there was time after all
        assert first == {path.name: path.read_bytes() for path in Path().iterdir()}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--coll", "broadcast", "--target", "rccl-6"], "HS514"),
        (["--coll", "allgather"], "HS303"),
        (["--coll", "broadcast", "--single-root"], "excludes"),
        (["--coll", "broadcast", "--report", "page.html"], "excludes"),
    ],
)
def test_all_roots_where_that_makes_no_sense(
    arguments: list[str], code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*SYNTH, "--root", "all", *arguments]) == 2
    assert code in capsys.readouterr().err and not list(Path().iterdir())
    assert run(["bounds", FIG10, "--coll", "broadcast", "--root", "all"]) == 2
