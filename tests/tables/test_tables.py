"""Schedules as tables: what is written is read, judged right, and lifted back; what is changed is found wrong."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.tables import table_of

from hetesynth.api import import_file, synthesize
from hetesynth.cli.main import run
from hetesynth.engine.predictors import CostOptions, TablePredictor
from hetesynth.errors import HetesynthError
from hetesynth.judge.tables.judge import table_violations
from hetesynth.judge.tables.reader import read_table
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import BufferSlice
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.table import MAX_OPERATIONS, Copy, Message, Table
from hetesynth.model.target import TARGETS
from hetesynth.programs.layout import FileOptions
from hetesynth.programs.lifting.table import lift_table
from hetesynth.programs.tables.lower import ORDERS, _bounded, lower_table
from hetesynth.programs.tables.writer import write_table
from hetesynth.runtimes.folder import load_tables
from hetesynth.topology.language import parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
MIXED = EXAMPLES / "h20_4p8" / "topo.dsl"
PAIR = (
    "node n { gpus 2; link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 2 us } }\ncluster pair { instance a = n }\n"
)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_a_schedule_comes_back_from_its_table(name: CollectiveName, pieces: int, order: str) -> None:
    root = 3 if name in ("broadcast", "reduce", "gather", "scatter") else None
    solved = synthesize(MIXED, name, root=root, strategy="greedy", chunks=2, schedule_only=True)
    problem, schedule = solved.problem, solved.solution.schedule
    table = lower_table(problem, schedule, FileOptions("x"), pieces, order)  # type: ignore[arg-type]
    read = read_table(write_table(table))
    assert read == table
    assert table_violations(read, root=root) == []
    again, lifted = lift_table(read)
    asked = Counter(
        (problem.arcs[t.link].src, problem.arcs[t.link].dst, t.chunk, t.reduce) for t in schedule.transfers
    )
    came = Counter(
        (again.arcs[t.link].src, again.arcs[t.link].dst, t.chunk // pieces, t.reduce) for t in lifted.transfers
    )
    assert came == Counter({move: count * pieces for move, count in asked.items()})


def mutants(table: Table) -> list[Table]:
    """A message dropped, sent to another place, from another place, a round later, or not added."""

    def with_round(number: int, messages: tuple[Message, ...]) -> Table:
        return replace(table, rounds=(*table.rounds[:number], messages, *table.rounds[number + 1 :]))

    changed: list[Table] = []
    for number, messages in enumerate(table.rounds):
        m, rest = messages[0], messages[1:]
        changed.append(with_round(number, rest))
        elsewhere = BufferSlice(m.source.buffer, m.source.offset + 1)
        changed.append(with_round(number, (replace(m, source=elsewhere), *rest)))
        changed.append(with_round(number, (replace(m, landing=BufferSlice("i", 0)), *rest)))
        changed.append(with_round(number, (*messages, m)))
        if m.added is not None:
            changed.append(with_round(number, (replace(m, added=None), *rest)))
    if table.copies:
        changed.append(replace(table, copies=table.copies[1:]))
    return changed


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_changed_tables_are_refused(name: CollectiveName) -> None:
    wrong = mutants(table_of(MIXED, name))
    assert len(wrong) > 5
    assert [i for i, table in enumerate(wrong) if not table_violations(table, max_findings=1)] == []


def test_a_sum_in_place_must_not_read_what_it_overwrites() -> None:
    """Out of place it is right: rank 1 sends its input after its output holds the sum."""
    o, i, s = (BufferSlice(buffer, 0) for buffer in ("o", "i", "s"))  # type: ignore[arg-type]
    copies = (Copy(0, i, o, 1), Copy(1, i, o, 1))
    rounds = ((Message(0, 1, o, s, 1, o),), (Message(1, 0, i, s, 1, o),))
    table = Table("late", "allreduce", None, ((1, 1, 1), (1, 1, 1)), copies, rounds)
    findings = table_violations(table)
    assert {v.rule for v in findings} == {"HX960"}
    assert findings[0].message.startswith("in place: ")


def place(buffer: str, offset: int) -> BufferSlice:
    return BufferSlice(buffer, offset)  # type: ignore[arg-type]


def reduced(copies: tuple[Copy, ...], messages: tuple[Message, ...]) -> Table:
    return Table("x", "reduce", 0, ((1, 1, 8), (1, 1, 8), (1, 1, 8)), copies, (messages,))


def test_what_executors_may_do_in_any_order_is_refused() -> None:
    """Sums of what a round receives, and copies, are joined where they are neighbours."""
    i, o, s = place("i", 0), place("o", 0), partial(place, "s")
    own = Copy(0, i, o, 1)
    fine = (Message(1, 0, i, s(0), 1, o), Message(2, 0, i, s(1), 1, o))
    assert table_violations(reduced((own,), fine)) == []
    chained = (Message(1, 0, i, s(0), 1, o), Message(2, 0, i, s(1), 1, s(0)))
    overlapping = (own, Copy(0, i, s(0), 1), Copy(0, s(0), s(1), 3))
    assert {v.rule for v in table_violations(reduced((own,), chained))} == {"HX956"}
    assert "HX956" in {v.rule for v in table_violations(reduced(overlapping, fine))}
    foreign = (Message(1, 2, i, place("o", 0), 1), *fine)
    assert {v.rule for v in table_violations(reduced((own,), foreign))} == {"HX953"}


def test_rounds_have_no_more_operations_than_nccl_bears() -> None:
    place = BufferSlice("o", 0)
    messages = [Message(src, dst, place, place, 1) for _ in range(60) for src in range(6) for dst in range(6)]
    parts = _bounded(messages)
    assert Counter(m for part in parts for m in part) == Counter(messages)
    degrees = [Counter(rank for m in part for rank in (m.src, m.dst)) for part in parts]
    assert max(max(of.values()) for of in degrees) <= MAX_OPERATIONS
    assert len(parts) == -(-60 * 12 // MAX_OPERATIONS)


def test_the_time_of_a_table_by_hand() -> None:
    """Two ranks, one round each way at once: launch, latency, bytes, and what the executor spends."""
    topology = parse_topology(PAIR)
    solved = synthesize(topology, "allgather", schedule_only=True)
    table = lower_table(solved.problem, solved.solution.schedule, FileOptions("x"))
    plain = TablePredictor(topology, table, CostOptions(), TARGETS["torch"])
    assert plain.timeline(2_000_000).makespan == pytest.approx(2e-6 + 1_000_000 / 25e9)
    costs = CostOptions(runtime=NCCL_TABLES)
    priced = TablePredictor(topology, table, costs, TARGETS["jax"]).timeline(2_000_000).makespan
    hop, rate = max(costs.costs(topology).lags("Simple")), min(costs.costs(topology).link_rate)
    target = TARGETS["jax"]
    spent = target.round_seconds + target.message_seconds
    assert priced == pytest.approx(costs.launch(topology) + spent + hop + 1_000_000 / rate)


@pytest.mark.parametrize("target", ["torch", "jax"])
def test_the_commands_take_tables(target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stem = tmp_path / "t"
    ask = [
        "synth",
        str(MIXED),
        "--coll",
        "allreduce",
        "--size",
        "64MB",
        "--target",
        target,
        "-o",
        str(stem),
        "--always",
        "--json",
    ]
    assert run(ask) == 0
    said = json.loads(capsys.readouterr().out)
    file = tmp_path / f"t.{target}.json"
    assert said["program_us"] > 0
    assert run(["verify", str(file), "--topo", str(MIXED), "--target", target]) == 0
    assert run(["simulate", str(file), str(MIXED), "--size", "64MB"]) == 0
    imported = import_file(file, MIXED, target=["portable", "mscclpp", "torch"], always=True)
    imported.write(tmp_path / "back")
    back = read_table((tmp_path / "back.torch.json").read_bytes())
    assert table_violations(back) == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("version", 2, "version 2"),
        ("collective", "all", "'collective' is none of"),
        ("rounds", [[[0, 1, "x", 0, "o", 0, 1]]], "is no buffer"),
        ("rounds", [[[0, 99, "o", 0, "o", 0, 1]]], "a rank: 99"),
        ("sizes", [], "0 ranks"),
        ("root", 1, "'root' is stated"),
    ],
)
def test_what_is_no_table_is_refused(field: str, value: object, words: str) -> None:
    values = json.loads(write_table(table_of("4p8", "allgather")))
    with pytest.raises(HetesynthError) as caught:
        read_table(json.dumps(values | {field: value}).encode())
    assert caught.value.code == "HS533"
    assert words in caught.value.message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An atlas of one table, beside which lies another that its index does not name."""
    made = {name: write_table(table_of("2x2", name)) for name in ("allreduce", "allgather")}
    (tmp_path / "atlas" / "torch").mkdir(parents=True)
    for name, data in made.items():
        (tmp_path / "atlas" / "torch" / f"{name}.torch.json").write_bytes(data)
    files = {"torch/allreduce.torch.json": hashlib.sha256(made["allreduce"]).hexdigest()}
    index = {"kind": "hetesynth atlas", "targets": ["torch"], "cluster": "2x2", "collective": "allreduce"}
    rows = {"ranges": [{"files": list(files)}], "sha256": files}
    (tmp_path / "atlas" / "index.json").write_text(json.dumps(index | rows, indent=1))
    return tmp_path / "atlas"


def test_the_tables_of_a_folder_are_those_that_its_index_names(folder: Path) -> None:
    assert [table.collective for table in load_tables(folder, "torch")] == ["allreduce"]
    (folder / "index.json").unlink()
    assert [table.collective for table in load_tables(folder, "torch")] == ["allgather", "allreduce"]


def changed(folder: Path) -> None:
    path = folder / "torch" / "allreduce.torch.json"
    path.write_bytes(path.read_bytes() + b"\n")


def removed(folder: Path) -> None:
    (folder / "torch" / "allreduce.torch.json").unlink()


def linked(folder: Path) -> None:
    path = folder / "torch" / "allreduce.torch.json"
    path.rename(folder.parent / "elsewhere.json")
    path.symlink_to(folder.parent / "elsewhere.json")


def linked_folder(folder: Path) -> None:
    (folder / "torch").rename(folder.parent / "elsewhere")
    (folder / "torch").symlink_to(folder.parent / "elsewhere")


def damaged(folder: Path) -> None:
    (folder / "index.json").write_text('{"kind": "hetesynth atlas"}')


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed, "changed"),
        (removed, "missing"),
        (linked, "symbolic link"),
        (linked_folder, "symbolic link|missing"),
        (damaged, "is no index"),
    ],
)
def test_a_folder_that_is_not_as_it_was_written_is_refused(
    change: Callable[[Path], None], words: str, folder: Path
) -> None:
    change(folder)
    with pytest.raises(HetesynthError, match=words):
        load_tables(folder, "torch")
    if change is not damaged:
        (folder / "index.json").unlink()
        if change in (linked, linked_folder):
            with pytest.raises(HetesynthError, match="symbolic link"):
                load_tables(folder, "torch")
