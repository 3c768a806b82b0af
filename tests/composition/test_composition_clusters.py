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
CASES: list[tuple[str, ComposedName, int]] = [
    ("two kinds", "allreduce", 1),
    ("uplinks", "allgather", 1),
    ("pipe", "allgather", 2),
    ("racks", "allgather", 1),
    ("grouped", "allreduce", 1),
    ("unlike", "allgather", 1),
]
DOCUMENTS: list[tuple[str, ComposedName]] = [("2x2", "allreduce"), ("pipe", "allgather")]
MOVED: list[tuple[str, ComposedName]] = [("racks", "allgather"), ("grouped", "allgather")]
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


def loads(data: bytes, cluster: PodCluster) -> str:
    """All that is wrong with paths, intervals and loads, whatever is wrong with the data."""
    read = read_document(data)
    phases = [Expansion(read, phase) for phase in read.phases]
    return repr([[*CapacityLaws(e, cluster).violations(e.events())] for e in phases])


def moved(values: dict[str, Any]) -> Iterator[tuple[str, str, bytes]]:
    """Every round and every step of a batch a little earlier or later, longer or shorter, in no time, as another,
    or with nothing to do."""
    for p, phase in enumerate(values["phases"]):
        kinds = list(enumerate(phase["batches"]))
        for r, span in enumerate(phase["rounds"]):
            others = [phase["rounds"][-1], *(times[:2] for _, batches in kinds for times in batches[:1] if times)]
            yield from _with(values, f"phase {p} round {r}", span, others)
            idle = [*phase["moves"][r]]
            phase["moves"][r][:] = []
            yield from _with(values, f"phase {p} empty round {r}", span, others)
            phase["moves"][r][:] = idle
        for k, batches in kinds:
            for b, times in enumerate(batches):
                steps = phase["kinds"][k]["home" if b == 0 else "entered"]
                same = [other for _, rows in kinds for other in rows if len(other) == len(times)]
                yield from _with(values, f"phase {p} batch {b} of kind {k}", times, same)
                idle = [[*step] for step in steps]
                for step in steps:
                    step[:] = []
                yield from _with(values, f"phase {p} empty batch {b} of kind {k}", times, same)
                for step, was in zip(steps, idle, strict=True):
                    step[:] = was


def _with(
    values: dict[str, Any], where: str, times: list[int], others: list[list[int]]
) -> Iterator[tuple[str, str, bytes]]:  # fmt: skip
    right = [*times]
    for what, changed in (*_moved(right), *((f"as {o}", o) for o in [[*other] for other in others])):
        times[:] = changed
        yield where, what, encoded(values)
    times[:] = right


def _moved(times: list[int]) -> Iterator[tuple[str, list[int]]]:
    for by in (-1, 1, -1000, 10**8):
        if times and times[0] + by >= 0:
            yield f"all {by}", [t + by for t in times]
        for i in range(len(times)):
            changed = [*times[:i], times[i] + by, *times[i + 1 :]]
            if changed == sorted(changed) and changed[0] >= 0:
                yield f"{i} {by}", changed
    if times:
        yield "none", [times[0]] * len(times)
        yield "none, later", [times[-1] + 1] * len(times)


@pytest.mark.parametrize(("name", "collective"), MOVED)
def test_verdicts_on_moved_times_are_what_they_were(name: str, collective: ComposedName, golden: Table) -> None:
    values, cluster = document(composed(NETWORKS[name], collective)), parse_pods(NETWORKS[name])

    def verdict(data: bytes) -> str:
        return loads(data, cluster)

    golden(TABLES / f"times_{name}_{collective}.txt".replace(" ", "_"), digests(moved(values), verdict))


@pytest.mark.parametrize(("name", "collective", "chunks"), CASES)
def test_verdicts_on_damaged_clusters_are_what_they_were(
    name: str, collective: ComposedName, chunks: int, golden: Table
) -> None:
    data = encoded(document(composed(NETWORKS[name], collective, chunks)))
    cluster = parse_pods(NETWORKS[name])
    assert judge_composition(data, cluster).violations == ()

    def verdict(other: PodCluster) -> str:
        return loads(data, other)

    golden(TABLES / f"clusters_{name}_{collective}.txt".replace(" ", "_"), digests(damaged(cluster), verdict))


@pytest.mark.parametrize(("name", "collective"), DOCUMENTS)
def test_verdicts_on_damaged_compositions_are_what_they_were(
    name: str, collective: ComposedName, golden: Table
) -> None:
    """Alone, on its cluster, and on one whose NICs are slower."""
    clusters = None, parse_pods(SMALL[name]), parse_pods(SMALL[name].replace("100 Gbps", "60 Gbps"))

    def verdict(data: bytes) -> str:
        return " | ".join(repr(judge_composition(data, on).violations) for on in clusters)

    values = document(composed(SMALL[name], collective))
    golden(TABLES / f"composition_{name}_{collective}.txt", digests(damaged_json(values), verdict))


def test_slots_may_stand_there_twice() -> None:
    """What enters a pod repeats with the number of slots, a pod's own chunks with that of its GPUs."""
    values, cluster = document(composed(NETWORKS["4p3"], "allgather", 2)), parse_pods(NETWORKS["4p3"])
    for kind in values["phases"][0]["kinds"]:
        more = len(kind["slots"])
        kind["slots"] *= 2
        for step in kind["entered"]:
            step += [[slot + more, link] for slot, link in step]
    assert judge_composition(encoded(values), cluster).violations == ()


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


def test_two_lanes_of_a_group_are_as_good_as_one() -> None:
    def halved(cluster: PodCluster) -> PodCluster:
        pod = cluster.types[0]
        groups = tuple(replace(g, bandwidth=g.bandwidth / 2, lanes=2) for g in pod.groups)
        return replace(cluster, types=_put(cluster.types, 0, replace(pod, groups=groups)))

    assert messages("grouped", "allgather", halved) == []


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
