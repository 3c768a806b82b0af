"""A topology file -> the same cluster in another form: block, paper, JSON.

In: a path and a form. Out: the text. JSON holds the cluster as it was worked out, every number exact.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hetesynth.model.topology import Topology
from hetesynth.topology.language.conversion import to_block, to_paper
from hetesynth.topology.language.elaborate import topology_of
from hetesynth.topology.language.source import read_source

FORMS = ("block", "paper", "json")
VERSION = 1


def converted(path: Path, form: str) -> str:
    """The file at ``path`` in ``form``, one of ``FORMS``."""
    source = read_source(path)
    if form == "json":
        return json.dumps(topology_document(topology_of(source)), indent=1) + "\n"
    return to_block(source) if form == "block" else to_paper(source)


def topology_document(topology: Topology) -> dict[str, Any]:
    """Return ``topology`` as JSON: bytes per second and seconds as texts, exact fractions such as `7/10`."""
    document = {"format": "hetesynth topology", "version": VERSION, **asdict(topology)}
    plain: dict[str, Any] = json.loads(json.dumps(document, default=str))
    return plain
