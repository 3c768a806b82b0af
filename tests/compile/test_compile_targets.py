"""Several targets from one schedule: names, formats, limits, and the matrix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.programs import known_rows, measured, page

from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.formats import FORMATS, suffixes
from hetesynth.engine.problem import load_problem
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.judge.msccl.linter import lint
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ALL = tuple(TARGETS.values())
BACK = "link gpu1 -> gpu0 { bandwidth 9 GB/s; latency 1 us }"


def request(cluster: str, name: CollectiveName, *targets: str) -> Request:
    wanted = tuple(TARGETS[t] for t in targets)
    topology, budget = EXAMPLES / cluster / "topo.dsl", Budget(effort=1.0)
    return Request(topology, name, strategy="greedy", budget=budget, targets=wanted)


def test_every_format_has_a_backend() -> None:
    assert {target.format for target in TARGETS.values()} <= set(FORMATS)


@pytest.mark.parametrize(
    ("targets", "expected"),
    [
        (("portable",), [".xml", ".inplace.xml"]),
        (("msccl",), [".xml", ".inplace.xml"]),
        (("mscclpp",), [".mscclpp.json", ".mscclpp.inplace.json"]),
        (("rccl-6", "mscclpp"), [".rccl-6.xml", ".rccl-6.inplace.xml", ".mscclpp.json", ".mscclpp.inplace.json"]),
    ],
)
def test_names(targets: tuple[str, ...], expected: list[str]) -> None:
    wanted = request("fig10", "allgather", *targets)
    assert suffixes(wanted) == [*expected, ".schedule.json"]
    assert suffixes(replace(wanted, schedule_only=True)) == [".schedule.json"]
    assert list(synthesize(wanted).files) == suffixes(wanted)


def test_one_schedule_for_all_and_each_file_right_for_its_target() -> None:
    made = synthesize(request("fig10", "reducescatter", *(t for t in TARGETS)))
    assert {p.target.name for p in made.programs.values()} == set(TARGETS)
    for suffix, program in made.programs.items():
        assert made.files[suffix] == program.data
        if program.target.format.program:
            read = read_program(program.data, suffix)
            assert lint(read, program.target) == []
            assert read.program is not None and read.program.in_place == program.in_place
    fused, plain = made.programs[".rccl-5.xml"].figures, made.programs[".rccl-6.xml"].figures
    assert fused.steps < plain.steps


@pytest.mark.parametrize("letters", [20, 35, 64])
def test_a_long_name_of_a_cluster_is_cut_in_the_name_of_the_program(letters: int, tmp_path: Path) -> None:
    """Runtimes keep 63 letters; which collective it is, and in which form, is never what is cut."""
    cluster = "c" * letters
    text = f"node pair {{ gpus 2; link gpu0 -> gpu1 {{ bandwidth 9 GB/s; latency 1 us }}; {BACK} }}\n"
    (tmp_path / "long.dsl").write_text(f"{text}cluster {cluster} {{ instance a = pair }}\n")
    made = synthesize(Request(tmp_path / "long.dsl", "reducescatter", chunks=2))
    ends = {".xml": "_reducescatter_c2", ".inplace.xml": "_reducescatter_c2_inplace"}
    for suffix, end in ends.items():
        read = read_program(made.files[suffix], suffix)
        assert read.program is not None
        assert read.program.name == cluster[: 63 - len(end)] + end


def test_peers_are_limited_by_the_tightest_target(tmp_path: Path) -> None:
    topology = tmp_path / "topo.dsl"
    topology.write_text(
        "node n {\n  gpus 65\n  link gpu[0-63] <-> gpu[1-64] { bandwidth 50 GB/s; latency 1 us }\n}\n"
        "cluster c {\n  chunk 1 MB\n  instance a = n\n}\n"
    )
    narrow = replace(TARGETS["rccl-6"], max_thread_blocks=20)
    wanted = Request(topology, "allgather", targets=(TARGETS["msccl"], narrow))
    assert load_problem(wanted, PhaseTimer())[1].max_peers == 15
    assert load_problem(replace(wanted, schedule_only=True), PhaseTimer())[1].max_peers is None


def matrix(clusters: tuple[str, ...]) -> None:
    for cluster in clusters:
        for name in COLLECTIVE_NAMES:
            cell = measured(EXAMPLES / cluster / "topo.dsl", name, ALL)
            assert {*cell.verdicts.values()} == {"ok"}, (cluster, name)


def test_the_matrix_on_six_gpus() -> None:
    matrix(("fig10",))


def test_the_page_says_what_is_wrong_and_is_that_of_the_code() -> None:
    rows = known_rows()
    assert page(rows) == (EXAMPLES.parent / "docs" / "targets.md").read_text() and "Failed: none." in page(rows)
    wrong = [["fig10", "6", "allgather", "ok", "HS501", *rows[0][5:]]]
    assert "Failed: fig10 allgather, `rccl-6`: HS501." in page(wrong)
