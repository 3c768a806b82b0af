"""A text of TOML to values that have the right types, with findings about those that have not."""

from __future__ import annotations

import math
import re
import sys
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from hetesynth.deploy.manifest.keys import (
    DEFAULTS,
    MANIFEST,
    MAX_TEXT,
    NOT_HERE,
    Kind,
    Number,
    Several,
    Table,
    Tables,
    Text,
    Truth,
    Whole,
)
from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.files.regular_files import open_regular
from hetesynth.model.diagnostics import HIDDEN, Span, visible
from hetesynth.topology.language.findings import Findings

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Path = tuple[str | int, ...]  # of a key, from the top of the document; a number counts in an array

_BLANK = re.compile(r"(?:[ \t\n]+|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"""(?:"{0,2})' r"|'''.*?'''(?:'{0,2})" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'", re.DOTALL
)
_WORD = re.compile(r"[A-Za-z0-9_-]+")
_SCALAR = re.compile(r"[^,\]}#\n]*")
MAX_BYTES = 1 << 20
MAX_LINE = 10_000
MAX_DOTS = 8
_KEY_PART = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_DEEP_KEY = re.compile(rf"(?<![A-Za-z0-9_-]){_KEY_PART}(?:[ \t]*\.[ \t]*{_KEY_PART}){{{MAX_DOTS},}}[ \t]*[=\]]")
_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")
_NO_TOML = "see docs/manifest.md; texts stand in quotes, lists in brackets"


@dataclass
class Positions:
    """The spans of one text. ``file``: the name that they carry."""

    file: str
    text: str
    _keys: dict[Path, Span] = field(default_factory=dict)
    _values: dict[Path, Span] = field(default_factory=dict)
    _lengths: dict[Path, int] = field(default_factory=dict)
    _lines: list[int] = field(default_factory=list)
    _at: int = 0

    def __post_init__(self) -> None:
        self._lines = [0, *(match.end() for match in re.finditer("\n", self.text))]
        table: Path = ()
        while character := self._skip():
            if character != "[":
                self._pair(table)
                continue
            several, start = self.text.startswith("[[", self._at), self._at
            self._at += 1 + several
            table = self._key(())
            self._skip()
            self._at += 1 + several
            if several:
                number = self._lengths.get(table, 0)
                self._lengths[table] = number + 1
                table = (*table, number)
            self._keys[table] = self.span(start, self._at)

    def has(self, path: Path) -> bool:
        """True where the key is in the text."""
        return path in self._keys

    def key(self, path: Path) -> Span:
        """Where the key is, or that of the innermost table around it; of a table its header."""
        while path and path not in self._keys:
            if isinstance(path[-1], int) and path in self._values:
                return self._values[path]
            path = path[:-1]
        return self._keys.get(path) or Span(self.file, 1, 1)

    def value(self, path: Path) -> Span:
        """Where the value is; where there is none, as ``key``."""
        return self._values.get(path) or self.key(path)

    def inside(self, path: Path, start: int, length: int) -> Span:
        """Characters of the text that the value is, counted from 0; all of it where escapes or lines are in it."""
        span = self.value(path)
        begin = self._lines[span.line - 1] + span.column - 1
        token = self.text[begin : begin + span.length]
        if len(token) < 2 or token[0] not in "\"'" or token[:3] in ('"""', "'''") or "\\" in token:
            return span
        first = min(span.column + 1 + start, span.column + span.length - 1)
        return Span(self.file, span.line, first, max(1, min(length, span.column + span.length - 1 - first)))

    def span(self, start: int, end: int) -> Span:
        """From one place of the text to another."""
        line = bisect_right(self._lines, start)
        begin = self._lines[line - 1]
        stop = min(end, self._lines[line] - 1 if line < len(self._lines) else len(self.text))
        return Span(self.file, line, start - begin + 1, max(1, stop - start))

    def _skip(self) -> str:
        """To the next character that counts, which it is; "" at the end."""
        blank = _BLANK.match(self.text, self._at)
        self._at = blank.end() if blank else self._at
        return self.text[self._at : self._at + 1]

    def _pair(self, table: Path) -> None:
        path = self._key(table)
        self._skip()
        self._at += 1  # the equals sign
        self._value(path)

    def _key(self, path: Path) -> Path:
        """``path`` and the parts of the dotted key here; a part that is an array of tables means its last one."""
        while True:
            self._skip()
            start = self._at
            token = _STRING.match(self.text, self._at) or _WORD.match(self.text, self._at)
            text = token[0] if token else ""
            self._at += max(1, len(text))  # never stands still
            path = (*path, str(tomllib.loads(f"key = {text}")["key"]) if text[:1] in ("'", '"') and text else text)
            span = self.span(start, self._at)
            self._keys.setdefault(path, span)
            if self._skip() != ".":
                return path
            self._at += 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)

    def _value(self, path: Path) -> None:
        character, start = self._skip(), self._at
        if character in ("[", "{"):
            self._at += 1
            number = 0
            while self._skip() not in ("]", "}", ""):
                if character == "[":
                    self._value((*path, number))
                    number += 1
                else:
                    self._pair(path)
                if self._skip() == ",":
                    self._at += 1
            self._at += 1
        elif token := _STRING.match(self.text, self._at):
            self._at = token.end()
        elif scalar := _SCALAR.match(self.text, self._at):
            self._at += max(1, len(scalar[0].rstrip()))
        self._values[path] = self.span(start, self._at)


_WAYS_OUT = (
    ("Expected newline or end", "the line ends behind the value: no comma, nothing else; no number begins with 0"),
    ("Invalid initial character for a key", "inline tables are on one line, with no comma at their end"),
    ("end of document", "a quote, bracket or brace is not closed"),
    ("Illegal character '\\n'", "end the text with a quote on this line"),
    ("Cannot overwrite", "this key stands here twice: leave one out"),
    ("Cannot declare", "this table stands here twice: leave one out, or begin several with [[...]]"),
    ("Unescaped '\\'", "write / in paths, or the text between single quotes"),
)
"""What ``tomllib`` says, and the way out; the first that fits."""
_MEANT = (
    (r"^\s*[\w.-]+\s*:\s", "write `key = value`, not `key: value`"),
    (r"=\s*(True|False|yes|no|on|off)\b", "write true or false"),
    (
        r"=\s*\[?\s*(?!(?:true|false|inf|nan)(?![\w.-]))([A-Za-z][\w.-]*)\s*(,|\]|#|$)",
        'texts stand in quotes: "{}"',
    ),
    (r"=\s*([0-9][0-9.]*\s*[A-Za-z]+[^#\n]*)$", 'texts stand in quotes: "{}"'),
)
"""What people write who know other languages, and what is meant; the first that fits."""


@dataclass
class Document:
    """A text that is TOML. ``values``: what is right in it."""

    file: str
    text: str
    positions: Positions
    findings: Findings
    values: dict[str, Any] = field(default_factory=dict)

    def add(self, code: str, path: Path, message: str, help_: str = "") -> None:
        """Note what is wrong with the value at ``path``."""
        self.findings.add(code, self.positions.value(path), visible(message), visible(help_))

    def add_to_key(self, code: str, path: Path, message: str, help_: str = "") -> None:
        """Note what is wrong with the key or the table at ``path``."""
        self.findings.add(code, self.positions.key(path), visible(message), visible(help_))


def _refused(message: str, help_: str = "no manifest needs that") -> HetesynthError:
    return HetesynthError(message, code="HS860", help=help_)


def read_document(path: FilePath) -> Document:
    """The document at ``path``, checked key by key. Raises HetesynthError HS860 and SourceError HS861."""
    file, findings = str(path), Findings()
    try:
        if path.is_dir():
            help_ = f"name the file in it: {path / 'hetesynth.toml'}"
            raise _refused(f"{path} is a folder, not a manifest", help_)
        with open_regular(path) as stream:
            content = stream.read(MAX_BYTES + 1)
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise _refused(f"{path} does not exist", "name a manifest, or write one with `hetesynth init`") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise _refused(f"{path} is no text: line {line} is not UTF-8", "save it as UTF-8") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise _refused(f"{path} cannot be read: {why}", "check its permissions") from None
    if len(content) > MAX_BYTES:
        raise _refused(f"{path} is larger than {MAX_BYTES >> 10} KiB", "a manifest is a short list")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    lines = text.split("\n")
    for number, words in enumerate(lines, 1):  # the time of tomllib grows with the square of these
        if len(words) > MAX_LINE:
            raise _refused(f"{file}: line {number} has more than {MAX_LINE} characters")
        if _DEEP_KEY.search(words):
            raise _refused(f"{file}: line {number} has a key of too many parts")
    findings.sources[file] = text
    try:
        values = tomllib.loads(text)
        document = Document(file, text, Positions(file, text), findings)
    except RecursionError:
        raise _refused(f"{file} is nested too deep") from None
    except ValueError as error:
        message = str(error)
        place = _PLACE.search(message)
        row, column = (int(place[1]), int(place[2])) if place and place[1] else (len(lines), len(lines[-1]) + 1)
        what = message[: place.start()] if place else message.partition(";")[0]
        meant = ((re.search(pattern, lines[row - 1]), help_) for pattern, help_ in _MEANT)
        ways = [help_.format(match[match.re.groups and 1].strip()[:40]) for match, help_ in meant if match]
        ways += [way for says, way in _WAYS_OUT if says in message]
        findings.add("HS861", Span(file, row, column), f"no TOML: {visible(what[:200])}", [*ways, _NO_TOML][0])
        findings.raise_any()
    document.values = _table(values, MANIFEST, (), document)
    return document


def _table(values: Mapping[str, Any], table: Table, path: Path, document: Document) -> dict[str, Any]:
    """What is right of ``values``."""
    checked = {}
    names = [key.name for key in table.keys]
    for name, value in values.items():
        key = table.key(name)
        if key is None:
            where = ".".join(str(part) for part in path if isinstance(part, str))
            help_ = did_you_mean(name, names, "see docs/manifest.md for all keys")
            for table_ in MANIFEST.keys:
                if path == () and isinstance(table_.kind, Table) and table_.kind.key(name):
                    help_ = f"`{name}` stands below [{table_.name}]"
            if len(path) == 2 and path[0] == "rule" and DEFAULTS.key(name):
                help_ = "state it in [defaults] or [[cluster]]; a rule changes options, gates and skip"
            message = f"unknown key `{name[:60]}`{where and f' in {where}'}"
            document.add_to_key("HS862", (*path, name), message, help_)
        elif _has_type(value, key.kind, (*path, name), document):
            right = _value(value, key.kind, (*path, name), document)
            if right is not None:
                checked[name] = right
    for key in table.keys:
        if key.required and key.name not in values:
            missing = f"[[{key.name}]]" if isinstance(key.kind, Tables) else key.name
            example = f'{missing} = "{key.examples[0]}"' if key.examples else "[[cluster]] with its topology"
            document.add_to_key("HS862", path, f"`{missing}` is missing", f"add {example}")
    return checked


_ASKED: dict[type[Kind], tuple[str, tuple[type, ...], str]] = {  # words, types, the way out
    Tables: ("a list of tables", (list,), "begin each with [[{name}]]"),
    Several: ("a list", (list,), ""),
    Table: ("a table", (dict,), "write {name} = {{ ... }}"),
    Text: ("a text", (str,), 'write {name} = "..."'),
    Whole: ("a whole number", (int,), "write a whole number, such as {least}"),
    Number: ("a number", (int, float), "write a number, such as 1.5"),
    Truth: ("true or false", (bool,), ""),
}
_YES = ("true", "yes", "on", "1")
_GIVEN = {types[-1]: words for words, types, _ in _ASKED.values()}


def _has_type(value: Any, kind: Kind, path: Path, document: Document) -> bool:
    """True where ``value`` may be of ``kind``, with a finding where it is not."""
    asked, types, example = _ASKED[type(kind)]
    if type(value) in types and not (isinstance(kind, Tables) and any(type(entry) is not dict for entry in value)):
        return True
    given, name = str(value).lower(), _last(path)
    help_ = example.format(name=name, least=kind.least if isinstance(kind, Whole) else 0)
    if isinstance(kind, Several) and isinstance(value, str) and value.isprintable():  # as it is probably meant
        help_ = f'write {name} = ["{value[:60]}"]'
    elif isinstance(kind, Truth) and given in (*_YES, *("false", "no", "off", "0")):
        help_ = f"write {'true' if given in _YES else 'false'}, without quotes"
    elif isinstance(kind, Whole | Number) and isinstance(value, str) and re.fullmatch(r"[0-9.]{1,18} ?%?", value):
        help_ = f"write {value.rstrip(' %')}, without quotes"
    elif path[-1:] == ("chunks",) and isinstance(value, list):
        help_ = "one count: programs without limits of size exclude each other in a folder"
    elif path[-1:] in (("without",), ("degrade",)):
        help_ = "write a list of texts"
    document.add("HS863", path, f"`{name}` is {asked}, not {_GIVEN.get(type(value), 'a date or time')}", help_)
    return False


def _last(path: Path) -> str:
    return str(next((part for part in reversed(path) if isinstance(part, str)), ""))


def _value(value: Any, kind: Kind, path: Path, document: Document) -> Any:
    """``value``, which has the type of ``kind``, without what is wrong in it; None where all of it is."""
    match kind:
        case Text():
            return value if _text_is_right(value, kind, path, document) else None
        case Whole() | Number():
            above = isinstance(kind, Number) and kind.above
            least, most = kind.least, kind.most
            if math.isfinite(value) and least <= value <= most and not (above and value == least):
                return value
            if least == most:
                message, help_ = f"`{_last(path)}` is {value}", f"this hetesynth reads {_last(path)} = {least}"
            else:
                begin = f"more than {least:g}" if above else f"{least:g}"
                shown = f"{value:g}" if isinstance(value, float) else str(value)
                shown = "the number" if len(shown) > 18 else shown
                message, help_ = f"`{_last(path)}` is out of range: {shown}", f"from {begin} to {most}"
            document.add("HS864", path, message, help_)
            return None
        case Table():
            return _table(value, kind, path, document)
        case Several() | Tables():
            if len(value) > kind.most:
                message = f"`{_last(path)}` has {len(value)} entries, the most are {kind.most}"
                document.add("HS864", path, message)
            elif len(value) < kind.least:
                document.add("HS864", path, f"`{_last(path)}` is empty", "name at least one")
            rows = value[: kind.most]
            if isinstance(kind, Tables):
                return [_table(one, kind.of, (*path, i), document) for i, one in enumerate(rows)]
            texts: list[str | None] = []  # those that are right, in their places; None for the others
            for number, one in enumerate(rows):
                place = (*path, number)
                right = _has_type(one, kind.of, place, document) and _text_is_right(one, kind.of, place, document)
                if right and one in texts:
                    document.add("HS864", place, f"`{one[:60]}` is named twice", "name it once")
                texts.append(one if right and one not in texts else None)
            return texts
    return value


def _text_is_right(value: str, kind: Text, path: Path, document: Document) -> bool:
    hidden = HIDDEN.search(value)
    if hidden:
        message = f"the character U+{ord(hidden[0]):04X} cannot be part of `{_last(path)}`"
        document.add("HS864", path, message, "remove it")
    elif len(value) > MAX_TEXT:
        document.add("HS864", path, f"`{_last(path)}` has more than {MAX_TEXT} characters")
    elif not value.strip():
        document.add("HS864", path, f"`{_last(path)}` is empty", f"write {kind.what}, or leave the key out")
    elif kind.choices and value not in kind.choices:
        help_ = dict(NOT_HERE).get(value) or did_you_mean(value, kind.choices, f"one of {', '.join(kind.choices)}")
        what = kind.what.partition(" ")[2]
        document.add("HS864", path, f"there is no {what} `{value[:60]}`", help_)
    else:
        return True
    return False
