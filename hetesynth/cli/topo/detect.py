"""``hetesynth topo detect``: the machine that it runs on as a topology."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.topo.import_ import read_options, show_imported


@click.command(name="detect", short_help="Make a topology of this machine.")
@click.option("--fabric", is_flag=True, help="Also run ibnetdiscover, and take its hosts to be like this one.")
@click.option(
    "--hosts", metavar="PATTERN", help="With --fabric: the hosts to take, for example 'gpu*' [default: all]."
)
@click.option("--nic-rate", metavar="RATE", help="Of every NIC that tells none, for example 400Gbps.")
@click.option("--model", metavar="NAME", help="Of the GPUs, where no tool tells.")
@click.option(
    "--calibration", type=click.Choice(("spec", "nccl", "raw")), default="spec", show_default=True,
    help="What links carry: data sheets, NCCL's figures, or signalling rates.",
)  # fmt: skip
@click.option("-o", "--output", type=NewPath(path_type=Path), metavar="FILE", help="[default: standard output]")
@json_option
def command(fabric: bool, output: Path | None, as_json: bool, **stated: Any) -> None:
    """Run nvidia-smi, amd-smi, rocm-smi or lstopo, whichever is there, and write this machine as a topology."""
    from hetesynth.topology.import_topology import detect_topology

    options = read_options(**stated)
    name = output.stem if output else "detected"
    show_imported(detect_topology(options, fabric=fabric, name=name), output, as_json=as_json)
