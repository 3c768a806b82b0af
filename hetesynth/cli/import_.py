"""``hetesynth import``: anybody's MSCCL XML, or a schedule, back into the compiler."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import (
    TOPOLOGY,
    Output,
    chunking_options,
    json_option,
    root_option,
    single_root_option,
    targets_of,
    targets_option,
)
from hetesynth.cli.terminal import show
from hetesynth.search.chunking import ROUNDINGS


@click.command(name="import", short_help="Turn an MSCCL XML into a schedule, and into files for other targets.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--topo", "topology", type=TOPOLOGY, help="Map the transfers to the links of this cluster.")
@topology_losses
@click.option("--chunk-size", metavar="SIZE", help="With --topo: for example 4MB [default: the topology's].")
@click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", show_default=True, help="See synth.")
@click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", show_default=True, help="See synth.")
@root_option
@targets_option("Runtime to write programs for as well [default: none]")
@single_root_option
@click.option(
    "-o", "--output", type=Output(path_type=Path), metavar="NAME|FILE.schedule.json|DIRECTORY",
    help="Where to write [default: FILE-imported here].",
)  # fmt: skip
@json_option
def command(
    file: Path,
    topology: os.PathLike[str] | None,
    root: int | None,
    targets: tuple[str, ...],
    single_root: bool,
    output: Path | None,
    as_json: bool,
    **chunking: Any,
) -> None:
    """Read FILE, an MSCCL XML or a schedule JSON, and write what it moves as a schedule.

    The file is judged first, the schedule before it is written. Without --topo the links are those that the file
    uses, as wide as it needs; with --topo they are the cluster's, the steps stretch to its capacities, and the
    report compares them with the lower bound. Exits 1 when the file is wrong or no schedule can say what it does.
    """
    from hetesynth.cli.render.import_file import import_report, import_summary
    from hetesynth.cli.synth import check_folder, named_stem
    from hetesynth.engine import import_file as importing

    request = importing.ImportRequest(
        path=file,
        topology=topology,
        root=root,
        single_root=single_root,
        chunking=chunking_options(**chunking),
        targets=targets_of(targets) if targets else (),
    )
    check_folder(output)
    imported = importing.import_file(request)
    stem = (output or Path()) / f"{_bare(file)}-imported"
    stem = named_stem(output, list(imported.files)) or stem
    paths = importing.write(imported, stem)
    if as_json:
        show(json.dumps(import_summary(imported, paths), indent=2))
    else:
        show(import_report(imported, paths))


def _bare(file: Path) -> str:
    return file.name.removesuffix(".xml").removesuffix(".json").removesuffix(".schedule")
