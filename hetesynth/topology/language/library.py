"""What the node library holds: its types, with their GPUs, NICs, rates and sources.

In: dsl/library. Out: a ``LibraryType`` for every node type and pod. The figures are those of one instance,
elaborated like any cluster; nothing is written down twice.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.model.topology import Topology
from hetesynth.topology.language.findings import did_you_mean
from hetesynth.topology.language.language import library_names, library_path

_TYPE = re.compile(r"^(node|pod) (\w+)(?:\((.*?)\))? \{", re.MULTILINE)
_COMMENT = re.compile(r"^#\s?(.*)$")


@dataclass(frozen=True, slots=True)
class LibraryType:
    """A node type or a pod.

    ``inside``: bytes per second and one direction that a GPU has to others of its server (or pod) over wires of
    the fastest kind; ``outside``: those of all NICs together; ``nics``: their number. ``parameters``: as declared.
    ``line``: where in the file it begins; ``text``: its declaration; ``header``: what the file says of it.
    """

    name: str
    library: str
    path: Path
    line: int
    sort: str
    gpus: int
    model: str
    nics: int
    inside: Fraction
    outside: Fraction
    parameters: tuple[str, ...]
    header: tuple[str, ...]
    text: str

    @property
    def title(self) -> str:
        """The first sentence of the file."""
        return self.header[0] if self.header else ""


def library_types() -> tuple[LibraryType, ...]:
    """Every type of the library, by file and in the order of the file."""
    return tuple(entry for name in library_names() for entry in types_of(name))


def types_of(library: str) -> tuple[LibraryType, ...]:
    """The types of one file of the library."""
    path = library_path(library)
    if path is None:
        return ()
    text = path.read_text(encoding="utf-8")
    header = _header(text)
    return tuple(_type(library, path, text, header, declared) for declared in _TYPE.finditer(text))


def library_type(name: str) -> LibraryType:
    """The type called ``name``. Raises HetesynthError HS643 where there is none."""
    declared = _declared()
    if name not in declared:
        suggestion = did_you_mean(name, list(declared), "`hetesynth topo library` lists the types")
        raise HetesynthError(f"the node library has no type {name[:60]!r}", code="HS643", help=suggestion)
    return next(entry for entry in types_of(declared[name]) if entry.name == name)


def _declared() -> dict[str, str]:
    """The library of each type, by the type's name; nothing is elaborated."""
    paths = [(name, library_path(name)) for name in library_names()]
    texts = [(name, path.read_text(encoding="utf-8")) for name, path in paths if path is not None]
    return {declared[2]: name for name, text in texts for declared in _TYPE.finditer(text)}


def _header(text: str) -> tuple[str, ...]:
    """The comment at the beginning of a file, without its signs."""
    lines = []
    for line in text.splitlines():
        comment = _COMMENT.match(line)
        if comment is None:
            break
        lines.append(comment[1])
    return tuple(lines)


def _type(library: str, path: Path, text: str, header: tuple[str, ...], declared: re.Match[str]) -> LibraryType:
    sort, name, parameters = declared.groups()
    topology = _beside_a_peer(library, name, sort)
    own = [i for i, vertex in enumerate(topology.vertices) if vertex.name.startswith("a.")]
    nics = {i for i in own if topology.vertices[i].kind == "nic"}
    gpus = [i for i in own if i < topology.ranks]
    body = text[declared.start() :]
    return LibraryType(
        name=name,
        library=library,
        path=path,
        line=text.count("\n", 0, declared.start()) + 1,
        sort=sort,
        gpus=len(gpus),
        model=topology.models[0],
        nics=len(nics),
        inside=min(_leaving(topology, {gpu}, set(own) - nics) for gpu in gpus),
        outside=_leaving(topology, nics, set(range(len(topology.vertices))) - set(own)),
        parameters=tuple(word.strip() for word in (parameters or "").split(",") if word.strip()),
        header=header,
        text=body[: body.index("\n}") + 2],
    )


def _beside_a_peer(library: str, name: str, sort: str) -> Topology:
    """One instance, and a second server with which its NICs have a network."""
    from hetesynth.topology.language import parse_topology

    nics = "a.*.nic*" if sort == "pod" else "a.nic*"
    peer = "node peer { gpus 1 nic nic0 { bandwidth 1 GB/s } attach gpu0 -> nic0 }"
    servers = f"instance a = {name} instance p = peer fabric net {{ join {nics}, p.nic0 }}"
    return parse_topology(f"import {library} {peer} cluster c {{ {servers} }}", f"<{library}>")


def _leaving(topology: Topology, ends: set[int], others: set[int]) -> Fraction:
    """The rates of all wires from ``ends`` to ``others`` of the fastest kind, without those that never limit."""
    rates: dict[str, Fraction] = {}
    for wire in topology.wires:
        if wire.src in ends and wire.dst in others and wire.bandwidth is not None:
            rates[wire.kind] = rates.get(wire.kind, Fraction(0)) + wire.bandwidth * wire.lanes
    return max(rates.values(), default=Fraction(0))
