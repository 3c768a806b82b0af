"""``init``: the first topology of a newcomer, to be edited: a file with comments that is a whole topology."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import visible

FILE_NAME = "topo.dsl"
MAX_SERVERS = 1024  # as many as a statement may have


@dataclass(frozen=True, slots=True)
class FirstTopology:
    """The content of the file. ``remark``: a hint for servers whose GPUs are joined only outside of them."""

    cluster: str
    node_type: str
    servers: int
    remark: str
    text: str


def first_topology(place: Path, node_type: str, servers: int | None, hosts: str) -> tuple[Path, FirstTopology]:
    """Return the path of the file and its content. Raise HS644 if it exists, HS645 for wrong hosts."""
    from hetesynth.topology.language.library import library_type, types_of

    path = place if place.suffix == ".dsl" and not place.is_dir() else place / FILE_NAME
    if os.path.lexists(path):
        help_ = "init never replaces a file: name another place, or edit it"
        raise HetesynthError(f"{str(path)!r} exists", code="HS644", help=help_)
    entry = library_type(node_type)
    groups = _groups(hosts)
    is_pod = entry.sort == "pod"
    total = sum(size for _, size in groups) or (2 if servers is None else servers)
    if groups and (is_pod or servers not in (None, total)):
        message = f"{total} hosts for {'a pod of several' if is_pod else servers} servers"
        raise HetesynthError(message, code="HS645", help="each host is a server: leave --servers out, take no pod")
    remark = ""
    if not entry.inside:  # the pod of the same file that is made of such servers
        rack = next((one.name for one in types_of(entry.library) if one.sort == "pod"), "a pod of your own")
        remark = f"nothing joins the GPUs inside a {entry.name}; a rack with NVLink is {rack}"
    names: list[str] = []
    lines: list[str] = []
    for of, size in groups or [("", total)]:  # a statement for servers whose hosts are written together
        first = sum(number for _, number in groups[: len(names)])
        names.append(f"a[{first}-{first + size - 1}]" if size > 1 else f"a{first}" if len(groups) > 1 else "a")
        lines.append(f"  instance {names[-1]} = {entry.name}" + (f' {{ host "{of}" }}' if of else ""))
    one = f"{names[0].partition('[')[0]}0" if "[" in names[0] else names[0]
    nics, gpu = ("*.*.nic*", f"{one}.t0.gpu3") if is_pod else ("*.nic*", f"{one}.gpu3")
    fabric = f"fabric ib {{ join {nics}; latency 1.3 us }}"
    more = ""
    if not is_pod and not groups:  # the same instances with hosts
        host = "node17" if total == 1 else f"node[10-{9 + total}]"
        more = _HOSTS.format(hint=f'instance {names[0]} = {entry.name} {{ host "{host}" }}')
    stem = path.stem if path.name != FILE_NAME else path.resolve().parent.name
    name = re.sub(r"[^A-Za-z0-9_]+", "_", stem).strip("_")[:40]
    name = name if name and name[0].isalpha() else f"cluster_{name}".rstrip("_")
    text = _TEXT.format(
        cluster=name,
        file=visible(path.name),
        library=entry.library,
        model=entry.model,
        type=entry.name,
        instances="\n".join([*([f"  # {remark[0].upper()}{remark[1:]}."] if remark else []), *lines]),
        hosts=more,
        network=fabric if total > 1 or remark else f"# {fabric}",
        gpu=gpu,
        nics=nics.replace("*.", f"{one}.", 1),
    )
    return path, FirstTopology(name, entry.name, total, remark, text)


def write_first_topology(path: Path, first: FirstTopology) -> None:
    """Write the file; its folder is made where it is absent."""
    from hetesynth.files.atomic import write_atomically

    path.parent.mkdir(exist_ok=True)
    write_atomically(path, first.text.encode())


_HOSTS = """
  # The machines behind them, for `hetesynth topo ranks`, which writes hostfiles:
  #   {hint}
"""

_TEXT = """\
# The cluster {cluster}: written by `hetesynth init` to be edited. What begins with # is a comment.
#
# Its links and their rates, which rank is which GPU, and programs for a collective:
#   hetesynth topo show {file}
#   hetesynth topo ranks {file}
#   hetesynth synth {file} --coll allreduce --size 64MB -o ar

# The types of servers, here with {model}. `hetesynth topo library` lists all types, and with the name of one
# ({type}) shows it with the sources of its figures. Servers of your own: `node` in dsl/reference.md.
import {library}

cluster {cluster} {{
  # Servers. Ranks are their GPUs in this order. For servers of another type import it and add a line.
{instances}
{hosts}
  # The network that the NICs are plugged into. It blocks nothing: only NICs limit. For leaves and spines see
  # section 2.7 of dsl/reference.md.
  {network}

  # What differs from the data sheet:
  #   set {nics} {{ bandwidth 100 Gbps }}    # NICs of another rate
  #   disable {gpu}                    # a GPU that is out of order
}}
"""


def _groups(hosts: str) -> list[tuple[str, int]]:
    """Return the hosts that are written together, with their number: ``node[10-13]`` is four, ``node17`` one."""
    from hetesynth.topology.language.names import hosts_named

    groups = []
    for word in (part.strip() for part in re.split(r",(?![^\[]*\])", hosts) if part.strip()):
        names = hosts_named(word)
        if not 1 <= len(names) <= MAX_SERVERS or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", names[0]):
            what, help_ = f"{word[:60]!r} is no name of hosts", 'write node17,node18 or "node[10-13]"'
            raise HetesynthError(what, code="HS645", help=help_)
        groups.append((word, len(names)))
    return groups
