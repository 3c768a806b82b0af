"""Figure 10 exactly as printed: two closing brackets are missing, and nothing else may be."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.model.diagnostics import SourceError, SourceWarning
from hetesynth.topology.language import load_topology, parse_topology

FIGURE = Path(__file__).resolve().parents[2] / "examples" / "fig10" / "topo.dsl"

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


@pytest.mark.parametrize("text", [" ".join(PRINTED.split()), "\t\n".join(PRINTED.split("\n")), "# c\n" + PRINTED])
def test_layout_of_the_printed_figure_does_not_matter(text: str) -> None:
    tight = text.replace(" ,", ",").replace(") ]", ")]")
    for layout in (text, tight):
        with pytest.warns(SourceWarning):
            assert parse_topology(layout + "\ndefine chunk = 4 MB\n").links == load_topology(FIGURE).links


@pytest.mark.parametrize(
    ("text", "replaced"),
    [
        ("(8,1)", "(9,1)"),  # another figure
        ("(25,2) ) ]}\ndefine node2", "(25,2) ]}\ndefine node2"),  # a third bracket is missing
        (">-> (16,1) ) ) ,", ">-> (16,1) ) ) ] ,"),  # one is there
        ("node2 = 4", "node2 = 8"),
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
