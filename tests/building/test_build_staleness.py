"""What is stale: the content that a result depends on, and nothing else."""

from __future__ import annotations

import hashlib
import os
import signal
from dataclasses import replace
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Cached
from support.small_projects import ONE_CELL, RING, tree, write_project

from hetesynth.deploy.build import build, folder_plans, load_clusters
from hetesynth.deploy.cache import Cache, CellResult, as_kept, unpacked
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import BuildReport, Watcher
from hetesynth.deploy.workers import LIVES, Failed, LocalProcesses
from hetesynth.errors import InternalError

TWO_CELLS = f'{ONE_CELL}\n[[cluster]]\ntopology = "four.dsl"\n'


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = write_project(tmp_path / "project")
    (folder / "hetesynth.toml").write_text(TWO_CELLS)
    return folder


def built(project: Path, scheduler: Cached, cache: Path | None = None) -> BuildReport:
    store = Cache(cache or project.parent / "cache")
    return build(read_manifest(project / "hetesynth.toml"), scheduler, store, Watcher())


def keys(project: Path) -> dict[str, str]:
    manifest = read_manifest(project / "hetesynth.toml")
    plans = folder_plans(manifest, load_clusters(manifest))
    return {job.cell.name: job.key for plan in plans for job in plan.jobs}


def test_a_key_is_of_the_options_and_versions_but_not_of_the_gates(project: Path) -> None:
    manifest = read_manifest(project / "hetesynth.toml")
    (plan, *_) = folder_plans(manifest, load_clusters(manifest))
    (first, *_) = plan.jobs
    cell = first.cell
    same = replace(first, cell=replace(cell, gates=replace(cell.gates, steps=3)))
    assert same.key == first.key
    others = [
        replace(first, cell=replace(cell, options=replace(cell.options, effort=2.0))),
        replace(first, cell=replace(cell, options=replace(cell.options, seed=1))),
        replace(first, cell=replace(cell, collective="allreduce")),
        replace(first, cell=replace(cell, target="rccl-6")),
        replace(first, cell=replace(cell, extent=4)),
        replace(first, topology_sha256="0" * 64),
        *(replace(first, versions=(*first.versions[:i], (name, "0"), *first.versions[i + 1 :]))
          for i, (name, _) in enumerate(first.versions)),
    ]  # fmt: skip
    assert len({first.key, *(job.key for job in others)}) == 1 + len(others)


def test_what_is_stale_is_built_and_nothing_else(project: Path) -> None:
    first, again, other = Cached(), Cached(), Cached(project.parent / "cache")
    assert [report.status for report in built(project, first).cells] == ["built", "built"]
    assert len(first.names) == 2
    after = tree(project / "schedules")
    assert [report.status for report in built(project, again).cells] == ["current", "current"]
    assert again.names == []
    assert tree(project / "schedules") == after
    (project / "three.dsl").write_text(RING.format(name="three", gpus=3, last=2, rate=26))
    report = built(project, other)
    assert other.names == ["three/portable/allgather/1 chunk"]
    assert [cell.status for cell in report.cells] == ["built", "current"]
    assert report.written == (project / "schedules" / "three" / "portable",)
    (program,) = (project / "schedules" / "three" / "portable" / "algorithms").glob("*allgather*chunk.xml")
    program.write_bytes(program.read_bytes() + b"\n")
    assert built(project, Cached(fails="/")).cells[0].status == "cached"


def test_a_result_is_the_same_bytes_and_back() -> None:
    files = {"a.xml": b"<a/>", "a.schedule.json": b"{}"}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    record = {"ranks": 1, "collective": "allgather", "sizes": [], "files": digests, "b": 1, "a": [2]}
    result = CellResult("0" * 64, files, record)
    data = result.packed()
    assert unpacked(data, "0" * 64) == result and unpacked(data, "1" * 64) is None
    for damaged in (data[:-1], data[:70] + b"x" + data[71:], b"", data[:64], data + b"\n"):
        assert unpacked(damaged, "0" * 64) is None
    assert list(as_kept({"b": (1,), "a": 2}).items()) == [("a", 2), ("b", [1])]
    assert result.packed() == replace(result, record=dict(reversed(record.items()))).packed()


class Killer(Watcher):
    """Kills the process that has the job as often as it is told to."""

    def __init__(self, times: int) -> None:
        self.times = times

    def working(self, key: str, what: str) -> None:
        if self.times and what == "starts":
            self.times -= 1
            for process in active_children():
                os.kill(process.pid or 0, signal.SIGKILL)


@pytest.mark.parametrize("times", [1, LIVES])
def test_a_process_that_is_killed_costs_its_cell_to_be_made_again(project: Path, times: int) -> None:
    manifest = read_manifest(project / "hetesynth.toml")
    jobs = [job for plan in folder_plans(manifest, load_clusters(manifest)) for job in plan.jobs]
    outcomes = {o.key: o for o in LocalProcesses(1, None).run(jobs, Killer(times))}
    assert outcomes.keys() == {job.key for job in jobs}
    failed = [outcome for outcome in outcomes.values() if isinstance(outcome, Failed)]
    assert [outcome.code for outcome in failed] == ([] if times < LIVES else ["HS851"])
    assert not active_children()


def test_a_cell_that_fails_or_has_a_bug_costs_no_other(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hetesynth.deploy import compute as computing

    report = built(project, Cached(fails="three/"))
    assert [cell.status for cell in report.cells] == ["failed", "built"] and not report.ok
    assert "no program fits" in report.cells[0].messages[0] and tree(project / "schedules" / "four")

    def broken(job: Job, progress: Any) -> CellResult:
        raise InternalError("the schedule does not verify")

    monkeypatch.setattr(computing, "compute", broken)
    report = built(project, Cached())
    assert [cell.status for cell in report.cells] == ["failed", "current"]
    assert report.cells[0].messages[0].startswith("HS070: internal error: the schedule does not verify")
