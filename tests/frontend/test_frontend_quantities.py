"""Quantities on the command line: what is read, and what is refused."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.language.units import Dimension, parse_quantity


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
        *((text, "size", "for example 16MB") for text in ("64Mb", "64", "1e3", "0M", "MB", "9" * 4000)),
        *((text, "size", "for example 16MB") for text in ("1e30GB", "-1MB", "nan", "inf", "1_0MB", "")),
        ("20 US", "time", "for example 0.7us"),
        ("25gbps", "bandwidth", "for example 400Gbps"),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(text: str, dimension: Dimension, help_: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        parse_quantity(text, dimension, "--x")
    assert (caught.value.code, caught.value.help) == ("HS307", help_)
