"""The two kinds of failure: what the user can mend, and what is our bug."""

from collections.abc import Iterable


class HetesynthError(Exception):
    """The user can fix it: a message, a stable code such as ``HS301``, and a way out.

    The message is one line: a name in it from a file or a command line begins no line of its own.
    ``exit_code`` follows docs/architecture.md: 1 the answer is no, 2 usage or input, 3 gave up.
    """

    def __init__(self, message: str, *, code: str = "HS000", help: str = "", exit_code: int = 2) -> None:
        self.message = message.replace("\n", "\\u000a")
        super().__init__(self.message)
        self.code = code
        self.help = help
        self.exit_code = exit_code

    def render(self) -> str:
        """The text a terminal shows: ``error[CODE]: message`` and, when there is one, a help line."""
        text = f"error[{self.code}]: {self.message}"
        return f"{text}\n  help: {self.help}" if self.help else text


class InternalError(Exception):
    """Our bug: an invariant that the code itself must keep was broken. Exit code 70."""


def did_you_mean(wrong: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """``did you mean `x`?`` for the nearest of ``candidates``, else the list of them, else ``otherwise``."""
    import difflib

    names = sorted(set(candidates))
    if len(wrong) <= 80:
        near = difflib.get_close_matches(wrong, names[:500], n=1, cutoff=0.6)
        if near:
            return f"did you mean `{near[0]}`?"
    if names and len(names) <= 12:
        return "known here: " + ", ".join(names)
    return otherwise
