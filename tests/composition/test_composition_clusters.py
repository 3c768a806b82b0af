"""Nothing that the judge says of a composition on a damaged cluster changes unnoticed: verdicts, as digests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from support.damages import damaged_json, digests
from support.pods import SMALL, composed, document, encoded, server
from support.pods import cluster as text

from hetesynth.judge.composition.document import Expansion, read_document
from hetesynth.judge.composition.judge import CapacityLaws, judge_composition
from hetesynth.model.pods import PodCluster
from hetesynth.model.topology import Topology, Wire
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
    "4p3": text("instance a = s instance b = t", server("s", 4, 2), server("t", 3, 1)),
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
CASES: list[tuple[str, ComposedName, int]] = [
    ("two kinds", "allreduce", 1),
    ("slow NIC", "reducescatter", 1),
    ("grouped", "allreduce", 1),
    ("4p3", "allgather", 2),
    ("racks", "allgather", 1),
]
Damage = tuple[str, str, PodCluster]
Table = Callable[[Path, bytes], None]


def damaged(cluster: PodCluster) -> Iterator[Damage]:
    """One wire slower, slower by a little, later, elsewhere or without a limit; one type of pods alike."""
    for w, wire in enumerate(cluster.wires):
        for what, other in _other(wire, len(cluster.vertices)):
            yield f"wire {what}", str(w), replace(cluster, wires=_put(cluster.wires, w, other))
    for t, pod in enumerate(cluster.types):
        for what, changed in _other_type(pod):
            yield f"type {what}", str(t), replace(cluster, types=_put(cluster.types, t, changed))
    for p, one in enumerate(cluster.pods):
        for t in range(len(cluster.types)):
            if t != one.type and cluster.types[t].ranks == cluster.types[one.type].ranks:
                yield (
                    "pod of another type",
                    f"{p} {t}",
                    replace(cluster, pods=_put(cluster.pods, p, replace(one, type=t))),
                )


def _other(wire: Wire, vertices: int) -> Iterator[tuple[str, Wire]]:
    if wire.bandwidth is not None:
        yield "slower", replace(wire, bandwidth=wire.bandwidth / 2)
        yield "a little slower", replace(wire, bandwidth=wire.bandwidth * Fraction(999_999, 1_000_000))
        yield "without a limit", replace(wire, bandwidth=None)
        yield "in two lanes", replace(wire, bandwidth=wire.bandwidth / 2, lanes=2)
    yield "later", replace(wire, latency=wire.latency + Fraction(1, 10**12))
    yield "much later", replace(wire, latency=wire.latency + Fraction(1, 10**3))
    dst, src = ((end + 1) % vertices for end in (wire.dst, wire.src))
    if dst != wire.src:
        yield "elsewhere", replace(wire, dst=dst)
    if src != wire.dst:
        yield "from elsewhere", replace(wire, src=src)


def _other_type(pod: Topology) -> Iterator[tuple[str, Topology]]:
    for w, wire in enumerate(pod.wires):
        for what, other in _other(wire, len(pod.vertices)):
            try:
                changed = replace(pod, wires=_put(pod.wires, w, other))
            except ValueError:  # a path of a link ends there
                continue
            yield f"wire {what}", changed
    for g, group in enumerate(pod.groups):
        for share in (Fraction(1, 2), Fraction(999_999, 1_000_000)):
            yield (
                f"group {share}",
                replace(pod, groups=_put(pod.groups, g, replace(group, bandwidth=group.bandwidth * share))),
            )
        halves = replace(group, bandwidth=group.bandwidth / 2, lanes=2)
        yield "group in two lanes", replace(pod, groups=_put(pod.groups, g, halves))
    for share in (Fraction(1, 2), Fraction(999_999, 1_000_000)):
        rates = tuple(None if r is None else r * share for r in pod.reduce_bandwidth)
        yield f"additions {share}", replace(pod, reduce_bandwidth=rates)


def _put(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


@pytest.mark.parametrize(("name", "collective", "chunks"), CASES)
def test_verdicts_on_damaged_clusters_are_what_they_were(
    name: str, collective: ComposedName, chunks: int, golden: Table
) -> None:
    data = encoded(document(composed(NETWORKS[name], collective, chunks)))
    cluster = parse_pods(NETWORKS[name])
    assert judge_composition(data, cluster).violations == ()

    read = read_document(data)

    def verdict(other: PodCluster) -> str:
        """All that is wrong with paths, intervals and loads, whatever is wrong with the data."""
        phases = [Expansion(read, phase) for phase in read.phases]
        return repr([[*CapacityLaws(e, other).violations(e.events())] for e in phases])

    golden(TABLES / f"clusters_{name}_{collective}.txt".replace(" ", "_"), digests(damaged(cluster), verdict))


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
    ("2x2", "allreduce"),
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
