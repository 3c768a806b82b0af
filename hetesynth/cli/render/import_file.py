"""What ``hetesynth import`` prints, as text and as plain values for JSON.

In: the result of an import, by its attributes. Out: strings and dictionaries. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.cli.render.synth import warning_lines
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.engine.import_file import Imported


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
    """The short report after ``import``."""
    collective = imported.problem.collective
    root = "" if collective.root is None else f", root {collective.root}"
    lines = [
        f"{imported.request.path}: {collective.name}, {collective.ranks} ranks, "
        f"{counted(collective.chunks_per_rank, 'chunk')} per rank{root}",
        f"  steps        {imported.schedule.makespan}  ({counted(len(imported.schedule.transfers), 'transfer')})",
        *(f"  {line}" for line in _lifting(imported)),
        *(f"  {line}" for line in _graph(imported)),
        f"  verified     schedule replayed{_programs(imported)}",
        *(f"  {suffix}: {note}" for suffix, program in imported.programs.items() for note in program.notes),
        *(f"  wrote        {path}" for path in paths),
        *warning_lines(imported.warnings),
    ]
    return "\n".join(lines)


def _lifting(imported: Imported) -> Iterator[str]:
    lifted = imported.lifted
    if lifted is None:
        return
    kind = "program" if imported.kind == "program" else "schedule"
    dropped = f", {lifted.dropped} not needed and left out" if lifted.dropped else ""
    relays = f", {counted(lifted.relays, 'relay')}" if lifted.relays else ", no relays"
    yield f"{kind:<12} {counted(lifted.depth, 'step')}, {lifted.arrivals} chunks cross{dropped}{relays}"
    if lifted.pieces > 1:
        yield f"chunks       each of the file's is {lifted.pieces} here, so that they divide among the ranks"


def _graph(imported: Imported) -> Iterator[str]:
    links = len(imported.problem.arcs)
    if imported.certificate is None or imported.chunking is None:
        widest = max((arc.capacity for arc in imported.problem.arcs), default=0)
        yield f"links        the {links} it uses, up to {counted(widest, 'chunk')} per step; --topo for real ones"
        return
    bound = imported.certificate.bound
    gap = (
        "proven optimal"
        if imported.certificate.proven_optimal
        else f"at most {imported.certificate.gap} from optimal"
    )
    yield f"links        {links} of {imported.chunking.topology.name}"
    yield f"lower bound  {bound.steps}  {bound.proof}; {gap}"


def _programs(imported: Imported) -> str:
    return ", every program executed" if imported.programs else ""
