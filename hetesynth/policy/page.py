"""The thresholds of ``DEFAULT`` as a page: docs/policy.md.

In: a policy. Out: Markdown, a table for each section with the name, value, unit and reason of every threshold.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from hetesynth.policy.policy import DEFAULT, Policy

HEAD = """# Policy

Every threshold by which the compiler decides, with its unit and why it has its value. A request and a search carry
them (`hetesynth/policy/`), so that a test or an experiment replaces what it likes; [recipes.md](recipes.md) says
how to add one. Written by `python -m hetesynth.policy > docs/policy.md`; a test fails where it is out of date.
"""
LONG_NUMBER = 10_000


def page(policy: Policy = DEFAULT) -> str:
    """The page for ``policy``; sections without thresholds are left out."""
    sections = [(f.name, getattr(policy, f.name)) for f in fields(policy)]
    return "\n".join([HEAD, *(_section(name, section) for name, section in sections if fields(section))])


def _section(name: str, section: object) -> str:
    """Heading, what the section decides, and its table."""
    summary = (type(section).__doc__ or "").partition("\n")[0]
    rows = [
        f"| `{f.name}` | {_text(getattr(section, f.name))} | {f.metadata['unit']} | {f.metadata['why']} |"
        for f in fields(section)  # type: ignore[arg-type]
    ]
    return "\n".join(
        [f"## {name}", "", summary, "", "| name | value | unit | why |", "|---|---|---|---|", *rows, ""]
    )


def _text(value: object) -> str:
    """A number, a tuple or a record of such, as it is read: 24,000; 0.9; (1, 8); load 2,000, compile 200."""
    if is_dataclass(value):
        values = ((f.name.replace("_", " "), getattr(value, f.name)) for f in fields(value))
        return ", ".join(f"{name} {_text(limit)}" for name, limit in values if limit is not None)
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))})"
    return f"{value:,}" if isinstance(value, int) and abs(value) >= LONG_NUMBER else f"{value}"
