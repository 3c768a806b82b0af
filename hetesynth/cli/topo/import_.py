"""``hetesynth topo import``: files that a cluster has to a topology."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import NewPath, json_option, together
from hetesynth.cli.terminal import show, show_json
from hetesynth.files.atomic import write_atomically
from hetesynth.model.words import counted
from hetesynth.topology import import_topology as importing
from hetesynth.topology.import_topology import ImportedTopology, detect_topology, document
from hetesynth.topology.importers.gpu_models import Calibration
from hetesynth.topology.importers.network import parse_fabric
from hetesynth.topology.importers.reading import FORMAT_NAMES, ReadOptions, Stated
from hetesynth.topology.language.units import parse_quantity

_RATES = "What links carry: data sheets, NCCL's figures, or signalling rates."
_shared_options = together(
    click.option("--calibration", type=click.Choice(("spec", "nccl", "raw")), default="spec", help=_RATES),
    click.option("-o", "--output", type=NewPath(), metavar="FILE", help="[default: standard output]"),
    json_option,
)
_FORMAT = "nccl, edges, ... [default: recognized]."
_NET = "Between servers: switch, rails, leafspine:4:2, none [default: switch]."
_NIC_RATE = "Of NICs whose rate no file tells, for example 400Gbps; FILE=RATE: of all NICs of that file."
_HOSTS = "The hosts of a network to take, for example 'gpu*' [default: all]."
_MODEL = "Of the GPUs, where a file does not tell; FILE=NAME: of that file, whatever it tells."


@click.command(name="import")
@click.argument("files", nargs=-1, required=True, metavar="FILE[*N]...")
@click.option("--format", "format_name", type=click.Choice(FORMAT_NAMES), metavar="NAME", help=_FORMAT)
@click.option("--net", metavar="RULE", help=_NET)
@click.option("--node-type", metavar="TYPE", help="Type of the node library, for files without GPUs.")
@click.option("--nic-rate", "nic_rates", metavar="[FILE=]RATE", multiple=True, help=_NIC_RATE)
@click.option("--uplink", metavar="RATE", help="Of a leaf to its spine, where the file does not tell.")
@click.option("--oversubscription", metavar="N", help="Of uplinks: NICs carry N times as much [default: 1].")
@click.option("--hosts", metavar="PATTERN", help=_HOSTS)
@click.option("--topology", metavar="NAME", help="Which of several in one file, for example Slurm's.")
@click.option("--model", "models", metavar="[FILE=]NAME", multiple=True, help=_MODEL)
@_shared_options
def command(
    files: tuple[str, ...],
    format_name: str | None,
    net: str | None,
    models: tuple[str, ...],
    nic_rates: tuple[str, ...],
    output: Path | None,
    as_json: bool,
    **stated: Any,
) -> None:
    """Read FILEs, one for each server (FILE*4: for four alike), and write the cluster in the topology language.

    Remarks say what was assumed and what looks wrong. FILE may be -, standard input.
    """
    model, model_of = importing.values_of_files("--model", models, files)
    rate, rate_of = importing.values_of_files("--nic-rate", nic_rates, files)
    request = importing.ImportTopologyRequest(
        files=files,
        format=format_name or "",
        fabric=None if net is None else parse_fabric(net),
        options=read_options(rate, model, **stated),
        name=output.stem if output else "imported",
        stated={
            file: Stated(
                importing.model_name(model_of[file]) if file in model_of else "",
                _rate(rate_of.get(file), "--nic-rate"),
            )
            for file in {**model_of, **rate_of}
        },
    )
    show_imported(importing.import_topology(request), output, as_json=as_json)


def show_imported(imported: ImportedTopology, output: Path | None, *, as_json: bool) -> None:
    """Write the text and print the facts."""
    if output is not None:
        write_atomically(output, imported.text.encode())
    if as_json:
        show_json(document(imported, output))
        return
    if output is None:
        show(imported.text.rstrip("\n"))
    for remark in imported.remarks:
        show(f"{'warning' if remark.severity == 'warning' else remark.kind}: {remark.text}", err=True)
    if output is not None:
        gpus = imported.topology.ranks
        servers = len({vertex.server for vertex in imported.topology.vertices[:gpus]})
        show(f"{output}: {counted(gpus, 'GPU')} on {counted(servers, 'server')}", err=True)


def read_options(
    nic_rate: str | None,
    model: str | None,
    calibration: Calibration,
    node_type: str | None = None,
    uplink: str | None = None,
    oversubscription: str | None = None,
    hosts: str | None = None,
    topology: str | None = None,
) -> ReadOptions:
    """Return the options that the user states beside the files."""
    rate, above = _rate(nic_rate, "--nic-rate"), _rate(uplink, "--uplink")
    ratio = importing.oversubscribed(oversubscription or "1")
    name = "" if model is None else importing.model_name(model)
    fits = "*" if hosts is None else hosts
    return ReadOptions(calibration, rate, name, node_type or "", above, ratio, fits, topology or "")


def _rate(text: str | None, option: str) -> Fraction | None:
    return None if text is None else parse_quantity(text, "bandwidth", option)


@click.command(name="detect")
@click.option("--fabric", is_flag=True, help="Also run ibnetdiscover, and take its hosts to be like this one.")
@click.option("--hosts", metavar="PATTERN", help=f"With --fabric: {_HOSTS}")
@click.option("--nic-rate", metavar="RATE", help="Of every NIC that tells none, for example 400Gbps.")
@click.option("--model", metavar="NAME", help="Of the GPUs, where no tool tells.")
@_shared_options
def detect(fabric: bool, output: Path | None, as_json: bool, **stated: Any) -> None:
    """Run nvidia-smi, amd-smi, rocm-smi or lstopo, whichever is there, and write this machine as a topology."""
    options = read_options(**stated)
    name = output.stem if output else "detected"
    show_imported(detect_topology(options, fabric=fabric, name=name), output, as_json=as_json)
