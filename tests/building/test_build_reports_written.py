"""``build`` with every report, on two small rings: by the command line, as a CI job does it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lxml import etree
from support.small_projects import RING

from hetesynth.cli.main import run
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import BuildReport
from hetesynth.deploy.reports.pages import write_pages
from hetesynth.deploy.reports.write import report_places

MANIFEST = """[[cluster]]
topology = "three.dsl"
collectives = ["allgather"]
sizes = ["1MB..64MB"]
targets = ["portable", "mscclpp"]
"""


def project(folder: Path, rate: int = 25) -> Path:
    (folder / "three.dsl").write_text(RING.format(name="three", gpus=3, last=2, rate=rate))
    (folder / "hetesynth.toml").write_text(MANIFEST)
    (folder / ".git").mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all tests: each schedule is made once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def at(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project(tmp_path))
    monkeypatch.setenv("HETESYNTH_CACHE", str(cache))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return tmp_path


def build(*options: str) -> int:
    return run(["build", "--jobs", "1", *options])


def stamps(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_every_report_of_a_build(at: Path, capfd: pytest.CaptureFixture[str]) -> None:
    everything = (
        "--junit", "j.xml", "--annotations", "github", "--annotations", "gitlab=q.json", "--annotations",
        "sarif=s.sarif", "--markdown", "s.md", "--pages", "pages",
    )  # fmt: skip
    assert build(*everything) == 0
    assert capfd.readouterr().out.split("\n")[0] in ("2 cells: 2 built", "2 cells: 2 cached")
    assert len(list(etree.parse("j.xml").iter("testcase"))) == 2
    assert json.loads(Path("q.json").read_text()) == []
    assert json.loads(Path("s.sarif").read_text())["runs"][0]["results"] == []
    pages = stamps(at / "pages" / "cells")
    index = (at / "pages" / "index.html").read_text()
    assert len(pages) == 2
    assert all(f'href="cells/{name}"' in index for name in pages)
    (at / "pages" / "cells" / "mine.html").write_text("<p>mine</p>")
    # again: nothing is stale, no page is made again, and of cells that are as they should be nothing is said
    assert build(*everything) == 0
    assert capfd.readouterr().out.split("\n")[0] == "2 cells: 2 current"
    assert pages.items() < stamps(at / "pages" / "cells").items()
    # pages of cells that are gone go, others stay; a summary on standard output is alone there
    (at / "hetesynth.toml").write_text(MANIFEST.replace(', "mscclpp"', ""))
    assert build("--pages", "pages", "--markdown", "-") == 0
    assert capfd.readouterr().out.startswith("<!-- hetesynth build -->\n## Schedules built")
    assert sorted(name.split("-")[0] for name in stamps(at / "pages" / "cells")) == ["mine.html", "three"]


def test_a_topology_that_is_wrong_is_in_the_reports(at: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = (at / "three.dsl").read_text().replace("gpu[1-2,0]", "gpu[1-2,9]")
    (at / "three.dsl").write_text(text)
    assert build("--annotations", "github", "--annotations", "gitlab=q.json", "--junit", "j.xml") == 2
    assert "::error file=three.dsl,line=3,col=" in capfd.readouterr().out
    issues = json.loads(Path("q.json").read_text())
    assert {(i["severity"], i["location"]["path"], i["location"]["lines"]["begin"]) for i in issues} == {
        ("major", "three.dsl", 3)
    }
    assert etree.parse("j.xml").getroot().get("errors") == str(len(issues))


def test_a_page_that_cannot_be_made_says_why(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[BuildReport] = []
    monkeypatch.setattr("hetesynth.cli.build.show_reports", lambda report, *_: reports.append(report))
    assert build() == 0
    program = next(at.rglob("three/portable/algorithms/*64MB.xml"))
    program.write_bytes(program.read_bytes().replace(b'type="s"', b'type="r"', 1))
    (report,) = reports
    manifest = Path("hetesynth.toml")
    write_pages(at / "pages", report, read_manifest(manifest), report_places(manifest), 1)
    assert "no page: HS5" in (at / "pages" / "index.html").read_text()
    assert len(stamps(at / "pages" / "cells")) == 1


def test_a_check_has_the_same_reports(at: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert build() == 0
    (at / "schedules" / "three" / "portable" / "stray.txt").write_text("mine")
    project(at, rate=50)
    capfd.readouterr()
    assert build("--check", "--quick", "--json", "--junit", "j.xml", "--annotations", "github") == 1
    told = capfd.readouterr()
    values = json.loads(told.out)
    assert (values["checked"], values["counts"]["stale"], values["written"]) == (True, 2, [])
    assert [folder["stale"] for folder in values["folders"]] == [True]
    assert told.err.count("::error file=hetesynth.toml,line=1,") == 3
    assert etree.parse("j.xml").getroot().get("failures") == "3"
    assert build("--json", "--pages", "pages") == 0
    cells = json.loads(capfd.readouterr().out)["cells"]
    assert all(-60 < cell["change_percent"] < -30 and cell["line"] == 1 for cell in cells)
    for cell in cells:
        folder = at / "schedules" / cell["cluster"] / cell["target"]
        assert len(cell["files"]) == 3 and all((folder / name).is_file() for name in cell["files"])
