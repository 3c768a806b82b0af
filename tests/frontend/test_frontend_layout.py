"""``topo fmt``: one layout, comments and meaning stay."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_sources import random_source

from hetesynth.topology.language import parse_topology, tables
from hetesynth.topology.language.layout import WIDTH, formatted, heads
from hetesynth.topology.language.library import library_names, library_path
from hetesynth.topology.language.parser import grammar_parser
from hetesynth.topology.language.source import checked_source, read_source

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FILES = sorted(EXAMPLES.glob("*/*.dsl"))
LIBRARY = [path for path in map(library_path, library_names()) if path is not None]
COMMENT = re.compile(r"(?:#|//)[^\n]*")


def laid_out(text: str) -> str:
    return formatted(checked_source(text, "<text>"))


@pytest.mark.parametrize("path", [*FILES, *LIBRARY], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_examples_and_library_have_the_layout(path: Path) -> None:
    assert formatted(read_source(path)) == path.read_text()


CASES = {
    "statements on one line": (
        "node n{gpus 2 mesh gpu*{bandwidth 25GB/s x2;latency 1us}}cluster c{instance a=n;instance b=n\n"
        "link a.gpu0<->b.gpu0{bandwidth 1 GB/s}}",
        "node n {\n  gpus 2\n  mesh gpu* { bandwidth 25 GB/s x 2; latency 1 us }\n}\n\ncluster c {\n"
        "  instance a = n\n  instance b = n\n  link a.gpu0 <-> b.gpu0 { bandwidth 1 GB/s }\n}\n",
    ),
    "comments": (
        "# top\n\n\n# second\nimport h20 # why\ncluster c{ // opens\n# inside\ninstance a=h20x8;# server\n"
        "\n\n chunk 1 MB\n# last\n} # end\n# after\n",
        "# top\n\n# second\nimport h20  # why\n\ncluster c {  // opens\n  # inside\n  instance a = h20x8  # server"
        "\n\n  chunk 1 MB\n  # last\n}  # end\n\n# after\n",
    ),
    "paper form": (
        "define nodenum=1 define node1=2\ndefine bandwidth={direct=>[( (0 , 1)->(25 ,2) ),\n"
        "((1,0)->(25GB/s,2))]} # both\n",
        "define nodenum = 1\ndefine node1 = 2\ndefine bandwidth = {direct => [((0,1) -> (25,2)),\n"
        "  ((1,0) -> (25 GB/s,2))]}  # both\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_layout_of(name: str) -> None:
    text, expected = CASES[name]
    assert laid_out(text) == expected
    assert laid_out(expected) == expected


def test_long_lists_go_on_in_the_next_line() -> None:
    gpus = ", ".join(f"gpu{i}" for i in range(64))
    cluster = "cluster c { instance a = n }"
    text = laid_out(f"node n {{ gpus 64; switch s {{ ports {gpus}; bandwidth 1 GB/s }} }}\n{cluster}")
    assert max(map(len, text.splitlines())) <= WIDTH
    assert laid_out(text) == text
    assert len(parse_topology(text).links) == 64 * 63


def disturbed(text: str, rng: random.Random) -> str:
    """``text`` with other white space and comments between its words."""
    out = []
    for piece in re.split(r"( |\n|(?<=[{};,])|(?=[{}]))", text):
        more = ["", "", "  "]
        if piece == "\n":
            more += ["\n", f" # {rng.randrange(99)}\n"]
        out.append(piece + rng.choice(more if piece in (" ", "\n") else ["", "", " "]))
    return "".join(out)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_meaning_and_comments_stay_and_a_second_time_changes_nothing(seed: int) -> None:
    rng = random.Random(seed)
    plain = random_source(seed, 9, 12)
    text = disturbed(plain, rng)
    text = text.replace("{", rng.choice(["{", "{ # opened\n", "\n{"]), rng.randrange(4))
    once = laid_out(text)
    assert laid_out(once) == once
    assert parse_topology(once) == parse_topology(text) == parse_topology(plain)
    assert [c.strip() for c in COMMENT.findall(once)] == [c.strip() for c in COMMENT.findall(text)]


def test_every_word_of_the_language_begins_a_statement_or_is_known_not_to() -> None:
    """A new word in the middle of a statement would otherwise go unnoticed."""
    parser = grammar_parser()
    words = {terminal.name for terminal in parser.terminals if tables.is_word(terminal)}
    assert words - heads(parser) == {"EXCEPT", "IN", "TO"}
