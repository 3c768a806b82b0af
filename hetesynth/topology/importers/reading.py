"""What a reader is given and gives back, how it says no, and text, XML and YAML of anybody's within limits.

A file is untrusted: it may come from a mail, a web page or a terminal's scroll-back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Network
from hetesynth.topology.importers.rates import Calibration

if TYPE_CHECKING:
    from lxml import etree


MAX_TEXT = 16_000_000
MAX_LINES = 200_000
MAX_LINE = 20_000
MAX_XML = 8_000_000
MAX_XML_ELEMENTS = 50_000
MAX_XML_DEPTH = 64
MAX_YAML = 1_000_000
MAX_YAML_EVENTS = 200_000
MAX_YAML_DEPTH = 20
_ESCAPES = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Stated:
    """What the user states of one file; it counts also where the file tells otherwise."""

    model: str = ""
    nic_rate: Fraction | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A file: its name for messages, its bytes, and what the user states of it."""

    name: str
    data: bytes
    stated: Stated = Stated()

    def with_stated(self, other: Source) -> Source:
        """The source with what is stated of ``other``, a file on the same server, where nothing is of its own."""
        mine, more = self.stated, other.stated
        return replace(self, stated=Stated(mine.model or more.model, mine.nic_rate or more.nic_rate))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What the user adds to what files tell. ``node_type`` is of the library.

    ``nic_rate`` (bytes per second) and ``model``: where a file does not tell and nothing is stated of it. Readers
    leave NICs without a rate, so that the network's files are asked before ``nic_rate`` is taken.

    ``uplink`` (bytes per second) and ``oversubscription``: of cables between switches whose rate no file tells.
    ``hosts``: patterns with commas between; only hosts of a network that one of them fits are taken.
    """

    calibration: Calibration = "spec"
    nic_rate: Fraction | None = None
    model: str = ""
    node_type: str = ""
    uplink: Fraction | None = None
    oversubscription: Fraction = Fraction(1)
    hosts: str = "*"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one file told: servers, or the network between them, or a whole cluster as text of the language.

    ``files``: the name of the file of each machine, where the reading is of several.
    """

    machines: tuple[Machine, ...] = ()
    text: str = ""
    remarks: tuple[Remark, ...] = ()
    network: Network | None = None
    files: tuple[str, ...] = ()


def refused(name: str, what: str, way_out: str = "see docs/importing.md") -> HetesynthError:
    """Return HS732: the file is not what its format asks for."""
    return HetesynthError(f"{name}: {what}", code="HS732", help=way_out)


def lacking(name: str, what: str, way_out: str) -> HetesynthError:
    """Return HS733: the file is in order, but a cluster needs more than it tells; ``way_out`` names the flag."""
    return HetesynthError(f"{name}: {what}", code="HS733", help=way_out)


def lines_of(data: bytes, name: str) -> list[str]:
    """Return the lines of what a tool printed, without colours; HS741 past a limit, HS732 for no text."""
    help_ = "save the tool's output as UTF-8 text"
    too_large = ""
    if len(data) > MAX_TEXT:
        too_large = f"{name} is larger than {MAX_TEXT} bytes"
    else:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            what = f"{name} is not text: {error.reason} at byte {error.start}"
            raise HetesynthError(what, code="HS732", help=help_) from error
        lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").replace("\xa0", " ").split("\n")
        if len(lines) > MAX_LINES or any(len(line) > MAX_LINE for line in lines):
            too_large = f"{name} has more than {MAX_LINES} lines, or a line of more than {MAX_LINE} characters"
    if too_large:
        raise HetesynthError(too_large, code="HS741", help="give the tool's output only")
    if "\0" in text:
        raise refused(name, f"there is a NUL byte on line {text[: text.index(chr(0))].count(chr(10)) + 1}", help_)
    return lines


def root_of(name: str, data: bytes) -> etree._Element:
    """Return the root of an XML text, read without entities, document type and network; HS732 past a limit."""
    from lxml import etree

    if len(data) > MAX_XML:
        raise refused(name, f"it has more than {MAX_XML} bytes")
    if b"\0" in data or b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise refused(name, "it declares a document type, or is no text of one byte a character")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise refused(name, f"it is no XML: {str(error)[:200]}") from error
    depth = count = 0
    level = [root]
    while level:
        count += len(level)
        depth += 1
        if count > MAX_XML_ELEMENTS or depth > MAX_XML_DEPTH:
            what = f"it has more than {MAX_XML_ELEMENTS} elements, or they nest more than {MAX_XML_DEPTH} deep"
            raise refused(name, what)
        level = [child for element in level for child in element if isinstance(child.tag, str)]
    return root


def plain_yaml(data: bytes, name: str) -> object:
    """Return the value of a YAML text: plain values only, without tags and aliases, within limits."""
    import yaml

    help_ = "YAML is read without tags and aliases, up to 1 MB"
    if len(data) > MAX_YAML:
        raise HetesynthError(f"{name} is larger than {MAX_YAML} bytes", code="HS741", help=help_)
    try:
        depth = 0
        for count, event in enumerate(yaml.parse(data, Loader=yaml.SafeLoader)):
            opens = isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent)
            depth += opens - isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent)
            if depth > MAX_YAML_DEPTH or count > MAX_YAML_EVENTS or isinstance(event, yaml.AliasEvent):
                what = f"{name} nests too deep, is too long, or has aliases"
                raise HetesynthError(what, code="HS741", help=help_)
        return yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError, OverflowError) as error:
        reason = " ".join(str(error).split())[:200]
        raise refused(name, f"not YAML: {reason}", help_) from error
    except (TypeError, AttributeError) as error:  # an unhashable key
        raise refused(name, "not YAML that can be used: a key that is a list", help_) from error
