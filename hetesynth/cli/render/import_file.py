"""What ``hetesynth import`` prints, as text and as plain values for JSON.

In: the result of an import, by its attributes. Out: strings and dictionaries. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.cli.render.synth import warning_lines
from hetesynth.report.words import counted

if TYPE_CHECKING:
    from hetesynth.commands.import_file import Imported


def import_summary(made: Imported, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``import --json`` prints. Scripts depend on these names; null: does not apply."""
    asked, lifted, certificate = made.problem.collective, made.lifted, made.certificate
    return {
        "file": str(made.request.path),
        "kind": made.kind,
        "name": made.name,
        "collective": asked.name,
        "ranks": asked.ranks,
        "chunks": asked.chunks_per_rank,
        "root": asked.root,
        "steps": made.schedule.makespan,
        "transfers": len(made.schedule.transfers),
        "crossings": None if lifted is None else lifted.crossings,
        "dropped": None if lifted is None else lifted.dropped,
        "depth": None if lifted is None else lifted.depth,
        "relays": None if lifted is None else lifted.relays,
        "pieces": 1 if lifted is None else lifted.pieces,
        "widest_link": max((arc.capacity for arc in made.problem.arcs), default=0),
        "cluster": None if made.chunking is None else made.chunking.topology.name,
        "lower_bound": None if certificate is None else certificate.bound.steps,
        "bound_method": None if certificate is None else certificate.bound.method,
        "bound_proof": None if certificate is None else certificate.bound.proof,
        "gap": None if certificate is None else certificate.gap,
        "proven_optimal": None if certificate is None else certificate.proven_optimal,
        "programs": {suffix: list(program.notes) for suffix, program in made.programs.items()},
        "outputs": [str(path) for path in paths],
        "warnings": [warned.plain() for warned in made.warnings],
    }


def import_report(made: Imported, paths: Iterable[Path]) -> str:
    """The short report after ``import``."""
    asked = made.problem.collective
    root = "" if asked.root is None else f", root {asked.root}"
    lines = [
        f"{made.request.path}: {asked.name}, {asked.ranks} ranks, "
        f"{counted(asked.chunks_per_rank, 'chunk')} per rank{root}",
        f"  steps        {made.schedule.makespan}  ({counted(len(made.schedule.transfers), 'transfer')})",
        *(f"  {line}" for line in _lifting(made)),
        *(f"  {line}" for line in _graph(made)),
        f"  verified     schedule replayed{_programs(made)}",
        *(f"  {suffix}: {note}" for suffix, program in made.programs.items() for note in program.notes),
        *(f"  wrote        {path}" for path in paths),
        *warning_lines(made.warnings),
    ]
    return "\n".join(lines)


def _lifting(made: Imported) -> Iterator[str]:
    lifted = made.lifted
    if lifted is None:
        return
    kind = "program" if made.kind == "program" else "schedule"
    dropped = f", {lifted.dropped} not needed and left out" if lifted.dropped else ""
    relays = f", {counted(lifted.relays, 'relay')}" if lifted.relays else ", no relays"
    yield f"{kind:<12} {counted(lifted.depth, 'step')}, {lifted.crossings} chunks cross{dropped}{relays}"
    if lifted.pieces > 1:
        yield f"chunks       each of the file's is {lifted.pieces} here, so that they divide among the ranks"


def _graph(made: Imported) -> Iterator[str]:
    links = len(made.problem.arcs)
    if made.certificate is None or made.chunking is None:
        widest = max((arc.capacity for arc in made.problem.arcs), default=0)
        yield f"links        the {links} it uses, up to {counted(widest, 'chunk')} per step; --topo for real ones"
        return
    bound = made.certificate.bound
    gap = "proven optimal" if made.certificate.proven_optimal else f"at most {made.certificate.gap} from optimal"
    yield f"links        {links} of {made.chunking.topology.name}"
    yield f"lower bound  {bound.steps}  {bound.proof}; {gap}"


def _programs(made: Imported) -> str:
    return ", every program executed" if made.programs else ""
