"""The parser of the topology language, from tables computed beforehand where they fit.

Building the LALR tables takes longer than everything else the frontend does, so dsl/ carries them as plain JSON.
They are used when they were made from this very grammar by this very version of Lark.

``python -m hetesynth.topology.language.tables`` writes them; a test says when that is due.
"""

import hashlib
import json
from typing import Any

import lark
from lark import Lark
from lark.grammar import Rule
from lark.lexer import PatternRE, PatternStr, TerminalDef

from hetesynth.topology.language.library import dsl_directory, grammar_text

TABLES = "topology.tables.json"
_WORD_END = r"(?![A-Za-z0-9_.*\[])"


def parser() -> Lark:
    """Return the parser of the grammar, from the stored tables if they fit, else built."""
    try:
        tables: dict[str, Any] = json.loads((dsl_directory() / TABLES).read_text(encoding="utf-8"))
        if tables["stamp"] == stamp():
            states = tables["data"]["parser"]["parser"]
            states["states"] = {int(state): actions for state, actions in states["states"].items()}
            memo = {int(number): value for number, value in tables["memo"].items()}
            loaded: Lark = Lark._load_from_dict(tables["data"], memo)  # type: ignore[no-untyped-call]
            return loaded
    except Exception:  # whatever is wrong with them: the grammar is still there
        return built()
    return built()


def built() -> Lark:
    """Return the parser with tables that are built now."""
    lark_parser: Lark = Lark(
        grammar_text(),
        parser="lalr",
        lexer="contextual",
        maybe_placeholders=False,
        propagate_positions=True,
        edit_terminals=_bounded,
    )
    lark_parser.options.options["edit_terminals"] = None  # done, and no data
    return lark_parser


def is_word(terminal: TerminalDef) -> bool:
    """Return True if ``terminal`` is a word of the language, such as `switch`."""
    return terminal.pattern.value.endswith(_WORD_END)


def _bounded(terminal: TerminalDef) -> None:
    """End a word of the language where a name would end: `clusters` is not `cluster s`, `nic[0]` not `nic [0]`."""
    if isinstance(terminal.pattern, PatternStr) and terminal.pattern.value.isalpha():
        terminal.pattern = PatternRE(terminal.pattern.value + _WORD_END)
        terminal.priority = 1  # before names, where both may stand


def stamp() -> str:
    """Return the hash of the grammar and of the version of Lark, from which tables must have been made."""
    return hashlib.sha256(f"lark {lark.__version__}\n{grammar_text()}".encode()).hexdigest()


def text() -> str:
    """Return the tables as JSON text for the file."""
    data, memo = built().memo_serialize([TerminalDef, Rule])
    return json.dumps({"stamp": stamp(), "data": data, "memo": memo}, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    (dsl_directory() / TABLES).write_text(text(), encoding="utf-8")
