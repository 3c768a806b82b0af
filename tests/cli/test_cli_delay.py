"""``synth --delay``: the worst case over a range of delays between data centres."""

import json
from fractions import Fraction
from pathlib import Path

import pytest
from support.cli import run  # type: ignore[import-not-found]

from hetesynth.engine.delays import delay_range, delayed
from hetesynth.errors import HetesynthError
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
