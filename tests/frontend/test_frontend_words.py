"""Where words of the language end, what kind a fabric gives, what the paper form refuses, what ends soon."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError
from hetesynth.topology.language import parse_topology, tables
from hetesynth.topology.language.conversion import to_block, to_paper
from hetesynth.topology.language.paths import MAX_LINKS
from hetesynth.topology.language.source import Source

NODE = "node n { gpus 2 mesh gpu* { bandwidth 25 GB/s } nic nic0 { bandwidth 5 GB/s } attach gpu* -> nic0 }\n"
BARE = "node n { gpus 2 mesh gpu* { bandwidth 25 GB/s } }\n"


def kinds(statements: str, node: str = NODE) -> set[str]:
    """The kinds of the links between servers."""
    topology = parse_topology(f"{node}cluster c {{ instance a[0-1] = n {statements} }}")
    return {link.kind for link in topology.links if topology.servers[link.src] != topology.servers[link.dst]}


def refused(text: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        parse_topology(text)
    return caught.value


# --- words


def words() -> list[str]:
    return sorted(t.name.lower() for t in tables.parser().terminals if tables.is_word(t))


def test_there_are_many_words() -> None:
    assert len(words()) > 60 and {"cluster", "without", "in", "to", "x"} - set(words()) == {"x"}


@pytest.mark.parametrize("word", words())
def test_a_word_with_more_behind_it_is_no_word(word: str) -> None:
    """Neither in tables made beforehand nor in those made anew."""
    for parser in (tables.parser(), tables.built()) if word == "gpus" else (tables.parser(),):
        (terminal,) = [t for t in parser.terminals if t.name == word.upper()]
        pattern = re.compile(terminal.pattern.value)
        assert pattern.match(word) and pattern.match(f"{word} a") and pattern.match(f"{word}" + "{")
        assert not any(pattern.match(word + more) for more in ("s", "0", "_a", ".a", "*", "[0-1]"))


@pytest.mark.parametrize(
    "text",
    [
        NODE + "clusters { instance a = n }",
        NODE + "cluster c { instancea=n }",
        NODE + "cluster c { instances = n }",
        NODE + "cluster c { instance a = n withouta.gpu0 }",
        "importh20 cluster c { instance a = h20x4 }",
        'import h20 cluster c { instance a = h20x4 { host"x" hosts "y" } }',
        BARE.replace("gpus 2", "gpus2") + "cluster c { instance a = n }",
        BARE.replace("mesh gpu*", "mesh*") + "cluster c { instance a = n }",
    ],
)
def test_words_are_not_split(text: str) -> None:
    assert all(finding.code == "HS111" for finding in refused(text).diagnostics)


def test_names_may_be_like_words() -> None:
    """An instance `port`, a switch `link0`, and flows that begin with words."""
    node = BARE.replace("}\n", "switch link0 { ports gpu[0-1]; bandwidth 1 GB/s } }\n").replace("mesh", "ring")
    text = "instance port = n instance links = n link port.gpu0 <-> links.gpu0 { bandwidth 1 GB/s }"
    group = "shared s 2 GB/s { port.gpu0 -> links.gpu0; links.gpu0 -> port.gpu0 port.gpu0 -> port.gpu1 }"
    topology = parse_topology(f"{node}cluster cluster {{ {text} {group} }}")
    assert topology.name == "cluster" and len(topology.groups[0].links) == 3


# --- kinds


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("fabric ib { join *.nic* }", "net"),
        ("fabric ib { join *.nic*; kind roce }", "roce"),
        ("fabric ib { join *.nic* } set ib { kind roce }", "roce"),
        ("fabric ib { join *.nic*; kind roce } set a*.nic* { kind ib }", "ib"),
        ("fabric ib { join *.nic*; kind roce } set a*.nic* { kind net }", "net"),
        ("fabric ib { join *.nic*; kind roce; bandwidth 100 GB/s }", "roce"),
        ("rails r { join *.nic*; kind roce }", "roce"),
    ],
)
def test_the_kind_of_a_fabric_is_that_of_links_over_it(statements: str, expected: str) -> None:
    assert kinds(statements) == {expected}


def test_what_limits_elsewhere_keeps_its_kind() -> None:
    node = NODE.replace("-> nic0", "-> nic0 { bandwidth 1 GB/s; kind slot }")
    assert kinds("fabric ib { join *.nic*; kind roce }", node) == {"slot"}
    assert kinds("fabric ib { join *.nic*; kind roce }", NODE.replace("5 GB/s", "5 GB/s; kind ib")) == {"ib"}


def test_the_kind_survives_the_paper_form() -> None:
    text = f"{NODE}cluster c {{ instance a[0-1] = n fabric ib {{ join *.nic*; kind roce }} }}"
    paper = to_paper(Source("x.dsl", text))
    assert "nic => roce" in paper
    assert {link.kind for link in parse_topology(to_block(Source("x.dsl", paper))).links} == {"direct", "roce"}


@pytest.mark.parametrize(
    ("instance", "fabric", "reason"),
    [('{ host "x[1-2]" }', "", "the host of `a0`, x1"), ("", "; multicast", "`multicast` of `ib`")],
)
def test_the_paper_form_refuses_what_it_would_leave_out(instance: str, fabric: str, reason: str) -> None:
    text = f"{NODE}cluster c {{ instance a[0-1] = n {instance} fabric ib {{ join *.nic* {fabric} }} }}"
    with pytest.raises(HetesynthError) as caught:
        to_paper(Source("x.dsl", text))
    assert caught.value.code == "HS250" and reason in caught.value.message


# --- ends that come soon: processor seconds, and a bound that a machine under load keeps

MANY = NODE + "cluster c { instance a[0-400] = n fabric ib { join *.nic* } for i in 0-4095 { %s } }"
BEFORE = 5.0


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (MANY % "degrade a*.nic* to 99 %", "HS231"),
        (MANY % "degrade a*.nic* to 1 GB/s", "HS208"),
        (
            BARE + "cluster c { for i in 0-4095 { for j in 0-4095 { for k in 0-(0-1) { } } } instance a = n }",
            "HS208",
        ),
        (BARE.replace("mesh gpu*", f"torus gpu* {'1x' * 50_000}2") + "cluster c { instance a = n }", "HS208"),
    ],
    ids=["shares", "rates", "loops", "torus"],
)
def test_hostile_texts_end_soon(text: str, code: str) -> None:
    start = time.process_time()
    assert [finding.code for finding in refused(text).diagnostics] == [code]
    assert time.process_time() - start < BEFORE


def test_sixteen_sizes_are_enough() -> None:
    text = BARE.replace("mesh gpu*", "torus gpu* " + "1x" * 15 + "2") + "cluster c { instance a = n }"
    assert parse_topology(text).ranks == 2


def test_links_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many links as hops: with the bound of 2^22 replaced by a small one."""
    monkeypatch.setattr("hetesynth.topology.language.paths.MAX_LINKS", 1000)
    node = "node n { gpus 8 for i in 0-%d { switch s[i] { ports gpu*; bandwidth 1 GB/s } } }"
    text = node + " cluster c { instance a = n }"
    assert len(parse_topology(text % 16).links) == 56 * 17
    (finding,) = refused(text % 17).diagnostics
    assert finding.code == "HS208" and "1000 links" in finding.message and finding.help


def test_the_reference_states_the_bound() -> None:
    text = (Path(__file__).resolve().parents[2] / "dsl/reference.md").read_text()
    assert f"{MAX_LINKS:,} links".replace(",", " ") in text
