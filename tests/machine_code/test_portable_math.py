"""Exponentials that are the same to the bit: as exact as the library's, and the same in every implementation."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.cell_variants import OLD_PROCESSOR

from hetesynth.search.portable_math import added, dot, exp, exponential, log, power

PLACES = np.concatenate((np.linspace(-40.0, 40.0, 4001), np.linspace(-1e-6, 1e-6, 101)))

DIGEST = """
import hashlib, numpy as np
from hetesynth.search.portable_math import dot, exp, log, power
places = np.linspace(-40.0, 40.0, 4001)
prices = exp(places)
results = (prices, log(prices), power(prices, 1.2), dot(np.outer(prices, prices[:50]), prices[:50]))
print(hashlib.sha256(b"".join(np.asarray(result).tobytes() for result in results)).hexdigest())
"""


def test_close_to_the_library() -> None:
    """Within a few units of the last place."""
    np.testing.assert_allclose(exp(PLACES), np.exp(PLACES), rtol=1e-15)
    positive = np.exp(PLACES)
    np.testing.assert_allclose(log(positive), np.log(positive), rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(power(positive, 1.2), positive**1.2, rtol=1e-13)
    np.testing.assert_allclose(power(positive, 8.0), positive**8, rtol=1e-14)


def test_sums_in_order() -> None:
    """Each addition rounds, also where `sum` of Python 3.12 keeps what was lost."""
    assert added([1e16, 1.0, -1e16]) == 0.0
    assert added([]) == 0.0


def test_ends() -> None:
    """What is too large is infinite, what is too small is zero."""
    with np.errstate(over="ignore", under="ignore"):
        assert exp(np.array([-1e9, 0.0, 1e9])).tolist() == [0.0, 1.0, np.inf]
    assert [exponential(x) for x in (-1e9, 0.0, 1e9)] == [0.0, 1.0, np.inf]
    assert power(np.array([0.0, 3.0]), 0).tolist() == [1.0, 1.0]


def test_inner_products() -> None:
    """Of a row, and of every row."""
    rows = np.arange(6.0).reshape(2, 3)
    assert dot(rows, np.array([1.0, 10.0, 100.0])).tolist() == [210.0, 543.0]
    assert dot(rows[0], rows[1]) == 14.0


def test_the_kernel_has_the_same_exponential_compiled() -> None:
    """To the bit: whether a kernel is compiled must not matter."""
    import numba

    compiled = numba.njit(exponential)
    places = PLACES[::40].tolist()
    assert [compiled(x) for x in places] == [exponential(x) for x in places]
    np.testing.assert_allclose([exponential(x) for x in places], np.exp(places), rtol=1e-15)


@pytest.mark.skipif(sys.platform != "linux", reason="variables of Linux libraries")
def test_same_on_an_older_processor() -> None:
    """Without wide vectors and fused products."""
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST], env={**os.environ, **extra}, capture_output=True, text=True, check=True
        ).stdout
        for extra in ({}, OLD_PROCESSOR)
    }
    assert len(digests) == 1
