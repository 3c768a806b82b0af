"""What the pages say of the tree is true: files, folders and links exist; the words are those of the glossary."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import click
import pytest

import hetesynth
from hetesynth.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("hetesynth", "tests", "docs", "examples", "dsl", ".ci", ".github")
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/README.md", "dsl/reference.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
NAMED = [page.relative_to(ROOT).as_posix() for page in PAGES]
PLACEHOLDER = re.compile(r"/[A-Z]{4,}$")  # tests/STAGE
ELSEWHERE = {"hetesynth/_dsl", "PERFORMANCE.md", "load_plans.py"}  # in the wheel; of nccl-tests; deployed

# what docs/glossary.md replaces; words that are also plain English ("a way out") are left to the reader
REPLACED = re.compile(
    r"\b(contenders?|contests?|finalists?|terrain|plants?|panes?|torn|pac(?:e|es|ed|ing)|on duty|landing bound"
    r"|punctual|dissemination|requery|crowds?|surroundings|server rails|teams?"
    r"|windows|with a pause)\b",
    re.IGNORECASE,
)
OLD_NAMES = re.compile(r"`[^`]*`")  # the changelog says what is called otherwise now


@cache
def tree() -> frozenset[str]:
    """Every file and every folder of the checkout, from its root."""
    paths = [ROOT / name for name in FOLDERS] + list(ROOT.iterdir())
    paths += [path for name in FOLDERS for path in (ROOT / name).rglob("*") if "__pycache__" not in path.parts]
    return frozenset(path.relative_to(ROOT).as_posix() for path in paths)


@cache
def tails() -> frozenset[str]:
    """Every path as it may be shortened: ``judge/msccl/judge.py``, ``msccl/judge.py``, ``judge.py``."""
    return frozenset(path.split("/", n)[n] for path in tree() for n in range(path.count("/") + 1))


def paths_in(text: str) -> set[str]:
    """What ``text`` names as a path of this tree: from its root, or ending with ``.py``, ``.md``, ``.lark``."""
    text = re.sub(r"\w+://\S+", " ", text)
    full = re.findall(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, FOLDERS))})/[\w./*-]+", text)
    short = re.findall(r"(?<![\w./*-])(?:\w[\w.-]*/)*\w[\w-]*\.(?:py|md|lark)\b", text)
    folders = [name.rstrip("/") for name in re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`", text)]
    return {path.rstrip("./") for path in (*full, *short, *folders) if not PLACEHOLDER.search(path)}


def missing(path: str) -> bool:
    """Whether there is no such file or folder. ``*`` stands for anything."""
    if path in ELSEWHERE or path in tree():
        return False
    if "*" in path:
        return not any(ROOT.glob(path))
    if path.split("/")[0] in FOLDERS and "/" in path:
        return True
    return path not in tails()


@pytest.mark.parametrize("page", NAMED)
def test_every_path_of_a_page_exists(page: str) -> None:
    assert sorted(filter(missing, paths_in((ROOT / page).read_text()))) == []


@pytest.mark.parametrize("page", NAMED)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text())
    inside = [link for link in links if "://" not in link]
    assert [link for link in inside if not ((ROOT / page).parent / link).exists()] == []


@pytest.mark.parametrize("page", NAMED)
def test_pages_use_the_words_of_the_glossary(page: str) -> None:
    text = (ROOT / page).read_text()
    if page == "docs/changelog.md":
        text = OLD_NAMES.sub("", text)
    assert sorted({word.lower() for word in REPLACED.findall(text)}) == []


def commands(command: click.Command, context: click.Context) -> list[tuple[click.Command, click.Context]]:
    """``command`` and every command below it."""
    found = [(command, context)]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            found += commands(below, click.Context(below, info_name=name, parent=context))
    return found


def test_help_and_messages_use_the_words_of_the_glossary() -> None:
    """Help as it is shown, and every text in the code of the command line."""
    told = [
        command.get_help(context) for command, context in commands(cli, click.Context(cli, info_name="hetesynth"))
    ]
    assert len(told) > 10
    for path in sorted((Path(hetesynth.__file__).parent / "cli").rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text()))
        told += [n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    assert sorted({word for text in told for word in REPLACED.findall(text)}) == []
