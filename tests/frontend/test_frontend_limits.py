"""Ways through networks, and texts that are hostile, end soon; words of the language end where names would."""

from __future__ import annotations

import re
from collections import Counter

import networkx as nx
import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology, paths, tables

NICS = "node n { gpus 1\nnic nic[0-%d] { bandwidth 1 GB/s }\nattach gpu0 -> nic* }\n"
UNEVEN = """
node h { gpus 2
  nic nic[0-6] { bandwidth 25 GB/s }
  attach gpu0 -> nic[0-4]; attach gpu1 -> nic[3-6] }
node k { gpus 3
  nic nic[0-2] { bandwidth 5 GB/s }
  for i in 0-2 { attach gpu[i] -> nic* }
  mesh gpu* { bandwidth 1 GB/s } }
cluster c {
  instance a[0-2] = h
  instance b[0-1] = k
  for i in 0-2 { fabric f[i] { join *.nic[i] } }
  fabric g { join a*.nic[3-6] }
  switch s { ports f*, g; bandwidth 3 GB/s } }
"""


def refused(text: str) -> tuple[str, str]:
    """The code of the only finding, and all that is said."""
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    (finding,) = caught.value.diagnostics
    return finding.code, f"{finding.message} {finding.help}"


def nics_of(topology: Topology) -> dict[tuple[int, int], list[tuple[str, ...]]]:
    """The NICs that each link crosses, by pair of ranks."""
    result: dict[tuple[int, int], list[tuple[str, ...]]] = {}
    for link in topology.links:
        between = [topology.vertices[topology.wires[wire].dst] for wire in link.wires[:-1]]
        nics = tuple(vertex.name for vertex in between if vertex.kind == "nic")
        result.setdefault((link.src, link.dst), []).append(nics)
    return result


def test_pairs_with_uneven_nics_use_every_nic_on_a_shortest_path() -> None:
    """Against shortest paths of networkx; NICs of the slower side are used in turn."""
    topology = parse_topology(UNEVEN)
    graph = nx.DiGraph()
    for wire in topology.wires:
        if wire.src >= topology.ranks and wire.dst >= topology.ranks:
            graph.add_edge(wire.src, wire.dst)
    around: dict[int, list[int]] = {}
    for wire in topology.wires:
        if wire.src < topology.ranks <= wire.dst:
            around.setdefault(wire.src, []).append(wire.dst)
    for (u, v), crossed in nics_of(topology).items():
        if crossed == [()]:
            continue
        far = {(a, b): nx.shortest_path_length(graph, a, b) for a in around[u] for b in around[v] if a != b}
        good = [pair for pair, length in far.items() if length == min(far.values())]
        name = [vertex.name for vertex in topology.vertices]
        assert {nics[0] for nics in crossed} == {name[a] for a, _ in good} or len({a for a, _ in good}) == 1
        assert {nics[-1] for nics in crossed} == {name[b] for _, b in good} or len({b for _, b in good}) == 1
        assert max(Counter(crossed).values()) <= paths.MAX_WAYS


@pytest.mark.parametrize(
    ("limit", "words"),
    [("MAX_LINKS", "more than 50 links"), ("MAX_PATH_WIRES", "more than 50 wires"), ("MAX_STEPS", "50 steps")],
)
def test_past_a_limit_of_links_a_finding_ends_the_work(
    limit: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, limit, 50)
    code, text = refused(NICS % 3 + "cluster c { instance a[0-7] = n\nfabric f { join *.nic* } }")
    assert code == "HS208" and words in text


SERVER = """
node n {
  gpus 4
  switch sw { ports gpu[0-3]; bandwidth 450 GB/s }
  nic nic[0-3] { bandwidth 50 GB/s }
  attach gpu[0-3] -> nic[0-3]
}
"""


def clos(leaves: int, spines: int, servers: int = 2, gpus: str = SERVER) -> Topology:
    """``servers`` below each leaf, every leaf joined to every spine."""
    text = f"instance a[0-{leaves * servers - 1}] = n\n"
    for leaf in range(leaves):
        text += f"fabric leaf{leaf} {{ join a[{leaf * servers}-{(leaf + 1) * servers - 1}].nic* }}\n"
    text += f"switch spine[0-{spines - 1}] {{ ports leaf[0-{leaves - 1}]; bandwidth 100 GB/s }}"
    return parse_topology(f"{gpus}\ncluster c {{\n{text}\n}}")


def spines_used(topology: Topology) -> tuple[Counter[str], Counter[tuple[int, int]]]:
    """Links over each spine, and links of each pair that crosses one."""
    use: Counter[str] = Counter()
    pairs: Counter[tuple[int, int]] = Counter()
    for link in topology.links:
        names = [topology.vertices[topology.wires[wire].dst].name for wire in link.wires]
        crossed = [name for name in names if name.startswith("spine")]
        use.update(crossed)
        pairs.update([(link.src, link.dst)] if crossed else [])
    return use, pairs


@pytest.mark.parametrize("spines", [1, 3, 4, 6])
def test_a_pair_has_up_to_four_ways_and_spines_are_used_evenly(spines: int) -> None:
    topology = clos(4, spines)
    use, pairs = spines_used(topology)
    assert len(use) == spines
    assert set(pairs.values()) == {min(spines, 4)}
    assert len(pairs) == 32 * 24
    assert max(use.values()) <= 1.1 * min(use.values())


NODE = "node n { gpus 2 mesh gpu* { bandwidth 25 GB/s } nic nic0 { bandwidth 5 GB/s } attach gpu* -> nic0 }\n"
BARE = "node n { gpus 2 mesh gpu* { bandwidth 25 GB/s } }\n"


# --- words


def words() -> list[str]:
    return sorted(t.name.lower() for t in tables.parser().terminals if tables.is_word(t))


@pytest.mark.parametrize("word", words())
def test_a_word_with_more_behind_it_is_no_word(word: str) -> None:
    """Neither in tables made beforehand nor in those made anew."""
    for parser in (tables.parser(), tables.built()) if word == "gpus" else (tables.parser(),):
        (terminal,) = [t for t in parser.terminals if t.name == word.upper()]
        pattern = re.compile(terminal.pattern.value)
        assert pattern.match(word) and pattern.match(f"{word} a") and pattern.match(f"{word}" + "{")
        assert not any(pattern.match(word + more) for more in ("s", "0", "_a", ".a", "*", "[0-1]"))


# --- ends that come soon

MANY = NODE + "cluster c { instance a[0-400] = n fabric ib { join *.nic* } for i in 0-4095 { %s } }"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MANY % "degrade a*.nic* to 99 %", "HS231"),
        (
            BARE + "cluster c { for i in 0-4095 { for j in 0-4095 { for k in 0-(0-1) { } } } instance a = n }",
            "HS208",
        ),
        (BARE.replace("mesh gpu*", f"torus gpu* {'1x' * 50_000}2") + "cluster c { instance a = n }", "HS208"),
    ],
    ids=["shares", "loops", "torus"],
)
def test_hostile_texts_end_soon(text: str, code: str) -> None:
    assert refused(text)[0] == code
