"""Files that a cluster has -> a topology file: read, joined by a rule, written, read back."""

import re
import socket
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path, PurePath

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import read_regular
from hetesynth.model.calibration import CALIBRATIONS
from hetesynth.model.topology import Topology
from hetesynth.topology.importers.detect import FABRIC, detect, nic_rates_of_ports
from hetesynth.topology.importers.gpu_models import PART, short_name
from hetesynth.topology.importers.machine import Machine, Remark, gpus_of_nics
from hetesynth.topology.importers.network import Fabric, file_of, machines_of_network, nic_rates
from hetesynth.topology.importers.reading import ReadOptions, Source, Stated, read_in_order
from hetesynth.topology.importers.write_dsl import assumed_figures, cluster_text, demand_rates
from hetesynth.topology.language import parse_topology

MAX_FILE_BYTES = 64 * 1024 * 1024
MAX_SERVERS = 4096
MAX_MODEL = 40
STANDARD_INPUT = "-"


@dataclass(frozen=True, slots=True)
class ImportTopologyRequest:
    """``files``: paths, ``-`` for standard input, each with ``*N`` behind it where it stands for N servers."""

    files: tuple[str, ...]
    format: str = ""
    fabric: Fabric | None = None
    options: ReadOptions = field(default_factory=ReadOptions)
    name: str = "imported"
    sources: tuple[tuple[Source, int], ...] = ()  # in place of files
    remarks: tuple[Remark, ...] = ()  # on how they came about
    nic_rates: Mapping[str, Fraction] = field(default_factory=dict)  # by name, where no file tells them
    stated: Mapping[str, Stated] = field(default_factory=dict)  # of files, by their arguments


@dataclass(frozen=True, slots=True)
class ImportedTopology:
    """``text`` is in the topology language; ``formats``: that of each file."""

    text: str
    topology: Topology
    machines: tuple[Machine, ...]
    remarks: tuple[Remark, ...]
    formats: tuple[str, ...]


def detect_topology(options: ReadOptions, *, fabric: bool, name: str = "detected") -> ImportedTopology:
    """Import what the machine's own tools print; with ``fabric`` also the network that ibnetdiscover sees."""
    sources, remarks = detect()
    if fabric:  # the network knows this machine by its name
        seen, more = detect(FABRIC)
        host = socket.gethostname().split(".")[0]
        sources = [replace(source, name=f"{host}.{source.name.split()[0]}") for source in (*sources, *seen)]
        remarks += more
    rates, pairs = nic_rates_of_ports(), tuple((source, 1) for source in sources)
    request = ImportTopologyRequest((), "", None, options, name, pairs, tuple(remarks), rates)
    return import_topology(request)


def import_topology(request: ImportTopologyRequest) -> ImportedTopology:
    """Read every file and write one text. Raises HetesynthError, which names the flag that would help."""
    options = request.options
    if options.node_type:
        file_of(options.node_type)
    inputs = request.sources or _sources(request)
    readings = read_in_order(inputs, request.format, options)
    formats = tuple(reading.format for reading in readings for _ in reading.names)
    named = [pair for reading in readings for pair in reading.named_machines()]
    if len(named) > MAX_SERVERS:
        raise HetesynthError(f"more than {MAX_SERVERS} servers", code="HS736", help="import a part of them")
    machines = [machine for _, machine in named]
    remarks = [*request.remarks, *(remark for reading in readings for remark in reading.remarks)]
    texts = [(reading.names[0], reading.text) for reading in readings if reading.text]
    if texts:
        if len(formats) > 1 or (readings[0].count > 1 and formats != ("taccl",)):
            what = f"{texts[0][0]} describes a whole cluster, which cannot be joined with other files"
            raise HetesynthError(what, code="HS738", help="import it by itself")
        text = texts[0][1]
        return ImportedTopology(text, _read_back(text, request.name), (), tuple(remarks), formats)
    networks = [(reading.names[0], reading.network) for reading in readings if reading.network is not None]
    if len(networks) > 1:
        what = f"{networks[0][0]} and {networks[1][0]} both describe the network between servers"
        help_ = "give one of them: ibnetdiscover tells more than Slurm's files"
        raise HetesynthError(what, code="HS742", help=help_)
    fabric = request.fabric or Fabric("switch")
    for _, network in networks:
        hosts = {host.split(".")[0].lower(): host for host in network.hosts}
        hosted = []  # machines without a host get that of their file's name, if the network has it
        for name, machine in named:
            stem = PurePath(name).name.split(".")[0].lower()
            hosted.append(replace(machine, host=machine.host or hosts.get(stem, "")))
        machines, more = machines_of_network(hosted, network, options.hosts, options.node_type)
        remarks += more
        fabric = request.fabric or Fabric("network", network=network)
    if not machines:
        help_ = "add a dump of a server, or name one with --node-type"
        raise HetesynthError("no file describes a server", code="HS733", help=help_)
    machines = demand_rates(machines, request.nic_rates, options.nic_rate)
    remarks += _doubts(request, machines)
    remarks.append(Remark("assumed", f"links and slots carry what --calibration {options.calibration} says"))
    remarks += assumed_figures(machines)
    origins = [source.name if count == 1 else f"{source.name} ({count} servers)" for source, count in inputs]
    origins = list(dict.fromkeys(formats)) if request.sources else origins
    title = f"Imported from {', '.join(origins[:8])}"
    text = cluster_text(machines, fabric, remarks, request.name, title)
    topology = _read_back(text, request.name)
    if options.calibration == "nccl":  # less than data sheets say: nothing may take its share again
        kinds = {wire.kind.lower() for wire in topology.wires}
        counted = dict.fromkeys(prefix for prefix, _, _ in CALIBRATIONS["nccl"].factors)
        measured = [kind for kind in counted if kind in kinds]
        text = cluster_text(machines, fabric, remarks, request.name, title, *measured)
        topology = _read_back(text, request.name)
    _demand_agreement(topology, machines)
    own = [remark for machine in machines for remark in machine.remarks]
    return ImportedTopology(text, topology, tuple(machines), tuple(dict.fromkeys([*remarks, *own])), formats)


def split_count(argument: str) -> tuple[str, int]:
    """Return ``a.xml*4`` as a path and how many servers it stands for."""
    path, star, count = argument.rpartition("*")
    if star and path and count.isascii() and count.isdigit() and len(count) <= 4:
        if not 1 <= int(count) <= MAX_SERVERS:
            what = f"{argument}: 1 to {MAX_SERVERS} servers"
            raise HetesynthError(what, code="HS736", help="for example a.xml*4")
        return path, int(count)
    return argument, 1


def _sources(request: ImportTopologyRequest) -> list[tuple[Source, int]]:
    """Return every file with the number of servers that it stands for."""
    inputs = []
    for argument in request.files:
        path, count = split_count(argument)
        try:
            if path == STANDARD_INPUT:
                data = sys.stdin.buffer.read(MAX_FILE_BYTES + 1)
                if len(data) > MAX_FILE_BYTES:
                    raise ValueError("it is too large")
            else:
                data = read_regular(Path(path), MAX_FILE_BYTES)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise HetesynthError(f"cannot read {path}: {reason}", code="HS737", help="check the path") from error
        name = "standard input" if path == STANDARD_INPUT else Path(path).name
        inputs.append((Source(name, data, request.stated.get(argument, Stated())), count))
    return inputs


def _read_back(text: str, name: str) -> Topology:
    """Return the topology of ``text``. Raise HS735 if the frontend refuses it, or a GPU is a part of one."""
    try:
        topology = parse_topology(text, f"{name}.dsl")
    except HetesynthError as error:
        what = f"what was read is no cluster that the topology language can say: {error.message}"
        help_ = error.help or "import a dump of one server at a time and join them by hand"
        raise HetesynthError(what, code="HS735", help=help_) from error
    parts = sorted({vertex.model for vertex in topology.vertices if PART.search(vertex.model)})
    if parts:
        what = f"{', '.join(parts[:4])} is a part of a GPU (MIG), which has neither NVLink nor peers"
        raise HetesynthError(what, code="HS735", help="take the file with MIG off, or state the GPU with --model")
    return topology


def _demand_agreement(topology: Topology, machines: Sequence[Machine]) -> None:
    """Raise HetesynthError HS735 unless the topology has the GPUs, NICs and direct lanes of ``machines``."""
    if any(machine.node_type for machine in machines):
        return  # what the library has is checked by its own tests
    direct = (wire.lanes for wire in topology.wires if max(wire.src, wire.dst) < topology.ranks)
    written = (topology.ranks, sum(vertex.kind == "nic" for vertex in topology.vertices), sum(direct))
    read = (
        sum(len(machine.gpus) for machine in machines),
        sum(len(gpus_of_nics(machine)) for machine in machines),
        2 * sum(link.count for machine in machines for link in machine.links),
    )
    if written != read:
        what = f"the text that was made has {written} GPUs, NICs and direct links, the files have {read}"
        help_ = "this is a bug in hetesynth: please report it with the files"
        raise HetesynthError(what, code="HS735", help=help_)


def _doubts(request: ImportTopologyRequest, machines: Sequence[Machine]) -> list[Remark]:
    """Return remarks on needless options, whose figures every file tells, and on servers of unlike slots."""
    options = request.options
    rates = {rate for machine in machines for rate in nic_rates(machine)}
    models = {gpu.model for machine in machines for gpu in machine.gpus}
    needless = {
        "--nic-rate": options.nic_rate is not None and options.nic_rate not in rates,
        "--model": bool(options.model) and not models & {options.model, short_name(options.model)},
    }
    texts = [
        f"{option} is not used, as nothing lacks it; {option} FILE=... overrides what a file tells"
        for option, is_needless in needless.items()
        if is_needless
    ]
    kinds: dict[object, set[object]] = defaultdict(set)
    for m in machines:
        slots = (*(gpu.place.rate for gpu in m.gpus), *(nic.place.rate for nic in m.nics))
        kinds[tuple((gpu.model, gpu.arch) for gpu in m.gpus), tuple(nic.rate for nic in m.nics)].add(slots)
    if any(len(slots) > 1 for slots in kinds.values()):
        texts.append("servers with the same GPUs and NICs differ in the rates of their PCIe slots")
    return [Remark("suspicious", text) for text in texts]


def document(imported: ImportedTopology, output: Path | None) -> dict[str, object]:
    """Return the facts for ``--json``."""
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


def values_of_files(option: str, values: Sequence[str], files: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """Return the value for all files, and those for one: ``FILE=VALUE``, FILE as given or without its folder."""
    everywhere: list[str] = []
    of: dict[str, str] = {}
    for value in values:
        file, equals, text = value.rpartition("=")
        paths = {one: split_count(one)[0] for one in files}
        named = [one for one, path in paths.items() if file in (one, path)]
        named = named or [one for one, path in paths.items() if PurePath(path).name == file]
        is_wrong = not named or of.keys() & set(named) if equals else everywhere
        if is_wrong:
            what = f"{option} {value[:80]!r} names no file that is imported, or is a second value for the same"
            help_ = f"state one, for all files or one of: {', '.join(files[:8])}"
            raise HetesynthError(what, code="HS736", help=help_)
        everywhere += [] if equals else [text]
        of |= dict.fromkeys(named if equals else (), text)
    return next(iter(everywhere), None), of


def model_name(text: str) -> str:
    """Return ``text`` if it can stand in a string of the language; HetesynthError HS736."""
    if not text or len(text) > MAX_MODEL or not text.isprintable() or '"' in text or "\\" in text:
        what = f"--model {text[:MAX_MODEL]!r} cannot be a name"
        raise HetesynthError(what, code="HS736", help="for example --model H20")
    return text


def oversubscribed(text: str) -> Fraction:
    """Return the value of --oversubscription: a number of 1 or more, or ``2:1``; HetesynthError HS736."""
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(?::([1-9][0-9]{0,3}))?", text)
    ratio = Fraction(match[1]) / int(match[2] or 1) if match else Fraction(0)
    if ratio < 1:
        what = f"--oversubscription {text[:40]!r} is no number of 1 or more"
        raise HetesynthError(what, code="HS736", help="for example 2 or 2:1")
    return ratio
