"""Where a file comes from, in the file: cluster, options, versions and key of its cell.

In: the files of a cell. Out: the same files that say so: MSCCL XML in a comment behind its root, schedules in
their header, plans in a field that their runtime does not look at. Nothing else of a file changes, which is
checked; a plan gets a name that no other plan of the folder has, as its runtime tells plans by their names.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from typing import Any

from hetesynth.deploy.job import Job
from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.errors import InternalError

FIELD = "provenance"
PLAN_FIELD = "hetesynth"
_HEADER = re.compile(rb'^ "header": (\{.*\}),$', re.MULTILINE)
_NAME = re.compile(rb'^ "name": (".*"),$', re.MULTILINE)
_END = b"\n}\n"


def provenance(job: Job) -> dict[str, Any]:
    """What is said: the same for the same job."""
    cell = job.cell
    return {
        "cell": cell.name,
        "key": job.key,
        "topology_sha256": job.topology_sha256,
        "options": json.loads(json.dumps(asdict(cell.options), default=str)),
        "versions": dict(job.versions),
    }


def with_provenance(job: Job, files: dict[str, bytes]) -> dict[str, bytes]:
    """``files``, each of which says where it comes from."""
    values = provenance(job)
    return {name: _stated(job, name, data, values) for name, data in files.items()}


def _stated(job: Job, name: str, data: bytes, values: dict[str, Any]) -> bytes:
    if name.endswith(SCHEDULE_SUFFIX):
        stated = _in_schedule(data, values)
    elif name.endswith(".xml"):
        stated = data + xml_comment(values)
    else:
        stated = _in_plan(data, plan_name(job.cell.cluster, name), values)
    if _contents(name, stated) != _contents(name, data):
        raise InternalError(f"{name} says something else with its provenance")
    return stated


def plan_name(cluster: str, name: str) -> str:
    """The name of the plan in the file ``name``: no other one of the cluster's has it."""
    return f"{cluster}-{name.removesuffix('.json').replace('.inplace', '-inplace')}"


def xml_comment(values: dict[str, Any]) -> bytes:
    """A comment that readers of MSCCL XML skip: its first word has no ``=``, and no ``--`` ends it early."""
    lines = [f"{name} {v if isinstance(v, str) else json.dumps(v, sort_keys=True)}" for name, v in values.items()]
    text = "\n".join(lines).replace("--", "-%2D")
    return f"<!-- {FIELD}: where this file comes from\n{text}\n-->\n".encode("ascii", "replace")


def _in_schedule(data: bytes, values: dict[str, Any]) -> bytes:
    line = _HEADER.search(data)
    if line is None:
        raise InternalError("a schedule without a header")
    header = {**json.loads(line[1]), FIELD: values}
    return data[: line.start(1)] + json.dumps(header, sort_keys=True).encode() + data[line.end(1) :]


def _in_plan(data: bytes, name: str, values: dict[str, Any]) -> bytes:
    line = _NAME.search(data)
    if line is None or not data.endswith(_END):
        raise InternalError("a plan of another form")
    field = f",\n {json.dumps(PLAN_FIELD)}: {json.dumps(values, sort_keys=True)}".encode()
    return data[: line.start(1)] + json.dumps(name).encode() + data[line.end(1) : -len(_END)] + field + _END


def _contents(name: str, data: bytes) -> object:
    """All that a reader takes of a file but what is added here."""
    from dataclasses import replace

    if name.endswith(SCHEDULE_SUFFIX):
        from hetesynth.files.schedule_json import read_schedule_json

        document = read_schedule_json(data, name)
        return replace(document, header={k: v for k, v in document.header.items() if k != FIELD})
    if name.endswith(".xml"):
        from hetesynth.judge.msccl.reader import read_program

        read = read_program(data, name)
        return read.program, read.violations, read.portability
    from hetesynth.judge.mscclpp.reader import read_plan_json

    return replace(read_plan_json(data, name), name="")
