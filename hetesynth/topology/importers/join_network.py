"""A network with hosts and the machines that were read to the machines of the cluster, joined by names.

A host without a machine of its name is of the stated type of the library; else, where one machine alone was
read and bears the name of no host, it stands for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Attachment, Network, usual_nics
from hetesynth.topology.importers.node_types import nic_rates, with_nics
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.reading import ReadOptions
from hetesynth.topology.importers.wording import some

MAX_SERVERS = 1024


def machines_of_network(
    machines: Sequence[Machine], network: Network, options: ReadOptions
) -> tuple[list[Machine], list[Remark]]:  # fmt: skip
    """A machine for each host that is known, in the order of the network; HS733 where none is, HS814 where
    ``options.hosts`` fits none."""
    named = {_plain(machine.host): machine for machine in machines if machine.host}
    hosts = [host for host in network.hosts if _fits(host, options.hosts)]
    if not hosts:
        raise HetesynthError(
            f"--hosts {options.hosts[:40]!r} fits no host of the network",
            code="HS814",
            help=f"hosts are {', '.join(network.hosts[:4])}{', ...' if len(network.hosts) > 4 else ''}",
        )
    strangers = [m for m in machines if _plain(m.host) not in {_plain(host) for host in network.hosts}]
    pattern = _stand_in(machines, strangers, options.node_type)
    of_host: dict[str, list[Attachment]] = defaultdict(list)
    for one in network.attachments:
        of_host[one.host].append(one)
    joined: list[Machine] = []
    without: list[str] = []
    for host in hosts:
        machine = named.get(_plain(host), pattern)
        if machine is None:
            without.append(host)
            continue
        joined.append(_with_rates(replace(machine, host=host), of_host[host]))
    if not joined or len(joined) > MAX_SERVERS:
        what = "no file says what the hosts are" if not joined else f"more than {MAX_SERVERS} hosts"
        raise HetesynthError(
            f"{what}: {', '.join(hosts[:4])}{', ...' if len(hosts) > 4 else ''}",
            code="HS733",
            help="name a library type with --node-type, or add a dump of a server with its host's name",
        )
    remarks = [*network.remarks, *_absent(hosts, of_host, usual_nics(network))]
    if others := [host for host in network.hosts if not _fits(host, options.hosts)]:
        remarks.append(Remark("found", f"hosts that --hosts leaves out: {some(others)}"))
    usual = set(usual_nics(network))
    strange = [
        f"{m.host} {_named(of_host[m.host])} of {len(nic_rates(m))}"
        for m in joined
        if 0 < _named(of_host[m.host]) != len(nic_rates(m)) and not {one.nic for one in of_host[m.host]} < usual
    ]
    if strange:
        text = f"the network lists more or fewer NICs than the dumps or the library's type: {some(strange)}"
        remarks.append(Remark("suspicious", text, "warning"))
    if without:
        remarks.append(Remark("suspicious", f"hosts without a dump are left out: {some(without)}", "warning"))
    if pattern is not None:
        what = options.node_type or "like the one server that was read"
        text = f"hosts without a dump of their own are {what}, all of them: --hosts takes some, for example 'gpu*'"
        remarks.append(Remark("assumed", text))
    if lost := [machine for machine in strangers if machine is not pattern]:
        names = some([machine.host or "a server without a name" for machine in lost])
        remarks.append(Remark("suspicious", f"not in the network, and left out: {names}", "warning"))
    return joined, remarks


def _fits(host: str, patterns: str) -> bool:
    """Whether the name of a host, with or without its domain, is one that ``patterns`` ask for."""
    names = (host, host.split(".")[0])
    return any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(",") for name in names)


def _absent(
    hosts: Sequence[str], of_host: dict[str, list[Attachment]], usual: Sequence[str]
) -> Iterator[Remark]:  # fmt: skip
    """NICs that other hosts have at the network."""
    absent = []
    for host in hosts:
        nics = {one.nic for one in of_host[host]}
        if nics < set(usual):
            absent.append(f"{host} {' '.join(nic for nic in usual if nic not in nics)}")
    if absent:
        text = f"no link, which NICs of this name have at other hosts: {some(absent)}"
        text += "; is a port down, or is the host none of the GPU servers (--hosts)?"
        yield Remark("suspicious", text, "warning")


def _plain(host: str) -> str:
    """A host's name without its domain and in small letters."""
    return host.split(".")[0].lower()


def _stand_in(machines: Sequence[Machine], strangers: Sequence[Machine], node_type: str) -> Machine | None:
    """What a host is that no machine is named after."""
    if node_type:
        skeletons = (machine for machine in strangers if machine.node_type)
        return next(skeletons, Machine("", (), node_type=node_type))
    return strangers[0] if len(machines) == 1 and strangers else None


def _with_rates(machine: Machine, attachments: Sequence[Attachment]) -> Machine:
    """The machine with the rates of NICs that the network tells; where its dump does too, they are compared."""
    if machine.node_type:
        return _of_library(machine, attachments)
    rates = {one.nic: one.rate for one in attachments if one.rate}
    used = tuple(gpus_of_nics(machine))
    if rates and not any(machine.nics[n].name in rates for n in used):
        rates = {machine.nics[n].name: one.rate for n, one in zip(used, attachments, strict=False) if one.rate}
    nics, remarks = [], list(machine.remarks)
    plugged = {*rates, *(one.nic for one in attachments)}
    down = [n for n, nic in enumerate(machine.nics) if rates and nic.rate is None and nic.name not in plugged]
    if down:
        names = ", ".join(machine.nics[n].name for n in down)
        text = f"{machine.host}: {names}: no port in the network, left out"
        remarks.append(Remark("suspicious", text, "warning"))
    for nic in (nic for n, nic in enumerate(machine.nics) if n not in down):
        told = rates.get(nic.name)
        if told and nic.rate and told != nic.rate:
            one, other = (float(rate * 8 / 10**9) for rate in (nic.rate, told))
            text = f"{nic.name} carries {one:g} Gb/s by its dump, {other:g} by its port"
            remarks.append(Remark("suspicious", text, "warning"))
        nics.append(replace(nic, rate=min(filter(None, (told, nic.rate)), default=None)))
    return replace(machine, nics=tuple(nics), remarks=tuple(remarks))


def _named(attachments: Sequence[Attachment]) -> int:
    """How many NICs of a host the network lists by name; 0 where it lists hosts."""
    return sum(bool(one.nic) for one in attachments)


def _of_library(machine: Machine, attachments: Sequence[Attachment]) -> Machine:
    """The machine with the rate of its ports, and a remark where it is not that of its type."""
    rates = {one.rate for one in attachments}
    doubts: tuple[str, ...] = ()
    node_type = machine.node_type
    if "(" not in node_type and len(rates) == 1:
        node_type, doubts = with_nics(node_type, 0, *rates)
    if len(rates) > 1:
        doubts += (f"{machine.host} has ports of several rates: those of the library's {node_type} taken",)
    remarks = (Remark("suspicious", doubt, "warning") for doubt in doubts)
    return replace(machine, node_type=node_type, remarks=(*machine.remarks, *remarks))
