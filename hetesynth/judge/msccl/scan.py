"""Lexical scan of an MSCCL XML file: bytes to start and end tags, and every lexical defect on the way.

The runtimes read these files with hand-written scanners, not with an XML library, so "well-formed XML" is
neither necessary nor sufficient. This scanner goes on after a defect where it can, so that one run reports
them all. It expands nothing: no entity, no document type, no external file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hetesynth.machine_code import Ints
from hetesynth.model import column
from hetesynth.model.program import BUFFERS, OPS

MAX_TAG_BYTES = 65536
MAX_VALUE_BYTES = 255
MAX_NAME_BYTES = 254  # of an attribute; readers store what ends the name of an element, which is one shorter
MAX_ATTRIBUTES = 16
AT_ONCE = 1000  # plain steps

_NAME = "[A-Za-z_][-A-Za-z0-9_.:]*"
_TAG = re.compile(f'<({_NAME})((?: {_NAME}="[^"<&]*")*) ?(/?)>')
_ATTRIBUTE = re.compile(' ([^ =]+)="([^"]*)"')
_COUNT = "(?:0|[1-9][0-9]{0,8})"
_PLAIN_STEPS = re.compile(
    f'(?:\n *<step s="{_COUNT}" type="(?:{"|".join(OPS)})" srcbuf="[ios]" srcoff="(?:-1|{_COUNT})" '
    f'dstbuf="[ios]" dstoff="(?:-1|{_COUNT})" cnt="{_COUNT}" depid="(?:-1|{_COUNT})" '
    f'deps="(?:-1|{_COUNT})" hasdep="[01]"/>){{1,{AT_ONCE}}}'
)
_WORDS = [
    *((f'type="{op}"'.encode(), b"%d" % number) for number, op in enumerate(OPS)),
    *((f'buf="{buffer}"'.encode(), b"%d" % number) for number, buffer in enumerate(BUFFERS)),
]
_NO_NUMBER = bytes.maketrans(bytes({*range(256)} - {*b"-0123456789"}), b" " * (256 - 11))
_CLOSE = re.compile(f"</({_NAME})>")
_LOOSE_ATTRIBUTE = re.compile(r"(\s*)([^\s=/>\"']+)\s*=\s*(\"[^\"]*\"|'[^']*')", re.ASCII)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_CONTROL = bytes({*range(32)} - {*b"\t\n\r"})

_MARKUP = tuple(
    (prefix, re.compile(whole, re.DOTALL | re.ASCII), broken, odd)
    for prefix, whole, broken, odd in (
        ("<!--", "<!--.*?-->", "open-comment", ""),
        ("<?", r"<.*?\?>", "declaration", "declaration"),
        ("<!", "(?!)", "doctype", ""),
        ("</", rf"</\s*({_NAME})[^>]{{0,999}}>", "broken-close", "broken-close"),
        ("<", rf"<({_NAME})((?:\"[^\"]*\"|'[^']*'|[^\"'>])*)>", "broken-tag", ""),
    )
)
"""What may begin at ``<`` besides plain tags: its whole, the rule where it never ends, the rule where it does."""
_IN_TAG = (
    ("newline-in-tag", re.compile(r"[\r\n]")),
    ("tab-in-tag", re.compile("\t")),
    ("blank-equals", re.compile(r"\s=|=\s", re.ASCII)),
    ("single-quotes", re.compile("''")),
    ("no-attribute", re.compile(r"\A(?!(?:\s+[^\s=/>\"']+\s*=\s*(?:\"\"|''))*\s*/?\Z)", re.ASCII)),
)
"""Rules, and the pattern that breaks each in a tag without its values."""
_SAID = {
    "empty-file": "the file is empty",
    "not-text": "not a text file: it holds control bytes",
    "byte-order-mark": "a byte order mark stands before the first element",
    "not-ascii": "the file holds bytes that are not ASCII; write plain ASCII",
    "text-content": "text content stands between the elements",
    "tab-between": "a tab stands between the elements; readers take only blanks",
    "open-comment": "a comment is not closed",
    "comment-equals": "a comment's first word holds `=`; put a blank after `<!--`",
    "declaration": "a `<?xml` declaration or processing instruction; remove it",
    "doctype": "a DOCTYPE or other `<!` declaration; remove it",
    "broken-close": "a closing tag is broken, or holds more than the name",
    "broken-tag": "a tag is broken or never closed by `>`",
    "newline-in-tag": "a line ends inside a tag; readers take only blanks",
    "tab-in-tag": "a tab stands inside a tag; readers take only blanks",
    "blank-equals": "a blank stands beside `=`",
    "single-quotes": "a value stands in single quotes; readers take only double ones",
    "no-attribute": 'a tag holds something that is not name="value" behind a blank',
    "less-than": "`<` stands inside a value",
    "entity": "an entity (`&...;`) is not decoded by the runtimes and stays as it is",
    "attribute-twice": "an attribute stands twice in one element",
    "many-attributes": f"an element has more than {MAX_ATTRIBUTES} attributes, each further blank counted",
    "long-value": f"a value is longer than {MAX_VALUE_BYTES} characters: readers overflow",
    "long-name": "a name, or the first word of a comment, is longer than readers take",
}


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag (``attributes`` is a mapping) or an end tag (``attributes`` is None) and its 1-based line."""

    name: str
    attributes: dict[str, str] | None
    line: int
    empty: bool = False


class Scanner:
    """Iterates over the tags of ``source``; ``defects`` is complete when the iteration has ended."""

    def __init__(self, source: bytes) -> None:
        self._source, self._text = source, source.decode("latin-1")  # a character a byte
        self._line, self._counted, self._position = 1, 0, 0
        self._seen: dict[str, tuple[int, int]] = {}  # by rule: the first line, how often

    @property
    def defects(self) -> list[tuple[str, str, int]]:
        """(rule, message, line) of each rule that something breaks, by the first place."""
        return [
            (rule, _SAID[rule] + (f" ({count} times)" if count > 1 else ""), line)
            for rule, (line, count) in sorted(self._seen.items(), key=lambda item: item[1][0])
        ]

    def tags(self) -> Iterator[Tag]:
        """Every tag up to the end or to a defect after which nothing can be read."""
        text, position = self._text, 0
        if not text.strip():
            self._defect("empty-file")
        elif len(self._source.translate(None, _CONTROL)) < len(text):
            self._defect("not-text", next(i for i, byte in enumerate(self._source) if byte in _CONTROL))
            return
        elif text.startswith("\xef\xbb\xbf"):
            self._defect("byte-order-mark")
            position = 3
        elif not self._source.isascii():
            self._defect("not-ascii", next(i for i, byte in enumerate(self._source) if byte > 127))
        while position >= 0:
            start = text.find("<", position)
            between = text[position:start] if start >= 0 else text[position:]
            rest = between.strip(" \r\n")  # only blanks and line ends may stand between two tags
            if rest:
                rule = "text-content" if rest.strip("\t \r\n") else "tab-between"
                self._defect(rule, position + between.find(rest))
            if start < 0:
                return
            position, tag = self._tag_at(start)
            if tag is not None:
                self._position = position
                yield tag
                position = self._position

    def plain_steps(self, most: int) -> tuple[Ints, int]:
        """The steps that follow at once, up to ``most``, one a line and with all attributes in the usual order, so
        that nothing can be wrong with them but their numbers: a row of their values for each, operations and
        buffers as in ``OPS`` and ``BUFFERS``, and the line of the first."""
        tables, line = [np.empty((0, column.AWAITED + 2), dtype=np.int64)], self._line_at(self._position) + 1
        while most >= AT_ONCE and (steps := _PLAIN_STEPS.match(self._text, self._position)):
            numbers = self._source[self._position : steps.end()]
            for word, number in _WORDS:
                numbers = numbers.replace(word, number)
            values = np.fromstring(numbers.translate(_NO_NUMBER).decode(), dtype=np.int64, sep=" ")
            tables.append(values.reshape(-1, column.AWAITED + 2))
            most -= len(tables[-1])
            self._position = steps.end()
        return np.concatenate(tables), line

    def _line_at(self, position: int) -> int:
        """The 1-based line of a position; positions come in rising order, so counting is incremental."""
        self._line += self._text.count("\n", self._counted, position)
        self._counted = position
        return self._line

    def _defect(self, rule: str, position: int = 0) -> None:
        line, count = self._seen.get(rule) or (self._text.count("\n", 0, position) + 1, 0)
        self._seen[rule] = line, count + 1

    def _tag_at(self, start: int) -> tuple[int, Tag | None]:
        """The end of the markup at ``start`` (-1: nothing can be read after it) and the tag, if it is one."""
        text, limit = self._text, start + MAX_TAG_BYTES
        plain = _TAG.match(text, start, limit)
        if plain is not None:  # a start tag in which nothing can be wrong
            name, inside, slash = plain.groups()
            pairs = _ATTRIBUTE.findall(inside)
            attributes = dict(pairs)
            if len(attributes) == len(pairs) <= MAX_ATTRIBUTES and max(len(name), len(inside)) < MAX_NAME_BYTES:
                return plain.end(), Tag(name, attributes, self._line_at(start), slash == "/")
        close = _CLOSE.match(text, start, limit)
        if close is not None:
            return close.end(), Tag(close[1], None, self._line_at(start))
        prefix, pattern, broken, odd = next(row for row in _MARKUP if text.startswith(row[0], start))
        whole = pattern.match(text, start, limit if prefix in ("<", "</") else len(text))
        if whole is None or odd:
            self._defect(broken if whole is None else odd, start)
        if whole is None:
            return -1, None
        tag = None
        if prefix == "<!--":
            word = re.split("[ >/\r\n]", whole[0], maxsplit=1)[0][1:]
            if "=" in word or len(word) >= MAX_NAME_BYTES:
                self._defect("comment-equals" if "=" in word else "long-name", start)
        elif prefix == "</":
            tag = Tag(whole[1], None, self._line_at(start))
        elif prefix == "<":
            attributes = self._loose_attributes(whole[1], whole[2], start)
            tag = Tag(whole[1], attributes, self._line_at(start), whole[2].endswith("/"))
        return whole.end(), tag

    def _loose_attributes(self, name: str, inside: str, start: int) -> dict[str, str]:
        """Return the attributes of a start tag that may have lexical defects, which are reported."""
        bare = _QUOTED.sub(lambda value: 2 * value[0][0], inside)
        rules = [rule for rule, breaks in _IN_TAG if breaks.search(bare)]
        values = "".join(_QUOTED.findall(inside))
        rules += [rule for rule, letter in (("less-than", "<"), ("entity", "&")) if letter in values]
        rules += ["long-name"] if len(name) >= MAX_NAME_BYTES else []
        attributes: dict[str, str] = {}
        room = MAX_ATTRIBUTES  # readers store every further blank as an attribute
        for blanks, key, quoted in _LOOSE_ATTRIBUTE.findall(inside):
            room -= max(1, len(blanks))
            if room < 0:
                rules.append("many-attributes")
                break
            if key in attributes:
                rules.append("attribute-twice")
                continue
            rules += ["long-value"] if len(quoted) > MAX_VALUE_BYTES + 2 else []
            rules += ["long-name"] if len(key) > MAX_NAME_BYTES else []
            attributes[key] = quoted[1:-1].encode("latin-1").decode("utf-8", "replace")
        for rule in rules:
            self._defect(rule, start)
        return attributes
