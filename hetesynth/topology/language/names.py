"""The cluster under construction: parts and the wires between them, and the parts that names stand for.

Ranges name parts in the order written, globs in the order declared; ``*`` (or ``[*]``) matches all but a dot.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import islice, product

from hetesynth.errors import did_you_mean
from hetesynth.model.diagnostics import Span
from hetesynth.model.topology import Vertex, VertexKind, Wire
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.syntax import Word

ZERO = Fraction(0)
MAX_RANGE = 4096
WORK_OF_A_NAME = 16  # in units of one name tried against a pattern

_ALL = re.compile(r"\[[ \t]*\*[ \t]*\]")
_BRACKET = re.compile(r"\[([^\]]*)\]")
_INTERVAL = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")


@dataclass(slots=True, eq=False)
class Part:
    """A piece of hardware while a cluster is put together; names are global (``a.gpu0``)."""

    name: str
    kind: VertexKind
    server: str
    span: Span
    link_kind: str = ""
    kind_stated: bool = False  # or it is the kind of all such parts
    model: str = ""
    bandwidth: Fraction | None = None
    lanes: int = 1
    latency: Fraction = Fraction(0)
    reduce: Fraction | None = None
    copy: Fraction | None = None
    disabled: bool = False
    inlet: str = ""  # the vertices where wires from others end, and wires to others start
    outlet: str = ""
    receive: tuple[Fraction, int] | None = None  # bandwidth and lanes towards the GPUs, where they are others
    host: str = ""
    capabilities: tuple[str, ...] = ()
    pod: str = ""  # the instance of the cluster that it belongs to

    def __post_init__(self) -> None:
        self.inlet = self.inlet or self.name
        self.outlet = self.outlet or self.name


@dataclass(frozen=True, slots=True)
class Rate:
    """The rate of a wire: bytes per second a lane (None: never limits), lanes, seconds of latency, and kind."""

    kind: str
    bandwidth: Fraction | None = None
    lanes: int = 1
    latency: Fraction = ZERO

    def slower_than(self, other: Rate) -> bool:
        """Return True if both rates limit, and this one is the lower of all lanes together."""
        if self.bandwidth is None or other.bandwidth is None:
            return False
        return self.bandwidth * self.lanes < other.bandwidth * other.lanes


@dataclass(slots=True)
class HardwareGraph:
    """The parts in the order of declaration, and the wires (from, to, rate) in the order of construction."""

    parts: list[Part] = field(default_factory=list)
    wires: list[tuple[str, str, Rate]] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=dict)  # the vertices of a bus: the ends of its pipes
    _joined: set[tuple[str, str]] = field(default_factory=set)

    def vertices_of(self, part: Part) -> list[str]:
        """Return the names of the vertices that ``part`` stands for."""
        return self.inner.get(part.name, [part.name])

    def gpus(self) -> list[Part]:
        """Return the working GPUs in the order of their ranks."""
        return [part for part in self.parts if part.kind == "gpu" and not part.disabled]

    def connect(self, left: Part, right: Part, there: Rate, back: Rate | None) -> None:
        """Add wires between two parts; a switch, NIC or fabric puts its latency on the wires that leave it."""
        if left.disabled or right.disabled:
            return
        self.wires.append((left.outlet, right.inlet, _leaving(left, there)))
        if back is not None:
            self.wires.append((right.outlet, left.inlet, _leaving(right, back)))

    def join_once(self, left: Part, right: Part) -> bool:
        """Note the unordered pair as joined; return True if it was new, as it may be joined only once."""
        new = _pair(left, right) not in self._joined
        self._joined.add(_pair(left, right))
        return new

    def disconnect(self, pairs: Sequence[tuple[Part, Part]]) -> bool:
        """Take away all wires between the parts of each pair; return False if there was nothing to take."""
        ends = self.vertices_of
        ways = {(p, q) for a, b in pairs for p in ends(a) for q in ends(b)}
        rest = [wire for wire in self.wires if wire[:2] not in ways and (wire[1], wire[0]) not in ways]
        joined = self._joined - {_pair(a, b) for a, b in pairs}
        changed = len(rest) < len(self.wires) or len(joined) < len(self._joined)
        self.wires, self._joined = rest, joined
        return changed

    def graph(self) -> tuple[tuple[Vertex, ...], tuple[Wire, ...]]:
        """Return the vertices, GPUs first, and the wires."""
        vertices = [Vertex(part.name, "gpu", part.server, part.model, part.host) for part in self.gpus()]
        for part in self.parts:
            if part.kind != "gpu" and not part.disabled:
                rest = (part.kind, part.server, part.model, part.host, part.capabilities)
                vertices += [Vertex(name, *rest) for name in self.vertices_of(part)]
        number = {vertex.name: i for i, vertex in enumerate(vertices)}
        wires = tuple(
            Wire(number[src], number[dst], rate.kind, rate.bandwidth, rate.lanes, rate.latency)
            for src, dst, rate in self.wires
        )
        return tuple(vertices), wires


def _pair(left: Part, right: Part) -> tuple[str, str]:
    return min(left.name, right.name), max(left.name, right.name)


def _leaving(part: Part, rate: Rate) -> Rate:
    """Return ``rate`` plus the latency of crossing ``part``, if that is one vertex (a pipe has its own)."""
    if part.kind == "gpu" or part.inlet != part.outlet or not part.latency:
        return rate
    return Rate(rate.kind, rate.bandwidth, rate.lanes, rate.latency + part.latency)


@dataclass(slots=True)
class Scope:
    """The parts that names refer to inside one instance (``gpu0``) or in the cluster (``a.gpu0``)."""

    title: str
    findings: Findings
    parts: dict[str, Part] = field(default_factory=dict)
    prefix: str = ""

    def declare(self, local_name: str, part: Part, span: Span) -> None:
        """Bring ``part`` into scope; a second part of the same name is a finding."""
        if local_name in self.parts:
            self.findings.add("HS203", span, f"`{local_name}` is already declared in {self.title}")
            return
        self.parts[local_name] = part

    def resolve(self, words: Iterable[Word]) -> list[Part]:
        """Return the parts that ``words`` name, each once, in order; unknown names are findings."""
        parts: dict[str, Part] = {}
        for word in words:
            for pattern in expand(word, self.findings):
                self.findings.spend(WORK_OF_A_NAME, word.span)
                if "*" in pattern:
                    self.findings.spend(len(self.parts), word.span)
                    regex = glob(pattern)
                    matched = [part for name, part in self.parts.items() if regex.fullmatch(name)]
                    code, message = "HS202", f"`{pattern[:60]}` matches nothing in {self.title}"
                else:
                    matched = [self.parts[pattern]] if pattern in self.parts else []
                    code, message = "HS201", f"{self.title} has no `{pattern[:60]}`"
                parts.update({part.name: part for part in matched})
                if not matched and not self.findings.reported(code, word.span):
                    stems = list(dict.fromkeys(re.sub(r"\d+", "*", name) for name in self.parts))[:12]
                    otherwise = f"{self.title} has {', '.join(stems) or 'no parts'}"
                    help_ = did_you_mean(pattern.replace("*", ""), self.parts, otherwise)
                    self.findings.add(code, word.span, message, help_)
        return list(parts.values())

    def paired(self, left: Sequence[Word], right: Sequence[Word], span: Span) -> list[tuple[Part, Part]]:
        """Return the parts of two sides in pairs, i-th with i-th or one with all; else none, with a finding."""
        ones, others = self.resolve(left), self.resolve(right)
        if not ones or not others:
            return []
        if len(ones) != len(others) and 1 not in (len(ones), len(others)):
            message = f"{len(ones)} parts on the left cannot be paired with {len(others)} on the right"
            self.findings.add("HS212", span, message)
            return []
        width = max(len(ones), len(others))
        return [(ones[i % len(ones)], others[i % len(others)]) for i in range(width)]


def glob(pattern: str) -> re.Pattern[str]:
    """Return the regular expression of ``pattern``, whose stars stand for anything but a dot."""
    return re.compile("[^.]*".join(map(re.escape, re.split(r"\*+", pattern))))


def part_of(vertex: str) -> str:
    """Return the part that a vertex is of: ``a.pcie0.fwd.in``, an end of a pipe of a bus, is of ``a.pcie0``."""
    return re.sub(r"(\.(fwd|rev))?\.(in|out)$", "", vertex)


def plain(word: Word, what: str, findings: Findings) -> str | None:
    """Return ``word`` as the name of ``what``: no range, glob or dot; None, with a finding, otherwise."""
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", word.text):
        return word.text
    findings.add("HS210", word.span, f"`{word.text[:60]}` cannot be the name of {what}")
    return None


def declared(word: Word, what: str, findings: Findings) -> list[str]:
    """Return the names that a declaration makes, four for ``nic[0-3]``; globs and dots are findings."""
    names = expand(word, findings)
    if all(re.fullmatch("[A-Za-z0-9_]{1,64}", name) for name in names):
        return names
    findings.add("HS210", word.span, f"`{word.text[:60]}` cannot be the name of {what}")
    return []


def expand(word: Word, findings: Findings) -> list[str]:
    """Return ``word`` with its ranges written out: ``gpu[0-1,3]`` gives gpu0, gpu1, gpu3; globs stay."""
    if "[" not in word.text:
        return [word.text]
    names = _written_out(_ALL.sub("*", word.text), MAX_RANGE, padded=False)
    if not names:
        backwards = any(int(a) > int(b) for a, b in re.findall(r"(\d{1,9})-(\d{1,9})", word.text))
        what = "counts down: write the smaller number first" if backwards else "has no range in its brackets"
        findings.add("HS210", word.span, f"`{word.text[:60]}` {what}")
    elif len(names) > MAX_RANGE:
        findings.add("HS208", word.span, f"`{word.text[:60]}` names more than {MAX_RANGE} parts")
        return []
    return names


def hosts_named(text: str, most: int = MAX_RANGE) -> list[str]:
    """Return node08 to node10 for ``node[08-10]``, of too many one more than ``most``; none if it is no list."""
    return _written_out(text, most, padded=True)


def _written_out(text: str, most: int, *, padded: bool) -> list[str]:
    """Return ``text`` with ranges written out, at most one more than ``most`` names; none if a range is wrong."""
    pieces: list[list[str]] = []
    for position, piece in enumerate(_BRACKET.split(text)):
        numbers = [] if position % 2 else [piece]
        for interval in piece.split(",") if position % 2 else ():
            ends = _INTERVAL.fullmatch(interval)
            if ends is None:
                return []
            width = len(ends[1]) if padded and ends[1].startswith("0") else 0
            first, last = int(ends[1]), int(ends[2] or ends[1])
            numbers += [str(i).zfill(width) for i in range(first, min(last, first + most) + 1)]
        pieces.append(list(dict.fromkeys(numbers)))
    return ["".join(choice) for choice in islice(product(*pieces), most + 1)]
