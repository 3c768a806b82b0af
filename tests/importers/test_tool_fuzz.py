"""A reader of a tool's output reads what it is given or refuses it with a code: no traceback, no hang."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from fractions import Fraction

import pytest
from importers.tool_outputs import (
    HWLOC,
    IB_FABRIC,
    SLURM_CONF,
    SLURM_YAML,
    amd_smi,
    mutated,
    random_table,
    rocm_smi,
)

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.formats import format_named
from hetesynth.topology.importers.reading import ReadOptions, Source

OPTIONS = ReadOptions(nic_rate=Fraction(50 * 10**9))
SECONDS = 2.0  # of one input, on a busy machine


def random_amd(rng: random.Random) -> str:
    size = rng.choice((1, 2, 4))
    counts = [[0 if i == j else rng.choice((0, 1, 2, 4)) for j in range(size)] for i in range(size)]
    symmetric = [[counts[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)]
    if rng.random() < 0.5:
        return json.dumps(amd_smi(symmetric), indent=1)
    weights = [[0 if i == j else rng.choice((15, 30, 40)) for j in range(size)] for i in range(size)]
    return rocm_smi([[weights[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)], [0] * size)


def random_astra(rng: random.Random) -> str:
    count = rng.randrange(1, 4)
    shapes = [rng.choice(("Ring", "Switch", "FullyConnected")) for _ in range(count)]
    sizes = [rng.choice((1, 2, 3, 4, 8)) for _ in range(count)]
    rates = [rng.choice((50, 0.5, 400.0)) for _ in range(count)]
    lists = {"topology": shapes, "npus_count": sizes, "bandwidth": rates, "latency": [500.0] * count}
    return "".join(f"{key}: [ {', '.join(map(str, values))} ]\n" for key, values in lists.items())


SOURCES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "nvidia-smi": ("H100", random_table),
    "amd-smi": ("MI300X", random_amd),
    "slurm": ("", lambda rng: SLURM_CONF),
    "slurm-yaml": ("", lambda rng: SLURM_YAML),
    "ibnetdiscover": ("", lambda rng: IB_FABRIC),
    "hwloc": ("", lambda rng: HWLOC),
    "astra-sim": ("", random_astra),
}


def fuzz(name: str, count: int, seed: int) -> tuple[int, int]:
    """(how many were read, how many refused) of ``count`` inputs; half of them mutated."""
    model, source = SOURCES[name]
    options = ReadOptions(nic_rate=OPTIONS.nic_rate, model=model)
    rng = random.Random(seed)
    outcomes = [0, 0]
    for number in range(count):
        text = source(rng)
        if number % 4:
            text = mutated(text, rng)
        start = time.monotonic()
        try:
            format_named(name).read([Source("fuzz", text.encode("utf-8", "surrogatepass"))], options)
            outcomes[0] += 1
        except HetesynthError as error:
            assert error.code in ("HS732", "HS733", "HS741") and error.message and error.help, text
            outcomes[1] += 1
        assert time.monotonic() - start < SECONDS, text
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("name", SOURCES)
def test_no_input_breaks_a_reader(name: str) -> None:
    read, refused = fuzz(name, 300, 1)
    assert read > 10 and refused > 10, "the inputs are all of one kind"


@pytest.mark.slow
@pytest.mark.parametrize("name", SOURCES)
def test_many_inputs_break_no_reader(name: str) -> None:
    read, refused = fuzz(name, 20_000, 2)
    assert read > 1000 and refused > 1000
