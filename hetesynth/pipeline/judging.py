"""Judging files that others made."""

from __future__ import annotations

from pathlib import Path

from hetesynth.frontend import load_topology
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation


def verify_program(
    path: Path, topology: Path | None, root: Rank | None
) -> tuple[list[Violation], list[Violation]]:
    """Judge any MSCCL XML: what kills or corrupts, and what the portable profile forbids."""
    from hetesynth.verify.msccl_xml import load_program
    from hetesynth.verify.program import profile_violations, program_violations

    links = None
    if topology is not None:
        links = {(link.src, link.dst) for link in load_topology(topology).links}
    read = load_program(path)
    return program_violations(read, links=links, root=root), profile_violations(read)
