"""The paper form: Figure 10, redundant parentheses, wrong words, and the same clusters in the block form."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction as F
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.model.diagnostics import SourceError, SourceWarning
from hetesynth.model.topology import Topology, Vertex
from hetesynth.topology.language import load_topology, parse_topology

ROOT = Path(__file__).resolve().parents[2]
FIGURE = ROOT / "examples" / "fig10" / "topo.dsl"
GB = 10**9


def rates(topology: Topology) -> dict[tuple[int, int], tuple[F, int]]:
    return {(k.src, k.dst): (k.bandwidth, k.lanes) for k in topology.links}


SWITCHES = [
    "(((0,1),(2,3)) >-> (16,1))",
    "((0,1),(2,3)) >-> (16,1)",
    "((((0,1)),((2,3)))) >-> ((16,1))",
    "( ( (0,1) , (2,3) >-> (16,1) ) )",
    "(0,1), (2,3) >-> (16 GB/s)",
]


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("direct", ["((0,1)->(25,2)), ((1,0)->(25,2))", "(0,1)->(25,2), (1,0)->(25,2)"])
def test_redundant_parentheses(switch: str, direct: str) -> None:
    text = f"""define nodenum = 1
    define node1 = 4
    define bandwidth = {{switch => [{switch}], direct => [{direct}, (((2,3) -> (25,2))), ((3,2) -> (25,2))]}}"""
    found = rates(parse_topology(text))
    assert len(found) == 12
    assert found[0, 2] == (16 * GB, 1) and found[1, 0] == (25 * GB, 2) and found[3, 2] == (25 * GB, 2)


def node(*statements: str, gpus: int = 4) -> Topology:
    return parse_topology(f"define nodenum = 1\ndefine node1 = {gpus}\n" + "\n".join(statements))


@pytest.mark.parametrize(
    ("statements", "code", "message"),
    [
        ("define bandwidth = {prot => [(0,1) -> (25,1)]}", "HS220", "did you mean `port`"),
        ("define slowdwn = {nic => 8}", "HS220", "did you mean `slowdown`"),
        ("define failure = {gpu => node1}", "HS221", "`failure` is not written"),
        ("define failure = {gpu => (7)}", "HS201", "has no `gpu7`"),
        ("define slowdown = {nic => 8}", "HS202", "matches nothing"),
        ("define latency = {direct => (1,2)}", "HS221", "`latency` is not written"),
        ("define model = 3", "HS221", "define model = V100"),
        ("define group = 3", "HS221", "{upi => ("),
        ("define intergroup = {upi => ((0) -> (node1), (48,1))}", "HS221", "`intergroup` is not written"),
        ("define intergroup = {upi => ((node3) -> (node1), (48,1))}", "HS201", "no node `node3`"),
        ("define bandwidth = {pcie => [(0,1) >-> (16,1), (1,2) >-> (16,1)]}", "HS218", "two PCIe switches"),
        (
            "define bandwidth = {pcie => [(0,1) >-> (16,1)], nic => [(0) >-> (8,1)]}",
            "HS221",
            "GPUs that are not named here: 1",
        ),
        (
            "define bandwidth = {pcie => [(0,1) >-> (16,1)], nic => [(0,1) >-> (8,1), (0,1) >-> (8,1)]}",
            "HS221",
            "a second one",
        ),
        ("define interlatency = {switch => 1}", "HS221", "nothing is defined yet"),
        ("define reduce = 1 GB/s\ndefine reduce = 2 GB/s", "HS203", "defined twice"),
    ],
)
def test_wrong_words_get_a_message(statements: str, code: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        node(statements)
    assert any(d.code == code and message in d.message + d.help for d in caught.value.diagnostics)


EXAMPLES = ROOT / "examples"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/paper.dsl"))


def nameless(topology: Topology) -> Topology:
    """``topology`` without what its two forms may call differently: parts and servers, numbered instead."""
    servers = {server: str(i) for i, server in enumerate(dict.fromkeys(topology.servers))}
    vertices = tuple(
        Vertex(str(i), "switch" if v.kind == "bus" else v.kind, servers.get(v.server, ""), v.model)
        for i, v in enumerate(topology.vertices)
    )
    return replace(topology, vertices=vertices, notes=())


def block(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def paper(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "paper.dsl")


@pytest.mark.parametrize("name", NAMES)
def test_both_forms_are_the_same_cluster(name: str) -> None:
    assert paper(name).name == block(name).name == name
    assert nameless(paper(name)) == nameless(block(name))


PRINTED = """\
define nodenum = 2
define node1 = 2
define bandwidth = {direct => [( (0,1) -> (25,2) )
, ( (1,0) -> (25,2) ) ]}
define node2 = 4
define bandwidth = {switch => [( ( (0,1) , (2,3)
>-> (16,1) ) ) , direct => [( (0,1) -> (25,2) )
, ( (1,0) -> (25,2) ) , ( (2,3) -> (25,2) ) , ( (3,2)
-> (25,2) ) ]}
define internode = (node1, node2)
define interbandwidth = {switch => [( ( (0,1)
, (0,1,2,3) >-> (8,1) ) ]}
"""


def numbered(text: str) -> str:
    """With the line numbers that stand in the margin of the figure."""
    lines = iter(range(1, 8))
    return re.sub("^define", lambda _: f"{next(lines)} define", text, flags=re.MULTILINE)


@pytest.mark.parametrize("text", [PRINTED, numbered(PRINTED)], ids=["plain", "numbered"])
def test_the_printed_figure_is_accepted_with_two_warnings(text: str) -> None:
    with pytest.warns(SourceWarning) as caught:
        topology = parse_topology(text, "fig10/topo.dsl")
    assert replace(topology, name="fig10") == load_topology(FIGURE)
    first, second = (str(warning.message) for warning in caught)
    assert first.startswith("fig10/topo.dsl:7:14: warning HS105: `]` is missing behind this")
    assert second.startswith("fig10/topo.dsl:12:23: warning HS105: `)` is missing behind this")
    for shown, column in ((first, 14), (second, 23)):
        _, line, caret, _ = shown.splitlines()
        assert line[2:] in text.splitlines() and caret.index("^") == column + 1 and line[column + 1] == ")"


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("(8,1)", "(9,1)"),  # another figure
        ("(25,2) ) ]}\ndefine node2", "(25,2) ]}\ndefine node2"),  # a third bracket is missing
        (">-> (16,1) ) ) ,", ">-> (16,1) ) ) ] ,"),  # one is there
    ],
)
def test_what_is_nearly_the_printed_figure_is_refused(text: str, replaced: str) -> None:
    assert text in PRINTED
    with pytest.raises(SourceError) as caught:
        parse_topology(PRINTED.replace(text, replaced))
    assert {finding.code for finding in caught.value.diagnostics} == {"HS105"}


def test_commands_show_the_warnings_and_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "printed.dsl"
    path.write_text(PRINTED)
    assert run(["topo", "show", str(path), "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.count("warning HS105") == 2 and "Warning" not in shown.err
    assert json.loads(shown.out)["ranks"] == 6
