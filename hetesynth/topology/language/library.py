"""The language as data: the grammar, and the node library with the GPUs, NICs, rates and sources of its types."""

import functools
import re
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from pathlib import Path

from hetesynth.errors import HetesynthError, InternalError, did_you_mean
from hetesynth.model.topology import Topology

_PACKAGE = Path(__file__).resolve().parents[2]
_TYPE = re.compile(r"^(node|pod) (\w+)(?:\((.*?)\))? \{", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LibraryType:
    """A node type or a pod, with the figures of one instance."""

    name: str
    library: str
    path: Path
    line: int  # where it begins
    sort: str
    gpus: int
    model: str
    nics: int
    inside: Fraction  # bytes per second from a GPU to others of its server (or pod) over the fastest kind of wires
    outside: Fraction  # those of all NICs together
    parameters: tuple[str, ...]  # as declared
    header: tuple[str, ...]  # what the file says of it
    text: str  # its declaration

    @property
    def title(self) -> str:
        """The first sentence of the file."""
        return self.header[0] if self.header else ""


def dsl_directory() -> Path:
    """Return the folder with ``topology.lark`` and ``library/``: in the package first, else in the checkout."""
    for candidate in (_PACKAGE / "_dsl", _PACKAGE.parent / "dsl"):
        if (candidate / "topology.lark").is_file():
            return candidate
    raise InternalError(f"the language data (dsl/) is neither in {_PACKAGE} nor next to it: broken install")


def grammar_text() -> str:
    """Return the text of the Lark grammar."""
    return (dsl_directory() / "topology.lark").read_text(encoding="utf-8")


def library_names() -> list[str]:
    """Return the names of the library's files that ``import`` knows, sorted."""
    return sorted(path.stem for path in (dsl_directory() / "library").glob("*.dsl"))


def library_path(name: str) -> Path | None:
    """Return the library file behind ``import NAME``, or None if there is none."""
    return dsl_directory() / "library" / f"{name}.dsl" if name in library_names() else None


@functools.cache
def declared_types(sort: str = "") -> dict[str, str]:
    """Return the file of each type of the library, a `node` or `pod`, by name, without elaborating any."""
    folder = dsl_directory() / "library"
    texts = {name: (folder / f"{name}.dsl").read_text(encoding="utf-8") for name in library_names()}
    declared = ((name, match) for name, text in texts.items() for match in _TYPE.finditer(text))
    return {match[2]: name for name, match in declared if sort in ("", match[1])}


def library_types() -> tuple[LibraryType, ...]:
    """Return every type of the library, by file and in the order of the file."""
    return tuple(entry for name in library_names() for entry in types_of(name))


def library_type(name: str) -> LibraryType:
    """Return the type called ``name``. Raise HetesynthError HS643 if there is none."""
    declared = declared_types()
    if name not in declared:
        suggestion = did_you_mean(name, list(declared), "`hetesynth topo library` lists the types")
        raise HetesynthError(f"the node library has no type {name[:60]!r}", code="HS643", help=suggestion)
    return next(entry for entry in types_of(declared[name]) if entry.name == name)


def types_of(library: str) -> tuple[LibraryType, ...]:
    """Return the types of a library file, with figures of each measured beside a second server on a network."""
    from hetesynth.topology.language import parse_topology

    path = library_path(library)
    if path is None:
        return ()
    text = path.read_text(encoding="utf-8")
    comments = takewhile(lambda line: line.startswith("#"), text.splitlines())
    header = tuple(re.sub(r"^#\s?", "", line) for line in comments)
    types = []
    for declared in _TYPE.finditer(text):
        sort, name, parameters = declared.groups()
        nic = "a.*.nic*" if sort == "pod" else "a.nic*"
        peer = "node peer { gpus 1 nic nic0 { bandwidth 1 GB/s } attach gpu0 -> nic0 }"
        servers = f"instance a = {name} instance p = peer fabric net {{ join {nic}, p.nic0 }}"
        topology = parse_topology(f"import {library} {peer} cluster c {{ {servers} }}", f"<{library}>")
        own = {i for i, vertex in enumerate(topology.vertices) if vertex.name.startswith("a.")}
        nics = {i for i in own if topology.vertices[i].kind == "nic"}
        gpus = [i for i in own if i < topology.ranks]
        body = text[declared.start() :]
        inside = min(_leaving(topology, {gpu}, own - nics) for gpu in gpus)
        outside = _leaving(topology, nics, set(range(len(topology.vertices))) - own)
        line, figures = text.count("\n", 0, declared.start()) + 1, (len(nics), inside, outside)
        named = tuple(word.strip() for word in (parameters or "").split(",") if word.strip())
        stated = (named, header, body[: body.index("\n}") + 2])
        model = topology.models[0]
        types.append(LibraryType(name, library, path, line, sort, len(gpus), model, *figures, *stated))
    return tuple(types)


def _leaving(topology: Topology, ends: set[int], others: set[int]) -> Fraction:
    """Return the B/s of all wires from ``ends`` to ``others`` of the fastest kind, of those that limit."""
    rates: dict[str, Fraction] = {}
    for wire in topology.wires:
        if wire.src in ends and wire.dst in others and wire.bandwidth is not None:
            rates[wire.kind] = rates.get(wire.kind, Fraction(0)) + wire.bandwidth * wire.lanes
    return max(rates.values(), default=Fraction(0))
