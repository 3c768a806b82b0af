"""Lexical scan of an MSCCL XML file: bytes to start and end tags, and every lexical defect on the way.

The runtimes read these files with hand-written scanners, not with an XML library, so "well-formed XML" is
neither necessary nor sufficient. This scanner goes on after a defect where it can, so that one run reports
them all. It expands nothing: no entity, no document type, no external file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TAG_BYTES = 65536
MAX_VALUE_BYTES = 255
MAX_NAME_BYTES = 254  # of an attribute; readers store what ends the name of an element, which is one shorter
MAX_ATTRIBUTES = 16
MAX_DEFECTS = 50

_NAME = rb"[A-Za-z_][-A-Za-z0-9_.:]*"
_TEXT_TAG = re.compile("<(" + _NAME.decode() + ")((?: " + _NAME.decode() + '="[^"<&]*")*) ?(/?)>')
_TEXT_ATTRIBUTE = re.compile(' ([^ =]+)="([^"]*)"')
_PLAIN_CLOSE = re.compile(rb"</(" + _NAME + rb")>")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_COMMENT_WORD = re.compile(rb"<([^ >/\r\n]*)")
_DECLARATION = re.compile(rb"<.*?\?>", re.DOTALL)
_LOOSE_CLOSE = re.compile(rb"</\s*(" + _NAME + rb")[^>]{0,999}>")
_LOOSE_END = re.compile(rb"<[^\"'>]*(?:\"[^\"]*\"[^\"'>]*|'[^']*'[^\"'>]*)*>")
_LOOSE_NAME = re.compile(rb"<(" + _NAME + rb")")
_LOOSE_ITEM = re.compile(rb"([^\s=/>\"']+)(?:(\s*)=(\s*)(\"[^\"]*\"|'[^']*'))?|(\s+)|(.)", re.DOTALL)
_NOT_ASCII = re.compile(rb"[\x80-\xff]")
_NOT_TEXT = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]")


@dataclass(frozen=True, slots=True)
class Tag:
    """A start tag (``attributes`` is a mapping) or an end tag (``attributes`` is None) and its 1-based line."""

    name: str
    attributes: dict[str, str] | None
    line: int
    empty: bool = False


@dataclass(slots=True)
class Defect:
    """A lexical defect: its rule, where it is first seen, how often, and whether it matters to every reader."""

    rule: str
    message: str
    line: int
    fatal: bool
    count: int = 1


class Scanner:
    """Iterates over the tags of ``source``; ``defects`` is complete when the iteration has ended."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        self._text = source.decode() if source.isascii() else None
        self._line = 1
        self._counted = 0
        self._defects: dict[str, Defect] = {}

    @property
    def defects(self) -> tuple[Defect, ...]:
        """What was found, in the order of their first place."""
        return tuple(sorted(self._defects.values(), key=lambda d: (d.line, d.message)))

    def tags(self) -> Iterator[Tag]:
        """Every tag up to the end or to a defect after which nothing can be read."""
        source, begun = self._source, False
        marked = source.startswith(b"\xef\xbb\xbf")
        if not source.strip():
            self._defect("empty-file", "the file is empty")
        elif match := _NOT_TEXT.search(source):
            text = f"not a text file: it holds the control byte 0x{match.group()[0]:02x}"
            self._defect("not-text", text, match.start())
            return
        elif marked:
            text = "a byte order mark stands before the first element; every runtime's reader refuses it"
            self._defect("byte-order-mark", text)
        elif match := _NOT_ASCII.search(source):
            text = "the file holds bytes that are not ASCII; write plain ASCII"
            self._defect("not-ascii", text, match.start(), False)
        position: int | None = 3 if marked else 0
        while position is not None:
            start = source.find(b"<", position)
            between = source[position : len(source) if start < 0 else start]
            rest = between.strip(b" \r\n")  # only blanks and line ends may stand between two tags
            if rest:
                shown = rest.strip()[:20].decode("ascii", "replace")
                where = "between the elements" if begun else "before the first element"
                message = f"text content {shown!r} stands {where}; every runtime's reader refuses it"
                if not rest.strip(b"\t \r\n"):
                    message = "a tab stands between the elements; every runtime's reader takes only blanks"
                rule = "text-content" if rest.strip(b"\t \r\n") else "tab-between"
                self._defect(rule, message, position + between.find(rest))
            if start < 0:
                return
            position, tag = self._tag_at(start)
            if tag is not None:
                begun = True
                yield tag

    def _line_at(self, position: int) -> int:
        """The 1-based line of a position; positions come in rising order, so counting is incremental."""
        self._line += self._source.count(b"\n", self._counted, position)
        self._counted = position
        return self._line

    def _defect(self, rule: str, message: str, position: int = 0, fatal: bool = True) -> None:
        earlier = self._defects.get(message)
        if earlier is not None:
            earlier.count += 1
        elif len(self._defects) < MAX_DEFECTS:
            line = self._source.count(b"\n", 0, position) + 1
            self._defects[message] = Defect(rule, message, line, fatal)

    def _tag_at(self, start: int) -> tuple[int | None, Tag | None]:
        """The end of the markup at ``start`` (None: nothing can be read after it) and the tag, if it is one."""
        source, limit = self._source, start + MAX_TAG_BYTES
        plain = None if self._text is None else _TEXT_TAG.match(self._text, start, limit)
        if plain is not None:  # a start tag in which nothing can be wrong, read as text in a fraction of the time
            name, inside, slash = plain.groups()
            pairs = _TEXT_ATTRIBUTE.findall(inside)
            attributes = dict(pairs)
            if len(attributes) == len(pairs) <= MAX_ATTRIBUTES and max(len(name), len(inside)) < MAX_NAME_BYTES:
                return plain.end(), Tag(name, attributes, self._line_at(start), slash == "/")
        close = _PLAIN_CLOSE.match(source, start, limit)
        if close:
            return close.end(), Tag(close.group(1).decode(), None, self._line_at(start))
        opening = source[start : start + 9]
        if opening.startswith(b"<!--"):
            comment, word = _COMMENT.match(source, start), _COMMENT_WORD.match(source, start)
            if comment is None or word is None:
                self._defect("open-comment", "a comment is not closed", start)
                return None, None
            if b"=" in word[1]:
                message = "a comment whose first word holds `=` is refused by every reader"
                self._defect("comment-equals", f"{message}; put a blank after `<!--`", start)
            elif len(word[1]) >= MAX_NAME_BYTES:
                message = "the first word of a comment is longer than readers take; put a blank after `<!--`"
                self._defect("long-name", message, start)
            return comment.end(), None
        if opening.startswith(b"<?"):
            what = "a `<?xml` declaration or processing instruction"
            self._defect("declaration", f"{what} is refused by every runtime's reader; remove it", start)
            whole = _DECLARATION.match(source, start)
            return (whole.end() if whole else None), None
        if opening.startswith(b"<!"):
            what = "a DOCTYPE" if opening.upper() == b"<!DOCTYPE" else "a `<!` declaration"
            self._defect("doctype", f"{what} is refused by every runtime's reader; remove it", start)
            return None, None
        if not opening.startswith(b"</"):
            return self._loose_tag(start, limit)
        close = _LOOSE_CLOSE.match(source, start, limit)
        if close is None:
            self._defect("broken-close", "a closing tag is broken", start)
            return None, None
        message = "a closing tag holds more than the name; readers refuse a blank before `>`"
        self._defect("broken-close", message, start)
        return close.end(), Tag(close.group(1).decode(), None, self._line_at(start))

    def _loose_tag(self, start: int, limit: int) -> tuple[int | None, Tag | None]:
        """A start tag that may have some lexical defect: name it and read on."""
        opened = _LOOSE_NAME.match(self._source, start, limit)
        whole = _LOOSE_END.match(self._source, start, limit)
        if opened is None or whole is None:
            self._defect("broken-tag", "a tag is broken or never closed by `>`", start)
            return None, None
        inside, name = self._source[opened.end() : whole.end() - 1], opened.group(1)
        pairs = self._loose_attributes(inside.removesuffix(b"/"), start)
        attributes: dict[str, str] = {}
        if len(name) >= MAX_NAME_BYTES:
            self._defect("long-name", "the name of an element is longer than readers take", start)
        if any(key for key, _ in pairs[MAX_ATTRIBUTES:]):
            message = f"an element has more than {MAX_ATTRIBUTES} attributes, each further blank counted"
            self._defect("many-attributes", f"{message}; readers drop the rest", start, fatal=False)
        for key, value in pairs[:MAX_ATTRIBUTES]:
            text = key.decode("ascii", "replace")
            if text in attributes:
                message = f"attribute `{text[:40]}` stands twice in one element"
                self._defect("attribute-twice", message, start, False)
            elif text:
                if len(value) > MAX_VALUE_BYTES:
                    what = f"the value of `{text[:40]}` is longer than {MAX_VALUE_BYTES} characters"
                    self._defect("long-value", f"{what}: readers overflow", start)
                if len(key) > MAX_NAME_BYTES:
                    self._defect("long-name", "the name of an attribute is longer than readers take", start)
                attributes[text] = value.decode("utf-8", "replace")
        return whole.end(), Tag(name.decode(), attributes, self._line_at(start), inside.endswith(b"/"))

    def _loose_attributes(self, inside: bytes, start: int) -> list[tuple[bytes, bytes]]:
        """Names and values; an empty name for every further blank, which readers store as an attribute."""
        pairs: list[tuple[bytes, bytes]] = []
        for item in _LOOSE_ITEM.finditer(inside):
            key, before, after, quoted, blank, junk = item.groups()
            if blank is not None:
                between = "stands between attributes; every runtime's reader takes only blanks"
                if b"\n" in blank or b"\r" in blank:
                    self._defect("newline-in-tag", f"a newline {between}", start)
                if b"\t" in blank:
                    self._defect("tab-in-tag", f"a tab {between}", start)
                pairs += [(b"", b"")] * (len(blank) - 1)
                continue
            if junk is not None or quoted is None:
                self._defect("no-attribute", 'an element holds something that is not name="value"', start)
                continue
            if inside[item.start() - 1 : item.start()] in (b"", b'"', b"'"):
                message = "no blank stands before an attribute; every runtime's reader refuses it"
                self._defect("no-attribute", message, start)
            if before or after:
                self._defect("blank-equals", "a blank stands beside `=`; every runtime's reader refuses it", start)
            if quoted.startswith(b"'"):
                message = "a value stands in single quotes; every runtime's reader takes only double ones"
                self._defect("single-quotes", message, start)
            if b"&" in quoted:
                message = "an entity (`&...;`) is not decoded by the runtimes and stays as it is"
                self._defect("entity", message, start, fatal=False)
            if b"<" in quoted:
                self._defect("less-than", "`<` stands inside a value", start)
            pairs.append((key, quoted[1:-1]))
        return pairs
