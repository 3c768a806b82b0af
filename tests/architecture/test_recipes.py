"""docs/recipes.md: what it names exists, and the guards that stand nowhere else."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args, get_type_hints

import click
import pytest

import hetesynth
from hetesynth.cli.main import COMMANDS
from hetesynth.cli.topo import SUBCOMMANDS
from hetesynth.cli.topo import command as topo
from hetesynth.engine.formats import FileKind
from hetesynth.engine.import_file import IMPORTERS, NOT_IMPORTED
from hetesynth.judge.bounds import judge
from hetesynth.judge.msccl.lint_readers import READERS
from hetesynth.model.bound import LowerBound
from hetesynth.model.target import TARGETS
from hetesynth.search.registry import ROWS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "recipes.md").read_text()
RECIPES = {text.partition("\n")[0]: text for text in PAGE.split("\n## ")[1:]}
GUARD = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def rows(page: str) -> set[str]:
    """What stands in code in the first cells of the tables of ``page``."""
    cells = re.findall(r"^\| (.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for cell in cells for name in (re.findall(r"`([^`]+)`", cell) or [cell.split(" ")[0]])}


# -- guards that stand nowhere else


def test_every_strategy_has_its_row() -> None:
    assert {row.name for row in ROWS} - rows("strategies.md") == set()


def test_every_target_has_its_rows() -> None:
    assert set(TARGETS) - rows("targets.md") == set()
    xml = {name for name, target in TARGETS.items() if target.format.program}
    assert xml == set(READERS)


def test_every_kind_of_file_is_imported_or_refused() -> None:
    assert sorted([*IMPORTERS, *NOT_IMPORTED]) == sorted(get_args(FileKind))


def test_every_bound_has_a_judge_and_a_row() -> None:
    methods = set(get_args(get_type_hints(LowerBound)["method"]))
    assert methods == set(judge._WITNESS)
    assert methods - rows("certificates.md") == set()


def files_with_a_command(folder: Path) -> set[str]:
    """Modules, and packages by the name of their folder, that define ``command``."""
    return {
        path.parent.name if path.stem == "__init__" else path.stem
        for path in (*folder.glob("*.py"), *folder.glob("*/__init__.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name == "command"
    }


def test_every_subcommand_of_topo_is_in_the_table() -> None:
    folder = Path(hetesynth.__file__).parent / "cli" / "topo"
    assert files_with_a_command(folder) - {"topo"} <= {
        place.partition(":")[0] for place, _ in SUBCOMMANDS.values()
    }
    context = click.Context(topo)
    assert all(topo.get_command(context, name) is not None for name in SUBCOMMANDS)


def test_every_command_is_in_the_table_and_the_manual() -> None:
    files = files_with_a_command(Path(hetesynth.__file__).parent / "cli")
    assert files == {place for place, _ in COMMANDS.values()}
    manual = (ROOT / "docs" / "commands.md").read_text()
    assert {name for name in COMMANDS if f"hetesynth {name} " not in manual} == set()


# -- the page


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_counts_its_steps_and_names_files_and_guards(recipe: str) -> None:
    """That its files exist is tested with those of the other pages."""
    text = RECIPES[recipe]
    steps = [int(n) for n in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert steps == list(range(1, len(steps) + 1)) and len(steps) >= 3
    assert re.findall(r"`hetesynth/[\w/]+\.py`", text) and GUARD.findall(text)


@pytest.mark.parametrize(("path", "name"), sorted(set(GUARD.findall(PAGE))))
def test_every_guard_exists(path: str, name: str) -> None:
    nodes = ast.parse((ROOT / path).read_text()).body
    assert name in {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
