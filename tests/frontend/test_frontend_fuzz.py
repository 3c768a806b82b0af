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


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutated())
@example("cluster c { instance a = b\u2028 }")
@example("define nodenum = {}")
@example("define node1 = ((((-1))))")
def test_mutations_of_valid_texts(text: str) -> None:
    judged(text)
