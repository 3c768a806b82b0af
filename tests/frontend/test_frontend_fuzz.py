"""Whatever the text, the frontend answers with a Topology or a HetesynthError, and says it in bounded space."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology

ROOT = Path(__file__).resolve().parents[2]
PAPER = """define nodenum = 3
define node1 = 4
define bandwidth = {port => [( (0,1,2,3) -> (450,1,0.7 us) )], pcie => [( (0,1) >-> (16,1) )]}
define group = {pcie => ([(0,1) -> (2,3)], (48,1))}
define model = H20
define node2 = node1
define failure = {gpu => (3)}
define node3 = 1
define internode = (node3, node1, node2)
define interbandwidth = {switch => [( (0), (0,1), (0,1) >-> (8,1) )], direct => [((0,1) -> (2,2))]}
define interlatency = {switch => 1.3 us}
define internode = (node1, node3)
define interbandwidth = {direct => [( (0,0) -> (50,1) )], switch => [( (0,1), (0) >-> (9,2) )]}
define intergroup = {core => ([(node1) -> (node2, node3.gpu0)], (10,1))}
define chunk = 4 MB
"""
NEW_WORDS = """node n(k = 4, r = (2 * 25 GB/s), none = 0) {
  gpus (k) except (k - 1)
  pcie p[0-1] { ports gpu[0-(min(k/2, 1))], nic0; send (r / 3); receive 12.5 GB/s x 2 }
  cpu c { ports p[0]; bandwidth (r) } numa m { port c (r) x (k) }
  for i in 0-(k-2) { link gpu[i] <-> gpu[((i+1) % k)] { bandwidth (min(r, i * 1 GB/s + 1 GB/s)) } }
  for i in 1-(none) { switch s[i] { } }
  nic nic0 { bandwidth 10 GB/s }
}
pod d(t = 2) { instance t[0-(t-1)] = n(k = (t + 1)) { host "h[01-02]" }
  switch nvl { ports t*.gpu[*]; bandwidth 900 GB/s; multicast; reduction } fabric leaf { join t*.nic0 } }
cluster c {
  chunk (4 * 1 MB)
  instance a = d
  for s in x, y[0-1] { instance [s] = n { detach gpu0 -> p0; attach gpu0 -> nic0 { bandwidth 1 GB/s } } }
  fabric f { join x.nic0, y*.nic0 }
  router r[0-1] { ports a.leaf, f; bandwidth 50 GB/s }
  wan r0 <-> r1 { bandwidth 12.5 GB/s; length (2 * 50 km); latency 1 us }
  upi x.c <-> y0.c { bandwidth 20 GB/s }
}
"""
SEEDS = [
    path.read_text()
    for path in (
        *sorted((ROOT / "examples").glob("[fhrv]*_4p8/topo.dsl")),
        *sorted((ROOT / "examples").glob("v100_[4f]*8*/paper.dsl")),
        ROOT / "examples" / "fig10" / "topo.dsl",
        ROOT / "examples" / "ring8" / "topo.dsl",
        *sorted((ROOT / "dsl" / "library").glob("*.dsl")),
        *sorted((ROOT / "tests" / "errors").glob("[pw]*.dsl")),
    )
] + [PAPER, NEW_WORDS]
WORDS = sorted(
    {word for seed in SEEDS for line in seed.splitlines() if not line.startswith("#") for word in line.split()}
)
PIECES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(list('{}()[];,*=->#"\n\t ')),
    st.sampled_from(
        ["-1", "0", "1e9", "99999999", "gpu[0-3]", "x 2", ">->", "<->", "=>", "*.*", "µs", "\x0b", "\u2028"]
    ),
    st.text(max_size=4),
)


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid or nearly valid text with pieces removed, repeated, swapped or put in."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 30)))
        kind = draw(st.sampled_from(["cut", "insert", "replace", "repeat"]))
        if kind == "cut":
            text = text[:start] + text[end:]
        elif kind == "insert":
            text = text[:start] + draw(PIECES) + text[start:]
        elif kind == "replace":
            text = text[:start] + draw(PIECES) + text[end:]
        else:
            text = text[:end] + text[start:]
    return text


def judged(text: str) -> None:
    try:
        assert isinstance(parse_topology(text), Topology)
    except HetesynthError as error:
        shown = error.render()
        assert error.message and error.code.startswith(("HS1", "HS2"))
        assert len(shown) < 20_000
        assert "Token(" not in shown and "LBRACE" not in shown and "WORD" not in shown.replace(text, "")


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
@example("cluster c { instance a = b\u2028 }")
@example("define nodenum = {}")
@example("define node1 = ((((-1))))")
def test_mutations_of_valid_texts(text: str) -> None:
    judged(text)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=25))
def test_random_words(pieces: list[str]) -> None:
    judged(" ".join(pieces))


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=60))
def test_random_characters(text: str) -> None:
    judged(text)


OF_NODES = ["node2", "bandwidth", "latency", "linktype", "model", "reduce", "group", "failure", "slowdown"]
DEFINED = [
    *OF_NODES,
    "nodenum",
    "internode",
    "interbandwidth",
    "interlatency",
    "interlinktype",
    "intergroup",
    "chunk",
]
KEYS = ["direct", "mesh", "port", "switch", "pcie", "nic", "gpu", "g", "gpu0.x"]
ATOMS = st.sampled_from([*"0123", "25", "0.7", "-1", "8 GB/s", "3 us", "1 MB", "node1", "node2", "node1.gpu0"])
SIGNS = st.sampled_from(["->", ">->"])


def nested(values: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Tuples, lists, edges and mappings of ``values``."""
    edges = st.builds("{} {} {}".format, values, SIGNS, values)
    elements = st.lists(st.one_of(values, edges), min_size=1, max_size=4)
    entries = st.lists(st.builds("{} => {}".format, st.sampled_from(KEYS), values), max_size=3)
    return st.one_of(
        elements.map(lambda inside: f"({', '.join(inside)})"),
        elements.map(lambda inside: f"[{', '.join(inside)}]"),
        entries.map(lambda inside: f"{{{', '.join(inside)}}}"),
    )


VALUES = st.recursive(ATOMS, nested, max_leaves=8)
LISTS = st.lists(st.sampled_from("0123"), min_size=1, max_size=4, unique=True).map(lambda of: f"({','.join(of)})")
RATES = st.sampled_from(["(25,2)", "(8,1)", "(12.5)", "(16,1,0.7 us)", "(64 Gbps,1)", "(450,1)", "(0,1)", "8"])
SHAPES = [
    ("direct", st.sampled_from(["(0,1) ->", "(1,0) ->", "(2,3) ->", "(3,2) ->", "(0,0) ->"])),
    ("mesh", st.sampled_from(["(0,1,2,3) ->", "(0,1) ->", "(3,2,1) ->", "(0) ->"])),
    ("port", st.sampled_from(["(0,1,2,3) ->", "(0,1) ->", "(2,3) ->"])),
    ("switch", st.sampled_from(["(0,1), (2,3) >->", "((0),(1,2,3)) >->", "((0,1),(0,1)) >->"])),
    ("pcie", st.sampled_from(["(0,1) >->", "(2,3) >->", "((0)) >->"])),
    ("nic", st.sampled_from(["(0,1) >->", "(2,3) >->", "(0,1,2,3) >->", "(0) >->"])),
]


def connections(sorts: list[str]) -> st.SearchStrategy[str]:
    """A mapping of ``sorts`` to one or two entries of their shape, right but for some of the numbers."""
    entries = [
        st.lists(st.builds("( {} {} )".format, ends, RATES), min_size=1, max_size=2, unique=True).map(
            lambda of, sort=sort: f"{sort} => [{', '.join(of)}]"
        )
        for sort, ends in SHAPES
        if sort in sorts
    ]
    return st.lists(st.one_of(entries), max_size=4, unique_by=lambda of: of.split()[0]).map(
        lambda of: f"{{{', '.join(of)}}}"
    )


CONNECTIONS = connections(["direct", "mesh", "port", "switch", "pcie", "nic"])
STATEMENTS = st.builds("define {} = {}".format, st.sampled_from(DEFINED), st.one_of(VALUES, CONNECTIONS))
HEAD = "define nodenum = 2\ndefine node1 = 4\n"
JOINED = "define node2 = node1\ndefine internode = (node2, node1)\n"
BETWEEN = connections(["direct", "switch"]).map("define interbandwidth = {}\n".format)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STATEMENTS, max_size=12), st.booleans())
def test_random_definitions(statements: list[str], begun: bool) -> None:
    judged((HEAD if begun else "") + "\n".join(statements))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CONNECTIONS, st.lists(STATEMENTS, max_size=1), st.one_of(st.just(""), BETWEEN))
def test_random_nodes_that_are_joined(inside: str, others: list[str], between: str) -> None:
    judged(f"{HEAD}define bandwidth = {inside}\n{JOINED}{between}" + "\n".join(others))
