"""Conformance data, when it is there: every shipped program is imported, and emitted again for every runtime."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.engine.import_file import ImportRequest, import_file, read_schedule
from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import load_program, read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.target import PORTABLE


def _data() -> Path:
    given = os.environ.get("HETESYNTH_CONFORMANCE")
    return Path(given) if given else Path(__file__).parents[3] / "shared" / "data"


SHIPPED = sorted((_data() / "msccl_xml").glob("*.xml"))


@pytest.mark.skipif(not SHIPPED, reason="no conformance data")
@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_shipped_programs_are_imported_and_emitted_for_every_runtime(path: Path) -> None:
    """Fused receives and all: what comes out suits the portable profile. No step is added to the program's own."""
    made = import_file(ImportRequest(path, targets=(PORTABLE,)))
    assert schedule_violations(made.problem, made.schedule) == []
    assert made.lifted is not None and made.schedule.makespan <= made.lifted.depth
    source = load_program(path).program
    assert source is not None and source.ranks == made.problem.ranks
    for suffix, emitted in made.programs.items():
        read = read_program(emitted.data, suffix)
        assert program_violations(read) == [] and profile_violations(read) == []
    problem, schedule, header = read_schedule(made.files[".schedule.json"])
    assert schedule_violations(problem, schedule) == [] and header["imported_from"] == path.name
    assert (problem.collective, schedule.makespan) == (made.problem.collective, made.schedule.makespan)
