"""``hetesynth import``: anybody's MSCCL XML, or a schedule, back into the compiler."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.synth_report import warning_lines
from hetesynth.cli.terminal import answer
from hetesynth.engine.places import check_folder, named_stem
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.engine.import_file import Imported

_OUTPUT = "Where to write [default: FILE-imported here]."


@click.command(name="import")
@click.argument("file", type=shared.FILE)
@click.option("--topo", "topology", type=shared.FILE, help="Map the transfers to the links of this cluster.")
@shared.topology_losses
@shared.chunking_options
@shared.root_option
@shared.targets_option("Runtime to write programs for as well [default: none]")
@shared.single_root_option
@shared.always_option
@click.option("-o", "--output", type=shared.Output(), metavar="NAME|FILE.schedule.json|DIRECTORY", help=_OUTPUT)
@shared.json_option
def command(
    file: Path, topology: os.PathLike[str] | None, output: Path | None, as_json: bool, **options: Any
) -> None:
    """Read FILE, an MSCCL XML or a schedule JSON, and write what it moves as a schedule.

    The file is judged first, the schedule before it is written. Without --topo the links are those that the file
    uses, as wide as it needs; with --topo they are the cluster's, the steps stretch to its capacities, and the
    report compares them with the lower bound. Exits 1 when the file is wrong or no schedule can say what it does.
    """
    check_folder(output)
    imported = api.import_file(file, topology, **options)
    bare = file.name.removesuffix(".xml").removesuffix(".json").removesuffix(".schedule")
    stem = named_stem(output, list(imported.files)) or (output or Path()) / f"{bare}-imported"
    document = import_summary(imported, imported.write(stem))
    answer(document, import_report(document), as_json=as_json)


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
        "warnings": [asdict(warned) for warned in imported.warnings],
    }


def import_report(document: dict[str, Any]) -> Iterator[str]:
    """The short report after ``import``."""
    root = "" if document["root"] is None else f", root {document['root']}"
    chunks = counted(document["chunks"], "chunk")
    yield f"{document['file']}: {document['collective']}, {document['ranks']} ranks, {chunks} per rank{root}"
    yield f"  steps        {document['steps']}  ({counted(document['transfers'], 'transfer')})"
    if document["crossings"] is not None:
        counts = f"{document['crossings']} chunks cross, {document['dropped']} not needed and left out"
        yield f"  {document['kind']:<12} {counts}"
    if document["pieces"] > 1:
        yield f"  chunks       each of the file's is {document['pieces']} here: they divide among the ranks"
    if document["lower_bound"] is None:
        widest = counted(document["widest_link"], "chunk")
        yield f"  links        those it uses, up to {widest} per step; --topo for real ones"
    else:
        gap = "proven optimal" if document["proven_optimal"] else f"at most {document['gap']} from optimal"
        bound = f"{document['lower_bound']} on {document['cluster']}"
        yield f"  lower bound  {bound}: {document['bound_proof']}; {gap}"
    yield "  verified     schedule replayed" + (", every program executed" if document["programs"] else "")
    yield from (f"  {suffix}: {note}" for suffix, notes in document["programs"].items() for note in notes)
    yield from (f"  wrote        {path}" for path in document["outputs"])
    yield from warning_lines(document["warnings"])
