"""docs/recipes.md: what it names exists, its guards guard, and its first step without the others fails them."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
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
HERE = "tests/architecture/test_recipes.py"


def rows(page: str) -> set[str]:
    """What stands in code in the first cells of the tables of ``page``."""
    cells = re.findall(r"^\| (.*?) \|", (DOCS / page).read_text(), re.MULTILINE)
    return {name for cell in cells for name in (re.findall(r"`([^`]+)`", cell) or [cell.split(" ")[0]])}


# -- guards that stand nowhere else


def test_every_strategy_has_its_row() -> None:
    assert {row.name for row in ROWS} - rows("strategies.md") == set()


def test_every_target_has_its_rows() -> None:
    assert set(TARGETS) - rows("targets.md") == set()
    xml = {name for name, target in TARGETS.items() if not target.format.plan}
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


def test_the_recipes_are_linked() -> None:
    assert set(RECIPES) == set(NEWCOMERS)
    assert "](docs/recipes.md)" in (ROOT / "CONTRIBUTING.md").read_text()
    assert "](recipes.md)" in (DOCS / "architecture.md").read_text()


# -- recipes followed, in a copy of the checkout


@dataclass(frozen=True)
class Edit:
    """``text`` goes into the file right after ``anchor``; at its end where there is none."""

    path: str
    text: str
    anchor: str = ""

    def apply(self, root: Path) -> None:
        path = root / self.path
        old = path.read_text() if path.exists() else ""
        assert self.anchor in old, self
        before, anchor, after = old.partition(self.anchor) if self.anchor else (old, "", "")
        path.write_text(before + anchor + self.text + after)


@dataclass(frozen=True)
class Newcomer:
    """``begun``: the first steps of a recipe, after which each of its ``guards`` fails; ``done``: the others."""

    begun: tuple[Edit, ...]
    done: tuple[Edit, ...]
    guards: tuple[str, ...]


READER_TABLE = "hetesynth/judge/msccl/lint_readers.py"
RULES = "tests/verify/test_lint.py"
NEWCOMERS = {
    "A strategy": Newcomer(
        (Edit("hetesynth/search/greedy/newcomer.py", '"""A newcomer."""\n'),),
        (Edit("hetesynth/search/registry.py",
             '\n    StrategyRow("newcomer", "none", "nobody", "hetesynth.search.greedy.newcomer:STRATEGY"),',
              "ROWS: tuple[StrategyRow, ...] = ("),),
        ("tests/architecture/test_architecture.py::test_every_strategy_file_is_registered",),
    ),
    "A target": Newcomer(
        (Edit("hetesynth/model/target.py", '\nTARGETS["newcomer"] = replace(PORTABLE, name="newcomer")\n'),),
        (Edit("docs/targets.md", "\n| `newcomer` | a newcomer |\n"),
         Edit(READER_TABLE, '\n    "newcomer": Reader(),', "READERS: dict[str, Reader] = {"),
         Edit("docs/verify.md", "\n| newcomer | 104 |\n")),
        (f"{HERE}::test_every_target_has_its_rows",),
    ),
    "A node type": Newcomer(
        (Edit("dsl/library/newcomer.dsl",
              "# A newcomer.\n#\n# NICs, Latency, Reduce: none (data sheet; spec).\n#\n\n"
              "node newcomer {\n  gpus 4\n  mesh gpu[0-3] { bandwidth 1 GB/s }\n"
              "  nic nic0 { bandwidth 1 GB/s }\n  attach gpu[0-3] -> nic0\n}\n"),),
        (Edit("dsl/reference.md", "| `newcomer` | newcomer |\n", "| file | types |\n|---|---|\n"),
         Edit("tests/frontend/test_node_library.py", '\n    "newcomer": (4, 3, 1, 1),', "FIGURES = {")),
        ("tests/frontend/test_node_library.py::test_the_reference_lists_every_type",
         "tests/frontend/test_node_library.py::test_every_type_of_the_library"),
    ),
    "A collective": Newcomer(
        (Edit("hetesynth/model/collective.py", ', "newcomer"', '"scatter", "alltoall"'),),
        (Edit("hetesynth/search/collectives.py", ' | "newcomer"', 'case "allgather"'),
         Edit("tests/collectives/test_collectives.py",
              '\n    "newcomer": [((k,), {k}, {0, 1, 2}) for k in range(3)],',
              "HAND: dict[CollectiveName, list[tuple[tuple[int, ...], set[int], set[int]]]] = {")),
        ("tests/collectives/test_collectives.py::test_the_eight_collectives_by_hand[newcomer]",),
    ),
    "An importer": Newcomer(
        (Edit("hetesynth/engine/formats.py", '"newcomer", ', "FileKind = Literal["),),
        (Edit("hetesynth/engine/import_file.py", '\n    "newcomer": _of_schedule,', "Imported]] = {"),),
        (f"{HERE}::test_every_kind_of_file_is_imported_or_refused",),
    ),
    "A bound": Newcomer(
        (Edit("hetesynth/model/bound.py", ', "newcomer"', '"growth", "unsat"'),),
        (Edit("hetesynth/judge/bounds/judge.py", '\n    "newcomer": (type(None), _trivial_steps),',
              '"unsat": (UnsatWitness, query_steps),'),
         Edit("docs/certificates.md", "\n| newcomer | none | nothing |\n")),
        (f"{HERE}::test_every_bound_has_a_judge_and_a_row",),
    ),
    "An error code (HS)": Newcomer(
        (Edit("hetesynth/search/chunking.py", '\n\ndef newcomer() -> HetesynthError:\n'
              '    return HetesynthError("no", code="HS998")\n'),),
        (Edit("docs/errors.md", "| HS998 | a newcomer | 2 |\n"),),
        ("tests/architecture/test_error_codes.py::test_the_page_lists_every_code_once_and_no_other",),
    ),
    "A rule of a judge (HX)": Newcomer(
        (Edit("hetesynth/judge/msccl/rules.py",
              '\nHX199 newcomer syntax read | A newcomer. | No.', '_TABLE = """'),
         Edit("hetesynth/judge/mscclpp/rules.py",
              '\nHX899 plan-newcomer syntax read | A newcomer. | No.', '_TABLE = """')),
        (Edit("hetesynth/judge/msccl/linter.py", '\nNEWCOMER = "newcomer"\n'),
         Edit("hetesynth/judge/mscclpp/judge.py", '\nNEWCOMER = "plan-newcomer"\n'),
         Edit("docs/verify.md", "\n| HX199 | newcomer | syntax | read | A newcomer. | No. |\n"),
         Edit("docs/mscclpp.md", "\n| HX899 | plan-newcomer | syntax | read | A newcomer. | No. |\n")),
        (f"{RULES}::test_every_rule_is_used_and_every_use_has_a_rule",
         f"{RULES}::test_the_table_in_the_manual_is_that_of_the_code",
         "tests/verify/test_mscclpp_rules.py::test_every_rule_is_used_and_no_other",
         "tests/verify/test_mscclpp_rules.py::test_the_table_in_the_manual_is_that_of_the_code"),
    ),
    "A command": Newcomer(
        (Edit("hetesynth/cli/newcomer.py", '"""A newcomer."""\n\nimport click\n\n\n'
              '@click.command(name="newcomer")\ndef command() -> None:\n    """Say hello."""\n'),),
        (Edit("hetesynth/cli/main.py", '\n    "newcomer": ("newcomer", "Say hello."),', "COMMANDS = {"),
         Edit("docs/commands.md", "hetesynth newcomer # says hello\n", "```bash\n")),
        (f"{HERE}::test_every_command_is_in_the_table_and_the_manual",),
    ),
    "A threshold": Newcomer(
        (Edit("hetesynth/policy/lowering.py",
              '    newcomer: int = threshold(1, "newcomers", "Lets one in. Not measured.")\n'),),
        (Edit("CONTRIBUTING.md", " 1,000,000 |\n| thresholds | 1,000 |\n| words of pages |",
              "| words of pages |"),),
        ("tests/architecture/test_house_budget.py::test_the_house_keeps_its_budget[thresholds]",),
    ),
}  # fmt: skip


def python(root: Path, *arguments: str) -> str:
    """What a Python whose hetesynth is the one below ``root`` prints."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], cwd=root, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def outcomes(root: Path) -> dict[str, str]:
    """Every guard with what became of it: PASSED, FAILED or ERROR."""
    guards = [guard for newcomer in NEWCOMERS.values() for guard in newcomer.guards]
    said = python(root, "-m", "pytest", "-q", "-rA", "--tb=no", "-p", "no:cacheprovider", *guards)
    return {test: word for word, test in re.findall(r"^(PASSED|FAILED|ERROR) ([^\s]+)", said, re.MULTILINE)}


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str], dict[str, str]]:
    """A checkout in which all recipes were followed; what the guards said when they were begun, and when done."""
    root = tmp_path_factory.mktemp("checkout")
    ignored = shutil.ignore_patterns("__pycache__", "*.pyc")
    for name in ("hetesynth", "dsl", "docs", "tests"):
        shutil.copytree(ROOT / name, root / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md"):
        shutil.copy(ROOT / name, root)
    said = []
    for stage in ("begun", "done"):
        for newcomer in NEWCOMERS.values():
            for edit in getattr(newcomer, stage):
                edit.apply(root)
        said.append(outcomes(root))
    return root, said[0], said[1]


@pytest.mark.slow
@pytest.mark.parametrize("recipe", NEWCOMERS)
def test_a_recipe_half_followed_fails_its_guards(
    recipe: str, copied: tuple[Path, dict[str, str], dict[str, str]]
) -> None:
    _, begun, done = copied
    for guard in NEWCOMERS[recipe].guards:
        named = guard.partition("[")[0]
        assert tuple(named.split("::")) in GUARD.findall(RECIPES[recipe])
        assert (begun.get(guard), done.get(guard)) == ("FAILED", "PASSED"), guard


@pytest.mark.slow
def test_newcomers_are_found_by_the_command_line(copied: tuple[Path, dict[str, str], dict[str, str]]) -> None:
    root, _, _ = copied
    module = ("-m", "hetesynth")
    assert "newcomer" in python(root, *module, "--help")
    for command in ("synth", "install-hint"):
        assert re.search(r"\bnewcomer\b", python(root, *module, command, "--help"))
    assert "newcomer" in python(root, *module, "install-hint", "newcomer")
    assert "HS500" in python(root, *module, "install-hint", "stranger")
    assert re.search(r"alltoall\|newcomer\b", python(root, *module, "bounds", "--help"))
