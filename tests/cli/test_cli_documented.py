"""Every command that README.md and docs/ print works as printed, in a folder that holds the files they name."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
from importers.tool_outputs import listed, topo_m
from support.small_projects import RING
from support.topology_files import switched

from hetesynth.cli.main import run

ROOT = Path(__file__).resolve().parents[2]
FIG10 = ROOT / "examples" / "fig10" / "topo.dsl"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def printed(page: Path) -> list[list[str]]:
    """The arguments of every ``hetesynth`` that stands on a line of its own, in order; its comments removed."""
    found = []
    for line in page.read_text().splitlines():
        words = shlex.split(line, comments=True) if "hetesynth " in line and "`" not in line else []
        command = words[3:] if words[:2] == ["mpiexec", "-n"] else words
        if command[:1] == ["hetesynth"] and len(command) > 1:
            found.append(command[1:])
    return found


MEASURED = ROOT / "tests" / "fitting" / "data" / "all_gather_perf.txt"
RANKS = "".join(f"#  Rank  {i} Group  0 Pid 1 on node device {i} [0x07] NVIDIA H20\n" for i in range(4))
PROJECT = """[defaults]
collectives = ["allgather"]
sizes = ["1MB..64MB"]
targets = ["rccl-6"]
[[cluster]]
topology = "prod.dsl"
"""
BOX = """import h20
cluster box { instance a = h20x4 }
"""
DOCUMENTED = [page for page in PAGES if printed(page)]
MAIN = ("README.md", "commands.md")
LONG = ("README.md", "commands.md", "sizes.md", "composition.md")  # searches at many sizes, thousands of GPUs


@pytest.fixture
def made(page: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A schedule of the page's cluster with its programs, one for MSCCL++ too."""
    folder = tmp_path_factory.mktemp("made")
    cluster = str(cluster_of(page))
    asked = [
        "synth",
        cluster,
        "--coll",
        "allreduce",
        "--strategy",
        "greedy",
        "--always",
        "-o",
        str(folder / "made"),
    ]
    assert run([*asked, "--target", "portable,mscclpp,torch"]) == 0
    return folder


def cluster_of(page: Path) -> Path:
    """What the page calls topo.dsl."""
    return ROOT / "examples" / "h20_4p8" / "topo.dsl" if page.name in MAIN else FIG10


@pytest.mark.parametrize(
    "page", [pytest.param(p, id=p.name, marks=[pytest.mark.slow] if p.name in LONG else []) for p in DOCUMENTED]
)
def test_the_commands_of_a_page_work(
    page: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    cluster = cluster_of(page)
    for name in ("topo.dsl", "cluster.dsl", "new.dsl"):
        shutil.copy(cluster, name)
    for name in ("node0.xml", "node1.xml"):
        Path(name).write_bytes(switched(4))
    for name in ("h20_4p8", "h20_pods", "two_dc_50km"):
        shutil.copytree(ROOT / "examples" / name, f"examples/{name}")
    shutil.copy(next(path for path in made.glob("*.xml") if "inplace" not in path.name), "FILE.xml")
    for name in ("node01.txt", "node02.txt"):
        table = topo_m(2, ["NIC0"], lambda a, b: "NV18" if a[0] == b[0] else "PIX")
        Path(name).write_text(table + listed(2, "NVIDIA H20"))
    Path("out").mkdir()
    for name in ("program.xml", "any.xml", "out/x.xml"):
        shutil.copy("FILE.xml", name)
    shutil.copy(made / "made.schedule.json", "OLD.schedule.json")
    shutil.copy(cluster, "old.dsl")
    Path("schedules").mkdir()
    shutil.copy(made / "made.schedule.json", "schedules")
    if page.name in (*MAIN, "calibration.md"):
        if page.name == "calibration.md":
            Path("topo.dsl").write_text(BOX)
        for collective in ("all_gather", "reduce_scatter"):
            text = MEASURED.read_text().replace("all_gather", collective)
            Path(f"{collective}.txt").write_text(RANKS + text)
    shutil.copy(made / "made.mscclpp.json", "plan.json")
    shutil.copy(made / "made.torch.json", "table.torch.json")
    write_project(tmp_path / "project")
    for arguments in printed(page):
        if is_of_a_project(arguments):
            with monkeypatch.context() as inside:
                inside.chdir(tmp_path / "project")
                assert_of_a_project(arguments, tmp_path)
            continue
        if arguments[:2] == ["topo", "detect"]:  # needs the machine's tools
            continue
        quick = ["--backend", "inprocess"] if arguments[0] == "run" and "--backend" not in arguments else []
        differs = arguments[:2] == ["topo", "diff"] and (page.name in MAIN or "--without" in arguments)
        assert run([*arguments, *quick]) == int(differs), arguments


def test_the_verdict_that_pages_show_is_what_the_command_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["synth", str(ROOT / "examples" / "h20_4p8" / "topo.dsl"), "--coll", "allgather"]) == 0
    verdict = capsys.readouterr().out.splitlines()[0]
    for page in (ROOT / "README.md", ROOT / "docs" / "sizes.md"):
        assert f"\n    {verdict}\n" in page.read_text(encoding="utf-8")


def write_project(folder: Path) -> None:
    """A repository with a small cluster."""
    folder.mkdir()
    (folder / "prod.dsl").write_text(RING.format(name="prod", gpus=3, last=2, rate=25))


def is_of_a_project(arguments: list[str]) -> bool:
    """Whether the command is meant for a repository with a manifest."""
    return arguments[0] == "build" or arguments in (["init"], ["install-hint", "schedules/prod/rccl-6"])


def assert_of_a_project(arguments: list[str], tmp_path: Path) -> None:
    """Run the command; after ``init`` the manifest is one with less to make."""
    if "--scheduler" in arguments:  # tests/building/test_dask_cluster.py has a scheduler
        return
    if arguments == ["init"]:
        assert run(arguments) == 0
    if not Path("prod.toml").exists():
        for name in ("hetesynth.toml", "prod.toml"):
            Path(name).write_text(PROJECT)
    if arguments == ["init"]:
        return
    if arguments[-1] == "/shared/cache":
        arguments = [*arguments[:-1], str(tmp_path / "shared")]
    if arguments[0] == "build" and not {"--cache", "--check"} & {*arguments}:
        arguments = [*arguments, "--cache", str(tmp_path / "cache")]
    assert run(arguments) == int("--check" in arguments and not Path("schedules").exists()), arguments
