"""The syntax tree of a topology source: what was written, with spans, before anything is looked up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hetesynth.model.diagnostics import Span

ElementKind = Literal["switch", "nic", "bus", "fabric", "cpu", "numa", "pcie", "router"]
JoinKind = Literal["link", "attach", "mesh", "upi", "wan"]
NetworkKind = Literal["ring", "grid", "torus", "hypercube", "rails", "leafspine", "dragonfly"]
EdgeSign = Literal["->", ">->"]


@dataclass(frozen=True, slots=True)
class Word:
    """A name or a pattern for names, as written: ``gpu0``, ``gpu[0-3]``, ``a*.nic*``; or a string's text."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Amount:
    """A number and its unit as written: ``450 GB/s``. The unit is empty where none was given."""

    number: str  # empty until ``expansion`` has worked out the expression
    unit: str
    span: Span
    expression: str = ""  # what stood between parentheses


@dataclass(frozen=True, slots=True)
class Property:
    """``bandwidth 25 GB/s x 2``, ``ports gpu[0-7]``, ``kind nvlink``: one line inside a pair of braces."""

    name: str
    span: Span
    amount: Amount | None = None  # of rates, times and sizes
    lanes: Amount | None = None
    words: tuple[Word, ...] = ()  # of the rest
    far: tuple[Word, ...] = ()  # right of ``<->``
    two_sided: bool = False  # members have a right side even where ``far`` is empty, for other buses to join


@dataclass(frozen=True, slots=True)
class Import:
    """``import h20`` from the node library, or ``import "path.dsl"`` relative to the importing file."""

    target: Word
    is_path: bool


@dataclass(frozen=True, slots=True)
class Gpus:
    """``gpus 8 except 3``."""

    count: Amount
    missing: tuple[Amount, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Element:
    """A switch (CPU, NUMA node, PCIe switch, router), a NIC, a bus or a fabric, with its properties."""

    kind: ElementKind
    name: Word
    properties: tuple[Property, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Join:
    """``link A <-> B``, ``upi``, ``wan``, ``attach A -> B`` or ``mesh A`` (``right`` empty)."""

    kind: JoinKind
    left: tuple[Word, ...]
    right: tuple[Word, ...]
    both_ways: bool
    properties: tuple[Property, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Network:
    """``ring A``, ``grid A 4x4``, ``rails R { ... }``: a network in one line."""

    kind: NetworkKind
    name: Word
    parts: tuple[Word, ...]  # of a ring, grid, torus or hypercube, what is joined; the others have a name
    sizes: tuple[int, ...]
    properties: tuple[Property, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Sides:
    """A statement of two lists of parts, i-th with i-th or one with every one."""

    left: tuple[Word, ...]
    right: tuple[Word, ...]
    both_ways: bool
    span: Span


class Flow(_Sides):
    """A line of a shared group: the links from ``left`` to ``right``."""


class Down(_Sides):
    """``down A <-> B``: the wires between two parts are lost, in one direction or both."""


class Detach(_Sides):
    """``detach A -> B``: the wires that join A and B so far are taken away."""


@dataclass(frozen=True, slots=True)
class Shared:
    """``shared NAME RATE { A -> B }``: a stated limit on links together; ``optional``: where there are any."""

    name: Word
    amount: Amount
    lanes: Amount | None
    flows: tuple[Flow, ...]
    span: Span
    optional: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """``set TARGETS { ... }``."""

    targets: tuple[Word, ...]
    properties: tuple[Property, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class _Targets:
    """A statement about parts."""

    targets: tuple[Word, ...]
    span: Span


class Disable(_Targets):
    """``disable TARGETS``: hardware that is out of order."""


class Without(_Targets):
    """``without TARGETS``: parts or whole instances that are lost."""


@dataclass(frozen=True, slots=True)
class Degrade(_Sides):
    """``degrade A to RATE`` or ``degrade A <-> B to 50 %``; ``right`` is empty for parts."""

    amount: Amount
    lanes: Amount | None


@dataclass(frozen=True, slots=True)
class Loop:
    """``for NAME in VALUES { ... }``; ``values`` is the text up to the brace."""

    name: Word
    values: Word
    items: tuple[ClusterItem | NodeItem | Override, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Argument:
    """``n = 8`` behind the name of a type: a parameter and its default, or its value in one instance."""

    name: Word
    value: Amount | Word | None  # a word is a variable; None: a parameter without a default


Loss = Without | Down | Degrade
Override = Change | Disable | Property | Element | Join | Shared | Detach | Loop


@dataclass(frozen=True, slots=True)
class Instance:
    """``instance NAME = NODE(arguments) x COUNT { overrides }``."""

    name: Word
    node: Word
    count: Amount | None
    overrides: tuple[Override, ...]
    span: Span
    arguments: tuple[Argument, ...] = ()


NodeItem = Property | Gpus | Element | Join | Network | Shared | Detach | Loop
PodItem = Instance | Element | Join | Network | Shared | Change | Disable | Loss | Detach | Loop
ClusterItem = Property | PodItem


@dataclass(frozen=True, slots=True)
class _Block:
    """A name and the statements in its braces."""

    name: Word
    items: tuple[Any, ...]
    span: Span
    parameters: tuple[Argument, ...] = ()


class NodeType(_Block):
    """``node NAME(parameters) { ... }``, of ``NodeItem``."""


class PodType(_Block):
    """``pod NAME(parameters) { ... }``, of ``PodItem``: servers and what joins them, used like a node type."""


class Cluster(_Block):
    """``cluster NAME { ... }``, of ``ClusterItem``."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Paper form: ``left -> right`` or ``left >-> right``."""

    left: Value
    right: Value
    sign: EdgeSign
    span: Span


@dataclass(frozen=True, slots=True)
class Sequence:
    """Paper form: ``( ... )`` or ``[ ... ]``."""

    items: tuple[Value | Edge, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Mapping:
    """Paper form: ``{direct => ..., switch => ...}``."""

    entries: tuple[Define, ...]
    span: Span


Value = Amount | Word | Sequence | Mapping


@dataclass(frozen=True, slots=True)
class Define:
    """Paper form: ``define NAME = VALUE``, or ``direct => VALUE`` in a mapping."""

    name: Word
    value: Value
    span: Span


TopItem = Import | NodeType | PodType | Cluster | Define


@dataclass(frozen=True, slots=True)
class File:
    """A whole source, in the order of its statements."""

    name: str
    items: tuple[TopItem, ...]
