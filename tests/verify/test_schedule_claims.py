"""What a schedule's header claims is checked, refused, or said to be unchecked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine.artifacts import SCHEDULE_SUFFIX
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.verify import Judged, Question, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import RECOMPUTED, bound_violations, claim_violations

DSL = """node box { gpus 4; link gpu0 <-> gpu1 { bandwidth 25 GB/s }; link gpu1 <-> gpu2 { bandwidth 25 GB/s }
 link gpu2 <-> gpu3 { bandwidth 25 GB/s } }
cluster c { instance a = box }
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("claims") / "c.dsl"
    file.write_text(DSL)
    return file


@pytest.fixture(scope="module")
def document(cluster: Path) -> dict[str, Any]:
    """An allgather along four GPUs in a row, in 3 steps, proved by the distance."""
    found = synthesize(Request(cluster, "allgather", schedule_only=True))
    values: dict[str, Any] = json.loads(found.files[SCHEDULE_SUFFIX])
    assert (values["header"]["lower_bound"], values["makespan"]) == (3, 3)
    return values


def judged(document: dict[str, Any], cluster: Path, **claims: object) -> Judged:
    path = cluster.with_name("claimed.schedule.json")
    header = {key: value for key, value in (document["header"] | claims).items() if value is not None}
    path.write_text(json.dumps({**document, "header": header}))
    return judge_file(path, Question(cluster))


def said(judged: Judged) -> list[tuple[str, str]]:
    return [(finding.level, finding.violation.message) for finding in judged.findings]


def test_what_is_written_holds(document: dict[str, Any], cluster: Path) -> None:
    assert said(judged(document, cluster)) == []
    assert said(judged(document, cluster, lower_bound=2, proven_optimal=False)) == []
    assert said(judged(document, cluster, lower_bound=None, proven_optimal=None, bound_method=None)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("lower_bound", "x"), ("lower_bound", True), ("lower_bound", -1), ("lower_bound", 2.0),
        ("lower_bound", 2**53 + 1), ("proven_optimal", 1), ("proven_optimal", "yes"), ("bound_method", 3),
        ("bound_proof", ["x"]), ("chunk_bytes", 0), ("chunk_bytes", 1.5), ("tau_ref_us", 0), ("tau_ref_us", "3"),
        ("tau_ref_us", True), ("rounding", "up"), ("rounding", []), ("latencies", 0), ("exclusion", "auto"),
        ("topology_sha256", 5),
    ],
)  # fmt: skip
def test_a_claim_of_a_wrong_type_is_refused(
    document: dict[str, Any], cluster: Path, key: str, value: object
) -> None:
    with pytest.raises(HetesynthError, match=f"header: {key} is ") as refused:
        judged(document, cluster, **{key: value})
    assert refused.value.code == "HS520"


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({"lower_bound": 2}, "it is said to be optimal; it has 3 steps, and its lower bound is 2"),
        ({"lower_bound": None}, "it is said to be optimal; it has 3 steps, and no lower bound is stated"),
        ({"proven_optimal": False},
         "it is said to be not proved optimal; it has 3 steps, and its lower bound is 3"),
        ({"lower_bound": 4, "proven_optimal": False},
         "no schedule is said to have fewer than 4 steps; this one has 3"),
    ],
)  # fmt: skip
def test_claims_that_contradict_the_schedule_are_wrong(
    document: dict[str, Any], cluster: Path, claims: dict[str, Any], message: str
) -> None:
    assert said(judged(document, cluster, **claims)) == [("error", message)]


def later(document: dict[str, Any]) -> dict[str, Any]:
    """The same with an idle step at the end."""
    return {**document, "makespan": document["makespan"] + 1}


@pytest.mark.parametrize("method", sorted(RECOMPUTED))
def test_a_bound_that_is_not_proved_again_is_wrong(document: dict[str, Any], cluster: Path, method: str) -> None:
    found = said(judged(later(document), cluster, lower_bound=4, bound_method=method))
    message = f"the lower bound of 4 steps ({method}) does not hold: 3 are what is proved"
    assert found == [("error", message)]


@pytest.mark.parametrize(
    "claims",
    [
        {"bound_method": "unsat"}, {"bound_method": "price"}, {"bound_method": None},
        {"topology_sha256": "of another cluster"}, {"links_left_out": True},
    ],
)  # fmt: skip
def test_a_bound_that_may_hold_is_said_to_be_unchecked(
    document: dict[str, Any], cluster: Path, claims: dict[str, Any]
) -> None:
    [(level, message)] = said(judged(later(document), cluster, lower_bound=4, **claims))
    assert level == "note" and message.endswith("was not checked: 3 are what is proved here")


def test_longer_steps_are_pointed_out(document: dict[str, Any], cluster: Path) -> None:
    [(level, message)] = said(judged(document, cluster, tau_ref_us=400))
    assert (level, message) == ("note", "its steps last 400 us; the slowest link takes 40 us for a chunk")


def test_additions_left_to_the_program_are_pointed_out(cluster: Path) -> None:
    found = synthesize(Request(cluster, "reduce", root=1, schedule_only=True))
    document = json.loads(found.files[SCHEDULE_SUFFIX])
    assert document["header"]["exclusion"] == "program"
    [(level, message)] = said(judged(document, cluster))
    assert level == "note"
    assert message.startswith("the program has to order additions, as the header says: step ")
    assert all(level == "error" for level, _ in said(judged(document, cluster, exclusion="step")))
    assert all(level == "error" for level, _ in said(judged(document, cluster, exclusion=None)))
    strict = synthesize(Request(cluster, "reduce", root=1, exclusion="step", schedule_only=True))
    assert said(judged(json.loads(strict.files[SCHEDULE_SUFFIX]), cluster)) == []


def test_the_parts_alone() -> None:
    assert claim_violations({}, 3) == []
    assert bound_violations({"lower_bound": 3, "bound_method": "cut"}, 3, same_links=True) == ([], "")
    assert bound_violations({}, 0, same_links=True) == ([], "")
    [wrong] = bound_violations({"lower_bound": 4, "bound_method": "cut"}, 3, same_links=True)[0]
    assert wrong.kind == "certificate"
