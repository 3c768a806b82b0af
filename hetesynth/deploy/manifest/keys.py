"""The keys of ``hetesynth.toml``: one table, which the reader and the JSON Schema are made from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, get_args

from hetesynth.engine.request import Exclusion
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS
from hetesynth.search.chunking import ROUNDINGS
from hetesynth.search.registry import ROWS

FORMAT = 1
MAX_TEXT = 1000

SIZE = r"[0-9]+(\.[0-9]+)?\s*(B|[KMGT](i?B?|IB)|[kmgt](i?[bB]|i)?)"
RANGE = rf"^\s*({SIZE}|{SIZE}\s*\.\.\s*({SIZE})?|\.\.\s*{SIZE})\s*$"
NAME = r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?$"
PART = r"([A-Za-z0-9._-]|\{cluster\}|\{target\})+"
LAYOUT = rf"^{PART}(/{PART})*$"
_LOSS = "as `--without` of the command line says it"


@dataclass(frozen=True, slots=True)
class Text:
    """A text. ``choices``: one of these. ``pattern``: what it looks like, ``what``: in words."""

    what: str = "a text"
    choices: tuple[str, ...] = ()
    pattern: str = ""


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number from ``least`` to ``most``."""

    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Number:
    """A number from ``least`` (or, with ``above``, more than that) to ``most``."""

    least: float
    most: float
    above: bool = False


@dataclass(frozen=True, slots=True)
class Truth:
    """``true`` or ``false``."""


@dataclass(frozen=True, slots=True)
class Several:
    """A list of ``least`` to ``most`` texts, each once."""

    of: Text
    most: int
    least: int = 1


@dataclass(frozen=True, slots=True)
class Table:
    """A table with these keys and no other."""

    keys: tuple[Key, ...]

    def key(self, name: str) -> Key | None:
        """The key called ``name``; None where there is none."""
        return next((key for key in self.keys if key.name == name), None)


@dataclass(frozen=True, slots=True)
class Tables:
    """Tables that a ``[[name]]`` begins, from ``least`` to ``most``."""

    of: Table
    most: int
    least: int = 0


Kind = Text | Whole | Number | Truth | Several | Table | Tables


@dataclass(frozen=True, slots=True)
class Key:
    """A key. ``meaning``: a sentence; ``default``: what holds where it is left out, None where that is nothing or
    depends; ``examples``: values of it; ``required``: whether it may not be left out."""

    name: str
    kind: Kind
    meaning: str
    default: Any = None
    examples: tuple[Any, ...] = ()
    required: bool = False


NOT_HERE = (
    (
        "composition",
        "a folder has no place for compositions of pods: use `hetesynth synth --strategy composition`",
    ),
    ("repair", "it mends an older schedule: use `hetesynth repair`"),
)
"""Strategies that no manifest states, and what is for them."""

_STRATEGIES = tuple(row.name for row in ROWS if row.name not in dict(NOT_HERE))

GATES = Table(
    (
        Key(
            "percent_of_limit",
            Number(0, 100),
            "How near programs come to the proved limit, in percent, at every size where they are judged; 0: any.",
            examples=(80, 92.5),
        ),
        Key(
            "factor_over_library",
            Number(0, 1000),
            "How many times as long as the program the library takes, at least; 0: any.",
            examples=(1.0, 1.2),
        ),
        Key("steps", Whole(0, 1_000_000), "The most steps that the schedule may take; 0: any.", examples=(12,)),
        Key(
            "proven",
            Truth(),
            "Whether the schedule must have as few steps as is proved possible, or its program "
            "be at the proved limit.",
            examples=(True, False),
        ),
    )
)

_COLLECTIVES = Several(Text("a collective", COLLECTIVE_NAMES), len(COLLECTIVE_NAMES))
_TARGETS = Several(Text("a target", tuple(TARGETS)), len(TARGETS))
_SIZES = Several(Text("a range of sizes such as 1MB..64MB", pattern=RANGE), 256)

EXTENTS = (
    Key("collectives", _COLLECTIVES, "The collectives.", examples=(["allgather", "allreduce"],)),
    Key("targets", _TARGETS, "The runtimes to write for.", ["portable"], (["rccl-6", "mscclpp"], ["msccl"])),
    Key(
        "sizes",
        _SIZES,
        "Ranges of sizes of the collective's buffer, each with a program of its own: 1MB..64MB, ..1MB, 64MB.., or "
        "one size. Not beside chunks.",
        examples=(["..256KB", "256KB..16MB", "16MB.."], ["64MB"]),
    ),
    Key("chunks", Whole(1, 4096), "Chunks per rank of one program for all sizes, in place of sizes.", 1, (1, 4)),
)
"""What is made: every collective for every target and every range."""

OPTIONS = (
    Key("strategy", Text("a strategy", _STRATEGIES), "How schedules are searched for.", "auto", ("greedy",)),
    Key("effort", Number(0, 1_000_000, above=True), "How much is tried, counted in transfers.", 1, (1, 0.25, 4)),
    Key("seed", Whole(0, (1 << 31) - 1), "Same seed, same bytes.", 0, (0, 7)),
    Key("root", Whole(0, (1 << 20) - 1), "The root of rooted collectives.", 0, (0,)),
    Key(
        "single_root",
        Truth(),
        "The promise that all calls have this root, which is demanded for runtimes that do not look at it.",
        False,
        (True,),
    ),
    Key(
        "runtime_costs",
        Truth(),
        "Whether predicted times count the start of a kernel and the copy rate of thread blocks.",
        True,
        (False,),
    ),
)
"""How it is made, what a rule may change too."""

CHUNKING = (
    Key(
        "chunk_size",
        Text("a size such as 4MB", pattern=rf"^\s*{SIZE}\s*$"),
        "The size of a chunk [default: the topology's, else 1 MB]. Not beside sizes.",
        examples=("4MB",),
    ),
    Key("rounding", Text("a rounding", ROUNDINGS), "How capacities become chunks per step.", "ceil", ("floor",)),
    Key(
        "tau_ref",
        Text("slowest, a kind of link, or a time such as 20us"),
        "The reference step: the slowest link type, a kind of link, or a time.",
        "slowest",
        ("slowest", "20us"),
    ),
    Key(
        "exclusion",
        Text("an exclusion", get_args(Exclusion)),
        "Where two additions to one chunk exclude each other: auto is step for allreduce.",
        "auto",
        ("program",),
    ),
)

_GATES = Key("gates", GATES, "What every program must reach; a table of its own.")
DEFAULTS = Table((*EXTENTS, *OPTIONS, *CHUNKING, _GATES))

CLUSTER = Table(
    (
        Key(
            "topology",
            Text("the path of a .dsl file"),
            "The file that describes the cluster, seen from the manifest.",
            required=True,
            examples=("clusters/prod.dsl",),
        ),
        Key(
            "name",
            Text("a name of a folder", pattern=NAME),
            "What it is called [default: as its file, or as the folder of a topo.dsl].",
            examples=("prod",),
        ),
        Key(
            "without",
            Several(Text("a loss"), 256),
            f"Hardware that is lost, {_LOSS}.",
            examples=(["b.gpu3"], ["a.gpu0<->a.gpu1"]),
        ),
        Key(
            "degrade",
            Several(Text("a slower part, TARGET=RATE"), 256),
            f"Hardware that is slower, {_LOSS.replace('without', 'degrade')}.",
            examples=(["a.nic*=18Gbps"],),
        ),
        *(replace(key, default=None) for key in DEFAULTS.keys),
    )
)

SELECTORS = (
    Key("clusters", Several(Text("the name of a cluster"), 1000), "Of these clusters only.", examples=(["prod"],)),
    Key("collectives", _COLLECTIVES, "Of these collectives only.", examples=(["allreduce"],)),
    Key("targets", _TARGETS, "Of these targets only.", examples=(["rccl-6"],)),
    Key("sizes", _SIZES, "Of ranges that lie in one of these only.", examples=(["16MB.."],)),
)
"""Which cells a rule is for."""

CHANGES = (
    *(replace(key, default=None) for key in OPTIONS),
    replace(_GATES, meaning="Gates that are added, or replace those of the same name."),
    Key("skip", Truth(), "Whether nothing is made.", examples=(True,)),
)
"""What a rule changes."""

OUTPUT = Table(
    (
        Key("folder", Text("the path of a folder"), "The folder that is deployed.", "schedules", ("schedules",)),
        Key(
            "layout",
            Text("a folder for each {cluster} and {target}", pattern=LAYOUT),
            "Where in it a cluster and a target have their folder.",
            "{cluster}/{target}",
            ("{cluster}/{target}", "{target}-{cluster}"),
        ),
        Key(
            "cache",
            Text("the path of a folder"),
            "Where results are kept [default: the user's own place].",
            examples=(".hetesynth-cache",),
        ),
    )
)

MANIFEST = Table(
    (
        Key("version", Whole(FORMAT, FORMAT), "The format of this file.", FORMAT, (FORMAT,)),
        Key("output", OUTPUT, "Where things go; paths are seen from the manifest."),
        Key("defaults", DEFAULTS, "What holds for every cluster that does not say otherwise."),
        Key("cluster", Tables(CLUSTER, 1000, 1), "A cluster.", required=True),
        Key("rule", Tables(Table((*SELECTORS, *CHANGES)), 256), "Cells that differ. Later rules win."),
    )
)
