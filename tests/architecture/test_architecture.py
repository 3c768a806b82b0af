"""Layers, registration, and what a quick command must not load."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hetesynth
from hetesynth.errors import HetesynthError
from hetesynth.search.registry import ROWS, names, strategy

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(hetesynth.__file__).parent
HEAVY = ("z3", "numpy", "scipy", "lark", "networkx", "lxml", "numba")


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return done.stdout


def test_the_layers_hold() -> None:
    pytest.importorskip("importlinter")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("no pyproject.toml next to the tests")
    from importlinter.cli import lint_imports

    assert lint_imports(config_filename=str(ROOT / "pyproject.toml"), no_cache=True) == 0


def test_every_strategy_file_is_registered() -> None:
    """What neither the registry nor the candidates for a size lead to is used by nobody."""
    grimp = pytest.importorskip("grimp")
    graph = grimp.build_graph("hetesynth", cache_dir=None)
    registered = {row.code.partition(":")[0] for row in ROWS}
    tops = {
        "hetesynth.search.registry",
        "hetesynth.engine.choice.candidates",
        "hetesynth.engine.composition",
        "hetesynth.search.solve",
        *registered,
    }
    used = set(tops)
    for top in tops:
        used |= graph.find_upstream_modules(top)
    families = {f"hetesynth.search.{p.parent.name}" for p in (PACKAGE / "search").glob("*/__init__.py")}
    modules = graph.find_descendants("hetesynth.search") - families
    elsewhere = {f"hetesynth.search.{m}" for m in ("effort", "bounds.ring_rate", "rounds")}  # by engine/
    assert modules - used <= elsewhere, f"register or remove: {sorted(modules - used)}"


def test_an_unknown_strategy_names_the_known_ones() -> None:
    with pytest.raises(HetesynthError) as caught:
        strategy("magic")
    assert caught.value.exit_code == 2 and all(name in caught.value.help for name in names("steps"))


@pytest.mark.parametrize(
    "code",
    [
        "import hetesynth, hetesynth.cli.main",
        "from hetesynth.cli.main import run; run(['--help'])",
        "from hetesynth.cli.main import run; run(['synth', '--help'])",
        "from hetesynth.cli.main import run; run(['--version'])",
        "from hetesynth.cli.main import run; run(['strategies', '--json'])",
        "import hetesynth.topology.language, hetesynth.search.chunking, hetesynth.judge.schedule.judge",
    ],
)
def test_quick_commands_load_nothing_heavy(code: str) -> None:
    out = python(f"import sys\n{code}\nimport json; print(json.dumps(sorted(set(sys.modules) & set({HEAVY!r}))))")
    assert json.loads(out.splitlines()[-1]) == []


def test_no_assert_validates_and_nothing_prints() -> None:
    """``python -O`` deletes asserts; only the command line writes to the terminal."""
    import ast

    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
            narrowing = isinstance(node, ast.Assert) and "is not None" in ast.unparse(node.test)
            if (isinstance(node, ast.Assert) and not narrowing) or (call and "cli" not in path.parts):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert not found


def test_every_module_says_what_it_is() -> None:
    import ast

    silent = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.read_text(encoding="utf-8").strip()
        and not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert not silent
