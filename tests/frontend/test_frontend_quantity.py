"""Quantities on the command line: what is read, and what a near miss is asked back."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.language.quantity import parse_quantity
from hetesynth.topology.language.units import Dimension


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("64MB", "size", 64 * 10**6),
        ("1.5 KiB", "size", 1536),
        ("20us", "time", Fraction(1, 50_000)),
        *((text, "size", 2**26) for text in ("64M", "64m", "64Mi", "64mi", "64MIB", "64mib", "64 MiB")),
        *((text, "size", 64 * 10**6) for text in ("64mb", "64mB", "64 MB")),
        ("1GiB", "size", 2**30),
        ("1.5g", "size", 3 * 2**29),
        ("8K", "size", 2**13),
        ("2T", "size", 2**41),
        ("2tb", "size", 2 * 10**12),
        *((text, "size", 10**15) for text in ("1PB", "1pb", "0.001EB")),
        *((text, "size", 2**50) for text in ("1PiB", "1P", "1pib")),
    ],
)
def test_quantities(text: str, dimension: Dimension, value: Fraction) -> None:
    assert parse_quantity(text, dimension, "--x") == value


@pytest.mark.parametrize(
    ("text", "dimension", "help_"),
    [
        ("64Mb", "size", "did you mean 64MB?"),
        ("64Kib", "size", "did you mean 64KiB?"),
        ("64", "size", "did you mean 64B?"),
        ("1e3", "size", "did you mean 1000B?"),
        ("1.5e6B", "size", "did you mean 1500000B?"),
        ("20 US", "time", "did you mean 20us?"),
        ("20u", "time", "did you mean 20us?"),
        ("0M", "size", "for example 16MB"),
        ("1.5e0", "size", "for example 16MB"),
        ("64 pounds", "size", "for example 16MB"),
        ("MB", "size", "for example 16MB"),
        ("25gbps", "bandwidth", "for example 400Gbps"),
        ("9" * 4000, "size", "for example 16MB"),
        ("1e3MB", "size", "did you mean 1000MB?"),
        *((text, "size", "for example 16MB") for text in ("1e30GB", "-1MB", "nan", "inf", "1e400B", "1_0MB", "")),
    ],
)
def test_near_misses(text: str, dimension: Dimension, help_: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        parse_quantity(text, dimension, "--x")
    assert (caught.value.code, caught.value.help) == ("HS307", help_)
    if help_.startswith("did you mean"):
        meant = help_.removeprefix("did you mean ").removesuffix("?")
        assert parse_quantity(meant, dimension, "--x") > 0
