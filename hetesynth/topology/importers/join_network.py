"""A network with hosts and the machines that were read to the machines of the cluster, joined by names.

A host without a machine of its name is of the stated type of the library; else, where one machine alone was
read and bears the name of no host, it stands for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Attachment, Network
from hetesynth.topology.importers.node_types import nic_rates, with_nics
from hetesynth.topology.importers.pcie import gpus_of_nics
from hetesynth.topology.importers.reading import ReadOptions
from hetesynth.topology.importers.wording import some

MAX_SERVERS = 1024


def machines_of_network(
    machines: Sequence[Machine], network: Network, options: ReadOptions
) -> tuple[list[Machine], list[Remark]]:
    """Return a machine for each host that is known, in the order of the network, and what is to be remarked.

    HS733 where none is known, HS814 where ``options.hosts`` fits none.
    """
    named = {_plain(machine.host): machine for machine in machines if machine.host}
    patterns = [pattern.strip() for pattern in options.hosts.split(",")]  # of hosts with or without their domain
    hosts = [h for h in network.hosts if any(fnmatchcase(n, p) for p in patterns for n in (h, h.split(".")[0]))]
    if not hosts:
        what = f"--hosts {options.hosts[:40]!r} fits no host of the network"
        help_ = f"hosts are {', '.join(network.hosts[:4])}{', ...' if len(network.hosts) > 4 else ''}"
        raise HetesynthError(what, code="HS814", help=help_)
    plain_hosts = {_plain(host) for host in network.hosts}
    strangers = [machine for machine in machines if _plain(machine.host) not in plain_hosts]
    pattern: Machine | None = None  # what a host is that no machine is named after
    if options.node_type:
        skeletons = (machine for machine in strangers if machine.node_type)
        pattern = next(skeletons, Machine("", (), node_type=options.node_type))
    elif len(machines) == 1 and strangers:
        pattern = strangers[0]
    of_host = network.by_host()
    candidates = [(host, named.get(_plain(host), pattern)) for host in hosts]
    joined = [_with_rates(replace(machine, host=host), of_host[host]) for host, machine in candidates if machine]
    if not joined or len(joined) > MAX_SERVERS:
        what = "no file says what the hosts are" if not joined else f"more than {MAX_SERVERS} hosts"
        what = f"{what}: {', '.join(hosts[:4])}{', ...' if len(hosts) > 4 else ''}"
        help_ = "name a library type with --node-type, or add a dump of a server with its host's name"
        raise HetesynthError(what, code="HS733", help=help_)
    without = [host for host, machine in candidates if machine is None]
    remarks = list(network.remarks)
    usual = network.usual_nics()
    nics = {host: {one.nic for one in of_host[host]} for host in hosts}
    absent = [f"{h} {' '.join(n for n in usual if n not in nics[h])}" for h in hosts if nics[h] < set(usual)]
    if absent:
        text = f"no link, which NICs of this name have at other hosts: {some(absent)}"
        text += "; is a port down, or is the host none of the GPU servers (--hosts)?"
        remarks.append(Remark("suspicious", text))
    if others := [host for host in network.hosts if host not in nics]:
        remarks.append(Remark("found", f"hosts that --hosts leaves out: {some(others)}"))
    strange = []
    for machine in joined:
        told = sum(bool(one.nic) for one in of_host[machine.host])  # 0 where the file lists hosts, not NICs
        if 0 < told != len(nic_rates(machine)) and not nics[machine.host] < set(usual):
            strange.append(f"{machine.host} {told} of {len(nic_rates(machine))}")
    if strange:
        text = f"the network lists more or fewer NICs than the dumps or the library's type: {some(strange)}"
        remarks.append(Remark("suspicious", text))
    if without:
        remarks.append(Remark("suspicious", f"hosts without a dump are left out: {some(without)}"))
    if pattern is not None:
        what = options.node_type or "like the one server that was read"
        text = f"hosts without a dump of their own are {what}, all of them: --hosts takes some, for example 'gpu*'"
        remarks.append(Remark("assumed", text))
    if lost := [machine.host or "a server without a name" for machine in strangers if machine is not pattern]:
        remarks.append(Remark("suspicious", f"not in the network, and left out: {some(lost)}"))
    return joined, remarks


def _plain(host: str) -> str:
    """A host's name without its domain and in small letters."""
    return host.split(".")[0].lower()


def _with_rates(machine: Machine, attachments: Sequence[Attachment]) -> Machine:
    """The machine with the rates of NICs that the network tells; where its dump does too, they are compared."""
    if machine.node_type:
        told_rates = {one.rate for one in attachments}
        node_type = machine.node_type
        doubts: tuple[str, ...] = ()
        if "(" not in node_type and len(told_rates) == 1:
            node_type, doubts = with_nics(node_type, 0, *told_rates)
        remarks = [*machine.remarks, *(Remark("suspicious", doubt) for doubt in doubts)]
        if len(told_rates) > 1:
            text = f"{machine.host} has ports of several rates: those of the library's {node_type} taken"
            remarks.append(Remark("suspicious", text))
        return replace(machine, node_type=node_type, remarks=tuple(remarks))
    rates = {one.nic: one.rate for one in attachments if one.rate}
    used = tuple(gpus_of_nics(machine))
    if rates and not any(machine.nics[n].name in rates for n in used):
        rates = {machine.nics[n].name: one.rate for n, one in zip(used, attachments, strict=False) if one.rate}
    remarks = list(machine.remarks)
    plugged = {*rates, *(one.nic for one in attachments)}
    down = [nic for nic in machine.nics if rates and nic.rate is None and nic.name not in plugged]
    if down:
        text = f"{machine.host}: {', '.join(nic.name for nic in down)}: no port in the network, left out"
        remarks.append(Remark("suspicious", text))
    nics = []
    for nic in machine.nics:
        if nic in down:
            continue
        told = rates.get(nic.name)
        if told and nic.rate and told != nic.rate:
            one, other = (float(rate * 8 / 10**9) for rate in (nic.rate, told))
            text = f"{nic.name} carries {one:g} Gb/s by its dump, {other:g} by its port"
            remarks.append(Remark("suspicious", text))
        nics.append(replace(nic, rate=min(filter(None, (told, nic.rate)), default=None)))
    return replace(machine, nics=tuple(nics), remarks=tuple(remarks))
