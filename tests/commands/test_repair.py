"""Repairs: what comes of an old schedule on a changed cluster passes the judges and is near a fresh run."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_sources import random_source

from hetesynth.cli.main import run
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.carry_over import CarryOver
from hetesynth.engine.n_minus_one import n_minus_one, single_losses
from hetesynth.engine.recipe import recipe_in
from hetesynth.engine.repair import Repaired, RepairRequest, repair, schedule_difference
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.diagnostics import SourceError
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.search.collectives import collective
from hetesynth.search.repair import mended
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.overridden import overridden

BUDGET = Budget(effort=1.0)
SERVERS = """import v100
cluster two {
  instance a = v100x4
  instance b = v100x8
  fabric ib { join *.nic*; latency 1.3 us }
}
"""

MIXED = """import h20
node pbox {
  gpus 4
  reduce 200 GB/s
  link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; latency 0.7 us }
  link gpu2 <-> gpu3 { bandwidth 25 GB/s; latency 0.7 us }
  nic nic[0-1] { bandwidth 100 Gbps }
  pcie p0 { ports gpu[0-1], nic0; bandwidth 16 GB/s; latency 0.3 us }
  pcie p1 { ports gpu[2-3], nic1; bandwidth 16 GB/s; latency 0.3 us }
  cpu c0 { ports p[0-1]; bandwidth 16 GB/s; latency 0.3 us }
}
cluster mine {
  chunk 4 MB
  instance a = h20x4
  instance b[0-1] = pbox
  fabric ib { join *.nic*; latency 1.3 us }
}
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.dsl"
    path.write_text(MIXED)
    return path


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    path = tmp_path / "topo.dsl"
    path.write_text(SERVERS)
    return path


def made(topology: Path, name: str, **options: object) -> Synthesis:
    options = {"schedule_only": True, "budget": BUDGET, **options}
    return synthesize(Request(topology, name, **options))  # type: ignore[arg-type]


def written(synthesis: Synthesis, folder: Path) -> Path:
    synthesis.write(folder / "old")
    return folder / "old.schedule.json"


def after(schedule: Path, topology: Path, without: str = "", degrade: str = "") -> Repaired:
    losses = overridden(topology, [without] if without else [], [degrade] if degrade else [])
    return repair(RepairRequest(schedule, topology, losses, BUDGET))


# -- schedules


def test_what_still_holds_stays(topology: Path, tmp_path: Path) -> None:
    old = made(topology, "allgather")
    repaired = after(written(old, tmp_path), topology, "a.gpu0<->a.gpu1")
    difference = repaired.difference
    assert difference.same + difference.moved >= 0.8 * len(old.solution.schedule.transfers)
    total = difference.same + difference.moved + difference.new
    assert total == len(repaired.synthesis.solution.schedule.transfers)


def test_ranks_are_renumbered_by_name(topology: Path, tmp_path: Path) -> None:
    repaired = after(written(made(topology, "allgather"), tmp_path), topology, "a.gpu1")
    assert repaired.changes.ranks == (0, None, *range(1, 11))
    assert repaired.changes.lost_gpus == ("a.gpu1",)


@given(
    seed=st.integers(0, 400),
    number=st.integers(0, 10**6),
    name=st.sampled_from(["allgather", "allreduce", "alltoall"]),
)
@pytest.mark.slow
@settings(max_examples=20, deadline=None)
def test_random_clusters_and_losses(
    tmp_path_factory: pytest.TempPathFactory, seed: int, number: int, name: str
) -> None:
    folder = tmp_path_factory.mktemp("random")
    topology = folder / "topo.dsl"
    topology.write_text(random_source(seed, 8, 16))
    losses = [loss for _, loss in single_losses(load_topology(topology))]
    old = written(made(topology, name), folder)
    try:
        repaired = after(old, topology, losses[number % len(losses)])
    except (HetesynthError, SourceError) as error:
        with pytest.raises(type(error)):
            made(overridden(topology, [losses[number % len(losses)]]), name)  # type: ignore[arg-type]
        return
    problem, schedule = repaired.synthesis.problem, repaired.synthesis.solution.schedule
    assert not schedule_violations(problem, schedule)
    assert problem.ranks == load_topology(overridden(topology, [losses[number % len(losses)]])).ranks


@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_any_transfers_are_mended(data: st.DataObject) -> None:
    """Circles, chunks that come from nowhere, links twice: what is offered keeps every law."""
    problem = _problem()
    transfer = st.builds(
        lambda start, chunk, link, reduce: Transfer(start, start + 1, chunk, link, reduce),
        st.integers(0, 5),
        st.integers(0, len(problem.collective.chunks) - 1),
        st.integers(0, len(problem.arcs) - 1),
        st.booleans(),
    )
    transfers = data.draw(st.lists(transfer, max_size=40))
    name = data.draw(st.sampled_from(["allgather", "allreduce", "alltoall", "broadcast"]))
    root = 0 if name == "broadcast" else None
    asked = replace(
        problem, collective=collective(name, problem.ranks, 1, root), exclusive_reduction=name == "allreduce"
    )
    schedules = list(mended(asked, transfers, 3))
    assert schedules
    assert all(not schedule_violations(asked, schedule) for schedule in schedules)
    assert [s.makespan for s in schedules] == sorted((s.makespan for s in schedules), reverse=True)


def _problem() -> Problem:
    from hetesynth.search.chunking import chunk
    from hetesynth.topology.language import parse_topology

    topology = parse_topology(SERVERS.replace("v100x8", "v100x4"))
    return chunk(topology).problem(collective("allgather", topology.ranks))


# -- what is new


def named_transfers(collective_name: str, topology: Topology, per: int, schedule: Schedule) -> Counter[Any]:
    """By the names of GPUs, without the code that is tested: (step, block, part, parts, from, to, adds)."""
    names, links = [v.name for v in topology.vertices[: topology.ranks]], topology.links
    counted: Counter[Any] = Counter()
    for t in schedule.transfers:
        place, part = divmod(t.chunk, per)
        if collective_name == "alltoall":
            block = (names[place // len(names)], names[place % len(names)])
        else:
            block = (names[place % len(names)],)
        link = links[t.link]
        counted[t.start, block, part, per, names[link.src], names[link.dst], t.reduce] += 1
    return counted


@pytest.mark.parametrize("chunks", [1, 2])
@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall"])
def test_the_difference_counts_every_transfer(name: str, chunks: int, topology: Path, tmp_path: Path) -> None:
    """Beside one that was written independently; with other chunks per rank all are new."""
    topology.write_text(SERVERS.replace("v100x8", "v100x4"))
    document = read_schedule_json(written(made(topology, name, strategy="greedy"), tmp_path).read_bytes())
    changed = overridden(topology, ["b.gpu3"])
    before, after = load_topology(topology), load_topology(changed)
    now = made(changed, name, chunks=chunks, strategy="greedy")  # type: ignore[arg-type]
    schedule = now.solution.schedule
    difference = schedule_difference(CarryOver(before, after), document, now.problem, schedule)
    old, new = (
        named_transfers(name, before, document.chunks_per_rank, document.schedule),
        named_transfers(name, after, chunks, schedule),
    )
    same = (old & new).total()
    stepless = [Counter[Any](), Counter[Any]()]
    for counted, other in zip((old, new), stepless, strict=True):
        for key, number in counted.items():
            other[key[1:]] += number
    kept = (stepless[0] & stepless[1]).total()
    figures = (difference.same, difference.moved, difference.new, difference.gone)
    assert figures == (same, kept - same, new.total() - kept, old.total() - kept)
    if chunks == 2:
        assert same == kept == 0


# -- programs


def timed_document(topology: Path, name: str, tmp_path: Path, way: str = "steps") -> Path:
    """A schedule whose program was lowered step by step, as it says."""
    old = written(made(topology, name), tmp_path)
    document = json.loads(old.read_text())
    document["header"]["recipe"] |= {"by_time": True, "programs": True, "way": way}
    old.write_text(json.dumps(document))
    return old


def test_another_way_is_tried_far_from_the_limit(mixed: Path, tmp_path: Path) -> None:
    """Step by step this program takes 1.43 times as long as one in steady state; see the reason in words, too."""
    from hetesynth.cli.repair import repair_report, repair_summary

    old = timed_document(mixed, "alltoall", tmp_path)
    repaired = after(old, mixed, degrade="b1.nic1=50%")
    synthesis, limit = repaired.synthesis, repaired.synthesis.time_optimality.bound_seconds
    assert synthesis.program_seconds is not None and limit is not None
    assert limit >= 0.98 * synthesis.program_seconds
    said = repair_summary(repaired, ())
    assert "a fresh run" not in "".join(repair_report(said))
    far = said | {"percent_of_limit": said["percent_of_limit"] / 2}
    assert "a fresh run may find a quicker one" in "".join(repair_report(far))
    near = after(old, mixed, "b1")
    assert near.synthesis.strategy == "repair"
    assert "a fresh run" not in "".join(repair_report(repair_summary(near, ())))


@pytest.mark.parametrize("name", ["allgather", pytest.param("allreduce", marks=pytest.mark.slow)])
def test_programs_are_made_like_the_old_winner(name: str, topology: Path, tmp_path: Path) -> None:
    old = made(topology, name, schedule_only=False, objective="time")
    document = read_schedule_json(written(old, tmp_path).read_bytes())
    assert recipe_in(document, "it").way == "trees"
    repaired = after(tmp_path / "old.schedule.json", topology, "b.gpu3").synthesis
    assert set(repaired.files) == set(old.files)
    assert repaired.program_seconds is not None and repaired.time_optimality.bound_seconds is not None
    assert repaired.time_optimality.bound_seconds <= repaired.program_seconds
    assert "steady" in repaired.strategy


# -- refusals


def refusal(*arguments: object) -> tuple[int, str]:
    import contextlib
    import io

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
        code = run([str(a) for a in arguments])
    return code, said.getvalue()


def test_nothing_is_written_where_it_fails(topology: Path, tmp_path: Path) -> None:
    old = written(made(topology, "broadcast"), tmp_path)
    before = sorted(tmp_path.iterdir())
    other = tmp_path / "topo.dsl"
    for code, arguments in (
        ("HS652", (old, other, "--without", "a.gpu0")),  # the root
        ("HS001", (old, other)),
        ("HS540", (tmp_path / "absent.json", other, "--without", "a.gpu1")),
        ("HS520", (other, other, "--without", "a.gpu1")),
    ):
        exit_code, said = refusal("repair", *arguments, "-o", tmp_path / "new")
        assert exit_code == 2, said
        assert code in said or code == "HS001"
    assert sorted(tmp_path.iterdir()) == before


def test_another_cluster_is_told_apart(topology: Path, tmp_path: Path) -> None:
    old = written(made(topology, "allgather"), tmp_path)
    topology.write_text(SERVERS.replace("a = v100x4", "a = v100x4 { set nic* { bandwidth 64 Gbps } }"))
    with pytest.raises(HetesynthError) as caught:
        after(old, topology, "b.gpu3")
    assert caught.value.code == "HS651"


def test_a_loss_that_disconnects_says_so(tmp_path: Path) -> None:
    topology = tmp_path / "topo.dsl"
    topology.write_text(SERVERS.replace("v100x8", "v100x4"))
    old = written(made(topology, "allgather"), tmp_path)
    code, said = refusal("repair", old, topology, "--without", "a.nic*", "-o", tmp_path / "new")
    assert code in (1, 2) and "HS" in said
    assert not list(tmp_path.glob("new*"))


def test_a_composition_is_refused(topology: Path, tmp_path: Path) -> None:
    file = tmp_path / "pods.json"
    file.write_text('{\n "format": "hetesynth-composition",\n "version": 1\n}\n')
    with pytest.raises(HetesynthError) as caught:
        after(file, topology, "b.gpu3")
    assert caught.value.code == "HS653"


# -- every single loss


def test_every_single_loss_has_a_schedule(topology: Path) -> None:
    """Of a loss that is like another the schedule of that one holds, with its ranks renumbered."""
    result = n_minus_one(Request(topology, "allgather", schedule_only=True, budget=BUDGET), ("gpu",))
    listed = [name for _, name in single_losses(load_topology(topology), ("gpu",))]
    assert [loss.name for loss in result.losses] == listed
    assert sum(loss.repaired is not None for loss in result.losses) == 2 < len(result.losses)
    schedules = {loss.name: loss.repaired.synthesis for loss in result.losses if loss.repaired is not None}
    alike = [loss for loss in result.losses if loss.like]
    for loss in alike[::5]:
        problem = made(overridden(topology, [loss.name]), "allgather").problem  # type: ignore[arg-type]
        assert not schedule_violations(problem, _renumbered(schedules[loss.like], problem, loss.ranks))
    entries = result.index["losses"]
    assert all("folder" in entry for entry in entries)


def _renumbered(there: Synthesis, problem: Problem, ranks: tuple[int, ...]) -> Schedule:
    """The schedule of another loss, where rank r is rank ``ranks[r]``."""
    here = {rank: r for r, rank in enumerate(ranks)}
    between: dict[tuple[int, int], list[int]] = {}
    for i, arc in enumerate(problem.arcs):
        between.setdefault((arc.src, arc.dst), []).append(i)
    arcs, chunks = there.problem.arcs, there.problem.collective.chunks
    chunk_of = {chunk.block: chunk.index for chunk in problem.collective.chunks}
    return Schedule.of(
        replace(
            t,
            chunk=chunk_of[tuple(here[rank] for rank in chunks[t.chunk].block)],
            link=between[here[arcs[t.link].src], here[arcs[t.link].dst]][0],
        )
        for t in there.solution.schedule.transfers
    )


def test_the_commands(topology: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = written(made(topology, "allgather"), tmp_path)
    assert (
        run(["repair", str(old), str(topology), "--without", "b.gpu3", "-o", str(tmp_path / "new"), "--json"]) == 0
    )
    summary = json.loads(capsys.readouterr().out)
    assert summary["ranks"] == 11 and summary["lost_gpus"] == ["b.gpu3"]
    assert [Path(path).name for path in summary["outputs"]] == ["new.schedule.json"]
    assert run(["repair", str(old), str(topology), "--degrade", "b.nic0=50%", "-o", str(tmp_path / "slow")]) == 0
    assert "lower bound" in capsys.readouterr().out
    folder = tmp_path / "losses"
    options = ["--coll", "allgather", "--schedule-only", "--losses", "nic", "-o", str(folder)]
    assert run(["atlas", str(topology), "--n-minus-1", *options]) == 0
    listed = json.loads((folder / "index.json").read_text())["losses"]
    assert len(listed) == 8
    assert all((folder / entry["folder"]).is_dir() for entry in listed)


@pytest.mark.parametrize("lost", ["a.gpu1", "a.gpu3"])
@pytest.mark.parametrize("size", [(), ("--size", "64MB")])
def test_the_lost_gpu_was_the_only_way_in(
    lost: str, size: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A ring one way: what is left reaches one end only."""
    links = " ".join(f"link gpu{i} -> gpu{(i + 1) % 4} {{ bandwidth 25 GB/s; latency 1 us }}" for i in range(4))
    cluster = tmp_path / "ring.dsl"
    cluster.write_text(f"node n {{ gpus 4 {links} }} cluster ring {{ instance a = n }}")
    stem = str(tmp_path / "x")
    assert run(["synth", str(cluster), "--coll", "allgather", *size, "-o", stem]) == 0
    asked = ["repair", f"{stem}.schedule.json", str(cluster), "--without", lost, "-o", str(tmp_path / "y")]
    assert run(asked) == 1
    assert "HS601" in capsys.readouterr().err


def test_the_size_of_an_atlas_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology, folder = str(Path(__file__).parents[2] / "examples" / "h20_4x3" / "topo.dsl"), tmp_path / "atlas"
    nic = next(vertex.name for vertex in load_topology(topology).vertices if vertex.kind == "nic")
    asked = ["atlas", topology, "--coll", "allgather", "--sizes", "1GB", "--effort", "0.05", "--always"]
    assert run([*asked, "-o", str(folder)]) == 0
    (schedule,) = folder.glob("schedules/*.json")
    lost = ["repair", str(schedule), topology, "--without", nic, "-o", str(tmp_path / "y"), "--json"]
    for more, size in (([], 10**9), (["--size", "64MB"], 64 * 10**6)):
        capsys.readouterr()
        assert run([*lost, *more]) == 0
        assert json.loads(capsys.readouterr().out)["size"] == size
