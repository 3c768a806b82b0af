"""What an operator has to know of a folder that stands somewhere: variables with their values, and what warns.

In: a folder that ``hetesynth build`` wrote. Out: an ``Installation``, of its index and its files as they are now.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hetesynth.deploy.folder.environment import Environment, environment
from hetesynth.deploy.folder.folder import ALGORITHMS, Deployed, read_folder
from hetesynth.deploy.folder.log_lines import LOG_LINES, LogLines
from hetesynth.deploy.folder.readme import cautions
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import read_regular
from hetesynth.model.target import TARGETS, Target


@dataclass(frozen=True, slots=True)
class Installation:
    """``environment``: variables with their values for this place. ``files``: of the folder, by their names in it.
    ``cautions``: what the runtime minds. ``warnings``: what is not as it was written, and programs that the
    runtime does not get."""

    folder: Path
    cluster: str
    target: Target
    environment: dict[str, str]
    files: tuple[str, ...]
    cautions: tuple[str, ...]
    warnings: tuple[str, ...]
    log: LogLines | None

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        log = None
        if self.log is not None:
            log = {
                "environment": dict(self.log.debug), "read": self.log.read, "ran": self.log.ran,
                "fell_back": self.log.fell_back, "refused": self.log.refused,
            }  # fmt: skip
        return {"folder": str(self.folder), "cluster": self.cluster, "files": list(self.files), "log": log}


def installation(folder: Path, stated: Target | None = None) -> Installation:
    """What to do with ``folder``.

    HetesynthError HS871 where it is none that ``hetesynth build`` wrote, HS872 where it is for another target than
    ``stated``.
    """
    deployed = read_folder(folder)
    if deployed is None or deployed.target not in TARGETS:
        raise HetesynthError(
            f"{folder} is no folder of `hetesynth build`",
            code="HS871",
            help=f"give the folder of a cluster and a target, which has an {INDEX}",
        )
    target = TARGETS[deployed.target]
    if stated is not None and stated != target:
        raise HetesynthError(
            f"{folder} is for {target.name}, not for {stated.name}",
            code="HS872",
            help=f"leave the target out, or give the folder for {stated.name}",
        )
    variables = environment(target, [program for cell in deployed.cells for program in cell.programs])
    directory = str(folder.resolve() / ALGORITHMS)
    warnings = (*_left_out(variables), *_changed(folder, deployed))
    files = tuple(sorted(deployed.files))
    minded = tuple(cautions(target, {cell.collective for cell in deployed.cells}))
    return Installation(
        folder.resolve(), deployed.cluster, target, variables.values(directory), files, minded, warnings,
        LOG_LINES.get(target.name),
    )  # fmt: skip


def _left_out(variables: Environment) -> Iterator[str]:
    for entry in variables.left_out:
        yield f"{entry.name} is left out: {entry.reason}"


def _changed(folder: Path, deployed: Deployed) -> Iterator[str]:
    """What stands in the folder otherwise than it was written."""
    for name, digest in sorted(deployed.files.items()):
        try:
            same = hashlib.sha256(read_regular(folder / name)).hexdigest() == digest
        except OSError:
            yield f"{name} is missing"
            continue
        if not same:
            yield f"{name} was changed since it was written"
    programs = folder / ALGORITHMS
    others = sorted(path.name for path in programs.iterdir()) if programs.is_dir() else []
    for name in others:
        if f"{ALGORITHMS}/{name}" not in deployed.files:
            yield f"{ALGORITHMS}/{name} is none of the programs: runtimes read every file there"
