"""A text of TOML to values that keep the rules of ``keys``, with findings about those that do not."""

import json
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.keys import LAYOUT, MANIFEST, MAX_TEXT, NAME, Rules
from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.files.regular_files import open_regular
from hetesynth.model.diagnostics import HIDDEN, Span, visible
from hetesynth.topology.language.findings import Findings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]  # of a key, from the top of the document; a number counts in an array

MAX_BYTES = 1 << 20
MAX_LINE = 10_000
_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{8,}}[ \t]*[=\]]")
_HEADER = re.compile(rf"^[ \t]*(\[\[?)[ \t]*({_PART}(?:[ \t]*\.[ \t]*{_PART})*)[ \t]*\]", re.MULTILINE)
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_ODD = {NAME: "HS868", LAYOUT: "HS868"}  # the code of a text that is not as its pattern, else HS865
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "a text"),
    "integer": ((int,), "a whole number"),
    "number": ((int, float), "a number"),
    "boolean": ((bool,), "true or false"),
    "array": ((list,), "a list"),
    "object": ((dict,), "a table"),
}


@dataclass
class Document:
    """A TOML text. ``values``: its entries that keep the rules; ``findings``: about the others."""

    file: str
    text: str
    findings: Findings
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, code: str, path: Path, message: str, help_: str, value: object = None) -> None:
        """Note what is wrong with the key or the table at ``path``, or with ``value``, a text in it."""
        self.findings.add(code, self.span(path, value), visible(message), visible(help_))

    def span(self, path: Path, value: object = None) -> Span:
        """Return the span of ``value``, a text in quotes, else of the last key of ``path`` that is in the text."""
        names = [str(part) for part in path if isinstance(part, str)]
        at, end, start = 0, len(self.text), 0
        headers = [(m, re.findall(_PART, m[2])) for m in _HEADER.finditer(self.text)]
        fitting = [(m, parts) for m, parts in headers if parts == names[: len(parts)]]
        if fitting:  # the table that is named longest; of several that begin with [[ the one that is counted
            depth = max(len(parts) for _, parts in fitting)
            several = [m for m, parts in fitting if len(parts) == depth]
            number = path[1] if len(path) > 1 and isinstance(path[1], int) else 0
            header = several[min(number, len(several) - 1)]
            start, at = header.start(1), header.end()
            end = min((m.start() for m, _ in headers if m.start() > at), default=end)
            names = names[depth:]
        for name in names:
            key = re.compile(rf"""(?<![\w-])["']?{re.escape(name)}["']?(?=[ \t]*[.=])""")
            if match := key.search(self.text, at, end):
                start, at = match.start(), match.end()
        if isinstance(value, str):
            quoted = (
                self.text.find(one, at, end) for one in (json.dumps(value, ensure_ascii=False), f"'{value}'")
            )
            start = next((place for place in quoted if place >= 0), start)
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        word = re.compile(r"""\[\[?[^\]\n]*\]\]?|"[^"\n]*"|'[^'\n]*'|[\w-]+""").match(self.text, start)
        return Span(self.file, line, column, len(word[0]) if word else 1)


def read_document(path: FilePath) -> Document:
    """The document at ``path``, checked key by key. Raises HetesynthError HS860 and SourceError HS861."""
    file, findings = str(path), Findings()
    try:
        with open_regular(path) as stream:
            content = stream.read(MAX_BYTES + 1)
        text = content.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
        if len(content) > MAX_BYTES:
            raise ValueError(f"it is larger than {MAX_BYTES >> 10} KiB")
        # the time of tomllib grows with the square of these
        if any(len(line) > MAX_LINE or _DEEP_KEY.search(line) for line in text.split("\n")):
            raise ValueError(f"a line has more than {MAX_LINE} characters, or a key of too many parts")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        help_ = "name a manifest, or write one with `hetesynth init`"
        raise HetesynthError(f"{path} cannot be read: {why}", code="HS860", help=help_) from None
    findings.sources[file] = text
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        message, lines = str(error), text.split("\n")
        place = _PLACE.search(message)
        row, column = (int(place[1]), int(place[2])) if place and place[1] else (len(lines), len(lines[-1]) + 1)
        what = message[: place.start()] if place else message.partition(";")[0]
        help_ = "see docs/manifest.md; texts stand in quotes, lists in brackets"
        findings.add("HS861", Span(file, row, column), f"no TOML: {visible(what[:200])}", help_)
        findings.raise_any()
    document = Document(file, text, findings)
    document.values = _table(values, MANIFEST, (), document)
    return document


def _table(values: dict[str, Any], rules: Rules, path: Path, document: Document) -> dict[str, Any]:
    """Return the entries of ``values`` that keep ``rules``, and note findings about the others."""
    keys, checked = rules["properties"], {}
    for name, value in values.items():
        if name not in keys:
            help_ = did_you_mean(name, keys, f"known here: {', '.join(keys)}")
            document.add("HS862", (*path, name), f"unknown key `{name[:60]}`", help_)
        elif (right := _value(value, keys[name], (*path, name), document)) is not None:
            checked[name] = right
    for name in rules.get("required", ()):
        if name not in values:
            document.add("HS862", path, f"`{name}` is missing", "add it; see docs/manifest.md")
    return checked


def _value(value: Any, rules: Rules, path: Path, document: Document) -> Any:
    """Return ``value`` without its wrong parts, which are None in lists; None where all of it is wrong."""
    name = next(part for part in reversed(path) if isinstance(part, str))
    types, words = _KINDS[rules["type"]]
    help_ = (
        f"such as {name} = {json.dumps(rules['examples'][0])}" if "examples" in rules else "see docs/manifest.md"
    )

    def wrong(code: str, message: str, way_out: str = help_) -> None:
        document.add(code, path, message, way_out, value)

    if type(value) not in types:
        return wrong("HS863", f"`{name}` has to be {words}")
    if isinstance(value, dict):
        return _table(value, rules, path, document)
    if isinstance(value, list):
        if not rules["minItems"] <= len(value) <= rules["maxItems"]:
            wrong(
                "HS864",
                f"`{name}` has {len(value)} entries: {rules['minItems']} to {rules['maxItems']} are needed",
            )
        rows = value[: rules["maxItems"]]
        twice = {row for row in rows if isinstance(row, str) and rows.count(row) > 1}
        if twice and rules.get("uniqueItems"):
            wrong("HS864", f"`{min(twice)[:60]}` is named twice", "name it once")
        items = {name: one for name, one in rules.items() if name == "examples"} | rules["items"]
        right = [_value(row, items, (*path, number), document) for number, row in enumerate(rows)]
        return right if "uniqueItems" in rules else [row or {} for row in right]
    if isinstance(value, str):
        if HIDDEN.search(value) or not value.strip() or len(value) > MAX_TEXT:
            return wrong("HS864", f"`{name}` is empty, too long, or has characters that nobody sees")
        if value not in rules.get("enum", (value,)):
            return wrong("HS864", f"there is no `{value[:60]}`", did_you_mean(value, rules["enum"], help_))
        if not re.search(rules.get("pattern", ""), value):
            return wrong(_ODD.get(rules["pattern"], "HS865"), f"`{value[:60]}` does not fit `{name}`")
    elif not isinstance(value, bool):
        least, most = rules.get("exclusiveMinimum", rules.get("minimum")), rules["maximum"]
        if not math.isfinite(value) or not least <= value <= most or rules.get("exclusiveMinimum") == value:
            above = "more than " if "exclusiveMinimum" in rules else ""
            return wrong("HS864", f"`{name}` is out of range", f"{above}{least} to {most}")
    return value
