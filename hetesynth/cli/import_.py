"""``hetesynth import``: anybody's MSCCL XML, or a schedule, back into the compiler."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import (
    TOPOLOGY,
    Output,
    chunking_options,
    json_option,
    root_option,
    single_root_option,
    targets_option,
    topology_losses,
)
from hetesynth.cli.synth_report import warning_lines
from hetesynth.cli.terminal import show
from hetesynth.model.target import targets_of
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
    bare = file.name.removesuffix(".xml").removesuffix(".json").removesuffix(".schedule")
    stem = (output or Path()) / f"{bare}-imported"
    stem = named_stem(output, list(imported.files)) or stem
    paths = importing.write(imported, stem)
    if as_json:
        show(json.dumps(import_summary(imported, paths), indent=2))
    else:
        show(import_report(imported, paths))


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
        "depth": None if lifted is None else lifted.depth,
        "relays": None if lifted is None else lifted.relays,
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


def import_report(imported: Imported, paths: Iterable[Path]) -> str:
    """Return the short report after ``import``."""
    collective, lifted, certificate = imported.problem.collective, imported.lifted, imported.certificate
    root = "" if collective.root is None else f", root {collective.root}"
    lines = [
        f"{imported.request.path}: {collective.name}, {collective.ranks} ranks, "
        f"{counted(collective.chunks_per_rank, 'chunk')} per rank{root}",
        f"  steps        {imported.schedule.makespan}  ({counted(len(imported.schedule.transfers), 'transfer')})",
    ]
    if lifted is not None:
        kind = "program" if imported.kind == "program" else "schedule"
        dropped = f", {lifted.dropped} not needed and left out" if lifted.dropped else ""
        relays = f", {counted(lifted.relays, 'relay')}" if lifted.relays else ", no relays"
        depth = counted(lifted.depth, "step")
        lines.append(f"  {kind:<12} {depth}, {lifted.arrivals} chunks cross{dropped}{relays}")
        if lifted.pieces > 1:
            pieces = f"each of the file's is {lifted.pieces} here, so that they divide among the ranks"
            lines.append(f"  chunks       {pieces}")
    arcs = imported.problem.arcs
    if certificate is None or imported.chunking is None:
        widest = counted(max((arc.capacity for arc in arcs), default=0), "chunk")
        lines.append(f"  links        the {len(arcs)} it uses, up to {widest} per step; --topo for real ones")
    else:
        bound = certificate.bound
        gap = "proven optimal" if certificate.proven_optimal else f"at most {certificate.gap} from optimal"
        lines.append(f"  links        {len(arcs)} of {imported.chunking.topology.name}")
        lines.append(f"  lower bound  {bound.steps}  {bound.proof}; {gap}")
    executed = ", every program executed" if imported.programs else ""
    lines += [
        f"  verified     schedule replayed{executed}",
        *(f"  {suffix}: {note}" for suffix, program in imported.programs.items() for note in program.notes),
        *(f"  wrote        {path}" for path in paths),
        *warning_lines(imported.warnings),
    ]
    return "\n".join(lines)
