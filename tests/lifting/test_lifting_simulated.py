"""Conformance data, when it is there: shipped production programs are read, judged, imported and simulated.

Each runs on a cluster that has the links the program uses and no others, at stated rates. Its time then has a
floor (what a rank must take in, through all its links at once) and a ceiling (one transfer after the other).
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.engine.import_file import ImportRequest, import_file
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.simulate import file_predictor
from hetesynth.engine.verify import Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.msccl.reader import load_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cost import chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.topology.language import load_topology

RATE, ALPHA = 25 * 10**9, Fraction(1, 10**6)
SMALL, LARGE = 1 << 20, 1 << 28
PRODUCTION = 14  # schedules that the data holds


def _data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


SHIPPED = sorted((_data() / "msccl_xml").glob("*.xml"))


def own_cluster(problem: Problem) -> str:
    """A node whose links are those of ``problem``, each a wire of its own."""
    pairs = sorted({(arc.src, arc.dst) for arc in problem.arcs})
    rate = f"{{ bandwidth {RATE // 10**9} GB/s; latency 1 us }}"
    links = "\n".join(f"  link gpu{src} -> gpu{dst} {rate}" for src, dst in pairs)
    return f"node own {{\n  gpus {problem.ranks}\n{links}\n}}\ncluster used {{ chunk 1 MB; instance a = own }}\n"


def floor(problem: Problem, size: int) -> Fraction:
    """Seconds until the rank with the most to take in for its links has it."""
    asked = problem.collective
    chunk = Fraction(chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, size))
    pairs = {(arc.src, arc.dst) for arc in problem.arcs}
    worst = Fraction(0)
    for rank in range(problem.ranks):
        wanted = [pre for pre, post in zip(asked.pre, asked.post, strict=True) if rank in post]
        missing = sum(pre != {rank} if asked.reduces else rank not in pre for pre in wanted)
        if missing:
            lanes = sum(dst == rank for _, dst in pairs)
            worst = max(worst, missing * chunk / (lanes * RATE))
    return worst


def stalls_when_large(path: Path) -> bool:
    """The judge says that the program hangs once its chunks take several messages each."""
    judged = judge_file(path, Question())
    return any(f.level == "warning" and f.violation.kind == "deadlock" for f in judged.findings)


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
def test_all_shipped_programs_are_there() -> None:
    assert len(SHIPPED) >= PRODUCTION


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_a_shipped_program_is_judged_imported_and_simulated(path: Path, tmp_path: Path) -> None:
    assert program_violations(load_program(path)) == []
    found = import_file(ImportRequest(path))
    (tmp_path / "own.dsl").write_text(own_cluster(found.problem))
    cluster = load_topology(tmp_path / "own.dsl")
    made = import_file(ImportRequest(path, topology=tmp_path / "own.dsl"))
    assert schedule_violations(made.problem, made.schedule) == []
    assert made.problem.collective == found.problem.collective
    asked = made.problem.collective
    (tmp_path / "own.schedule.json").write_bytes(made.files[".schedule.json"])
    moves = file_predictor(tmp_path / "own.schedule.json", cluster, CostOptions())
    runs = file_predictor(path, cluster, CostOptions())
    for clock in (moves, runs):
        small = clock.predict(SMALL)
        assert (small.collective, small.ranks) == (asked.name, asked.ranks)
        assert small.seconds >= float(floor(made.problem, SMALL) + ALPHA) * (1 - 1e-9)
        assert small.algorithm_bandwidth == pytest.approx(SMALL / small.seconds)
        if clock is runs and stalls_when_large(path):
            with pytest.raises(HetesynthError, match="in a circle"):
                clock.predict(LARGE)
            continue
        large = clock.predict(LARGE)
        assert large.seconds >= float(floor(made.problem, LARGE) + ALPHA) * (1 - 1e-9)
        assert small.seconds < large.seconds
    chunk = Fraction(chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, SMALL))
    one_by_one = len(made.schedule.transfers) * (ALPHA + chunk / RATE)
    assert moves.predict(SMALL).seconds <= float(one_by_one)
