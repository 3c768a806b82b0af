"""``hetesynth import``: anybody's MSCCL XML, or a schedule, back into the compiler."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth import api
from hetesynth.cli.options import (
    TOPOLOGY,
    Output,
    json_option,
    root_option,
    single_root_option,
    targets_option,
    topology_losses,
)
from hetesynth.cli.synth_report import warning_lines
from hetesynth.cli.terminal import show
from hetesynth.model.words import counted
from hetesynth.search.chunking import ROUNDINGS

if TYPE_CHECKING:
    from hetesynth.engine.import_file import Imported


@click.command(name="import")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--topo", "topology", type=TOPOLOGY, help="Map the transfers to the links of this cluster.")
@topology_losses
@click.option("--chunk-size", metavar="SIZE", help="With --topo: for example 4MB [default: the topology's].")
@click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", show_default=True, help="See synth.")
@click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", show_default=True, help="See synth.")
@root_option
@targets_option("Runtime to write programs for as well [default: none]", "target")
@single_root_option
@click.option(
    "-o",
    "--output",
    type=Output(path_type=Path),
    metavar="NAME|FILE.schedule.json|DIRECTORY",
    help="Where to write [default: FILE-imported here].",
)
@json_option
def command(
    file: Path, topology: os.PathLike[str] | None, output: Path | None, as_json: bool, **options: Any
) -> None:
    """Read FILE, an MSCCL XML or a schedule JSON, and write what it moves as a schedule.

    The file is judged first, the schedule before it is written. Without --topo the links are those that the file
    uses, as wide as it needs; with --topo they are the cluster's, the steps stretch to its capacities, and the
    report compares them with the lower bound. Exits 1 when the file is wrong or no schedule can say what it does.
    """
    api.check_folder(output)
    imported = api.import_file(file, topology, **options)
    bare = file.name.removesuffix(".xml").removesuffix(".json").removesuffix(".schedule")
    stem = api.output_stem(output, list(imported.files)) or (output or Path()) / f"{bare}-imported"
    paths = api.write(imported, stem)
    document = import_summary(imported, paths)
    show(json.dumps(document, indent=2) if as_json else import_report(imported, document))


def import_summary(imported: Imported, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``import --json`` prints. Scripts depend on these names; null: does not apply."""
    collective, lifted, certificate = imported.problem.collective, imported.lifted, imported.certificate
    return {
        "file": str(imported.request.path),
        "kind": imported.kind,
        "name": imported.name,
        "collective": collective.name,
        "ranks": collective.ranks,
        "chunks": collective.chunks_per_rank,
        "root": collective.root,
        "steps": imported.schedule.makespan,
        "transfers": len(imported.schedule.transfers),
        "crossings": None if lifted is None else lifted.arrivals,
        "dropped": None if lifted is None else lifted.dropped,
        "pieces": 1 if lifted is None else lifted.pieces,
        "widest_link": max((arc.capacity for arc in imported.problem.arcs), default=0),
        "cluster": None if imported.chunking is None else imported.chunking.topology.name,
        "lower_bound": None if certificate is None else certificate.bound.steps,
        "bound_method": None if certificate is None else certificate.bound.method,
        "bound_proof": None if certificate is None else certificate.bound.proof,
        "gap": None if certificate is None else certificate.gap,
        "proven_optimal": None if certificate is None else certificate.proven_optimal,
        "programs": {suffix: list(program.notes) for suffix, program in imported.programs.items()},
        "outputs": [str(path) for path in paths],
        "warnings": [warned.plain() for warned in imported.warnings],
    }


def import_report(imported: Imported, document: dict[str, Any]) -> str:
    """Return the short report after ``import``."""
    root = "" if document["root"] is None else f", root {document['root']}"
    lines = [
        f"{document['file']}: {document['collective']}, {document['ranks']} ranks, "
        f"{counted(document['chunks'], 'chunk')} per rank{root}",
        f"  steps        {document['steps']}  ({counted(document['transfers'], 'transfer')})",
    ]
    if document["crossings"] is not None:
        dropped = f", {document['dropped']} not needed and left out" if document["dropped"] else ""
        lines.append(f"  {document['kind']:<12} {document['crossings']} chunks cross{dropped}")
        if document["pieces"] > 1:
            pieces = f"each of the file's is {document['pieces']} here, so that they divide among the ranks"
            lines.append(f"  chunks       {pieces}")
    links = len(imported.problem.arcs)
    if document["lower_bound"] is None:
        widest = counted(document["widest_link"], "chunk")
        lines.append(f"  links        the {links} it uses, up to {widest} per step; --topo for real ones")
    else:
        gap = "proven optimal" if document["proven_optimal"] else f"at most {document['gap']} from optimal"
        lines.append(f"  links        {links} of {document['cluster']}")
        lines.append(f"  lower bound  {document['lower_bound']}  {document['bound_proof']}; {gap}")
    executed = ", every program executed" if document["programs"] else ""
    lines += [
        f"  verified     schedule replayed{executed}",
        *(f"  {suffix}: {note}" for suffix, notes in document["programs"].items() for note in notes),
        *(f"  wrote        {path}" for path in document["outputs"]),
        *warning_lines(imported.warnings),
    ]
    return "\n".join(lines)
