"""A program for a runtime that its GPUs do not have is warned of; one for no runtime says which would load one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.model.target import TARGETS

CLUSTERS = {
    "H100": "import h100\ncluster c {\n  instance a = h100x8\n}\n",
    "MI300X": "import mi300x\ncluster c {\n  instance a = mi300x8\n}\n",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for model, text in CLUSTERS.items():
        (tmp_path / f"{model}.dsl").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def synth(model: str, target: str, *more: str) -> list[str]:
    words = f"synth {model}.dsl --coll allgather --strategy ring --target {target} -o x"
    return [*words.split(), *more]


@pytest.mark.parametrize(
    ("model", "target", "warning", "way_out"),
    [
        ("H100", "rccl-6", "rccl-6 runs on AMD GPUs only, not on H100 (NVIDIA)", "mscclpp,msccl-executor,torch"),
        (
            "MI300X",
            "msccl-executor",
            "msccl-executor runs on NVIDIA GPUs only, not on MI300X (AMD)",
            "rccl-6,torch",
        ),
    ],
)
@pytest.mark.usefixtures("folder")
def test_a_target_of_another_vendor_is_warned_of(
    model: str, target: str, warning: str, way_out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(synth(model, target, "--json")) == 0
    summary = json.loads(capsys.readouterr().out)
    found = {"targets": [target], "message": warning, "help": f"--target {way_out} writes what loads there"}
    assert found in summary["warnings"]
    assert summary["runtime_advice"] is None
    [cluster] = [other for other in CLUSTERS if other != model]
    assert run(synth(cluster, target, "--json")) == 0
    assert warning.split()[0] not in {
        w["message"].split()[0] for w in json.loads(capsys.readouterr().out)["warnings"]
    }


@pytest.mark.parametrize(
    ("model", "targets"), [("H100", ["mscclpp", "msccl-executor", "torch"]), ("MI300X", ["rccl-6", "torch"])]
)
def test_the_default_target_says_last_what_its_gpus_load(
    model: str, targets: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = f"for these GPUs name its own: --target {' or '.join(targets)}"
    said = f"portable is no runtime's own format; {named}"
    assert run(synth(model, "portable", "--explain", "--report", "x.html")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == f"  next         {said}"
    assert (
        said.replace("'", "&#x27;") in (folder / "x.html").read_text() or said in (folder / "x.html").read_text()
    )
    assert run(synth(model, "portable", "--json")) == 0
    assert json.loads(capsys.readouterr().out)["runtime_advice"] == said


def test_install_hint_alone_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install-hint", "--json"]) == 2
    error: dict[str, Any] = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "HS004"
    lines = [line.strip() for line in error["help"].splitlines()]
    assert [line.split()[0] for line in lines[1:]] == list(TARGETS)
    assert "rccl-6          RCCL of ROCm" in error["help"]
