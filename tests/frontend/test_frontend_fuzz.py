"""Whatever the text, the frontend answers with a Topology or a HetesynthError, and says it in bounded space."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.language import parse_topology

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (ROOT / "dsl" / "reference.md").read_text()
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
]
SEEDS += [  # the examples of the reference
    "\n".join(line[4:] for line in block.splitlines())
    for block in re.findall(
        r"(?:^    .*\n(?:\n(?=    ))?)+", (ROOT / "dsl" / "reference.md").read_text(), re.MULTILINE
    )
    if "cluster" in block or "define" in block
]
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
