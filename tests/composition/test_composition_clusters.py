"""Nothing that the judge says of a composition on a damaged cluster changes unnoticed: verdicts, as digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from support.pods import SMALL, composed, document, encoded, pods_of, server
from support.pods import cluster as text

from hetesynth.judge.composition.judge import judge_composition
from hetesynth.model.pods import PodCluster
from hetesynth.search.pods.compose import ComposedName

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
    "4p3": text("instance a = s instance b = t", server("s", 4, 2), server("t", 3, 1)),
    "unlike": text("instance a[0-1] = s instance b = t", server("s", 2, 2), server("t", 2, 1)),
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


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def messages(name: str, collective: ComposedName, change: Callable[[PodCluster], PodCluster]) -> list[str]:
    """What the judge says of a good composition on a changed cluster."""
    cluster = pods_of(NETWORKS[name])
    data = encoded(document(composed(NETWORKS[name], collective)))
    assert judge_composition(data, cluster).violations == ()
    return [v.message for v in judge_composition(data, change(cluster)).violations]


def _adding(cluster: PodCluster, number: int, share: Fraction) -> PodCluster:
    """``cluster``, the GPUs of whose type ``number`` add a little slower."""
    pod = cluster.types[number]
    rates = tuple(None if rate is None else rate * share for rate in pod.reduce_bandwidth)
    return replace(cluster, types=_put(cluster.types, number, replace(pod, reduce_bandwidth=rates)))


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


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_group_that_is_slower_is_too_slow(lanes: int) -> None:
    def slower(cluster: PodCluster) -> PodCluster:
        pod = cluster.types[0]
        share = Fraction(999_999, 1_000_000) / lanes
        groups = tuple(replace(g, bandwidth=g.bandwidth * share, lanes=lanes) for g in pod.groups)
        return replace(cluster, types=_put(cluster.types, 0, replace(pod, groups=groups)))

    assert any("are too short for what a0.half" in said for said in messages("grouped", "allgather", slower))


@pytest.mark.parametrize("changed", ["bandwidth", "latency", "dst", "src"])
def test_each_wire_that_is_used_matters(changed: str) -> None:
    """Slower, later, or elsewhere: most wires of the cluster carry something."""
    noticed = 0
    cluster = pods_of(NETWORKS["racks"])
    data = encoded(document(composed(NETWORKS["racks"], "allgather")))
    for w, wire in enumerate(cluster.wires):
        values = {
            "bandwidth": None if wire.bandwidth is None else wire.bandwidth / 2,
            "latency": wire.latency + Fraction(1, 10**3),
            "dst": (wire.dst + 1) % len(cluster.vertices),
            "src": (wire.src + 1) % len(cluster.vertices),
        }
        if {values["src"], wire.dst} != {wire.dst} and values["dst"] != wire.src:
            other = replace(wire, **{changed: values[changed]})  # type: ignore[arg-type]
            found = judge_composition(data, replace(cluster, wires=_put(cluster.wires, w, other))).violations
            noticed += {v.kind for v in found} <= {"overloaded", "no-such-link"} and bool(found)
    assert noticed > len(cluster.wires) // 2


def test_two_lanes_of_a_group_are_as_good_as_one() -> None:
    def halved(cluster: PodCluster) -> PodCluster:
        pod = cluster.types[0]
        groups = tuple(replace(g, bandwidth=g.bandwidth / 2, lanes=2) for g in pod.groups)
        return replace(cluster, types=_put(cluster.types, 0, replace(pod, groups=groups)))

    assert messages("grouped", "allgather", halved) == []


def test_a_pod_of_another_type_is_named_once() -> None:
    kinds = server("s", 2, 2), server("t", 2, 1)
    data = encoded(document(composed(text("instance a = t instance b = s instance c = t", *kinds), "allgather")))
    other = pods_of(text("instance a = t instance b = s instance c = s", *kinds))
    (said,) = judge_composition(data, other).violations
    assert said.message == "pod c is not like the others of kind 0"


def test_a_path_of_wires_that_are_not_there() -> None:
    values, cluster = document(composed(NETWORKS["uplinks"], "allgather")), pods_of(NETWORKS["uplinks"])
    next(path for _, _, path in values["phases"][0]["paths"] if path)[0] = 10**6
    (said,) = judge_composition(encoded(values), cluster).violations
    assert said.message == "a wire is named that the cluster does not have"


def test_phases_agree_on_whose_chunk_a_position_is() -> None:
    values = document(composed(SMALL["2x2"], "allreduce"))
    values["phases"][1]["kinds"][0]["order"].reverse()
    (said,) = judge_composition(encoded(values), None).violations
    assert said.message == "the phases differ in whose chunk a position is"
