"""Values of attributes as the runtimes read them, and the findings about them.

In: the attributes of one element and where it stands. Out: integers, and findings: ``fatal`` when every runtime
refuses or misreads the file, ``minor`` when only some runtime minds. Knows nothing of what the values mean.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hetesynth.judge.msccl.findings import MAX_FINDINGS
from hetesynth.judge.msccl.rules import RULES
from hetesynth.model.verdict import Violation

_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]{0,17})\Z")
_STRTOL = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]{1,15}|0[0-7]{1,17}|[1-9][0-9]{0,17}|0)\Z")
MAX_KNOWN = 100_000
_LARGE = frozenset({"minBytes", "maxBytes"})


class Values:
    """Reads values and collects findings. ``rank``, ``block``, ``step``: where the reader stands.

    ``unreadable``: some value that the program needs is missing or has no meaning.
    """

    def __init__(self) -> None:
        self.fatal: list[Violation] = []
        self.minor: list[Violation] = []
        self.unreadable = False
        self.rank: int | None = None
        self.block: int | None = None
        self.step: int | None = None
        self._integers: dict[str, int] = {}
        self._reported: set[str] = set()

    def report(self, rule: str, message: str, line: int | None, minor: bool = False) -> None:
        """Keeps a finding about the place where the reader stands: MAX_FINDINGS, and the first of each rule."""
        violations = self.minor if minor else self.fatal
        if rule in self._reported and len(violations) >= MAX_FINDINGS:
            return
        self._reported.add(rule)
        parts = (("gpu", self.rank), ("thread block", self.block), ("step", self.step))
        where = " ".join(f"{word} {number}" for word, number in parts if number is not None)
        text = f"{where}: {message}" if where else message
        checked = RULES[rule]
        violations.append(
            Violation(
                checked.kind, text, rank=self.rank, thread_block=self.block, step=self.step, line=line,
                rule=checked.id,
            )
        )  # fmt: skip

    def missing(self, element: str, name: str, line: int) -> None:
        """An attribute that every reader requires is not there."""
        self.report("missing-attribute", f"attribute `{name}` is missing on <{element}>", line)
        self.unreadable = True

    def bad(self, rule: str, element: str, name: str, value: str | None, expected: str, line: int) -> None:
        """A value that means nothing, or an attribute that is not there."""
        if value is None:
            self.missing(element, name, line)
            return
        self.report(rule, f'{name}="{value[:40]}" on <{element}> is not {expected}', line)
        self.unreadable = True

    def integer(self, attributes: dict[str, str], element: str, name: str, line: int) -> int:
        """The value as C's ``strtol`` with base 0 reads it; 0 when there is none, which is reported."""
        text = attributes.get(name)
        if text is None:
            self.missing(element, name, line)
            return 0
        value = self._integers.get(text)
        return self._parsed(text, element, name, line) if value is None else value

    def integers(self, attributes: dict[str, str], element: str, names: Sequence[str], line: int) -> list[int]:
        """The values of several attributes."""
        read = self._integers
        try:
            return [read[attributes[name]] for name in names]
        except KeyError:  # one that is not there, or is read for the first time
            return [self.integer(attributes, element, name, line) for name in names]

    def _parsed(self, text: str, element: str, name: str, line: int) -> int:
        if not _STRTOL.match(text):
            self.bad("bad-integer", element, name, text, "a plain decimal integer", line)
            return 0
        plain = _DECIMAL.match(text)
        value = int(text) if plain else self._strtol(text, name, line)
        if name not in _LARGE and abs(value) >= 2**31:
            self.bad("bad-integer", element, name, text, "a number below 2^31", line)
            return 0
        if plain and name not in _LARGE and len(self._integers) < MAX_KNOWN:
            self._integers[text] = value
        return value

    def _strtol(self, text: str, name: str, line: int) -> int:
        digits = text.lstrip("+-").lower()
        base = 16 if digits.startswith("0x") else 8 if digits.startswith("0") and len(digits) > 1 else 10
        value = int(digits, base)
        if text.startswith("-"):
            value = -value
        how = {16: "hexadecimal", 8: "octal", 10: "with a sign"}[base]
        note = f'{name}="{text}" is written {how}; readers take it for {value}, write plain decimal'
        self.report("odd-integer", note, line, minor=True)
        return value
