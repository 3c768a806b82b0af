"""The page: one file with its styles, scripts and data, which loads nothing and sends nothing.

In: a report. Out: UTF-8 HTML, the same bytes for the same report. Names in it are untrusted: text is escaped,
the data is JSON in which no ``<`` is left, scripts set text and never markup, and the content security policy lets
no script run but those whose hashes it names.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from hetesynth.report.contents import Report
from hetesynth.report.html.cegis_section import cegis_section
from hetesynth.report.html.markup import text_markup
from hetesynth.report.html.values import page_values

SCRIPTS = (
    "d3.min.js", "common.js", "scene.js", "gantt_rows.js", "gantt.js", "resources.js", "curves.js", "main.js",
)  # fmt: skip


def html_page(report: Report) -> bytes:
    """The page of ``report``."""
    values = page_values(report)
    style = _source("page.css") + _room(values["topology"])
    licence = f"/*\n{_source('d3.LICENSE')}*/\n"  # whoever passes the page on passes d3 on
    scripts = [licence, *(_source(name) for name in SCRIPTS)]
    scripts[:2] = ["".join(scripts[:2])]
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(style, scripts)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text_markup(report.title)}</title>\n<style>{style}</style>\n</head>\n"
    )
    body = _source("page.html")
    for mark, value in _marks(report).items():
        body = body.replace(f"<!--{mark}-->", value, 1)
    data = f'<script id="data" type="application/json">{embedded(values)}</script>\n'
    code = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (head + body + data + code + "</body>\n</html>\n").encode()


def _room(topology: dict[str, Any]) -> str:
    """The size of the drawing as styles, so that nothing below it moves when it is drawn."""
    width, height = topology["width"], topology["height"]
    least, most = min(width, max(600, 0.8 * width)), 1.6 * width
    shape = f"--wide: {width:.1f}; --high: {height:.1f}; --least: {least:.1f}px; --most: {most:.1f}px;"
    return f".canvasbox {{ {shape} }}\n"


def embedded(values: dict[str, Any]) -> str:
    """JSON that may stand inside a script element: nothing in it ends the element or a line."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _marks(report: Report) -> dict[str, str]:
    """What takes the place of the marks in page.html, each as safe markup."""
    facts = "".join(
        f"<div><dt>{text_markup(name)}</dt><dd>{text_markup(value)}</dd></div>" for name, value in report.facts
    )
    notes = "".join(f"<li>{text_markup(note)}</li>" for note in report.notes)
    return {
        "title": text_markup(report.title),
        "verdict": f'<p class="verdict">{text_markup(report.verdict)}</p>' if report.verdict else "",
        "facts": facts,
        "cegis-link": '<a href="#cegis">CEGIS</a>' if report.cegis is not None else "",
        "cegis": "" if report.cegis is None else cegis_section(report.cegis),
        "certificate": "".join(f"<p>{text_markup(sentence)}</p>" for sentence in report.certificate),
        "notes": f"<h3>Notes</h3><ul>{notes}</ul>" if notes else "",
    }


def _policy(style: str, scripts: list[str]) -> str:
    code = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {code}; style-src {_hash(style)}; base-uri 'none'; form-action 'none'"


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}'"


def _source(name: str) -> str:
    """A file of this package, with the line ends that a browser sees."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")
