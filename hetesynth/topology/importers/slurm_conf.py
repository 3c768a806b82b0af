"""Slurm's ``topology.conf`` and ``topology.yaml``: which hosts hang below which switches, or stand in which block.

Neither says how fast anything is: LinkSpeed is a word without a unit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hetesynth.topology.importers.hostlist import hosts_of
from hetesynth.topology.importers.plain_yaml import plain_yaml
from hetesynth.topology.importers.tool_text import lines_of, refused

MAX_SWITCHES = 10_000
HELP = "see Slurm's manual of topology.conf: SwitchName=s0 Nodes=node[0-3], SwitchName=top Switches=s[0-1]"

_SETTING = re.compile(r"(\w{1,40})=(\"[^\"]{0,8000}\"|\S{1,8000})")
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}


@dataclass(frozen=True, slots=True)
class SlurmSwitch:
    """A switch, or a block (``block``): the hosts and the switches below it."""

    name: str
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    link_speed: str = ""
    block: bool = False

    def __post_init__(self) -> None:
        if self.nodes and self.switches:
            raise ValueError(f"{self.name} has hosts and switches below it")


@dataclass(frozen=True, slots=True)
class SlurmTopology:
    """The switches of a file, each named once, every host below one, every switch below at most one."""

    switches: tuple[SlurmSwitch, ...]

    def __post_init__(self) -> None:
        names = [switch.name for switch in self.switches]
        hosts = [host for switch in self.switches for host in switch.nodes]
        below = [name for switch in self.switches for name in switch.switches]
        for kind, words in (("switch", names), ("host", hosts), ("switch below others", below)):
            if len(set(words)) != len(words):
                twice = next(word for word in words if words.count(word) > 1)
                raise ValueError(f"{kind} {twice} is named twice")
        described = set(names)
        if unknown := [name for name in below if name not in described]:
            raise ValueError(f"switch {unknown[0]} is named and not described")
        if (names and set(below) == set(names)) or _in_circle(self.switches):
            raise ValueError("switches hang below each other in a circle")

    @property
    def leaves(self) -> tuple[SlurmSwitch, ...]:
        """The switches and blocks that have hosts."""
        return tuple(switch for switch in self.switches if switch.nodes)

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host, in the order of the file."""
        return tuple(host for switch in self.switches for host in switch.nodes)


def _in_circle(switches: Sequence[SlurmSwitch]) -> bool:
    """Whether a switch is below itself."""
    above = {name: switch.name for switch in switches for name in switch.switches}
    checked: set[str] = set()
    for switch in switches:
        name, chain = switch.name, set[str]()
        while name in above and name not in checked:
            if name in chain:
                return True
            chain.add(name)
            name = above[name]
        checked |= chain
    return False


def read_conf(data: bytes, name: str) -> SlurmTopology:
    """The switches of ``topology.conf``."""
    switches: list[SlurmSwitch] = []
    continued = ""
    for number, line in enumerate(lines_of(data, name), 1):
        text = continued + line.split("#")[0].strip()
        continued = text[:-1] + " " if text.endswith("\\") else ""
        if text and not continued:
            switches += _switches(text, f"{name}: line {number}")
        if len(switches) > MAX_SWITCHES:
            raise refused(name, f"more than {MAX_SWITCHES} switches", "import a part of the cluster")
    return _topology(switches, name)


def _switches(text: str, where: str) -> list[SlurmSwitch]:
    """The switches that a line describes; SwitchName may be a list if nothing else differs, as Slurm has it."""
    settings = {match[1].lower(): match[2].strip('"') for match in _SETTING.finditer(text)}
    rest = _SETTING.sub("", text).strip()
    if rest or not settings or not settings.keys() <= _KEYS:
        word = rest or ", ".join(sorted(settings.keys() - _KEYS)) or text
        raise refused(where, f"{word[:60]!r} is nothing of topology.conf", HELP)
    if settings.keys() <= {"blocksizes"}:
        return []
    block = "blockname" in settings
    label = settings.get("blockname") or settings.get("switchname") or ""
    names = hosts_of(label, where)
    nodes = hosts_of(settings["nodes"], where) if "nodes" in settings else []
    below = hosts_of(settings["switches"], where) if "switches" in settings else []
    if len(names) != 1 or not (nodes or below) or (nodes and below):
        raise refused(where, f"{label[:60]} needs one name, and hosts or switches below it", HELP)
    return [SlurmSwitch(names[0], tuple(nodes), tuple(below), settings.get("linkspeed", "")[:40], block)]


def _topology(switches: Sequence[SlurmSwitch], name: str) -> SlurmTopology:
    """The topology, or HS732 with what is wrong in it."""
    if not any(switch.nodes for switch in switches):
        raise refused(name, "no switch and no block has hosts", HELP)
    try:
        return SlurmTopology(tuple(switches))
    except ValueError as error:
        raise refused(name, str(error), HELP) from error


def read_yaml(data: bytes, name: str) -> SlurmTopology:
    """The switches of ``topology.yaml``: of its only topology, else of the default one."""
    document = plain_yaml(data, name)
    if not isinstance(document, list) or not all(isinstance(entry, dict) for entry in document):
        raise refused(name, "no list of topologies", "see Slurm's manual of topology.yaml")
    described = [entry for entry in document if _section(entry)]
    default = [entry for entry in described if entry.get("cluster_default") is True]
    if not described or (len(described) > 1 and not default):
        raise refused(name, "no topology of switches or blocks, or several and none is the default",
            "keep the one to import, or mark it with cluster_default: true")  # fmt: skip
    kind, entries = _section((default or described)[0]) or ("", [])
    return _topology([_entry(entry, kind, name) for entry in entries], name)


def _section(entry: Mapping[str, Any]) -> tuple[str, list[Any]] | None:
    """("switch" or "block", what is listed there) of a topology; None for flat ones."""
    for plugin, key in (("tree", "switches"), ("block", "blocks")):
        section = entry.get(plugin)
        if isinstance(section, dict) and isinstance(section.get(key), list):
            return key.removesuffix("es" if key == "switches" else "s"), section[key]
    return None


def _entry(entry: object, kind: str, name: str) -> SlurmSwitch:
    """A switch or block of a YAML file."""
    if not isinstance(entry, dict) or not isinstance(entry.get(kind), str):
        raise refused(name, f"an entry without `{kind}: NAME`", "see Slurm's manual of topology.yaml")
    label, nodes, below = entry[kind], entry.get("nodes"), entry.get("children", entry.get("switches"))
    if not isinstance(nodes, str | None) or not isinstance(below, str | None) or bool(nodes) == bool(below):
        raise refused(name, f"{label[:60]} needs nodes or children, as a host list", HELP)
    where = f"{name}: {label[:60]}"
    return SlurmSwitch(
        label[:200],
        tuple(hosts_of(nodes, where) if nodes else ()),
        tuple(hosts_of(below, where) if below else ()),
        block=kind == "block",
    )  # fmt: skip
