"""The node library by name: which file has a type, its GPUs, and what its NICs carry."""

from __future__ import annotations

import functools
from fractions import Fraction

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.wording import network_rate
from hetesynth.topology.language.library import declared_types, library_type


def file_of(node_type: str) -> str:
    """The library file with ``node_type``; HetesynthError HS734 where none has it."""
    types = declared_types("node")
    if node_type not in types:
        what = f"--node-type: the node library has no type {node_type[:40]!r}"
        help_ = did_you_mean(node_type.lower(), types, f"one of: {', '.join(sorted(types))}")
        raise HetesynthError(what, code="HS734", help=help_)
    return types[node_type]


@functools.cache
def with_nics(node_type: str, nics: int, rate: Fraction | None) -> tuple[str, tuple[str, ...]]:
    """The type with the NICs that a file states, as far as it has parameters for them, and what contradicts it.

    ``nics``: 0, and ``rate``: None, where the file does not tell.
    """
    entry = library_type(node_type)
    wished = {"nics": str(nics)} if nics and nics != entry.nics else {}
    if rate is not None and rate * entry.nics != entry.outside:
        wished["rate"] = network_rate(rate)
    if not wished:
        return node_type, ()
    told = f"{nics} NIC{'s' * (nics != 1)}" if nics else "NICs"
    told += f" of {network_rate(rate)}" if rate is not None else ""
    told += f", and the library's {node_type} has {entry.nics} of {network_rate(entry.outside / entry.nics)}"
    declared = {parameter.partition("=")[0].strip() for parameter in entry.parameters}
    if wished.keys() <= declared and (not nics or entry.gpus % nics == 0 or nics % entry.gpus == 0):
        given = ", ".join(f"{name} = {value}" for name, value in wished.items())
        rest = "" if rate is not None else "; --nic-rate states a rate other than the library's"
        return f"{node_type}({given})", (f"{told}: {given} taken{rest}",)
    return node_type, (f"{told}, which are taken: name another --node-type, or correct the text",)


def nic_rates(machine: Machine) -> tuple[Fraction, ...]:
    """The rates of the NICs that a server's text has, in order; of a library type those of the library."""
    if machine.node_type:
        return _rates_of(machine.node_type)
    return tuple(machine.nics[n].rate or Fraction(0) for n in gpus_of_nics(machine))


@functools.cache
def _rates_of(node_type: str) -> tuple[Fraction, ...]:
    """What each NIC of a type sends: two of its servers are joined, and the wires of one are read off."""
    from hetesynth.topology.language import parse_topology

    text = f"import {file_of(node_type.partition('(')[0])}\ncluster c {{ instance a = {node_type} "
    text += f"instance b = {node_type} fabric f {{ join *.nic* }} }}"
    topology = parse_topology(text, f"the library's {node_type}")
    fabric = next(i for i, vertex in enumerate(topology.vertices) if vertex.kind == "fabric")
    return tuple(
        (wire.bandwidth or Fraction(0)) * wire.lanes
        for wire in topology.wires
        if wire.dst == fabric and topology.vertices[wire.src].server == "a"
    )
