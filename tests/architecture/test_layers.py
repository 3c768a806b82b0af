"""The layers that the pages print are those that import-linter checks, and every module has its row."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "hetesynth"
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
(LAYERS,) = (contract for contract in CONTRACTS if contract["type"] == "layers")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text()

Order = list[set[str]]


def printed(page: str) -> Order:
    """The layers of a page, the highest first: an indented ``cli > bench > ...`` and what continues it."""
    (block,) = re.findall(r"^ +cli >.*\n(?: +[>|].*\n)*", page, re.MULTILINE)
    return [set(layer.split(" | ")) for layer in re.split(r"\s+>\s+", " ".join(block.split()))]


def checked() -> Order:
    return [set(layer.split(" | ")) for layer in LAYERS["layers"]]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_a_page_prints_the_layers_that_are_checked(page: str) -> None:
    assert printed((ROOT / page).read_text()) == checked()


def test_printed_layers_are_read() -> None:
    page = "Imports go downward:\n\n    cli > a > b\n        > c | d\n        | e\n        > f\n\nand no > other\n"
    assert printed(page) == [{"cli"}, {"a"}, {"b"}, {"c", "d", "e"}, {"f"}]


def test_every_module_has_a_layer() -> None:
    """import-linter refuses one without; here is what it looks at."""
    assert LAYERS["exhaustive"] is True and LAYERS["containers"] == ["hetesynth"]
    modules = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert modules - {"__init__"} - set(LAYERS["exhaustive_ignores"]) == set().union(*checked())


def first_cells() -> list[tuple[str, str]]:
    """The first cell of each row of the page's table, and the rest of the row."""
    return [(where, what) for where, what in re.findall(r"^\| (`[^|]*) \| (.*) \|$", ARCHITECTURE, re.MULTILINE)]


def test_every_layer_has_a_row() -> None:
    cells = " ".join(where for where, _ in first_cells())
    named = {name.rstrip("/").removesuffix(".py") for name in re.findall(r"`(.+?)`", cells)}
    assert set().union(*checked()) - named == set()


@pytest.mark.parametrize("package", ["compile", "autotune", "commands"])
def test_a_row_names_every_file(package: str) -> None:
    told = " ".join(what for where, what in first_cells() if f"`{package}/`" in where)
    files = {path.name for path in (PACKAGE / package).glob("*.py")} - {"__init__.py"}
    assert {name for name in files if f"`{name}`" not in told} == set()
