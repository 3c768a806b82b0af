"""Collects findings so that several are reported at once, and raises them together as a ``SourceError``."""

from collections.abc import Iterable

from hetesynth.errors import did_you_mean as did_you_mean
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span

MAX_FINDINGS = 20
MAX_WORK = 8_000_000

_WAYS_OUT = {  # by code, where a finding names none of its own
    "HS203": "rename one, or remove it",
    "HS208": "section 4 of dsl/reference.md has the limits; describe repeated hardware once",
    "HS209": "state it once",
    "HS210": "a name is at most 64 letters, digits and underscores, several are a range, as nic[0-3] or nic[0,2]",
    "HS211": "a fabric joins NICs, a mesh GPUs, `attach` leads to a NIC, a bus has `members`, GPUs have no rates",
    "HS212": "name as many on both sides, or one on either side, by ranges such as gpu[0-3]",
    "HS217": "join their NICs with a fabric (`fabric ib { join *.nic*; }`) or add a link",
    "HS218": "say it once: in a switch, a bus, a fabric or an `attach`",
    "HS221": "section 3 of dsl/reference.md says what belongs together",
    "HS223": "a pod hangs together by itself and has its own groups: add a link, or make each piece an instance",
    "HS224": "name two parts that a link, a port, an `attach` or a `join` joins directly",
    "HS230": "write numbers, variables, + - * / %, min(,), max(,), and ranges like 0-3 or 0-(n-1)",
    "HS231": "use larger units, and check the values that this is used with",
}


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
        finding = Diagnostic(code, span, message, help or _WAYS_OUT.get(code, ""))
        self._found.setdefault((code, span), finding)
        if len(self._found) >= MAX_FINDINGS:
            self.raise_any()

    def reported(self, code: str, span: Span) -> bool:
        """Return True if a finding of ``code`` is at ``span`` already, so that its text need not be made again."""
        return (code, span) in self._found

    def spend(self, work: int, span: Span) -> None:
        """Count ``work`` (names matched, pairs joined); raise ``SourceError`` if a text asks for too much."""
        self._work += work
        self.limit(self._work, MAX_WORK, "names, patterns and pairs to work through", span)

    def limit(self, number: int, most: int, what: str, span: Span) -> None:
        """Raise where there are more than ``most`` of something."""
        if number > most:
            self.add("HS208", span, f"there are more than {most} {what}")
            self.raise_any()

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Note findings made elsewhere."""
        for diagnostic in diagnostics:
            self._found.setdefault((diagnostic.code, diagnostic.span), diagnostic)

    def raise_any(self) -> None:
        """Raise ``SourceError`` with everything found so far, if anything was."""
        if self._found:
            raise SourceError(list(self._found.values()), self.sources)
