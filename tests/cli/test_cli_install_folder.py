"""``install-hint`` of a folder: real values and paths, and what is not as it was written."""

from __future__ import annotations

import io
import json
import os
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from support.deployments import written

from hetesynth.cli.main import run
from hetesynth.model.target import TARGETS


def hint(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = run(["install-hint", *arguments])
    return code, out.getvalue()


@pytest.mark.parametrize("runtime", TARGETS)
def test_the_target_is_that_of_the_index(runtime: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", runtime)
    code, output = hint(str(folder))
    assert code == 0 and output.startswith(f"ring8: {runtime}: ") and "WARNING" not in output
    code, text = hint(str(folder), "--json")
    assert code == 0 and json.loads(text)["target"] == runtime


@pytest.mark.parametrize("runtime", ["rccl-6", "rccl-5", "msccl-executor", "msccl"])
def test_the_values_are_those_of_the_file(runtime: str, tmp_path: Path) -> None:
    folder = written(tmp_path / "a folder", runtime)
    values = json.loads(hint(str(folder), "--json")[1])["environment"]
    told = subprocess.run(
        ["sh", "-c", '. "$F/environment.sh"; env -0'],
        env={"F": str(folder), "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
    ).stdout.decode()
    shell = dict(line.split("=", 1) for line in told.split("\0") if "=" in line)
    assert values and all(shell[name] == value for name, value in values.items())


def test_exports_can_be_pasted(tmp_path: Path) -> None:
    folder = written(tmp_path / "it's a folder", "rccl-6")
    exports = [line for line in hint(str(folder))[1].splitlines() if line.startswith("  export ")]
    script = "\n".join([*exports, 'printf %s "$MSCCL_ALGO_DIR"'])
    assert (
        subprocess.run(["sh", "-c", script], capture_output=True, check=True).stdout.decode()
        == f"{folder}/algorithms"
    )


def test_files_that_changed_went_or_came_are_named(tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", "rccl-6")
    (folder / "environment.sh").write_text("# mine\n")
    (folder / "hostfile").unlink()
    (folder / "algorithms" / ".notes").write_text("")
    (folder / "algorithms" / "allgather-64000-999999.xml").write_text("<algo/>")
    warnings = json.loads(hint(str(folder), "--json")[1])["warnings"]
    assert [warning["message"] for warning in warnings] == [
        "algorithms/allgather-64000-999999.xml was changed since it was written",
        "environment.sh was changed since it was written",
        "hostfile is missing",
        "algorithms/.notes is none of the programs: runtimes read every file there",
    ]


def test_another_target_and_other_folders_are_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", "rccl-6")
    code, output = hint("mscclpp", str(folder))
    assert code == 2 and "HS872" in output and "for rccl-6" in output
    for other in (tmp_path, folder / "algorithms"):
        code, output = hint(str(other))
        assert code == 2 and "HS871" in output
    code, output = hint(str(tmp_path / "nowhere"))
    assert code == 2 and "HS500" in output


def test_an_atlas_is_installed_where_its_programs_are(tmp_path: Path) -> None:
    folder, targets = tmp_path / "atlas", "rccl-6,msccl,mscclpp,torch"
    cluster = str(Path(__file__).resolve().parents[2] / "examples" / "dgx1" / "topo.dsl")
    asked = ["atlas", cluster, "--coll", "allgather", "--sizes", "1MB", "--effort", "0.05", "--always"]
    assert run([*asked, "--target", targets, "-o", str(folder)]) == 0
    code, output = hint(str(folder))
    assert code == 2 and "HS872" in output
    told = {name: json.loads(hint(name, str(folder), "--json")[1]) for name in targets.split(",")}
    assert told["rccl-6"]["environment"]["MSCCL_ALGO_DIR"] == str(folder / "rccl-6")
    assert int(told["rccl-6"]["environment"]["NCCL_MIN_NCHANNELS"]) >= 1
    files = told["msccl"]["environment"]["MSCCL_XML_FILES"].split(":")
    assert 1 <= len(files) <= 4 and all(Path(file).is_file() for file in files)
    assert f"ExecutionPlan({folder}/mscclpp/NAME.json" in told["mscclpp"]["steps"][0]
    assert f"hetesynth.torch.load('{folder}')" in " ".join(told["torch"]["steps"])
    assert not any(each["warnings"] for each in told.values())
    (folder / "rccl-6" / "stray.xml").write_text("<algo/>")
    next((folder / "msccl").iterdir()).unlink()
    warnings = json.loads(hint("rccl-6", str(folder), "--json")[1])["warnings"]
    assert {warning["message"].partition(" is ")[2].split(":")[0] for warning in warnings} == {
        "missing",
        "none of the programs",
    }


@pytest.mark.parametrize(
    "change",
    [
        lambda record: record.update(programs=[{"name": 3}]),
        lambda record: record.pop("ranks"),
        lambda record: record["programs"][0].update(chunks=0),
    ],
)
def test_a_record_of_anybody_is_no_cell(change, tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", "rccl-6")
    index = json.loads((folder / "index.json").read_text())
    change(index["cells"][0]["record"])
    (folder / "index.json").write_text(json.dumps(index))
    code, output = hint(str(folder))
    assert code == 0 and "internal error" not in output
