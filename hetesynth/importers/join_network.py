"""A network with hosts and the machines that were read to the machines of the cluster, joined by names.

A host without a machine of its name is of the stated type of the library; else, where one machine alone was
read and bears the name of no host, it stands for all of them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hetesynth.errors import HetesynthError
from hetesynth.importers.machine import Machine, Remark
from hetesynth.importers.network import Attachment, Network
from hetesynth.importers.pcie import gpus_of_nics

MAX_SERVERS = 1024


def machines_of_network(
    machines: Sequence[Machine], network: Network, node_type: str
) -> tuple[list[Machine], list[Remark]]:  # fmt: skip
    """A machine for each host that is known, in the order of the network; HS733 where none is."""
    named = {_plain(machine.host): machine for machine in machines if machine.host}
    hosts = network.hosts
    strangers = [m for m in machines if _plain(m.host) not in {_plain(host) for host in hosts}]
    pattern = _stand_in(machines, strangers, node_type)
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
    remarks = list(network.remarks)
    strange = [m.host for m in joined if not m.node_type and 0 < _named(of_host[m.host]) != len(gpus_of_nics(m))]
    if strange:
        text = f"the network lists more or fewer NICs than the dumps: {', '.join(strange[:8])}"
        remarks.append(Remark("suspicious", text, "warning"))
    if without:
        remarks.append(
            Remark("suspicious", f"hosts without a dump are left out: {', '.join(without[:8])}", "warning")
        )
    if pattern is not None and not pattern.node_type:
        remarks.append(
            Remark("assumed", "hosts without a dump of their own are like the one server that was read")
        )
    elif strangers:
        names = ", ".join(machine.host or "a server without a name" for machine in strangers[:8])
        remarks.append(Remark("suspicious", f"not in the network, and left out: {names}", "warning"))
    return joined, remarks


def _plain(host: str) -> str:
    """A host's name without its domain and in small letters."""
    return host.split(".")[0].lower()


def _stand_in(machines: Sequence[Machine], strangers: Sequence[Machine], node_type: str) -> Machine | None:
    """What a host is that no machine is named after."""
    if node_type:
        return Machine("", (), node_type=node_type)
    return strangers[0] if len(machines) == 1 and strangers else None


def _with_rates(machine: Machine, attachments: Sequence[Attachment]) -> Machine:
    """The machine with the rates of NICs that the network tells; where its dump does too, they are compared."""
    if machine.node_type:
        return machine
    rates = {one.nic: one.rate for one in attachments if one.rate}
    used = tuple(gpus_of_nics(machine))
    if rates and not any(machine.nics[n].name in rates for n in used):
        rates = {machine.nics[n].name: one.rate for n, one in zip(used, attachments, strict=False) if one.rate}
    nics, remarks = [], list(machine.remarks)
    for nic in machine.nics:
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
