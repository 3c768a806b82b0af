"""The page as bytes: it loads nothing, hostile names stay text, the same report gives the same bytes."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import html
from support.reports import report

from hetesynth.report.html.page import column, embedded, html_page, page_values

HOSTILE = (
    "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>&amp;'\"<!--facts-->\u2028\ud800"
)
WORDS = st.text(max_size=12) | st.sampled_from(["</script>", "<!--", "&lt;", "\u2028", "]]>"])
LOADING = {"src", "href", "action", "data", "poster", "srcset", "style"}


def loads(root: html.HtmlElement) -> list[str]:
    """Attributes that could load or run something."""
    attributes = [(e.tag, name, value) for e in root.iter() for name, value in e.attrib.items()]
    return [
        f"{tag} {name}={value}"
        for tag, name, value in attributes
        if name.startswith("on") or (name in LOADING and not (tag == "a" and value.startswith("#")))
    ]


def test_the_page_loads_nothing_and_its_policy_names_exactly_its_scripts() -> None:
    page = html_page(report("h20_4p8")).decode()
    assert page.encode() == html_page(report("h20_4p8"))
    root = html.fromstring(page)
    assert loads(root) == []
    (policy,) = root.xpath("//meta[@http-equiv='Content-Security-Policy']/@content")
    assert "default-src 'none'" in policy and "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", page, re.S)
    style = re.findall(r"<style>(.*?)</style>", page, re.S)
    hashes = [f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'" for code in scripts]
    named = re.search(r"script-src ([^;]*)", policy)
    assert len(scripts) > 3 and named is not None and named[1].split() == hashes
    assert b64encode(sha256(style[0].encode()).digest()).decode() in policy.split("style-src")[1]


def test_hostile_names_add_no_element() -> None:
    plain = report("h20_4p8")
    vertices = tuple(replace(v, name=f"{v.name}{HOSTILE}", model=HOSTILE) for v in plain.topology.vertices)
    topology = replace(plain.topology, name=HOSTILE, vertices=vertices)
    curves = tuple(replace(c, name=HOSTILE) for c in plain.curves)
    attacked = replace(
        plain, title=HOSTILE, topology=topology, facts=((HOSTILE, HOSTILE),), certificate=(HOSTILE,),
        notes=(HOSTILE,), curves=curves,
    )  # fmt: skip
    before, after = (html.fromstring(html_page(each).decode()) for each in (plain, attacked))
    assert loads(after) == [] and not after.xpath("//img")
    assert len(after.xpath("//script")) == len(before.xpath("//script"))
    assert after.findtext(".//title").startswith("</script>")


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(WORDS, WORDS | st.integers() | st.none() | st.lists(WORDS, max_size=3), max_size=4))
def test_embedded_data_reads_back_and_cannot_end_its_element(value: object) -> None:
    text = embedded({"v": value})
    assert not set("<>&\u2028\u2029") & set(text) and json.loads(text) == {"v": value}


@given(st.lists(st.integers(0, 2**31 - 1)))
def test_columns_of_integers_read_back(values: list[int]) -> None:
    written = column(values, "i4")
    kind = {"i4": "<i4", "u2": "<u2"}[written["t"]]
    assert np.frombuffer(b64decode(written["v"]), kind).tolist() == values


def test_values_are_those_of_the_schedule() -> None:
    found = report("h20_4p8")
    values = page_values(found)
    assert found.run is not None and found.program is not None
    times = np.frombuffer(b64decode(values["run"]["end"]["v"]), "<f4")
    assert len(times) == len(found.run.schedule.transfers)
    assert times.max() == pytest.approx(values["run"]["us"], rel=1e-6)
    assert len(values["topology"]["vertices"]) == len(found.topology.vertices)
    assert len(values["program"]["blocks"]) == len(found.program.blocks)


def test_bars_of_thread_blocks_join_and_each_message_has_its_chunk() -> None:
    """Each rank of an allgather receives every chunk but its own exactly once."""
    run = report("h20_4p8").program
    assert run is not None
    since, ready, end = run.since, run.timeline.ready, run.timeline.end
    assert (since <= ready + 1e-12).all() and (ready <= end).all()
    last: dict[int, float] = {}
    received: dict[int, list[int]] = {}
    for task in range(len(end)):
        x = run.steps[task % len(run.steps)]
        assert since[task] == last.get(x.block, 0.0)
        last[x.block] = float(end[task])
    for x in run.steps:
        if x.operation == "r":
            received.setdefault(run.blocks[x.block].rank, []).extend(x.chunks)
    assert {rank: sorted(chunks) for rank, chunks in received.items()} == {
        rank: [k for k in range(12) if k != rank] for rank in range(12)
    }


@pytest.mark.slow
def test_64_gpus_fit_into_3_megabytes() -> None:
    assert len(html_page(report("h20_64", "allgather", "hierarchical"))) < 3_000_000
