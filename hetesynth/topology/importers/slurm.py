"""Slurm's ``topology.conf`` and ``topology.yaml`` to a network: leaves with their hosts, and the switches above.

They tell neither rates (LinkSpeed is a word without a unit) nor what a server is.
"""

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, Trunk
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lines_of, plain_yaml, refused
from hetesynth.topology.language.names import hosts_named

MAX_HOSTS = 100_000
HELP = "see Slurm's manual: SwitchName=s0 Nodes=node[0-3,12],login, SwitchName=top Switches=s[0-1]"

_SETTING = re.compile(r"(\w{1,40})=(\"[^\"]{0,8000}\"|\S{1,8000})")
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch, or a block (``block``): the hosts or the switches below it."""

    name: str
    nodes: list[str]
    switches: list[str]
    block: bool


def _switch(where: str, names: list[str], nodes: object, below: object, *, block: bool) -> _Switch:
    """A switch as either file states it; HS732 unless it has one name, and hosts or switches."""
    stated = [text for text in (nodes, below) if text]
    if len(names) != 1 or len(stated) != 1 or not isinstance(stated[0], str):
        raise refused(where, f"{', '.join(names)[:60]} needs one name, and hosts or switches below it", HELP)
    hosts = hosts_of(stated[0], where)
    return _Switch(names[0], hosts if nodes else [], [] if nodes else hosts, block)


def read_slurm_conf(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a ``topology.conf``."""
    switches: list[_Switch] = []
    continued = ""
    for number, line in enumerate(lines_of(source.data, source.name), 1):
        text, where = continued + line.split("#")[0].strip(), f"{source.name}: line {number}"
        continued = text[:-1] + " " if text.endswith("\\") else ""
        if not text or continued:
            continue
        settings = {match[1].lower(): match[2].strip('"') for match in _SETTING.finditer(text)}
        if _SETTING.sub("", text).strip() or not settings.keys() <= _KEYS:
            raise refused(where, f"{text[:60]!r} is nothing of topology.conf", HELP)
        if settings.keys() <= {"blocksizes"}:
            continue
        names = hosts_of(settings.get("blockname") or settings.get("switchname") or "", where)
        nodes, below = settings.get("nodes"), settings.get("switches")
        switches.append(_switch(where, names, nodes, below, block="blockname" in settings))
    return _reading(source.name, switches, options)


def read_slurm_yaml(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a ``topology.yaml``: of its only topology, else of the default one."""
    document = plain_yaml(source.data, source.name)
    described = []  # flat topologies have neither switches nor blocks
    for topology in document if isinstance(document, list) else ():
        for plugin, key, kind in (("tree", "switches", "switch"), ("block", "blocks", "block")):
            section = topology.get(plugin) if isinstance(topology, dict) else None
            if isinstance(section, dict) and isinstance(section.get(key), list):
                described.append((topology.get("cluster_default") is True, kind, section[key]))
    chosen = [entry for entry in described if entry[0]] or described
    if len(chosen) != 1 or not all(isinstance(entry, dict) for entry in chosen[0][2]):
        what = "no topology of switches or blocks, or several and none is the default"
        raise refused(source.name, what, "keep the one to import, or mark it with cluster_default: true")
    _, kind, entries = chosen[0]
    switches = []
    for entry in entries:
        names = [entry[kind]] if isinstance(entry.get(kind), str) else []
        below = entry.get("children", entry.get("switches"))
        switches.append(_switch(source.name, names, entry.get("nodes"), below, block=kind == "block"))
    return _reading(source.name, switches, options)


def _reading(name: str, switches: list[_Switch], options: ReadOptions) -> Reading:
    """The network; what nothing joins in the file meets in one more switch. HS732 where it is no tree."""
    hosts = [host for switch in switches for host in switch.nodes]
    above = {below: switch.name for switch in switches for below in switch.switches}
    names = {switch.name for switch in switches}
    trunks = [Trunk(below, switch.name) for switch in switches for below in switch.switches]
    once = len(set(hosts)) == len(hosts) and len(names) == len(switches) and len(above) == len(trunks)
    try:
        TopologicalSorter({lower: [upper] for lower, upper in above.items()}).prepare()
    except CycleError:
        once = False
    if not once or not hosts or not above.keys() <= names:
        what = "no hosts, or a switch or host that is named twice, not described, or below itself"
        raise refused(name, what, HELP)
    leaves = sum(bool(switch.nodes) for switch in switches)
    remarks = [Remark("found", f"{len(hosts)} hosts below {leaves} switches or blocks")]
    tops = [switch.name for switch in switches if switch.name not in above]
    if len(tops) > 1:
        spine = "spine"
        while spine in names:
            spine += "_"
        trunks += [Trunk(top, spine) for top in tops]
        text = "a switch that joins the switches or blocks which nothing joins in the file"
        remarks.append(Remark("assumed", text))
    if any(switch.block for switch in switches):
        text = "a block is a leaf switch; the file does not tell whether NVLink joins it"
        remarks.append(Remark("assumed", text))
    attachments = tuple(Attachment(host, switch.name) for switch in switches for host in switch.nodes)
    described = (attachments, tuple(trunks), tuple(remarks))
    return Reading(network=Network(*described, options.uplink, options.oversubscription))


def hosts_of(text: str, where: str) -> list[str]:
    """Return the hosts of ``tux[0-3,12],rack[0-1]node[01-16]`` in order; HS732 for no list or too many hosts."""
    hosts: list[str] = []
    for word in re.split(r",(?![^\[]*\])", text):
        names = hosts_named(word, MAX_HOSTS)
        if not names or re.search(r"[\s\[\]]", names[0]) or not names[0] or len(hosts) + len(names) > MAX_HOSTS:
            raise refused(where, f"{text[:60]!r} is no host list, or one of too many hosts", HELP)
        hosts += names
    return hosts
