"""The contents of the folder that one cluster's runtime loads: programs, schedules and the index of both."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hetesynth.deploy.folder import texts
from hetesynth.deploy.folder.cells import DeployedCell as DeployedCell
from hetesynth.deploy.folder.cells import ProgramFile, check_record, check_selection, is_plain_name, program_file
from hetesynth.deploy.folder.environment import ENVIRONMENT, LOG_LINES, environment, environment_text
from hetesynth.deploy.rank_files import FORMATS, rank_order
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.files.folder_index import DEPLOYMENT, LOSSES, FolderIndex, read_index
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import read_regular
from hetesynth.files.strict_json import JsonRefused, read_json
from hetesynth.model.rank_places import rank_places
from hetesynth.model.target import TARGETS, Target
from hetesynth.model.topology import Topology

KIND = DEPLOYMENT
FORMAT = 1
MARK = b'"kind": "hetesynth deployment"'
ALGORITHMS, SCHEDULES = "algorithms", "schedules"
LOADER = "load_plans.py"
MAX_INDEX_BYTES = 1 << 26


def folder_contents(
    topology: Topology, topology_sha256: str, target: Target, cells: Sequence[DeployedCell]
) -> dict[str, bytes]:
    """Every file of a folder by its name in it. HetesynthError HS870 where cells are for the same calls."""
    files = {place(name): data for cell in cells for name, data in cell.files.items()}
    programs = [name for name in files if name.startswith(f"{ALGORITHMS}/")]
    if not all(is_plain_name(name) for cell in cells for name in cell.files):
        raise InternalError("a file's name has more than letters, digits, dots, `-` and `_`")
    check_selection([(cell.name, cell.programs) for cell in cells], target)
    stated = environment(target, [program for cell in cells for program in cell.programs])
    cluster, written = topology.name, dict[str, str]()
    try:  # no files that start ranks where a name is no host's
        order = rank_order(topology)
    except HetesynthError as error:
        written[texts.README] = texts.readme_text(target, cells, stated, cluster, error.message)
    else:
        written |= {name: text(order) for name, text in FORMATS.values()}
        written[texts.README] = texts.readme_text(target, cells, stated, cluster, order)
    written[texts.EXPECTED] = texts.expected_text(cells, target)
    if target.format.plan:
        written[LOADER] = (Path(__file__).parent / "load_plans.txt").read_text(encoding="utf-8")
    elif target.environment:
        written[ENVIRONMENT] = environment_text(target, stated, cluster)
    if target.environment:
        # without a stated host one machine, on which all ranks run, is any machine of its kind
        places = rank_places(topology)
        alone = len({place.machine for place in places}) == 1 and not any(place.host for place in places)
        hosts = bool(written.get("hostfile")) and not alone
        written[texts.SMOKE_TEST] = texts.smoke_test_text(target, cells, stated, cluster, hosts=hosts)
    files |= {name: text.encode() for name, text in written.items()}
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}
    index = {
        "kind": KIND,
        "format": FORMAT,
        "cluster": topology.name,
        "target": target.name,
        "topology_sha256": topology_sha256,
        "environment": stated.values(ALGORITHMS),
        "left_out": stated.left_out,
        "programs": len(programs),
        "cells": [
            {"name": cell.name, "key": cell.key, "made_for": cell.made_for, "record": cell.record}
            for cell in cells
        ],
        "files": digests,
    }
    files[INDEX] = (json.dumps(index, indent=1) + "\n").encode()
    return files


def place(name: str) -> str:
    """Return the path of the file ``name`` of a cell in the folder."""
    return f"{SCHEDULES if name.endswith(SCHEDULE_SUFFIX) else ALGORITHMS}/{name}"


def deployed(folder: Path) -> tuple[DeployedCell, ...]:
    """Return the cells in ``folder`` whose files are there and whole; none if no build wrote the folder."""
    return cells_of(folder)[0]


def cells_of(folder: Path) -> tuple[tuple[DeployedCell, ...], dict[str, str]]:
    """Return the cells of ``deployed``, and by name why each other cell of the index is not among them."""
    rows = index_of(folder).get("cells")
    cells, damaged, listed = [], dict[str, str](), set[str]()
    for row in rows if isinstance(rows, list) else ():
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str):
            continue
        try:
            check_record(row["record"])
            files = {file: read_regular(folder / place(file)) for file in row["record"]["files"]}
            cell = DeployedCell(name, row["key"], row["made_for"], row["record"], files)
            cell.check()
            keys = (name, cell.key, cell.made_for)
            if listed & files.keys() or not all(isinstance(text, str) and text.isprintable() for text in keys):
                raise ValueError("its row of the index is damaged")
            cells.append(cell)
            listed |= files.keys()
        except OSError as error:
            damaged[name] = f"a file of it cannot be read: {error.strerror}"
        except (KeyError, TypeError):
            damaged[name] = "its row of the index is damaged"
        except ValueError as error:
            damaged[name] = str(error)
    return tuple(cells), damaged


def index_of(folder: Path) -> dict[str, Any]:
    """The index of ``folder`` as it stands there; empty where there is none of ours that can be read."""
    try:
        values = read_json(read_regular(folder / INDEX, MAX_INDEX_BYTES), 32)
    except (OSError, JsonRefused):
        return {}
    is_ours = isinstance(values, dict) and (values.get("kind"), values.get("format")) == (KIND, FORMAT)
    return values if is_ours else {}


def differs(folder: Path, contents: Mapping[str, bytes]) -> bool:
    """True where ``folder`` holds other files than ``contents``."""
    try:
        names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
        return names != contents.keys() or any(read_regular(folder / n) != data for n, data in contents.items())
    except OSError:  # another build exchanges it
        return True


def installation(folder: Path, stated: Target | None = None) -> tuple[Target, dict[str, Any]]:
    """Return the target of ``folder``, and what to do with the folder: variables with their values there, steps
    and cautions, what is not as it was written or not given to the runtime, and what the log says. HetesynthError
    HS871 where neither `build` nor `atlas` wrote it, HS872 where it is for other targets than ``stated`` or for
    several and none is stated, HS876 where its index is damaged."""
    index = read_index(folder)
    # names are of files in the folder or in one of its folders
    usable = index and all(all(map(is_plain_name, file.split("/", 1))) for file in index.files)
    if index is None or not usable or index.kind == LOSSES:
        help_ = f"give a folder that has an {INDEX}: of an atlas, or of a cluster and a target below a build's"
        raise HetesynthError(f"{folder} is no folder of `build` or `atlas`", code="HS871", help=help_)
    target = TARGETS[index.targets[0]] if stated is None else stated
    if target.name not in index.targets or (stated is None and len(index.targets) > 1):
        message = f"{folder} is for {', '.join(index.targets)}" + (f", not for {target.name}" if stated else "")
        help_ = "name one of these: hetesynth install-hint TARGET FOLDER"
        raise HetesynthError(message, code="HS872", help=help_)
    log = LOG_LINES.get(target.name)
    place, programs, steps = _programs(index, target)
    variables = environment(target, programs)
    warnings = [f"{program} is left out: {reason}" for program, reason in variables.left_out.items()]
    if not programs:
        warnings.append(f"the folder has no program for {target.name}: all calls are left to the library")
    for file, digest in sorted(index.files.items()):
        try:
            if hashlib.sha256(read_regular(folder / file)).hexdigest() != digest:
                warnings.append(f"{file} was changed since it was written")
        except OSError:
            warnings.append(f"{file} is missing")
    for there in sorted(path.name for path in place.iterdir()) if place.is_dir() else ():
        if f"{place.name}/{there}" not in index.files:
            why = "is none of the programs: runtimes read every file there"
            warnings.append(f"{place.name}/{there} {why}")
    return target, {
        "environment": variables.values(str(place.resolve())),
        "steps": steps,
        "warnings": warnings,
        "folder": str(folder.resolve()),
        "cluster": str(index.document.get("cluster", "")),
        "files": sorted(index.files),
        "log": log and {"environment": dict(log.debug), **{k: v for k, v in asdict(log).items() if k != "debug"}},
    }


def _programs(index: FolderIndex, target: Target) -> tuple[Path, list[ProgramFile], list[str]]:
    """Return where programs for ``target`` are, what they say of themselves, and what users have to know."""
    if index.kind == DEPLOYMENT:
        cells = deployed(index.folder)
        programs = [program for cell in cells for program in cell.programs]
        return index.folder / ALGORITHMS, programs, texts.cautions(target, {cell.collective for cell in cells})
    place, programs = index.folder / target.name, []
    for path in (index.folder / name for name in sorted(index.files) if index.targets_of(name) == (target.name,)):
        with suppress(OSError, HetesynthError, InternalError):  # it is missing or was changed: said of it
            programs.append(program_file(path.name, read_regular(path), target, None))
    steps = texts.atlas_steps(target, {program.collective for program in programs}, index.folder.resolve())
    return place, programs, steps
