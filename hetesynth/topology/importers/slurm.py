"""Slurm's ``topology.conf`` and ``topology.yaml`` to a network: leaves with their hosts, and the switches above.

They tell neither rates (LinkSpeed is a word without a unit) nor what a server is: ``--node-type`` or dumps of the
servers do, and ``--uplink`` or ``--oversubscription`` for the cables between switches.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, Trunk
from hetesynth.topology.importers.node_types import without_nvlink
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lines_of, plain_yaml, refused
from hetesynth.topology.language.names import hosts_named

MAX_SWITCHES = 10_000
MAX_HOSTS = 100_000
HELP = "see Slurm's manual of topology.conf: SwitchName=s0 Nodes=node[0-3], SwitchName=top Switches=s[0-1]"
YAML_HELP = "see Slurm's manual of topology.yaml"
HOSTS_HELP = "host lists are written like node[0-3,12],login or rack[0-1]n[01-16]"

_SETTING = re.compile(r"(\w{1,40})=(\"[^\"]{0,8000}\"|\S{1,8000})")
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch, or a block (``block``): the hosts or the switches below it."""

    name: str
    nodes: list[str]
    switches: list[str]
    block: bool
    link_speed: str = ""


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
        rest = _SETTING.sub("", text).strip()
        if rest or not settings or not settings.keys() <= _KEYS:
            word = rest or ", ".join(sorted(settings.keys() - _KEYS)) or text
            raise refused(where, f"{word[:60]!r} is nothing of topology.conf", HELP)
        if settings.keys() <= {"blocksizes"}:
            continue
        label = settings.get("blockname") or settings.get("switchname") or ""
        names = hosts_of(label, where)  # a list of one, as Slurm has it
        nodes, below = (hosts_of(settings[k], where) if k in settings else [] for k in ("nodes", "switches"))
        if len(names) != 1 or bool(nodes) == bool(below):
            raise refused(where, f"{label[:60]} needs one name, and hosts or switches below it", HELP)
        switches.append(_Switch(names[0], nodes, below, "blockname" in settings, settings.get("linkspeed", "")))
        if len(switches) > MAX_SWITCHES:
            raise refused(source.name, f"more than {MAX_SWITCHES} switches", "import a part of the cluster")
    return _reading(source.name, switches, options)


def read_slurm_yaml(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a ``topology.yaml``: of its only topology, else of the default one."""
    document = plain_yaml(source.data, source.name)
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise refused(source.name, "no list of topologies", YAML_HELP)
    described = []  # flat topologies have neither switches nor blocks
    for topology in document:
        for plugin, key, kind in (("tree", "switches", "switch"), ("block", "blocks", "block")):
            section = topology.get(plugin)
            if isinstance(section, dict) and isinstance(section.get(key), list):
                described.append((topology.get("cluster_default") is True, kind, section[key]))
                break
    default = [entry for entry in described if entry[0]]
    if not described or (len(described) > 1 and not default):
        what = "no topology of switches or blocks, or several and none is the default"
        raise refused(source.name, what, "keep the one to import, or mark it with cluster_default: true")
    _, kind, entries = (default or described)[0]
    switches = []
    for entry in entries:
        if not isinstance(entry, dict) or not isinstance(entry.get(kind), str):
            raise refused(source.name, f"an entry without `{kind}: NAME`", YAML_HELP)
        label, nodes, below = entry[kind], entry.get("nodes"), entry.get("children", entry.get("switches"))
        if not isinstance(nodes, str | None) or not isinstance(below, str | None) or bool(nodes) == bool(below):
            raise refused(source.name, f"{label[:60]} needs nodes or children, as a host list", HELP)
        where = f"{source.name}: {label[:60]}"
        hosts, lower = hosts_of(nodes, where) if nodes else [], hosts_of(below, where) if below else []
        switches.append(_Switch(label[:200], hosts, lower, kind == "block"))
    return _reading(source.name, switches, options)


def _reading(name: str, switches: list[_Switch], options: ReadOptions) -> Reading:
    """The network; what nothing joins in the file, blocks too, meets in one more switch.

    HS732 unless each switch is described once, every host below one, every switch below at most one.
    """
    hosts = [host for switch in switches for host in switch.nodes]
    if not hosts:
        raise refused(name, "no switch and no block has hosts", HELP)
    above = {below: switch.name for switch in switches for below in switch.switches}
    names = [switch.name for switch in switches]
    below = [lower for switch in switches for lower in switch.switches]
    for kind, words in (("switch", names), ("host", hosts), ("switch below others", below)):
        if len(set(words)) != len(words):
            twice = next(word for word in words if words.count(word) > 1)
            raise refused(name, f"{kind} {twice} is named twice", HELP)
    described = set(names)
    if unknown := [lower for lower in below if lower not in described]:
        raise refused(name, f"switch {unknown[0]} is named and not described", HELP)
    try:
        TopologicalSorter({lower: [upper] for lower, upper in above.items()}).prepare()
    except CycleError as error:
        raise refused(name, "switches hang below each other in a circle", HELP) from error
    trunks = [Trunk(below, switch.name) for switch in switches for below in switch.switches]
    leaves = sum(bool(switch.nodes) for switch in switches)
    remarks = [Remark("found", f"{len(hosts)} hosts below {leaves} switches or blocks")]
    tops = [switch.name for switch in switches if switch.name not in above]
    if len(tops) > 1:
        spine = "spine"
        while spine in {switch.name for switch in switches}:
            spine += "_"
        trunks += [Trunk(top, spine) for top in tops]
        text = "a switch that joins the switches or blocks which nothing joins in the file"
        remarks.append(Remark("assumed", text))
    if any(switch.block for switch in switches):
        text = "a block is a leaf switch; the file does not tell whether NVLink joins it"
        remarks.append(Remark("assumed", text))
    if any(switch.link_speed for switch in switches):
        remarks.append(Remark("found", "LinkSpeed has no unit and is passed over"))
    remarks += without_nvlink(options.node_type)
    attachments = tuple(Attachment(host, switch.name) for switch in switches for host in switch.nodes)
    return Reading(
        network=Network(attachments, tuple(trunks), tuple(remarks), options.uplink, options.oversubscription)
    )


def hosts_of(text: str, name: str) -> list[str]:
    """Return the hosts of ``tux[0-3,12],rack[0-1]node[01-16]`` in order; HS732 for no list or too many hosts."""
    if not re.fullmatch(r"[^\[\]]*(\[[^\[\]]*\][^\[\]]*)*", text):
        raise refused(name, f"{text[:60]!r} has brackets that do not match", HOSTS_HELP)
    words = re.split(r",(?![^\[]*\])", text)
    if not all(words):
        raise refused(name, f"{text[:60]!r} is no host list", HOSTS_HELP)
    hosts: list[str] = []
    for word in words:
        names = hosts_named(word, MAX_HOSTS)
        if not names or re.search(r"[\s\[]", names[0]):
            raise refused(name, f"{word[:60]!r} is no host list", HOSTS_HELP)
        hosts += names
        if len(hosts) > MAX_HOSTS:
            raise refused(name, f"more than {MAX_HOSTS} hosts in one list", "divide it")
    return hosts
