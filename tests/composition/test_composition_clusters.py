"""Nothing that the judge says of a composition on a damaged cluster changes unnoticed: verdicts, as digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.damages import damaged_json, digests
from support.pods import SMALL, composed, document, encoded, server
from support.pods import cluster as text

from hetesynth.judge.composition.judge import judge_composition
from hetesynth.model.pods import PodCluster
from hetesynth.search.pods.compose import ComposedName
from hetesynth.topology.language import parse_pods

TABLES = Path(__file__).parent / "golden"
NETWORKS = {
    **SMALL,
    "two kinds": text(
        "instance a[0-2] = s instance b = t",
        server("s", 3, 1, reduce="reduce 200 GB/s"),
        server("t", 2, 2, rate="80 Gbps", reduce="reduce 150 GB/s"),
    ),
    "grouped": text(
        "instance a[0-1] = s instance b = t",
        server("s", 3, 3, reduce="shared half 50 GB/s { gpu0 <-> gpu[1-2] }"),
        server("t", 3, 3, rate="40 Gbps"),
    ),
    "two racks": text(
        "instance r[0-1] = rack instance q = other",
        server("s", 2, 2, reduce="reduce 200 GB/s"),
        server("t", 2, 2, reduce="reduce 150 GB/s"),
        server("u", 2, 2),
        "pod rack { instance a = s instance b = t fabric leaf { join *.nic*; latency 1 us } }\n",
        "pod other { instance a = u instance b[0-1] = t fabric leaf { join *.nic*; latency 1 us } }\n",
        between="switch spine { ports *.leaf; bandwidth 40 GB/s; latency 1 us }",
    ),
}
Table = Callable[[Path, bytes], None]


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def test_what_nothing_happens_in_takes_no_time() -> None:
    values = document(composed(SMALL["2x4"], "allreduce", 2))
    assert judge_composition(encoded(values), None).deliveries == 2 * 16 * 7
    for phase in values["phases"]:
        phase["rounds"], phase["moves"] = [], []
        phase["batches"] = [[[0]] for _ in phase["kinds"]]
        for kind in phase["kinds"]:
            kind["home"], kind["entered"] = [], []
    values["header"]["picoseconds"] = 0
    verdict = judge_composition(encoded(values), None)
    assert verdict.readable and verdict.picoseconds == 0
    assert {v.kind for v in verdict.violations} == {"not-delivered"}


def messages(name: str, collective: ComposedName, change: Callable[[PodCluster], PodCluster]) -> list[str]:
    """What the judge says of a good composition on a changed cluster."""
    cluster = parse_pods(NETWORKS[name])
    data = encoded(document(composed(NETWORKS[name], collective)))
    assert judge_composition(data, cluster).violations == ()
    return [v.message for v in judge_composition(data, change(cluster)).violations]


def _adding(cluster: PodCluster, number: int, share: Fraction) -> PodCluster:
    """``cluster``, the GPUs of whose type ``number`` add a little slower."""
    pod = cluster.types[number]
    rates = tuple(None if rate is None else rate * share for rate in pod.reduce_bandwidth)
    return replace(cluster, types=_put(cluster.types, number, replace(pod, reduce_bandwidth=rates)))


def slower(values: tuple[Any, ...], share: Fraction) -> tuple[Any, ...]:
    """Wires, or groups, at a share of their rates."""
    return tuple(v if v.bandwidth is None else replace(v, bandwidth=v.bandwidth * share) for v in values)


A_LITTLE = Fraction(999_999, 1_000_000)
CHANGES: dict[str, Callable[[PodCluster], PodCluster]] = {
    "wires": lambda c: replace(c, wires=slower(c.wires, A_LITTLE)),
    "groups": lambda c: replace(c, types=tuple(replace(t, groups=slower(t.groups, A_LITTLE)) for t in c.types)),
    "latency": lambda c: replace(
        c, wires=tuple(replace(w, latency=w.latency + Fraction(1, 10**12)) for w in c.wires)
    ),
    "ends": lambda c: replace(c, wires=tuple(replace(w, src=w.dst, dst=w.src) for w in c.wires)),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(("name", "collective"), [("grouped", "allreduce"), ("racks", "allgather")])
def test_a_cluster_that_carries_a_little_less_refuses(change: str, name: str, collective: ComposedName) -> None:
    said = messages(name, collective, CHANGES[change])
    assert bool(said) == ((name, change) not in {("racks", "groups")})


@pytest.mark.parametrize("name", ["two kinds", "two racks"])
def test_a_step_waits_for_additions_of_its_pods_and_a_round_for_all(name: str) -> None:
    a_little = Fraction(999_999, 1_000_000)
    for number in range(2):
        said = messages(name, "reducescatter", lambda cluster, n=number: _adding(cluster, n, a_little))  # type: ignore[misc]
        assert any(message.startswith("step ") for message in said)
    slowest = range(2) if name == "two racks" else (1,)
    for number in slowest:
        said = messages(name, "reducescatter", lambda cluster, n=number: _adding(cluster, n, a_little))  # type: ignore[misc]
        assert any(message.startswith("round ") for message in said)


def test_a_pod_of_another_type_is_named_once() -> None:
    kinds = server("s", 2, 2), server("t", 2, 1)
    data = encoded(document(composed(text("instance a = t instance b = s instance c = t", *kinds), "allgather")))
    other = parse_pods(text("instance a = t instance b = s instance c = s", *kinds))
    (said,) = judge_composition(data, other).violations
    assert said.message == "pod c is not like the others of kind 0"


def test_a_path_of_wires_that_are_not_there() -> None:
    values, cluster = document(composed(NETWORKS["uplinks"], "allgather")), parse_pods(NETWORKS["uplinks"])
    next(path for _, _, path in values["phases"][0]["paths"] if path)[0] = 10**6
    (said,) = judge_composition(encoded(values), cluster).violations
    assert said.message == "a wire is named that the cluster does not have"


def test_phases_agree_on_whose_chunk_a_position_is() -> None:
    values = document(composed(SMALL["2x2"], "allreduce"))
    values["phases"][1]["kinds"][0]["order"].reverse()
    (said,) = judge_composition(encoded(values), None).violations
    assert said.message == "the phases differ in whose chunk a position is"


TABLES = Path(__file__).parent / "golden"


CASES: list[tuple[str, ComposedName]] = [
    ("pipe", "allgather"),
]


@pytest.mark.parametrize(("name", "collective"), CASES)
def test_verdicts_on_damaged_compositions_are_what_they_were(
    name: str, collective: ComposedName, golden: Callable[[Path, bytes], None]
) -> None:
    """Alone, on its cluster, and on one whose NICs are slower."""
    clusters = None, parse_pods(SMALL[name]), parse_pods(SMALL[name].replace("100 Gbps", "60 Gbps"))

    def verdict(data: bytes) -> str:
        return " | ".join(repr(judge_composition(data, on).violations) for on in clusters)

    values = document(composed(SMALL[name], collective))
    path = TABLES / f"composition_{name}_{collective}.txt"
    golden(path, digests(damaged_json(values), verdict))
