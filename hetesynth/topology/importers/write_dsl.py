"""Machines and the rule for the network between them -> readable text of the topology language.

One node type for each kind of machine, servers under the names of their hosts, and comments that say what was
read, what was assumed and what looks wrong. ``check.py`` reads the text back before it is given out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers import network_text, node_text, pcie_text, tier_text
from hetesynth.topology.importers.fabric import Fabric
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.pcie import UNSTATED, gpus_of_nics, over_cpus
from hetesynth.topology.importers.wording import bandwidth, comment, identifier, listed, parts

INDENT = "  "


@dataclass(frozen=True, slots=True)
class Server:
    """A machine with the name of its instance and of its node type."""

    name: str
    machine: Machine
    node_type: str


def cluster_text(
    machines: Sequence[Machine], fabric: Fabric, remarks: Sequence[Remark] = (), name: str = "imported",
    title: str = "", measured: Sequence[str] = (),
) -> str:  # fmt: skip
    """The text; the rates of the kinds ``measured`` are stated as what transfers get.

    Raises HetesynthError HS733 where servers have no network between them.
    """
    servers = name_servers(machines)
    lines = comment(title) if title else []
    lines += _remark_lines([*remarks, *(remark for m in machines if m.node_type for remark in m.remarks)])
    lines += [f"import {library}" for library in sorted({_library(m.node_type) for m in machines if m.node_type})]
    written: set[str] = set()
    for server in servers:
        if server.node_type not in written and not server.machine.node_type:
            written.add(server.node_type)
            same = [s for s in servers if s.node_type == server.node_type]
            lines += ["", *_node_lines(server, same)]
    lines += ["", f"cluster {identifier(name, 'c')} {{"]
    lines += [INDENT + line for line in _instances(servers)]
    if fabric.network is not None:
        between = network_text.domains(servers) + tier_text.statements(servers, fabric.network)
    else:
        between = network_text.statements(servers, fabric)
    lines += [INDENT + line for line in between]
    lines += [f"{INDENT}measured {', '.join(measured)}"] if measured else []
    return "\n".join([*lines, "}"]).lstrip("\n") + "\n"


def name_servers(machines: Sequence[Machine]) -> tuple[Server, ...]:
    """Every machine with names that nobody else has."""
    types: dict[tuple[str, ...], str] = {}
    library = _library_names() if any(machine.node_type for machine in machines) else frozenset()
    names: set[str] = set()
    counted = Counter(machine.host for machine in machines)
    servers = []
    for i, machine in enumerate(machines):
        body = tuple(node_text.statements(machine)) if not machine.node_type else ("", machine.node_type)
        if body not in types:
            wished = machine.node_type or _type_name(machine)
            types[body] = wished if machine.node_type else _free(wished, {*types.values(), *library})
        host = machine.host if counted[machine.host] == 1 else ""
        name = _free(identifier(host) if host else f"n{i}", names)
        names.add(name)
        servers.append(Server(name, machine, types[body]))
    return tuple(servers)


def _free(wished: str, used: set[str]) -> str:
    """``wished``, or with a letter behind it that makes it new."""
    suffix = 0
    name = wished
    while name in used:
        suffix += 1
        name = f"{wished}_{chr(97 + suffix)}" if suffix < 26 else f"{wished}_{suffix}"
    return name


def _type_name(machine: Machine) -> str:
    model = next((gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch), "server")
    return f"{identifier(model.lower(), 'gpu')}x{len(machine.gpus)}"


def _library_names() -> frozenset[str]:
    """Names that the imports of the text bring with them, or may."""
    from hetesynth.topology.importers.node_types import node_types

    return frozenset(node_types())


def _library(node_type: str) -> str:
    from hetesynth.topology.importers.node_types import file_of

    return file_of(node_type.partition("(")[0])


def _remark_lines(remarks: Sequence[Remark]) -> list[str]:
    """Every remark once, the suspicious ones first."""
    order = {"suspicious": 0, "found": 1, "assumed": 2}
    lines: list[str] = []
    for remark in sorted(dict.fromkeys(remarks), key=lambda r: order[r.kind]):
        lines += comment(f"{remark.kind}: {remark.text}")
    return lines


def assumed_figures(machines: Sequence[Machine]) -> list[Remark]:
    """The latencies, and the speeds of slots, that the text states and no file told."""
    texts = []
    if any(m.links or m.ports for m in machines):
        texts.append(node_text.LATENCIES)
    trees = [m for m in machines if not m.node_type and node_text.needs_tree(m)]
    if trees:
        texts.append(pcie_text.LATENCIES)
    crossing = [
        m for m in machines if m.cpu_links and not m.node_type and (node_text.needs_tree(m) or over_cpus(m))
    ]
    if between := sorted({link.rate for m in crossing for link in m.cpu_links}):
        rates = " or ".join(bandwidth(rate) for rate in between)
        texts.append(f"{rates} between CPUs, what NCCL counts: the tools tell no such rate")
    if any(gpu.place.rate is None for m in trees for gpu in m.gpus):
        texts.append(f"slots of GPUs whose speed is not told carry {bandwidth(UNSTATED)}, 16 lanes of PCIe 3")
    if any(bridge.place.rate is None for m in trees for bridge in m.bridges):
        texts.append("bridges whose speed is not told are as fast as the fastest device below them")
    mixed = {models for m in machines if len(models := node_text.models(m)) > 1}
    doubts = (f"GPUs of {', '.join(m)} in one server: `model` of all of them is {m[0]}" for m in sorted(mixed))
    return [*(Remark("assumed", text) for text in texts), *(Remark("suspicious", d, "warning") for d in doubts)]


def _node_lines(server: Server, same: Sequence[Server]) -> list[str]:
    """``node NAME { ... }`` with the remarks about the machine and its devices."""
    machine = server.machine
    lines: list[str] = []
    of = "" if len(same) == 1 else f" (as {len(same)} servers)"
    lines += comment(f"{server.node_type}{of}: {_summary(machine)}")
    common = [remark for remark in machine.remarks if all(remark in other.machine.remarks for other in same)]
    lines += _remark_lines(common)
    for other in same:
        own = [remark for remark in other.machine.remarks if remark not in common]
        lines += _remark_lines([replace(remark, text=f"{other.name}: {remark.text}") for remark in own])
    body = [line for statement in node_text.statements(machine) for line in statement.split("\n")]
    return [*lines, f"node {server.node_type} {{", *_devices(machine), *(INDENT + line for line in body), "}"]


def _summary(machine: Machine) -> str:
    """Counts and models in words."""
    links = Counter(machine.links_of(i) for i in range(len(machine.gpus)))
    counts = ", ".join(f"{n} on {gpus}" if len(links) > 1 else f"{n}" for n, gpus in sorted(links.items()))
    models = ", ".join(sorted({gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch}))
    text = f"{len(machine.gpus)} GPUs{f' ({models})' if models else ''}, links per GPU: {counts}"
    nics = len(gpus_of_nics(machine))
    return f"{text}; {nics} NIC{'' if nics == 1 else 's'}"


def _devices(machine: Machine) -> list[str]:
    """Which device is which, one comment for GPUs and one for NICs."""
    lines: list[str] = []
    buses = [gpu.place.bus for gpu in machine.gpus]
    if all(buses):
        lines += comment(f"{parts('gpu', range(len(buses)))}: {', '.join(buses)}", INDENT)
    used = gpus_of_nics(machine)
    if used:
        lines += comment(
            f"{parts('nic', range(len(used)))}: {', '.join(machine.nics[n].name for n in used)}", INDENT
        )
    if unused := [nic.name for n, nic in enumerate(machine.nics) if n not in used]:
        lines += comment(
            f"left out, as other NICs are nearer or faster, or as virtual: {', '.join(unused)}", INDENT
        )
    return lines


def _instances(servers: Sequence[Server]) -> list[str]:
    """``instance`` statements in order; neighbours of one type whose names count up are one statement."""
    runs: list[list[Server]] = []
    for server in servers:
        if runs and _follows(runs[-1][-1], server):
            runs[-1].append(server)
        else:
            runs.append([server])
    return [_instance(run) for run in runs]


def _instance(run: Sequence[Server]) -> str:
    first = run[0]
    hosts = listed([server.machine.host for server in run]) if first.machine.host else ""
    body = f' {{ host "{hosts}" }}' if hosts else ""
    return f"instance {listed([server.name for server in run])} = {first.node_type}{body}"


def _follows(last: Server, server: Server) -> bool:
    """Whether two servers can be in one statement: ``listed`` makes a range of their names and of their hosts."""
    if last.node_type != server.node_type or bool(last.machine.host) != bool(server.machine.host):
        return False
    return _one_up(last.name, server.name) and (
        not last.machine.host or _one_up(last.machine.host, server.machine.host)
    )


def _one_up(last: str, name: str) -> bool:
    match = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,8})", last)
    return match is not None and name == f"{match[1]}{int(match[2]) + 1}" and not match[1][-1:].isdigit()


def demand_rates(machines: Sequence[Machine], nic_rate: Fraction | None) -> list[Machine]:
    """Every NIC with a rate: its own or ``nic_rate``; HetesynthError HS733 where neither is there."""
    lacking = [nic.name for m in machines for nic in m.nics if nic.rate is None]
    if lacking and nic_rate is None:
        raise HetesynthError(
            f"the rate of {len(lacking)} NICs is not told: {', '.join(lacking[:4])}",
            code="HS733",
            help="state it with --nic-rate, for example --nic-rate 400Gbps",
        )
    return [
        replace(m, nics=tuple(n if n.rate is not None else replace(n, rate=nic_rate) for n in m.nics))
        for m in machines
    ]
