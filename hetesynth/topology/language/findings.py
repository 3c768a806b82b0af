"""Collects findings so that several are reported at once, and raises them together as a ``SourceError``."""

from __future__ import annotations

from collections.abc import Iterable

from hetesynth.errors import did_you_mean as did_you_mean
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span

MAX_FINDINGS = 20
MAX_WORK = 8_000_000


class Findings:
    """The findings so far, one of a kind at each place, and the texts they point into."""

    def __init__(self) -> None:
        self.sources: dict[str, str] = {}
        self._found: dict[tuple[str, Span], Diagnostic] = {}
        self._work = 0

    def __bool__(self) -> bool:
        return bool(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def add(self, code: str, span: Span, message: str, help: str = "") -> None:
        """Note one finding; raises at once when there are too many to be worth reading."""
        self._found.setdefault((code, span), Diagnostic(code, span, message, help))
        if len(self._found) >= MAX_FINDINGS:
            self.raise_any()

    def reported(self, code: str, span: Span) -> bool:
        """Whether there is such a finding at this place, so that its words need not be made again."""
        return (code, span) in self._found

    def spend(self, work: int, span: Span) -> None:
        """Count ``work`` (names matched, pairs joined); a text that asks for too much of it ends here."""
        self._work += work
        self.limit(self._work, MAX_WORK, "names, patterns and pairs to work through", span)

    def limit(self, number: int, most: int, what: str, span: Span) -> None:
        """Raise where there are more than ``most`` of something."""
        if number > most:
            help_ = "describe repeated hardware once, by types, ranges and switches"
            self.add("HS208", span, f"there are more than {most} {what}", help_)
            self.raise_any()

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Note findings made elsewhere."""
        for diagnostic in diagnostics:
            self._found.setdefault((diagnostic.code, diagnostic.span), diagnostic)

    def raise_any(self) -> None:
        """Raise ``SourceError`` with everything found so far, if anything was."""
        if self._found:
            raise SourceError(list(self._found.values()), self.sources)
