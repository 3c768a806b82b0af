"""The JSON list of nodes, directed links and groups: what it may contain, read with limits.

In: bytes. Out: an ``EdgeDocument``. A node is a GPU or forwards; a link has a rate for all of its lanes together,
in GB/s, and a latency in us; a group limits links between GPUs together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from hetesynth.files.strict_json import JsonLimits, JsonRefused, read_json
from hetesynth.topology.importers.reading import Source, refused

MAX_NODES = 8192
MAX_LINKS = 400_000
MAX_GROUP_EDGES = 4_000_000
MAX_NAME = 64
MAX_COUNT = 1024
MAX_RATE = 10**9  # GB/s
MAX_LATENCY = 10**9  # us
_LIMITS = JsonLimits(max_depth=16, max_digits=18)

NodeId = int | str


@dataclass(frozen=True, slots=True)
class EdgeNode:
    """``server`` is None for what stands in no server."""

    id: NodeId
    type: str
    server: NodeId | None
    model: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True)
class Quality:
    """What a link carries: all lanes together in bytes per second, None where it never limits."""

    rate: Fraction | None
    count: int
    latency: Fraction
    kind: str


@dataclass(frozen=True, slots=True)
class EdgeLink:
    """One direction."""

    src: NodeId
    dst: NodeId
    quality: Quality


@dataclass(frozen=True, slots=True)
class EdgeGroup:
    """Links between GPUs that together carry ``rate``."""

    name: str
    rate: Fraction
    count: int
    edges: tuple[tuple[NodeId, NodeId], ...]


@dataclass(frozen=True, slots=True)
class EdgeDocument:
    """The whole file."""

    name: str
    notes: tuple[str, ...]
    nodes: tuple[EdgeNode, ...]
    links: tuple[EdgeLink, ...]
    groups: tuple[EdgeGroup, ...]


def read_document(source: Source) -> EdgeDocument:
    """The document; HetesynthError HS732 for what is none."""
    try:
        document = read_json(source.data, _LIMITS)
    except JsonRefused as error:
        raise refused(source, str(error)) from error
    return _Reader(source).document(document)


class _Reader:
    def __init__(self, source: Source) -> None:
        self._source = source

    def document(self, value: Any) -> EdgeDocument:
        if not isinstance(value, dict):
            raise refused(self._source, "it is no JSON object")
        nodes = tuple(self._node(item) for item in self._items(value, "nodes", MAX_NODES))
        ids = {node.id for node in nodes}
        if len(ids) != len(nodes) or len({str(i) for i in ids}) != len(nodes):
            raise refused(self._source, "two nodes have the same id")
        if not any(node.type == "gpu" for node in nodes):
            raise refused(self._source, "no node is of type gpu")
        links = tuple(self._link(item, ids) for item in self._items(value, "links", MAX_LINKS))
        gpus = {node.id for node in nodes if node.type == "gpu"}
        groups = tuple(self._group(item, gpus) for item in self._items(value, "groups", MAX_LINKS))
        if sum(len(group.edges) for group in groups) > MAX_GROUP_EDGES:
            raise refused(self._source, f"its groups have more than {MAX_GROUP_EDGES} edges")
        return EdgeDocument(self._text(value, "name"), self._notes(value), nodes, links, groups)

    def _notes(self, value: Mapping[str, Any]) -> tuple[str, ...]:
        """Where the figures are from and what was assumed, for comments."""
        notes = [f"source: {self._text(value, 'source', 400)}"] if value.get("source") else []
        for key in ("stated", "assumed"):
            texts = value.get(key)
            if isinstance(texts, list):
                notes += [f"{key}: {text[:400]}" for text in texts[:16] if isinstance(text, str)]
        return tuple(notes)

    def _node(self, item: Mapping[str, Any]) -> EdgeNode:
        server = item.get("server")
        if server is not None and server != -1:
            server = self._id(item, "server")
        return EdgeNode(
            self._id(item, "id"),
            self._text(item, "type") or "gpu",
            None if server == -1 else server,
            self._text(item, "model"),
            self._text(item, "host"),
        )

    def _link(self, item: Mapping[str, Any], ids: set[NodeId]) -> EdgeLink:
        src, dst = self._id(item, "src"), self._id(item, "dst")
        if src not in ids or dst not in ids or src == dst:
            raise refused(self._source, f"a link from {src} to {dst}: the nodes are not there, or are one")
        rate = None if item.get("GBps", 0) is None else self._positive(item, "GBps", MAX_RATE) * 10**9
        alpha = item.get("alpha_us")
        latency = Fraction(0) if alpha is None else self._number(item, "alpha_us", MAX_LATENCY) / 10**6
        return EdgeLink(src, dst, Quality(rate, self._count(item), latency, self._text(item, "kind")))

    def _group(self, item: Mapping[str, Any], gpus: set[NodeId]) -> EdgeGroup:
        edges = item.get("edges")
        if not isinstance(edges, list) or not edges or len(edges) > MAX_LINKS:
            raise refused(self._source, "a group without a list of edges")
        pairs = []
        for edge in edges:
            if (
                not isinstance(edge, list)
                or len(edge) != 2
                or any(not _is_id(end) or end not in gpus for end in edge)
            ):
                raise refused(self._source, "an edge of a group that does not join two GPUs")
            pairs.append((edge[0], edge[1]))
        if len(set(pairs)) != len(pairs) or any(a == b for a, b in pairs):
            raise refused(self._source, "a group that names an edge twice, or from a GPU to itself")
        name = self._text(item, "name")
        return EdgeGroup(name, self._positive(item, "GBps", MAX_RATE) * 10**9, self._count(item), tuple(pairs))

    def _items(self, value: Mapping[str, Any], key: str, most: int) -> list[Mapping[str, Any]]:
        items = value.get(key, [])
        if not isinstance(items, list) or any(not isinstance(item, dict) for item in items):
            raise refused(self._source, f"{key} is no list of objects")
        if len(items) > most:
            raise refused(self._source, f"it has more than {most} {key}")
        return items

    def _id(self, item: Mapping[str, Any], key: str) -> NodeId:
        value: NodeId = item.get(key, "")
        if not _is_id(value):
            raise refused(self._source, f"{key} is neither a number nor a name of up to {MAX_NAME} characters")
        return value

    def _text(self, item: Mapping[str, Any], key: str, most: int = MAX_NAME) -> str:
        value = item.get(key) or ""
        if not isinstance(value, str):
            raise refused(self._source, f"{key} is no text")
        return value[:most]

    def _count(self, item: Mapping[str, Any]) -> int:
        value = item.get("count", 1)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_COUNT:
            raise refused(self._source, f"count is no number from 1 to {MAX_COUNT}")
        return value

    def _positive(self, item: Mapping[str, Any], key: str, most: int) -> Fraction:
        value = self._number(item, key, most)
        if not value:
            raise refused(self._source, f"{key} is 0")
        return value

    def _number(self, item: Mapping[str, Any], key: str, most: int) -> Fraction:
        value = item.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise refused(self._source, f"{key} is no number")
        if not 0 <= value <= most:
            raise refused(self._source, f"{key} is {value}, not from 0 to {most}")
        return Fraction(str(value))


def _is_id(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= MAX_NAME
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_LINKS
