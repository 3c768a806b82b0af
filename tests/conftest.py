"""Options and fixtures for every test: golden files, and properties that take the same examples in every run.

``HYPOTHESIS_PROFILE=explore`` looks for new ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

_PATHS = (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, _PATHS))  # of processes that tests start
settings.register_profile("same", derandomize=True)
settings.register_profile("explore", print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

Golden = Callable[[Path, bytes], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--update-golden`` rewrites golden files instead of comparing with them."""
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files with what is produced now")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """``golden(path, data)``: ``data`` is what the file at ``path`` holds."""

    def check(path: Path, data: bytes) -> None:
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        assert path.exists(), f"{path.name} is missing: run pytest --update-golden"
        assert data.decode() == path.read_bytes().decode()

    return check
