"""What the rules about parts look at, and their findings as diagnostics.

What is out of order on purpose makes its server different: rules that compare say nothing of it.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from hetesynth.model.diagnostics import Diagnostic, Span
from hetesynth.model.topology import Wire
from hetesynth.topology.language.elaborate import Inspection
from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.library import library_path
from hetesynth.topology.language.names import expand, glob, part_of
from hetesynth.topology.language.syntax import Degrade, Down, Instance, PodType

_SHOWN = 6


class Finding(NamedTuple):
    """A message about a part, named by one of its vertices. Parts with the same message are told together."""

    code: str
    part: str
    message: str
    help: str = ""


class View:
    """A topology for the rules. ``leaving``: wires by the vertex they leave; ``servers``: ranks by server."""

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        self.topology = topology = inspection.topology
        self.vertices = topology.vertices
        self.leaving: dict[int, list[Wire]] = defaultdict(list)
        for wire in topology.wires:
            self.leaving[wire.src].append(wire)
        self.servers: dict[str, list[int]] = defaultdict(list)
        for rank, server in enumerate(topology.servers):
            self.servers[server].append(rank)
        self.parts = {part.name: part for part in inspection.parts}

    @cached_property
    def damaged(self) -> set[str]:
        """The servers with a part that is stated to be out of order or slower; "" for the network."""
        parts = self.inspection.parts
        servers = {part.server for part in parts if part.disabled}
        pods = [node for node in self.inspection.expanded.values() if isinstance(node, PodType)]
        statements = [statement for item in (*self.inspection.stated, *pods) for statement in item.items]
        changes = [statement for statement in statements if isinstance(statement, (Down, Degrade))]
        words = {word for change in changes for word in (*change.left, *change.right)}
        named: dict[str, set[str]] = defaultdict(set)  # servers by names of parts, with and without instances
        for part in parts if words else ():
            pieces = part.name.split(".")
            for i in range(len(pieces)):
                named[".".join(pieces[i:])].add(part.server)
        for pattern in {name for word in words for name in expand(word, Findings())}:
            matching = filter(glob(pattern).fullmatch, named) if "*" in pattern else [pattern]
            servers.update(*(named.get(name, ()) for name in matching))
        return servers


def grouped(view: View, findings: Iterable[Finding]) -> Iterator[Diagnostic]:
    """Yield one warning for all parts of one place in the text that have the same message."""
    alike: dict[tuple[str, Span, str, str], dict[str, None]] = defaultdict(dict)
    for code, name, message, help_ in findings:
        part = view.parts[part_of(name)]
        alike[code, _in_file(view.inspection, part.span, part.server), message, help_][part.name] = None
    for (code, span, message, help_), names in alike.items():
        yield Diagnostic(code, span, f"{listed([*names])}: {message}", help_, "warning")


def _in_file(inspection: Inspection, span: Span, server: str) -> Span:
    """Return ``span``, or the span of the instance ``server`` if ``span`` is in a file of the library."""
    if inspection.cluster is None or library_path(Path(span.file).stem) != Path(span.file):
        return span
    head = server.partition(".")[0]
    for item in inspection.stated[-1].items:
        if isinstance(item, Instance):
            names = expand(item.name, Findings())
            if head in names or (item.count is not None and head.startswith(tuple(names))):
                return item.name.span
    return span


def listed(names: Sequence[str]) -> str:
    """Return the first of ``names`` as text, and how many more there are."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more


def rate_of(wire: Wire) -> Fraction:
    """Return the bytes per second of all lanes of a wire; 0 if nothing limits it."""
    return (wire.bandwidth or Fraction(0)) * wire.lanes


def gb(rate: Fraction) -> str:
    """Return ``rate`` in B/s as text, such as ``450 GB/s``."""
    return f"{float(rate / 10**9):.6g} GB/s"
