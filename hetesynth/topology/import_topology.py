"""Files that a cluster has -> a topology file: read, joined by a rule, written, read back.

In: sources with how often each stands for a server. Out: the text, the topology it elaborates to, and remarks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.check import demand_agreement, read_back
from hetesynth.topology.importers.fabric import Fabric
from hetesynth.topology.importers.formats import FORMATS
from hetesynth.topology.importers.gpu_models import short_name
from hetesynth.topology.importers.join_network import machines_of_network
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.node_types import file_of, nic_rates
from hetesynth.topology.importers.pcie import gpus_of_nics, with_nic_slots
from hetesynth.topology.importers.reading import ReadOptions, Source, Stated
from hetesynth.topology.importers.readings import network_of, read_in_order, remarks_of, with_hosts
from hetesynth.topology.importers.write_dsl import assumed_figures, cluster_text, demand_rates

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_SERVERS = 4096
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class ImportTopologyRequest:
    """``files``: paths, ``-`` for standard input, each with ``*N`` behind it where it stands for N servers.

    ``sources``: what to read in place of files; ``remarks``: on how they came about; ``nic_rates``: of
    NICs by name, where no file tells them. ``stated``: of files, by their arguments.
    """

    files: tuple[str, ...]
    format: str = ""
    fabric: Fabric | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    name: str = "imported"
    sources: tuple[tuple[Source, int], ...] = ()
    remarks: tuple[Remark, ...] = ()
    nic_rates: Mapping[str, Fraction] = field(default_factory=dict)
    stated: Mapping[str, Stated] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ImportedTopology:
    """``text`` is in the topology language; ``formats``: that of each file."""

    text: str
    topology: Topology
    machines: tuple[Machine, ...]
    remarks: tuple[Remark, ...]
    formats: tuple[str, ...]


def import_topology(request: ImportTopologyRequest) -> ImportedTopology:
    """Read every file and write one text. Raises HetesynthError, which names the flag that would help."""
    if request.options.node_type:
        file_of(request.options.node_type)
    told = read_in_order(request.sources or _sources(request), request.format, request.options)
    formats = tuple(answer.format for answer in told for _ in answer.names)
    if sum(answer.count * len(answer.reading.machines) for answer in told) > MAX_SERVERS:
        raise HetesynthError(f"more than {MAX_SERVERS} servers", code="HS736", help="import a part of them")
    named = [pair for answer in told for pair in answer.named_machines()]
    machines = [machine for _, machine in named]
    remarks = [*request.remarks, *remarks_of(told)]
    fabrics = [answer.reading.fabric for answer in told if answer.reading.fabric is not None]
    fabric = request.fabric or (fabrics[-1] if fabrics else None)
    texts = [(answer.names[0], answer.reading.text) for answer in told if answer.reading.text]
    if texts:
        return _whole(request, texts, machines, remarks, formats)
    if (network := network_of(told)) is not None:
        machines, more = machines_of_network(with_hosts(named, network), network, request.options)
        remarks += more
        fabric = request.fabric or Fabric("network", network=network)
    if not machines:
        raise HetesynthError(
            "no file describes a server", code="HS733", help="add a dump of a server, or name one with --node-type"
        )
    machines = demand_rates([_rated(m, request.nic_rates) for m in machines], request.options.nic_rate)
    machines = [with_nic_slots(machine) for machine in machines]
    remarks += [*_needless(request, machines, networked=network is not None), *_twice(request, machines)]
    remarks.append(
        Remark("assumed", f"links and slots carry what --calibration {request.options.calibration} says")
    )
    remarks += assumed_figures(machines)
    origins = request.files or tuple(dict.fromkeys(formats))
    title = f"Imported from {', '.join(_bare(origin) for origin in origins[:8])}"
    parts = machines, fabric or Fabric("switch"), remarks, request.name, title
    text = cluster_text(*parts)
    topology = read_back(text, f"{request.name}.dsl")
    if request.options.calibration == "nccl":  # less than data sheets say: nothing may take its share again
        kinds = {wire.kind.lower() for wire in topology.wires}
        text = cluster_text(*parts, measured=[kind for kind in ("nvlink", "xgmi", "pcie", "cpu") if kind in kinds])
        topology = read_back(text, f"{request.name}.dsl")
    demand_agreement(topology, machines)
    own = [remark for machine in machines for remark in machine.remarks]
    return ImportedTopology(
        text, topology, tuple(machines), tuple(dict.fromkeys([*remarks, *own])), tuple(formats)
    )


def _rated(machine: Machine, rates: Mapping[str, Fraction]) -> Machine:
    """The machine with the rates of NICs that it lacks and ``rates`` has."""
    nics = (nic if nic.rate else replace(nic, rate=rates.get(nic.name)) for nic in machine.nics)
    return replace(machine, nics=tuple(nics))


def split_count(argument: str) -> tuple[str, int]:
    """``a.xml*4`` as a path and how many servers it stands for."""
    path, star, count = argument.rpartition("*")
    if star and path and count.isascii() and count.isdigit() and len(count) <= 4:
        if not 1 <= int(count) <= MAX_SERVERS:
            raise HetesynthError(
                f"{argument}: 1 to {MAX_SERVERS} servers", code="HS736", help="for example a.xml*4"
            )
        return path, int(count)
    return argument, 1


def _bare(argument: str) -> str:
    path, count = split_count(argument)
    name = "standard input" if path == STANDARD_INPUT else Path(path).name
    return name if count == 1 else f"{name} ({count} servers)"


def _sources(request: ImportTopologyRequest) -> list[tuple[Source, int]]:
    """Every file with how many servers it stands for."""
    inputs = []
    for argument in request.files:
        path, count = split_count(argument)
        name = "standard input" if path == STANDARD_INPUT else Path(path).name
        inputs.append((Source(name, _bytes(path), request.stated.get(argument, Stated())), count))
    return inputs


def _bytes(path: str) -> bytes:
    try:
        if path == STANDARD_INPUT:
            data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
        else:
            if not Path(path).is_file():
                raise OSError("not a regular file" if Path(path).exists() else "no such file")
            with open_regular(Path(path)) as stream:
                data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS737", help="check the path") from error
    if len(data) > MAX_FILE_BYTES:
        raise HetesynthError(
            f"{path} has more than {MAX_FILE_BYTES} bytes", code="HS736", help="import a part of it"
        )
    return data


def _whole(
    request: ImportTopologyRequest,
    texts: Sequence[tuple[str, str]],
    machines: Sequence[Machine],
    remarks: Sequence[Remark],
    formats: tuple[str, ...],
) -> ImportedTopology:
    """A file that describes a whole cluster stands alone."""
    if len(formats) > 1:
        raise HetesynthError(
            f"{texts[0][0]} describes a whole cluster, which cannot be joined with other files",
            code="HS738",
            help="import it by itself",
        )
    topology = read_back(texts[0][1], f"{request.name}.dsl")
    return ImportedTopology(texts[0][1], topology, tuple(machines), tuple(remarks), formats)


def _needless(request: ImportTopologyRequest, machines: Sequence[Machine], *, networked: bool) -> list[Remark]:
    """Options that nothing was taken from, as every file tells what they say."""
    options = request.options
    rates = {rate for machine in machines for rate in nic_rates(machine)}
    models = {gpu.model for machine in machines for gpu in machine.gpus}
    needless = []
    if options.nic_rate is not None and options.nic_rate not in rates:
        needless.append("--nic-rate")
    if options.model and not models & {options.model, short_name(options.model)}:
        needless.append("--model")
    way_out = "; {0} FILE=... overrides what a file tells" if request.files else ""
    text = "{0} is not used, as nothing lacks it" + way_out
    texts = [text.format(option) for option in needless]
    if options.hosts != "*" and not networked:
        texts.append("--hosts is not used, as no file lists the hosts of a network")
    return [Remark("suspicious", text, "warning") for text in texts]


def _twice(request: ImportTopologyRequest, machines: Sequence[Machine]) -> list[Remark]:
    """The same server in two files, and servers that differ in nothing but their slots."""
    remarks = []
    counted = [split_count(file)[1] for file in request.files]
    identities = [m.identity for m in machines if m.identity]
    if len(set(identities)) < len(identities) and all(n == 1 for n in counted):
        text = "two files have the same host_hash: one server dumped twice?"
        remarks.append(Remark("suspicious", text, "warning"))
    kinds: dict[tuple[object, ...], set[tuple[object, ...]]] = {}
    for machine in machines:
        devices = tuple((gpu.model, gpu.arch) for gpu in machine.gpus), tuple(nic.rate for nic in machine.nics)
        slots = (*(gpu.place.rate for gpu in machine.gpus), *(nic.place.rate for nic in machine.nics))
        kinds.setdefault(devices, set()).add(slots)
    if any(len(slots) > 1 for slots in kinds.values()):
        text = "servers with the same GPUs and NICs differ in the rates of their PCIe slots"
        remarks.append(Remark("suspicious", text, "warning"))
    return remarks


def format_names() -> tuple[str, ...]:
    """What --format takes."""
    return tuple(row.name for row in FORMATS)


def document(imported: ImportedTopology, output: Path | None) -> dict[str, object]:
    """The facts for ``--json``."""
    servers = [
        {
            "host": m.host,
            "gpus": len(m.gpus),
            "nics": len(m.nics),
            "nics_used": len(gpus_of_nics(m)),
            "links_per_gpu": [m.links_of(i) for i in range(len(m.gpus))],
            "node_type": m.node_type,
        }
        for m in imported.machines
    ]
    return {
        "formats": list(imported.formats),
        "gpus": imported.topology.ranks,
        "links": len(imported.topology.links),
        "servers": servers,
        "remarks": [{"kind": r.kind, "severity": r.severity, "text": r.text} for r in imported.remarks],
        "output": None if output is None else str(output),
        "text": imported.text if output is None else None,
    }
