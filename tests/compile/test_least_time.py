"""The least time of a command is told before the search, and what was spent beyond the budget after it."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from hetesynth.autotune import tuning as sizing
from hetesynth.autotune.candidates import CandidateSpec
from hetesynth.cli.main import cli
from hetesynth.cli.render.synth import synthesis_summary
from hetesynth.commands import every_root
from hetesynth.commands.synth import synthesize
from hetesynth.compile.least_time import LeastTime, least_time, of_all_roots, warning
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.frontend import load_topology
from hetesynth.model import deadline
from hetesynth.model.problem import Budget
from hetesynth.policy import DEFAULT

EXAMPLES = Path(__file__).parents[2] / "examples"
H20 = EXAMPLES / "h20_8x8" / "topo.dsl"
LOADED = 8.0  # times slower than the machine whose prices these are: other work shares the cores


def asked(budget: float, **options: object) -> Request:
    return replace(Request(H20, "alltoall", budget=Budget(budget)), **options)


def test_programs_cost_time_and_more_ranks_cost_more() -> None:
    whole = least_time(asked(1.0), 64)
    bare = least_time(asked(1.0, schedule_only=True), 64)
    assert bare.seconds < whole.seconds < least_time(asked(1.0), 128).seconds
    assert dict(bare.phases)["lower"] == 0.0


def test_additions_cost_more_than_copies() -> None:
    """As measured on 64 and 128 GPUs: programs that add are lowered and judged in twice the time."""
    copies, sums = (
        dict(least_time(replace(asked(1.0), collective=n), 64).phases) for n in ("alltoall", "allreduce")
    )
    assert sums["search"] == copies["search"]
    assert sums["lower"] >= 1.5 * copies["lower"] and sums["verify"] >= 1.5 * copies["verify"]
    assert sums["bound"] >= 2 * copies["bound"]


def test_who_asks_for_less_than_the_least_time_is_told() -> None:
    least = LeastTime((("search", 12.0), ("lower", 30.0)))
    text = warning(asked(0.5), 256, least)
    assert text is not None and "about 42 s" in text and "--schedule-only" in text and "0.5 s" in text
    assert warning(asked(60.0), 256, least) is None
    assert warning(Request(H20, "alltoall"), 256, least) is None
    assert warning(asked(0.1), 4, LeastTime((("parse", DEFAULT.compile.least_time_worth_telling),))) is None


def test_what_is_beyond_the_budget_is_told() -> None:
    clock = PhaseTimer({"parse": 1.0, "search": 2.0, "lower": 4.0})
    assert clock.beyond(Budget(3.0)) == 4.0
    assert clock.beyond(Budget(10.0)) == clock.beyond(Budget()) == 0.0


def test_json_says_what_was_expected(tmp_path: Path) -> None:
    made = synthesize(Request(EXAMPLES / "ring8" / "topo.dsl", "allgather", budget=Budget(5.0)))
    told = synthesis_summary(made, [])
    assert told["least_seconds"] == round(sum(s for _, s in least_time(made.request, 8).phases), 1)
    assert set(told["least_seconds_by_phase"]) >= {"parse", "bound", "search", "verify", "lower"}
    assert told["beyond_budget_seconds"] == max(0.0, round(made.timer.total - 5.0, 3))


def test_the_note_stands_on_standard_error(tmp_path: Path) -> None:
    arguments = [
        "synth",
        str(H20),
        "--coll",
        "alltoall",
        "--time-budget",
        "0.1",
        "--json",
        "-o",
        str(tmp_path / "x"),
    ]
    found = CliRunner().invoke(cli, arguments)
    assert found.exit_code == 0, found.output
    assert "are needed whatever the budget" in found.stderr and "whatever" not in found.stdout


def test_all_roots_are_told_of_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each root has phases of its own; that they all fit a budget of one does not help."""
    wanted = replace(asked(1.0, schedule_only=True), collective="broadcast", root=0)
    monkeypatch.setattr(every_root, "synthesize", _unwilling)
    said: list[str] = []
    with pytest.raises(HetesynthError, match="not now"):
        every_root.for_every_root(wanted, warn=said.append)
    one, every = least_time(wanted, 64), of_all_roots(wanted, 64)
    assert dict(every.phases)["bound"] == 64 * dict(one.phases)["bound"]
    assert said and "all roots" in said[0] and f"about {every.seconds:.0f} s" in said[0]


def _unwilling(*_: object, **__: object) -> None:
    raise HetesynthError("not now", code="HS602", help="later")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["allgather", "alltoall", "allreduce", "scatter"])
@pytest.mark.parametrize("size", [None, 64 << 20])
def test_a_command_takes_its_budget_and_the_least_time(name: str, size: int | None) -> None:
    """Generous: other work may share the cores of the machine that tests this."""
    wanted = replace(asked(1.0, size=size), collective=name)  # type: ignore[arg-type]
    began = time.process_time()
    made = synthesize(wanted)
    assert made.timer.least is not None
    assert time.process_time() - began <= 1.0 + 2.5 * made.timer.least.seconds
    assert made.timer.total <= LOADED * (1.0 + made.timer.least.seconds)


def test_without_success_a_tuning_run_ends_soon_after_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fixed routes come as soon as time is over; where they fail too, the list is not tried to its end."""
    seconds, tried = [0.0], []

    def fails(run: object, spec: CandidateSpec, record: object) -> None:
        tried.append(spec.name)
        seconds[0] += 6.0

    monkeypatch.setattr(deadline, "source", lambda: seconds[0])
    monkeypatch.setattr(sizing._TuningRun, "_try", fails)
    ring = EXAMPLES / "ring8" / "topo.dsl"
    wanted = Request(ring, "allgather", budget=Budget(1.0), size=1 << 20)
    with pytest.raises(HetesynthError, match="in the time budget") as found:
        sizing.tune(load_topology(ring), wanted, 1 << 20)
    assert found.value.code == "HS610" and found.value.exit_code == 3
    assert tried[1] == "ring" and len(tried) <= 6
