"""Mutated reductions under eq. 8: ``verify --topo`` passes those that keep the paper's equations, and no others.

``keeps_equations`` is written from the equations alone: Send and Has by step, capacities by counting lanes.
"""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine.artifacts import SCHEDULE_SUFFIX
from hetesynth.engine.bounds import bounds
from hetesynth.engine.request import Request
from hetesynth.engine.schedule_replay import replayed
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import read_schedule_json
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

MUTANTS = 2000
LINK = "{ bandwidth 25 GB/s x 3 }"
TOPOLOGIES = {
    "three": f"gpus 3; link gpu0 <-> gpu1 {LINK}; link gpu1 <-> gpu2 {LINK}; link gpu2 <-> gpu0 {LINK}",
    "star": "gpus 4; switch s { ports gpu[0-3]; bandwidth 25 GB/s x 2 }",
    "path": f"gpus 3; link gpu0 <-> gpu1 {LINK}; link gpu1 <-> gpu2 {LINK}",
}  # all lanes are equally fast: one chunk a lane and step
Document = dict[str, Any]


@cache
def topology(name: str, folder: Path) -> Topology:
    file = folder / f"{name}.dsl"
    file.write_text(f"node box {{ {TOPOLOGIES[name]} }}\ncluster c {{ instance a = box }}\n")
    return load_topology(file)


def keeps_equations(document: Document, cluster: Topology) -> str:
    """The equation that is broken, or nothing."""
    n, moves = document["ranks"], document["transfers"]
    ends = {link: (u, v) for link, u, v in document["links"]}
    total = document["chunks_per_rank"] * (1 if document["collective"] == "reduce" else n)
    step_of = [
        s for s, rounds in enumerate(document.get("rounds", [1] * document["makespan"])) for _ in range(rounds)
    ]
    of_link, of_wire, additions = Counter[Any](), Counter[Any](), Counter[Any]()
    for start, end, chunk, link, adds in moves:
        if chunk >= total:
            return "no chunk"
        if end != start + 1:
            return "step"
        of_link[start, link] += 1
        for wire in cluster.links[link].wires:
            of_wire[start, wire] += 1
        additions[step_of[start], ends[link][1], chunk] += adds
    if any(count > cluster.links[link].lanes for (_, link), count in of_link.items()):
        return "eq. 4"
    if any(count > cluster.wires[wire].lanes for (_, wire), count in of_wire.items()):
        return "eq. 5"
    if max(additions.values(), default=0) > 1:
        return "eq. 8"
    parts, root, everywhere = document["chunks_per_rank"], document["root"], document["collective"] == "allreduce"
    has: dict[tuple[int, int], Counter[int]] = {(r, c): Counter([r]) for r in range(n) for c in range(total)}
    by_step: dict[int, list[list[int]]] = defaultdict(list)
    for move in moves:
        by_step[step_of[move[0]]].append(move)
    for step in sorted(by_step):
        landing: dict[tuple[int, int], list[tuple[int, Counter[int]]]] = defaultdict(list)
        for _, _, chunk, link, adds in by_step[step]:
            u, v = ends[link]
            landing[v, chunk].append((adds, has[u, chunk].copy()))
        for place, values in landing.items():
            if len(values) > 1:
                return "two values at once"
            [(adds, value)] = values
            if adds:
                has[place] += value
                if max(has[place].values()) > 1:
                    return "a contribution twice"
            elif value.keys() <= has[place].keys():
                return "eq. 2"
            else:
                has[place] = value
    for c in range(total):
        for r in range(n) if everywhere else [c // parts if root is None else root]:
            if len(has[r, c]) < n:
                return "post"
    return ""


def mutated(rng: random.Random, document: Document, cluster: Topology) -> Document:
    """One to three small changes, most of them to when and where something is added."""
    moves, last = [list(move) for move in document["transfers"]], document["makespan"]
    rounds = list(document.get("rounds", []))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not moves:
            break
        move = rng.choice(moves)
        what = rng.randrange(9)
        if what < 3:  # together with another transfer of the chunk, or at any time
            at = rng.choice([m[0] for m in moves if m[2] == move[2]] if what else [rng.randrange(last)])
            move[:2] = at, at + 1
        elif what == 3 and not rounds:  # an idle step
            at, last = rng.randrange(last + 1), last + 1
            for other in moves:
                if other[0] >= at:
                    other[:2] = other[0] + 1, other[1] + 1
        elif what == 4:
            move[3] = rng.randrange(len(cluster.links))
        elif what == 5:
            move[4] ^= 1
        elif what == 6:
            moves.remove(move)
        elif what == 7:
            moves.append([*move])
        else:  # two transfers in each other's place
            other = rng.choice(moves)
            move[:2], other[:2] = other[:2], move[:2]
    links = sorted({move[3] for move in moves})
    ends = [[link, cluster.links[link].src, cluster.links[link].dst] for link in links]
    return {**document, "transfers": moves, "makespan": last, "links": ends}


@cache
def right(name: str, collective: CollectiveName, chunks: int, folder: Path) -> Document:
    cluster = topology(name, folder)
    request = Request(
        folder / f"{name}.dsl", collective, chunks=chunks, strategy="greedy", exclusion="step", schedule_only=True
    )
    document: Document = json.loads(synthesize(request).files[SCHEDULE_SUFFIX])
    header = {key: document["header"][key] for key in ("exclusion", "chunk_bytes", "tau_ref_us")}
    assert header["exclusion"] == "step" and not keeps_equations(document, cluster)
    return {**document, "header": header}


def judged(document: Document, cluster: Topology) -> list[str]:
    read = read_schedule_json(json.dumps(document).encode())
    wrong, _ = replayed(Path("mutant.json"), read, cluster)
    return [violation.kind for violation in wrong]


def compared(folder: Path, number: int, seed: int) -> Counter[str]:
    """Of ``number`` mutants how many break what; fails where the judge and the equations differ."""
    rng, broken = random.Random(seed), Counter[str]()
    while broken.total() < number:
        name, collective = rng.choice(list(TOPOLOGIES)), rng.choice(("allreduce", "reducescatter", "reduce"))
        document, cluster = right(name, collective, rng.choice((1, 2)), folder), topology(name, folder)
        if rng.random() < 0.3:  # steps of two rounds each: what lands in one step was sent before it
            spread = [[2 * t[0] + rng.randrange(2), 0, *t[2:]] for t in document["transfers"]]
            spread = [[t[0], t[0] + 1, *t[2:]] for t in spread]
            steps = document["makespan"]
            document = {**document, "transfers": spread, "makespan": 2 * steps, "rounds": [2] * steps}
        mutant = mutated(rng, document, cluster)
        try:
            found = judged(mutant, cluster)
        except HetesynthError as error:  # so few transfers are not replayed at all
            assert error.code == "HS520", error
            found = ["HS520"]
        reason = keeps_equations(mutant, cluster)
        assert bool(found) == bool(reason), (reason, found, mutant)
        assert reason != "eq. 8" or "not-exclusive" in found
        broken[reason] += 1
    return broken


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("topologies")


def test_judge_and_equations_agree_on_mutants(folder: Path) -> None:
    broken = compared(folder, MUTANTS, 8)
    assert broken["eq. 8"] > 100 and broken[""] > 100, broken
    assert min(broken[one] for one in ("eq. 4", "eq. 5", "post", "a contribution twice", "eq. 2")) > 5, broken


def test_three_joined_gpus_need_two_steps(folder: Path) -> None:
    """Three lanes carry all in one step, where each rank would add two values to each chunk at once."""
    cluster = topology("three", folder)
    number = {(link.src, link.dst): i for i, link in enumerate(cluster.links)}
    moves = [[0, 1, c, number[u, v], 1] for c in range(3) for u in range(3) for v in range(3) if u != v]
    document = {**right("three", "allreduce", 1, folder), "transfers": moves, "makespan": 1, "header": {}}
    assert bounds(Request(folder / "three.dsl", "allreduce"))[1][0].steps == 2
    assert keeps_equations(document, cluster) == "eq. 8"
    assert set(judged(document, cluster)) == {"not-exclusive"}
    assert judged({**document, "header": {"exclusion": "program"}}, cluster) == []
    assert judged({**document, "header": {"exclusion": "step"}}, cluster) == judged(document, cluster)
