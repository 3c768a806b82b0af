"""The keys of ``hetesynth.toml`` as JSON Schema: what the reader checks, and what editors read.

``python -m hetesynth.deploy.manifest.keys`` prints the schema.
"""

import json
import sys
from collections.abc import Sequence
from typing import Any, get_args

from hetesynth.engine.request import Exclusion
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS
from hetesynth.search.chunking import ROUNDINGS
from hetesynth.search.registry import ROWS

Rules = dict[str, Any]  # of one value, in JSON Schema

MAX_TEXT = 1000
SIZE = r"[0-9]+(\.[0-9]+)?\s*(B|[KMGT](i?B?|IB)|[kmgt](i?[bB]|i)?)"
RANGE = rf"^\s*({SIZE}|{SIZE}\s*\.\.\s*({SIZE})?|\.\.\s*{SIZE})\s*$"
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"
PART = r"([A-Za-z0-9]|\{cluster\}|\{target\})([A-Za-z0-9._-]|\{cluster\}|\{target\})*"
LAYOUT = rf"^{PART}(/{PART})*$"
TRUTH: Rules = {"type": "boolean"}


def _text(pattern: str = "") -> Rules:
    limits = {"type": "string", "minLength": 1, "maxLength": MAX_TEXT}
    return limits | ({"pattern": pattern} if pattern else {})


def _one_of(choices: Sequence[str]) -> Rules:
    return {"type": "string", "enum": [*choices]}


def _whole(least: int, most: int) -> Rules:
    return {"type": "integer", "minimum": least, "maximum": most}


def _number(most: float, least: str = "minimum") -> Rules:
    """Return the rules of a number from 0, or above 0 if ``least`` is ``exclusiveMinimum``, to ``most``."""
    return {"type": "number", least: 0, "maximum": most}


def _several(of: Rules, most: int) -> Rules:
    return {"type": "array", "items": of, "minItems": 1, "maxItems": most, "uniqueItems": True}


def _tables(of: Rules, most: int, least: int = 0) -> Rules:
    return {"type": "array", "items": of, "minItems": least, "maxItems": most}


def _table(keys: dict[str, Rules], *required: str) -> Rules:
    table = {"type": "object", "properties": keys, "additionalProperties": False}
    return table | ({"required": [*required]} if required else {})


def _key(rules: Rules, meaning: str, *examples: Any, default: Any = None) -> Rules:
    """Return ``rules`` with a sentence about a key, examples and the default; None where that depends."""
    facts = {"description": meaning, "default": default, "examples": [*examples]}
    return rules | {name: value for name, value in facts.items() if value not in (None, [])}


_COLLECTIVES = _several(_one_of(COLLECTIVE_NAMES), len(COLLECTIVE_NAMES))
_TARGETS = _several(_one_of(tuple(TARGETS)), len(TARGETS))
_SIZES = _several(_text(RANGE), 256)
_STRATEGIES = [row.name for row in ROWS if row.name not in ("composition", "repair")]
_SINGLE_ROOT = "The promise that all calls have this root, which is demanded for runtimes that do not look at it."
_COSTS = "Whether predicted times count the start of a kernel and the copy rate of thread blocks."
_PERCENT = "How near programs come to the proved limit, in percent, at every size where they are judged; 0: any."
_FACTOR = "How many times as long as the program the library takes, at least; 0: any."
_PROVEN = (
    "Whether the schedule must have as few steps as is proved possible, or its program be at the proved limit."
)
_RANGES = "Ranges of sizes, each with a program of its own: 1MB..64MB, ..1MB, 64MB.., 1MB. Not beside chunks."

GATES = _table(
    {
        "percent_of_limit": _key(_number(100), _PERCENT, 80, 92.5),
        "factor_over_library": _key(_number(1000), _FACTOR, 1.0, 1.2),
        "steps": _key(_whole(0, 1_000_000), "The most steps that the schedule may take; 0: any.", 12),
        "proven": _key(TRUTH, _PROVEN, True, False),
    }
)
OPTIONS = {  # how cells are made, what a rule may change too
    "strategy": _key(_one_of(_STRATEGIES), "How schedules are searched for.", "greedy", default="auto"),
    "effort": _key(
        _number(1_000_000, "exclusiveMinimum"), "How much is tried, counted in transfers.", 1, 0.25, 4, default=1
    ),
    "seed": _key(_whole(0, (1 << 31) - 1), "Same seed, same bytes.", 0, 7, default=0),
    "root": _key(_whole(0, (1 << 20) - 1), "The root of rooted collectives.", 0, default=0),
    "single_root": _key(TRUTH, _SINGLE_ROOT, True, default=False),
    "runtime_costs": _key(TRUTH, _COSTS, False, default=True),
}
SETTINGS = {  # of [defaults] and of a cluster
    "collectives": _key(_COLLECTIVES, "The collectives.", ["allgather", "allreduce"]),
    "targets": _key(
        _TARGETS, "The runtimes to write for.", ["rccl-6", "mscclpp"], ["msccl"], default=["portable"]
    ),
    "sizes": _key(_SIZES, _RANGES, ["..256KB", "256KB..16MB", "16MB.."], ["64MB"]),
    "chunks": _key(
        _whole(1, 4096), "Chunks per rank of one program for all sizes, in place of sizes.", 1, 4, default=1
    ),
    **OPTIONS,
    "chunk_size": _key(
        _text(rf"^\s*{SIZE}\s*$"),
        "The size of a chunk [default: the topology's, else 1 MB]. Not beside sizes.",
        "4MB",
    ),
    "rounding": _key(_one_of(ROUNDINGS), "How capacities become chunks per step.", "floor", default="ceil"),
    "tau_ref": _key(
        _text(),
        "The reference step: the slowest link type, a kind of link, or a time.",
        "slowest",
        "20us",
        default="slowest",
    ),
    "exclusion": _key(
        _one_of(get_args(Exclusion)),
        "Where two additions to one chunk exclude each other: auto is step for allreduce.",
        "program",
        default="auto",
    ),
    "gates": _key(GATES, "What every program must reach; a table of its own."),
}
SELECTORS = {  # which cells a rule is for
    "clusters": _key(_several(_text(), 1000), "Of these clusters only.", ["prod"]),
    "collectives": _key(_COLLECTIVES, "Of these collectives only.", ["allreduce"]),
    "targets": _key(_TARGETS, "Of these targets only.", ["rccl-6"]),
    "sizes": _key(_SIZES, "Of ranges that lie in one of these only.", ["16MB.."]),
}


def _without_defaults(keys: dict[str, Rules]) -> dict[str, Rules]:
    return {name: {k: v for k, v in rules.items() if k != "default"} for name, rules in keys.items()}


CLUSTER = _table(
    {
        "topology": _key(
            _text(), "The file that describes the cluster, seen from the manifest.", "clusters/prod.dsl"
        ),
        "name": _key(
            _text(NAME), "What it is called [default: as its file, or as the folder of a topo.dsl].", "prod"
        ),
        "without": _key(
            _several(_text(), 256),
            "Hardware that is lost, as `--without` of the command line says it.",
            ["b.gpu3"],
            ["a.gpu0<->a.gpu1"],
        ),
        "degrade": _key(
            _several(_text(), 256),
            "Hardware that is slower, as `--degrade` of the command line says it.",
            ["a.nic*=18Gbps"],
        ),
        **_without_defaults(SETTINGS),
    },
    "topology",
)
RULE = _table(
    {
        **SELECTORS,
        **_without_defaults(OPTIONS),
        "gates": _key(GATES, "Gates that are added, or replace those of the same name."),
        "skip": _key(TRUTH, "Whether nothing is made.", True),
    }
)
OUTPUT = _table(
    {
        "folder": _key(_text(), "The folder that is deployed.", "schedules", default="schedules"),
        "layout": _key(
            _text(LAYOUT),
            "Where in it a cluster and a target have their folder.",
            "{cluster}/{target}",
            "{target}-{cluster}",
            default="{cluster}/{target}",
        ),
        "cache": _key(_text(), "Where results are kept [default: the user's own place].", ".hetesynth-cache"),
    }
)
MANIFEST = _table(
    {
        "version": _key(_whole(1, 1), "The format of this file.", 1, default=1),
        "output": _key(OUTPUT, "Where things go; paths are seen from the manifest."),
        "defaults": _key(_table(SETTINGS), "What holds for every cluster that does not say otherwise."),
        "cluster": _key(_tables(CLUSTER, 1000, 1), "A cluster."),
        "rule": _key(_tables(RULE, 256), "Cells that differ. Later rules win."),
    },
    "cluster",
)


def schema_text() -> str:
    """Return the schema of the whole file as it is published."""
    meaning = "Which schedules `hetesynth build` keeps: clusters, collectives, sizes, runtimes, gates."
    dialect = "https://json-schema.org/draft/2020-12/schema"
    whole = {"$schema": dialect, "title": "hetesynth.toml", "description": meaning, **MANIFEST}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text())
