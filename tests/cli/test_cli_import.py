"""``hetesynth import``: files of others, judged, become schedules and files for other targets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from verify.program_builders import chain_broadcast, chain_reduce, good_programs, to_xml, with_step

from hetesynth.cli.main import run
from hetesynth.engine.import_file import read_schedule
from hetesynth.errors import HetesynthError
from hetesynth.model.program import BufferSlice

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
RING8 = str(EXAMPLES / "ring8" / "topo.dsl")
DGX1 = str(EXAMPLES / "dgx1" / "topo.dsl")
GOOD = good_programs()


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def asked(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["import", *arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("name", sorted(GOOD))
def test_every_good_program_is_imported_and_emitted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.xml").write_bytes(to_xml(GOOD[name]))
    target = "rccl-6" if name in ("gather_3", "scatter_3") else "portable"
    found = asked(capsys, "x.xml", "--target", target, "--single-root", "-o", "made")
    outputs = [Path(str(path)) for path in found["outputs"]]  # type: ignore[attr-defined]
    assert Path("made.schedule.json") in outputs and Path("made.xml") in outputs
    for path in outputs:
        assert path.exists()
        if path.suffix == ".xml":
            assert run(["verify", str(path)]) == 0
    assert found["steps"] > 0 and found["dropped"] == 0


def test_a_schedule_is_mapped_to_another_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["synth", RING8, "--coll", "broadcast", "--objective", "steps", "-o", "b"]) == 0
    capsys.readouterr()
    same = asked(capsys, "b.schedule.json", "--topo", RING8, "--target", "portable", "-o", "same")
    assert same["crossings"] is None and same["steps"] == 4  # as it is
    assert run(["import", "b.schedule.json", "--topo", DGX1]) == 2
    assert "HS704" in capsys.readouterr().err  # the ring's ends do not meet there


def test_what_the_judge_refuses_is_not_imported(capsys: pytest.CaptureFixture[str]) -> None:
    good = GOOD["ring_allgather_4"]
    wrong = {
        "data": with_step(good, 1, 0, 1, src=BufferSlice("o", 1)),
        "race": with_step(good, 1, 0, 1, depends=None),
        "range": with_step(good, 2, 1, 0, dst=BufferSlice("o", 9)),
        "hang": with_step(good, 2, 1, 0, op="nop", src=None, dst=None, count=0, depends=(0, 2)),
    }
    for name, mutant in wrong.items():
        Path(f"{name}.xml").write_bytes(to_xml(mutant))
        assert run(["import", f"{name}.xml"]) == 1, name
        error = capsys.readouterr().err
        assert "error[HS702]" in error and f"hetesynth verify {name}.xml" in error
        assert run(["verify", f"{name}.xml"]) == 1
        capsys.readouterr()
    assert list(Path().glob("*.json")) == []


def test_the_root_is_found_where_the_file_does_not_say(capsys: pytest.CaptureFixture[str]) -> None:
    for made in (chain_broadcast(4, root=None), chain_reduce(4, root=None)):
        Path("x.xml").write_bytes(to_xml(made))
        assert asked(capsys, "x.xml")["root"] == 0
    assert run(["import", "x.xml", "--root", "3"]) == 1
    assert run(["import", "x.xml", "--root", "4"]) == 1


def test_what_does_not_fit_is_an_error_with_a_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.xml").write_bytes(to_xml(GOOD["ring_allgather_4"]))
    for arguments, code in (
        (["x.xml", "--topo", RING8], "HS706"),
        (["missing.xml"], "HS540"),
        (["."], "HS540"),
        (["x.xml", "--target", "tpu"], "HS500"),
        (["x.xml", "-o", "nowhere/x"], "HS511"),
    ):
        assert run(["import", *arguments]) == 2, arguments
        assert code in capsys.readouterr().err
    Path("x-imported.schedule.json").unlink(missing_ok=True)
    assert run(["import", "x.xml", "-o", "y"]) == 0
    assert run(["import", "y.schedule.json", "-o", "y"]) == 2
    assert "HS707" in capsys.readouterr().err


def test_a_schedule_too_small_for_its_claim_is_refused_before_it_is_built() -> None:
    """A few bytes must not ask for millions of chunks."""
    size = {"ranks": 1500, "chunks_per_rank": 1, "root": None, "makespan": 0, "links": [], "transfers": []}
    document = {"format": "hetesynth-schedule", "version": 1, "header": {}, "collective": "alltoall", **size}
    with pytest.raises(HetesynthError) as caught:
        read_schedule(json.dumps(document).encode())
    assert caught.value.code == "HS520" and "cannot deliver" in caught.value.message
