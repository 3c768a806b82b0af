"""The page as bytes: it loads nothing, hostile names stay text, the same report gives the same bytes."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.reports import report

from hetesynth.report.contents import Report
from hetesynth.report.html.page import column, embedded, html_page, page_values

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;'\"<!--facts-->\u2028\ud800"
)
WORDS = st.text(max_size=12) | st.sampled_from(["</script>", "<!--", "&lt;", "\u2028"])
LOADING = {"src", "href", "action", "data", "poster", "srcset", "style"}


class _Seen(HTMLParser):
    """Elements, what could load something, and the text of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []
        self.handlers: list[str] = []
        self.policy = ""
        self.raw: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.inside = tag
        for name, value in attrs:
            if name in LOADING and not (tag == "a" and (value or "").startswith("#")):
                self.loads.append(f"{tag} {name}={value}")
            if name.startswith("on"):
                self.handlers.append(name)
        if dict(attrs).get("http-equiv") == "Content-Security-Policy":
            self.policy = dict(attrs)["content"] or ""

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside in self.raw:
            self.raw[self.inside].append(data)


def seen(page: bytes) -> _Seen:
    found = _Seen()
    found.feed(page.decode())
    return found


def hostile() -> Report:
    plain = report("h20_4p8")
    vertices = tuple(replace(v, name=f"{v.name}{HOSTILE}", model=HOSTILE) for v in plain.topology.vertices)
    topology = replace(plain.topology, name=HOSTILE, vertices=vertices)
    return replace(
        plain,
        title=HOSTILE,
        topology=topology,
        facts=((HOSTILE, HOSTILE),),
        certificate=(HOSTILE,),
        notes=(HOSTILE,),
        curves=tuple(replace(c, name=HOSTILE) for c in plain.curves),
    )


def test_the_page_loads_nothing() -> None:
    found = seen(html_page(report("h20_4p8")))
    assert found.loads == [] and found.handlers == []
    assert "default-src 'none'" in found.policy and "unsafe" not in found.policy


def test_the_policy_names_exactly_the_scripts_of_the_page() -> None:
    page = html_page(report("h20_4p8")).decode()
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    style = re.findall(r"<style>(.*?)</style>", page, re.S)
    hashes = [f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in scripts]
    policy = seen(page.encode()).policy
    assert len(scripts) > 3 and re.search(r"script-src ([^;]*)", policy)[1].split() == hashes
    assert b64encode(sha256(style[0].encode()).digest()).decode() in policy.split("style-src")[1]


def test_hostile_names_add_no_element() -> None:
    plain, attacked = seen(html_page(report("h20_4p8"))), seen(html_page(hostile()))
    assert attacked.handlers == [] and attacked.loads == []
    assert attacked.tags.count("script") == plain.tags.count("script")
    assert attacked.tags.count("img") == 0
    assert "".join(attacked.raw["title"]).startswith("</script>")


def test_embedded_data_reads_back_and_cannot_end_its_element() -> None:
    text = embedded({"name": HOSTILE.replace("\ud800", ""), "nested": ["<!--", "]]>", "\u2029"]})
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"name": HOSTILE.replace("\ud800", ""), "nested": ["<!--", "]]>", "\u2029"]}


@settings(max_examples=40)
@given(
    st.recursive(
        WORDS | st.integers() | st.none(), lambda x: st.lists(x) | st.dictionaries(WORDS, x), max_leaves=8
    )
)
def test_embedded_data_of_any_kind(value: object) -> None:
    text = embedded({"v": value})
    assert not set("<>&") & set(text) and json.loads(text) == {"v": value}


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_columns_of_integers_read_back(values: list[int]) -> None:
    made = column(values, "i4")
    kind = {"i4": "<i4", "u2": "<u2"}[made["t"]]
    assert np.frombuffer(b64decode(made["v"]), kind).tolist() == values


def test_the_same_report_gives_the_same_bytes() -> None:
    assert html_page(report("h20_4p8")) == html_page(report("h20_4p8"))


def test_values_are_those_of_the_schedule() -> None:
    found = report("h20_4p8")
    values = page_values(found)
    assert found.run is not None and found.program is not None
    run = values["run"]
    times = np.frombuffer(b64decode(run["end"]["v"]), "<f4")
    assert len(times) == len(found.run.schedule.transfers)
    assert times.max() == pytest.approx(run["us"], rel=1e-6)
    assert len(values["topology"]["vertices"]) == len(found.topology.vertices)
    assert len(values["program"]["blocks"]) == len(found.program.blocks)


def test_every_bar_of_a_thread_block_begins_where_the_one_before_ends() -> None:
    run = report("h20_4p8").program
    assert run is not None
    since, ready, end = run.since, run.timeline.ready, run.timeline.end
    assert (since <= ready + 1e-12).all() and (ready <= end).all()
    last: dict[int, float] = {}
    for task in range(len(end)):
        block = run.steps[task % len(run.steps)].block
        assert since[task] == last.get(block, 0.0)
        last[block] = float(end[task])


def test_every_message_of_an_allgather_has_its_chunk() -> None:
    """Each rank receives every chunk but its own exactly once; a rank sends only what it has."""
    run = report("h20_4p8").program
    assert run is not None
    received: dict[int, list[int]] = {}
    for x in run.steps:
        if x.operation == "receive":
            received.setdefault(run.blocks[x.block].rank, []).extend(x.chunks)
    assert set(received) == set(range(12))
    for rank, chunks in received.items():
        assert sorted(chunks) == [k for k in range(12) if k != rank]


@pytest.mark.parametrize("field", ["sizes", "curves"])
def test_a_report_needs_one_time_a_size(field: str) -> None:
    plain = report("h20_4p8")
    with pytest.raises(ValueError, match="one time per size"):
        replace(plain, **{field: getattr(plain, field)[:-1]} if field == "sizes" else {
            "curves": tuple(replace(c, seconds=c.seconds[1:]) for c in plain.curves)
        })  # fmt: skip


def test_a_report_needs_something_that_ran() -> None:
    with pytest.raises(ValueError, match="a schedule or a program"):
        replace(report("h20_4p8"), run=None, program=None)


@pytest.mark.slow
def test_64_gpus_fit_into_3_megabytes() -> None:
    assert len(html_page(report("h20_64", "allgather", "hierarchical"))) < 3_000_000
