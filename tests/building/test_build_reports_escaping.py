"""Names and messages of anybody are text in every report: what its readers read is what was meant."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st
from lxml import etree, html
from markdown_it import MarkdownIt
from markdown_it.token import Token
from support.build_report_sample import PLACES, cell, record, with_status

from hetesynth.cli.build import build_text
from hetesynth.deploy.outcome import BuildReport, FolderFinding
from hetesynth.deploy.reports.pages import index_page
from hetesynth.deploy.reports.words import (
    all_annotations,
    code_quality,
    markup,
    one_line,
    sarif_annotations,
    workflow_commands,
)
from hetesynth.deploy.reports.write import MARK, document, junit_xml, markdown_summary
from hetesynth.model.diagnostics import HIDDEN, Diagnostic, Span, visible

HOSTILE = (
    "a|b", "]]>", "<script>alert(1)</script>", "::error file=x::y", "a\n::stop-commands::t", "a\r\nb", "%0A%25",
    "a:b,c", "\x00\x1b[31m\x7f\x85", "\u202egnp.exe", "\ud800", "\ufffe\uffff", "`code`", "\\|", "&amp;&lt;",
    "**b** _i_ [x](http://y.z) ![i](u)", "</details>", "<!-- x", "--> y", '"\'', " ", "", "~~s~~", "$x$", "# h",
    "www.example.org https://example.org", "1. a", "\u2028x", "</title></style>", "\t| - |", "@user", "{{ x }}",
    "cells/../../x",
)  # fmt: skip
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=12), st.lists(st.sampled_from(HOSTILE)).map("".join))


def report(name: str, message: str) -> BuildReport:
    """A build with ``name`` and ``message`` at every place where a text of others can be."""
    cells = (
        with_status("failed", cell(name, "allgather"), message, message),
        with_status("kept", cell(name, "allreduce", name), message, record=record(2.0), previous=record(1.0)),
        with_status("built", cell("c", message), record=record(3.0), previous=record(4.0)),
    )
    findings = tuple(
        Diagnostic("HS241", Span(f"{name}.dsl", 2, 3), message, name, severity)
        for severity in ("error", "warning", "note")
    )
    folders = (FolderFinding(Path("o") / name, message), FolderFinding(Path("o"), message, stale=False))
    return BuildReport(Path(name or "x"), Path(name), cells, findings, (Path(name),), (message,), folders=folders)


def unescaped(text: str) -> str:
    """What GitHub's runner takes for the message of a command."""
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def command(line: str) -> tuple[str, dict[str, str], str]:
    """A workflow command as GitHub's runner reads it: name, properties, message."""
    assert line.startswith("::")
    head, separator, message = line[2:].partition("::")
    assert separator
    name, _, rest = head.partition(" ")
    pairs = [pair.partition("=") for pair in rest.split(",")]
    properties = {key: unescaped(value.replace("%3A", ":").replace("%2C", ",")) for key, _, value in pairs}
    return name, properties, unescaped(message)


@settings(max_examples=25, deadline=None)
@given(texts, texts)
@example("a%3Ab", "%250A")
def test_a_workflow_command_says_what_was_meant(name: str, message: str) -> None:
    meant = all_annotations(report(name, message), PLACES)
    lines = workflow_commands(meant)
    assert len(lines) == len(meant)
    for annotation, line in zip(meant, lines, strict=True):
        kind, properties, said = command(line)
        assert kind == {"error": "error", "warning": "warning", "note": "notice"}[annotation.severity]
        assert properties["file"] == HIDDEN.sub(lambda m: m[0] if m[0] == "\r" else visible(m[0]), annotation.path)
        assert properties["title"] == annotation.title
        assert said == annotation.message
        assert not HIDDEN.search(line) and "\n" not in line


@settings(max_examples=25, deadline=None)
@given(texts, texts)
def test_junit_is_xml_and_says_what_was_meant(name: str, message: str) -> None:
    of_build = report(name, message)
    root = etree.fromstring(junit_xml(of_build, PLACES))
    cases = root.findall("testsuite/testcase")
    assert len(cases) == len(of_build.cells) + 2  # a folder, and the finding that is an error
    failure = cases[0].find("failure")
    assert failure is not None
    assert markup(message) in (failure.get("message") or "")


@settings(max_examples=25, deadline=None)
@given(texts, texts)
def test_json_of_every_kind_is_json(name: str, message: str) -> None:
    of_build = report(name, message)
    meant = all_annotations(of_build, PLACES)
    issues = json.loads(code_quality(meant))
    assert [issue["description"] for issue in issues] == [annotation.message for annotation in meant]
    assert len({issue["fingerprint"] for issue in issues}) == len(issues)
    results = json.loads(sarif_annotations(meant))["runs"][0]["results"]
    assert [result["message"]["text"] for result in results] == [annotation.message for annotation in meant]
    values = json.loads(json.dumps(document(of_build, PLACES)))
    assert values["cells"][0]["messages"] == [message, message]


def inline_text(token: Token) -> str:
    """The text of a cell of a table; nothing in it may be markup."""
    assert {child.type for child in token.children or ()} <= {"text", "text_special"}, token
    return "".join(child.content for child in token.children or ())


@settings(max_examples=25, deadline=None)
@given(texts, texts)
def test_markdown_has_no_markup_of_others(name: str, message: str) -> None:
    of_build = report(name, message)
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown_summary(of_build, PLACES))
    blocks = {token.content.strip() for token in tokens if token.type == "html_block"}
    assert blocks == {MARK}
    rows = [token for token in tokens if token.type == "tr_open"]
    tables = [token for token in tokens if token.type == "table_open"]
    attention, folders, findings, groups = 2, 2, 3, 3
    assert len(tables) == 3 + groups
    assert len(rows) == len(tables) + attention + folders + findings + len(of_build.cells)
    cells = [tokens[k + 1] for k, token in enumerate(tokens) if token.type == "td_open"]
    said = [inline_text(token) for token in cells]
    assert one_line(f"{name}/rccl-6/allgather/1MB..64MB") in [one_line(text) for text in said]


def read(of_build: BuildReport) -> html.HtmlElement:
    links = {c.cell.name: "cells/x y.html" for c in of_build.cells}
    return html.fromstring(index_page(of_build, PLACES, links, {}))


@settings(max_examples=25, deadline=None)
@given(texts, texts)
def test_the_index_has_no_elements_of_others(name: str, message: str) -> None:
    plain, hostile = read(report("n", "m")), read(report(name, message))
    assert [one.tag for one in hostile.iter()] == [one.tag for one in plain.iter()]
    assert markup(name) in hostile.text_content()


@settings(max_examples=25, deadline=None)
@given(texts, texts)
def test_no_line_on_the_terminal_is_a_command(name: str, message: str) -> None:
    lines = build_text(report(name, message)).split("\n")
    assert not any(HIDDEN.search(line) for line in lines)
    assert not any(line.startswith(("::", "##[")) for line in lines)
    assert sum(line.startswith("  ") for line in lines) == 4


def test_a_long_table_is_folded_and_a_summary_has_a_most() -> None:
    many = tuple(
        with_status("missing", cell("c", f"collective{k}"), "a message " * 20, record=record(2.0))
        for k in range(2000)
    )
    of_build = BuildReport(Path("m"), Path("o"), many)
    whole = markdown_summary(of_build, PLACES)
    assert whole.count("<details>") == whole.count("</details>") == 2
    for most in (100_000, 20_000, 2_000, 500):
        summary = markdown_summary(of_build, PLACES, most)
        assert len(summary.encode()) <= most
        assert summary.count("<details>") == summary.count("</details>")
        assert "has all of it" in summary


def test_fingerprints_do_not_depend_on_lines() -> None:
    here = Diagnostic("HS241", Span("a.dsl", 3, 1), "odd", severity="warning")
    twice = replace(here, span=Span("a.dsl", 9, 1))
    lower = (replace(here, span=Span("a.dsl", 13, 1)), replace(twice, span=Span("a.dsl", 19, 1)))

    def prints(*findings: Diagnostic) -> list[str]:
        of_build = BuildReport(Path("m"), Path("o"), (), findings)
        return [issue["fingerprint"] for issue in json.loads(code_quality(all_annotations(of_build, PLACES)))]

    assert prints(here, twice) == prints(*lower)
    assert len(set(prints(here, twice))) == 2
    assert prints(here) != prints(replace(here, code="HS242"))
