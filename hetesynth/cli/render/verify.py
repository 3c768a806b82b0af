"""What ``verify`` says of a file, in lines and in JSON; of many files a line each.

In: what was judged. Out: text and plain values. Decides nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.verify_files import FileVerdict
    from hetesynth.engine.verify import Finding, Judged
    from hetesynth.model.verdict import Violation


def file_document(file: str, judged: Judged, *, ok: bool) -> dict[str, Any]:
    """The JSON of one file."""

    def of(level: str) -> list[dict[str, Any]]:
        return [_plain(f) for f in judged.findings if f.level == level]

    document: dict[str, Any] = {
        "file": file,
        "ok": ok,
        "data_checked": judged.data_checked,
        "violations": of("error"),
        "portability": of("portability"),
        "warnings": of("warning"),
        "notes": of("note"),
    }
    if judged.acceptance:
        wrong = {name for f in judged.findings if f.level == "error" for name in f.targets}
        document["targets"] = {
            name: {"reader": acceptance, "ok": name not in wrong} for name, acceptance in judged.acceptance
        }
    return document


def _plain(finding: Finding) -> dict[str, Any]:
    fields = {k: v for k, v in dataclasses.asdict(finding.violation).items() if v is not None}
    if finding.help:
        fields["help"] = finding.help
    return {**fields, "targets": list(finding.targets)} if finding.targets else fields


def on_one_line(file: object) -> str:
    """The name of a file; a line of its own would pass for a verdict."""
    return str(file).replace("\n", "\\u000a")


def finding_line(program: str, label: str, finding: Finding, *, several: bool) -> str:
    """``x.xml:3: error: syntax: ... [HX105]``."""
    v: Violation = finding.violation
    line = f":{v.line}" if v.line is not None else ""
    rule = f" [{v.rule}]" if v.rule is not None else ""
    whose = f" ({', '.join(finding.targets)})" if several and finding.targets else ""
    return f"{program}{line}: {label}: {v.kind}: {v.message}{rule}{whose}"


def fate(acceptance: str, wrong: int) -> str:
    """What becomes of a file on one runtime."""
    words = {
        "accepted": "the reader takes the file",
        "refused": "the reader refuses the file",
        "crashes": "the reader crashes",
    }
    if not wrong:
        return "ok"
    return f"{words[acceptance]}; {wrong} violation{'' if wrong == 1 else 's'}"


def verdict_line(program: str, judged: Judged) -> str:
    """``x.xml: ok``, or how many violations it has."""
    more = _less(judged)
    errors = judged.count("error")
    if not errors and not judged.data_checked:
        why = "no collective says what it must be"
        return f"{program}: no hang and no race, but its data is NOT CHECKED: {why}{more}"
    return f"{program}: {errors} violations{more}" if errors else f"{program}: ok{more}"


def _less(judged: Judged) -> str:
    """What does not make a file wrong."""
    stricter, warnings = judged.count("portability"), judged.count("warning")
    more = "" if not stricter else f"; {stricter} findings for runtimes with stricter limits"
    return more + ("" if not warnings else f"; {counted(warnings, 'warning')}")


def one_line(verdict: FileVerdict, *, portable: bool) -> str:
    """The line of one file of many: ``ok`` and for which targets, or the first thing that is wrong."""
    file, judged = on_one_line(verdict.path), verdict.judged
    if verdict.ok(portable=portable):
        whose = f" for {', '.join(verdict.targets)}" if verdict.targets else ""
        whose += "" if judged.data_checked else ", but its data is NOT CHECKED"
        notes = [f"; {f.violation.message}" for f in judged.findings if _is_remark(f)]
        return f"{file}: ok{whose}{_less(judged)}{''.join(notes[:1])}"
    findings = wrong_findings(judged, portable=portable)
    if not findings:
        return f"{file}: wrong: it is no program"
    first = finding_line(file, "wrong", findings[0], several=False).replace(": wrong: file: ", ": wrong: ")
    return first + (f"; and {len(findings) - 1} more" if len(findings) > 1 else "")


def _is_remark(finding: Finding) -> bool:
    return finding.level == "note" and finding.violation.kind == "file"


def wrong_findings(judged: Judged, *, portable: bool) -> list[Finding]:
    """What makes a file wrong, the worst first."""
    levels = ("error", "portability", "warning") if portable else ("error",)
    return [f for level in levels for f in judged.findings if f.level == level]


def summary_line(verdicts: Sequence[FileVerdict], passed: int, *, portable: bool) -> str:
    """``96 files: 95 ok, 1 wrong; 3 others passed over``."""
    right = sum(verdict.ok(portable=portable) for verdict in verdicts)
    wrong = f", {len(verdicts) - right} wrong" if right < len(verdicts) else ""
    unchecked = sum(v.ok(portable=portable) and not v.judged.data_checked for v in verdicts)
    data = f" (data of {unchecked} NOT CHECKED)" if unchecked else ""
    others = f"; {counted(passed, 'other')} passed over" if passed else ""
    return f"{counted(len(verdicts), 'file')}: {right} ok{data}{wrong}{others}"


def files_document(verdicts: Sequence[FileVerdict], passed: int, *, portable: bool) -> dict[str, Any]:
    """The JSON of many files."""
    return {
        "ok": all(verdict.ok(portable=portable) for verdict in verdicts),
        "passed_over": passed,
        "files": [file_document(str(v.path), v.judged, ok=v.ok(portable=portable)) for v in verdicts],
    }


def junit(verdicts: Sequence[FileVerdict], *, portable: bool) -> bytes:
    """A test case for each file, as CI systems read them (JUnit XML)."""
    from xml.etree import ElementTree

    wrong = [verdict for verdict in verdicts if not verdict.ok(portable=portable)]
    counts = {"tests": str(len(verdicts)), "failures": str(len(wrong)), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "hetesynth verify", **counts})
    for verdict in verdicts:
        names = {"classname": _xml(str(verdict.path.parent)), "name": _xml(verdict.path.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        if not verdict.ok(portable=portable):
            findings = wrong_findings(verdict.judged, portable=portable)
            lines = [finding_line(on_one_line(verdict.path), f.level, f, several=True) for f in findings]
            message = _xml(one_line(verdict, portable=portable))
            ElementTree.SubElement(case, "failure", {"message": message}).text = _xml("\n".join(lines))
        elif not verdict.judged.data_checked:
            ElementTree.SubElement(case, "system-out").text = _xml(one_line(verdict, portable=portable))
    ElementTree.indent(root, " ")
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"


def _xml(text: str) -> str:
    """``text`` without what XML 1.0 cannot hold."""

    def allowed(c: str) -> bool:
        return c in "\t\n" or " " <= c <= "\ud7ff" or "\ue000" <= c <= "\ufffd" or c >= "\U00010000"

    return "".join(c if allowed(c) else f"\\u{ord(c):04x}" for c in text)
