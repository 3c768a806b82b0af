"""Machines and the rule for the network between them -> readable text of the topology language.

One node type for each kind of machine, servers under the names of their hosts, and comments that say what was
read, what was assumed and what looks wrong. ``import_topology`` reads the text back before it is given out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers import network_text, node_text
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Fabric
from hetesynth.topology.importers.network_text import Server
from hetesynth.topology.importers.node_types import file_of, node_types
from hetesynth.topology.importers.pcie import UNSTATED, gpus_of_nics, over_cpus
from hetesynth.topology.importers.wording import bandwidth, comment, identifier, listed, parts, time

INDENT = "  "


def cluster_text(
    machines: Sequence[Machine],
    fabric: Fabric,
    remarks: Sequence[Remark],
    name: str,
    title: str,
    measured: Sequence[str] = (),
) -> str:
    """Return the text; the rates of the kinds ``measured`` are stated as what transfers get.

    Raises HetesynthError HS733 where servers have no network between them.
    """
    servers = _named(machines)
    libraries = {file_of(m.node_type.partition("(")[0]) for m in machines if m.node_type}
    lines = comment(title)
    lines += _remark_lines([*remarks, *(remark for m in machines if m.node_type for remark in m.remarks)])
    lines += [f"import {library}" for library in sorted(libraries)]
    written: set[str] = set()
    for server in servers:
        if server.node_type not in written and not server.machine.node_type:
            written.add(server.node_type)
            lines += ["", *_node_lines(server, [s for s in servers if s.node_type == server.node_type])]
    lines += ["", f"cluster {identifier(name, 'c')} {{"]
    runs: list[list[Server]] = []
    for server in servers:
        if runs and _follows(runs[-1][-1], server):
            runs[-1].append(server)
        else:
            runs.append([server])
    for run in runs:
        first = run[0]
        hosts = listed([server.machine.host for server in run]) if first.machine.host else ""
        body = f' {{ host "{hosts}" }}' if hosts else ""
        lines.append(f"{INDENT}instance {listed([server.name for server in run])} = {first.node_type}{body}")
    lines += [INDENT + line for line in network_text.statements(servers, fabric)]
    lines += [f"{INDENT}measured {', '.join(measured)}"] if measured else []
    return "\n".join([*lines, "}"]).lstrip("\n") + "\n"


def _named(machines: Sequence[Machine]) -> list[Server]:
    """Every machine with names that nobody else has, nor the library that the text may import."""
    library = node_types() if any(machine.node_type for machine in machines) else {}
    counted = Counter(machine.host for machine in machines)
    types: dict[tuple[str, ...], str] = {}
    names: set[str] = set()
    servers = []
    for i, machine in enumerate(machines):
        if machine.node_type:
            node_type = machine.node_type
            types["", node_type] = node_type
        else:
            body = tuple(node_text.statements(machine))
            if body not in types:
                model = next((gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch), "server")
                wished = f"{identifier(model.lower(), 'gpu')}x{len(machine.gpus)}"
                types[body] = _free(wished, {*types.values(), *library})
            node_type = types[body]
        host = machine.host if counted[machine.host] == 1 else ""
        name = _free(identifier(host) if host else f"n{i}", names)
        names.add(name)
        servers.append(Server(name, machine, node_type))
    return servers


def _free(wished: str, used: set[str]) -> str:
    """``wished``, or with a letter behind it that makes it new."""
    suffix = 0
    name = wished
    while name in used:
        suffix += 1
        name = f"{wished}_{chr(97 + suffix)}" if suffix < 26 else f"{wished}_{suffix}"
    return name


def _remark_lines(remarks: Sequence[Remark]) -> list[str]:
    """Every remark once, the suspicious ones first."""
    order = {"suspicious": 0, "found": 1, "assumed": 2}
    ordered = sorted(dict.fromkeys(remarks), key=lambda r: order[r.kind])
    return [line for remark in ordered for line in comment(f"{remark.kind}: {remark.text}")]


def assumed_figures(machines: Sequence[Machine]) -> list[Remark]:
    """Return the latencies, and the speeds of slots, that the text states and no file told."""
    texts = []
    if any(m.links or m.ports for m in machines):
        texts.append(f"a way over NVLink or xGMI takes {time(node_text.NVLINK_LATENCY)}")
    trees = [m for m in machines if not m.node_type and node_text.needs_tree(m)]
    if trees:
        crossing = time(node_text.CROSSING)
        texts.append(f"each PCIe switch, CPU and link between CPUs on a way takes {crossing}")
    crossed = [
        m for m in machines if m.cpu_links and not m.node_type and (node_text.needs_tree(m) or over_cpus(m))
    ]
    if between := sorted({link.rate for m in crossed for link in m.cpu_links}):
        rates = " or ".join(bandwidth(rate) for rate in between)
        texts.append(f"{rates} between CPUs, what NCCL counts: the tools tell no such rate")
    if any(gpu.place.rate is None for m in trees for gpu in m.gpus):
        texts.append(f"slots of GPUs whose speed is not told carry {bandwidth(UNSTATED)}, 16 lanes of PCIe 3")
    if any(bridge.place.rate is None for m in trees for bridge in m.bridges):
        texts.append("bridges whose speed is not told are as fast as the fastest device below them")
    mixed = {models for m in machines if len(models := node_text.models(m)) > 1}
    doubts = (f"GPUs of {', '.join(m)} in one server: `model` of all of them is {m[0]}" for m in sorted(mixed))
    return [*(Remark("assumed", text) for text in texts), *(Remark("suspicious", d) for d in doubts)]


def _node_lines(server: Server, same: Sequence[Server]) -> list[str]:
    """``node NAME { ... }`` with the remarks about the machine, and comments on which device is which."""
    machine = server.machine
    used = gpus_of_nics(machine)
    links = Counter(machine.links_of(i) for i in range(len(machine.gpus)))
    counts = ", ".join(f"{n} on {gpus}" if len(links) > 1 else f"{n}" for n, gpus in sorted(links.items()))
    models = ", ".join(sorted({gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch}))
    summary = f"{len(machine.gpus)} GPUs{f' ({models})' if models else ''}, links per GPU: {counts}"
    summary += f"; {len(used)} NIC{'' if len(used) == 1 else 's'}"
    of = "" if len(same) == 1 else f" (as {len(same)} servers)"
    lines = comment(f"{server.node_type}{of}: {summary}")
    common = [remark for remark in machine.remarks if all(remark in other.machine.remarks for other in same)]
    lines += _remark_lines(common)
    for other in same:
        own = [remark for remark in other.machine.remarks if remark not in common]
        lines += _remark_lines([replace(remark, text=f"{other.name}: {remark.text}") for remark in own])
    lines.append(f"node {server.node_type} {{")
    buses = [gpu.place.bus for gpu in machine.gpus]
    if all(buses):
        lines += comment(f"{parts('gpu', range(len(buses)))}: {', '.join(buses)}", INDENT)
    if used:
        names = ", ".join(machine.nics[n].name for n in used)
        lines += comment(f"{parts('nic', range(len(used)))}: {names}", INDENT)
    if unused := [nic.name for n, nic in enumerate(machine.nics) if n not in used]:
        text = f"left out, as other NICs are nearer or faster, or as virtual: {', '.join(unused)}"
        lines += comment(text, INDENT)
    return [*lines, *(INDENT + line for line in node_text.statements(machine)), "}"]


def _follows(last: Server, server: Server) -> bool:
    """True where two servers can be in one statement: ``listed`` makes a range of their names and their hosts."""
    before, host = last.machine.host, server.machine.host
    if last.node_type != server.node_type or bool(before) != bool(host):
        return False
    return _one_up(last.name, server.name) and (not before or _one_up(before, host))


def _one_up(last: str, name: str) -> bool:
    match = re.fullmatch(r"(.*?)(0|[1-9][0-9]{0,8})", last)
    return match is not None and name == f"{match[1]}{int(match[2]) + 1}" and not match[1][-1:].isdigit()


def demand_rates(machines: Sequence[Machine], nic_rate: Fraction | None) -> list[Machine]:
    """Return the machines, every NIC with a rate: its own or ``nic_rate``; HS733 where neither is there."""
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
