"""Options and fixtures for every test: golden files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
