"""``hetesynth verify``: judge any MSCCL XML or MSCCL++ plan, and folders of them."""

import dataclasses
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import FILE, NewPath, json_option, root_option, targets_option, topology_losses
from hetesynth.cli.terminal import on_one_line, show, show_json, show_lines
from hetesynth.deploy.verify_files import FileVerdict, file_verdicts, loaded, walked
from hetesynth.engine.verify import Finding, Judged, Question, judge_file, sarif_of
from hetesynth.files.atomic import write_atomically
from hetesynth.model.target import targets_of
from hetesynth.model.words import counted
from hetesynth.processes import processors

READERS = {
    "accepted": "the reader takes the file",
    "refused": "the reader refuses the file",
    "crashes": "the reader crashes",
}
IN_JSON = {"error": "violations", "portability": "portability", "warning": "warnings", "note": "notes"}
SHOWN_ALIKE = 3  # findings of one rule
_SMS = "Multiprocessors (compute units) of a GPU: all thread blocks must fit [default: the target's]."
_PORTABLE = "Warnings, and findings that only some runtimes refuse, count as well."
_JUNIT = "Also write JUnit XML, a case for each file."


@click.command(name="verify")
@click.argument("paths", metavar="PATH...", type=FILE, nargs=-1, required=True)
@click.option("--topo", "topology", type=FILE, help="Also check every connection against this topology.")
@topology_losses
@root_option
@targets_option("Judge as this runtime would", "targets")
@click.option("--sms", type=click.IntRange(1), metavar="N", help=_SMS)
@click.option("--portable", is_flag=True, help=_PORTABLE)
@click.option("--jobs", type=click.IntRange(1), metavar="N", help="Processes [default: one a core].")
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="A SARIF 2.1.0 log on standard output.")
@click.option("--junit", "junit_file", type=NewPath(), metavar="FILE", help=_JUNIT)
def command(
    paths: tuple[Path, ...],
    topology: os.PathLike[str] | None,
    root: int | None,
    targets: tuple[str, ...],
    sms: int | None,
    portable: bool,
    jobs: int | None,
    as_json: bool,
    as_sarif: bool,
    junit_file: Path | None,
) -> int:
    """Execute every PATH symbolically and report what is wrong with it.

    A PATH is a program or a folder of programs. Exits 0 when nothing is wrong, 1 when something is, 2 when a PATH
    is no MSCCL XML and no plan at all.

    Checks connections, dependences, deadlock with the FIFO slots a runtime has, races, ranges, and that every
    rank ends with the right data, in place and out of place as the file claims. With --target: whether that
    runtime's reader takes the file, and all that goes wrong there. Without: what goes wrong on every runtime; what
    only breaks the limits that all share is listed apart and does not fail the file unless --portable is given.
    docs/verify.md lists the rules.

    Of several files, and of folders, there is one line a file. A folder that `build` or `atlas` wrote is judged
    for its own targets and held against its index.json. --topo also replays schedules.
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    question = Question(topology, root, targets_of(targets) if targets else (), sms)
    text, alone, passed = not (as_json or as_sarif), len(paths) == 1 and not paths[0].is_dir(), 0
    verdicts = []
    if alone:
        judged = judge_file(paths[0], question)
        verdicts = [FileVerdict(paths[0], judged, unusable=not judged.readable)]
    else:
        candidates, passed = walked(paths)
        for verdict in file_verdicts(candidates, loaded(question, candidates), jobs or processors()):
            verdicts.append(verdict)
            if text:
                show(one_line(verdict, portable=portable))
    if junit_file is not None:
        write_atomically(junit_file, junit(verdicts, portable=portable))
    if as_sarif:
        show_json(sarif_of([(verdict.path, verdict.judged) for verdict in verdicts]))
    elif as_json:
        files = [file_document(str(v.path), v.judged, ok=v.ok(portable=portable)) for v in verdicts]
        show_json(
            files[0] if alone else {"ok": all(f["ok"] for f in files), "passed_over": passed, "files": files}
        )
    elif alone:
        show_lines(file_report(paths[0], verdicts[0].judged))
    else:
        show(summary_line(verdicts, passed, portable=portable))
    if any(verdict.unusable for verdict in verdicts):
        return 2
    return int(not all(verdict.ok(portable=portable) for verdict in verdicts))


def file_report(file: Path, judged: Judged) -> Iterator[str]:
    """Yield the findings about one file, few of each rule, what each reader does with it, and the verdict."""
    program = on_one_line(file)
    helped: set[str] = set()
    for label in IN_JSON:
        alike: Counter[tuple[str | None, tuple[str, ...]]] = Counter()
        for finding in judged.findings:
            if finding.level != label:
                continue
            alike[finding.violation.rule, finding.targets] += 1
            if alike[finding.violation.rule, finding.targets] > SHOWN_ALIKE:
                continue
            yield finding_line(program, label, finding, several=len(judged.acceptance) > 1)
            if finding.help and finding.help not in helped:
                helped.add(finding.help)
                yield f"  help: {finding.help}"
        for (rule, _), count in alike.items():
            if count > SHOWN_ALIKE:
                yield f"  and {count - SHOWN_ALIKE} more of {rule or label} (--json has all)"
    for target, acceptance in judged.acceptance:
        wrong = sum(f.level == "error" and target in f.targets for f in judged.findings)
        fate = f"{READERS[acceptance]}; {counted(wrong, 'violation')}" if wrong else "ok"
        yield f"{program}: {target}: {fate}"
    if errors := judged.count("error"):
        verdict = f"{errors} violations"
    else:
        unchecked = "no hang and no race, but its data is NOT CHECKED: no collective says what it must be"
        verdict = "ok" if judged.data_checked else unchecked
    yield f"{program}: {verdict}{_harmless(judged)}"


def file_document(file: str, judged: Judged, *, ok: bool) -> dict[str, Any]:
    """The JSON of one file."""
    document: dict[str, Any] = {"file": file, "ok": ok, "data_checked": judged.data_checked}
    document |= {name: [] for name in IN_JSON.values()}
    for finding in judged.findings:
        fields = {k: v for k, v in dataclasses.asdict(finding.violation).items() if v is not None}
        more = {"help": finding.help, "targets": list(finding.targets)}
        document[IN_JSON[finding.level]].append(fields | {name: value for name, value in more.items() if value})
    if judged.acceptance:
        wrong = {name for f in judged.findings if f.level == "error" for name in f.targets}
        document["targets"] = {
            name: {"reader": acceptance, "ok": name not in wrong} for name, acceptance in judged.acceptance
        }
    return document


def finding_line(program: str, label: str, finding: Finding, *, several: bool) -> str:
    """``x.xml:3: error: syntax: ... [HX105]``."""
    v = finding.violation
    line = f":{v.line}" if v.line is not None else ""
    rule = f" [{v.rule}]" if v.rule is not None else ""
    whose = f" ({', '.join(finding.targets)})" if several and finding.targets else ""
    return f"{program}{line}: {label}: {v.kind}: {v.message}{rule}{whose}"


def _harmless(judged: Judged) -> str:
    """Return the number of findings that do not make a file wrong, in words."""
    stricter, warnings = judged.count("portability"), judged.count("warning")
    more = f"; {stricter} findings for runtimes with stricter limits" if stricter else ""
    return more + (f"; {counted(warnings, 'warning')}" if warnings else "")


def one_line(verdict: FileVerdict, *, portable: bool) -> str:
    """The line of one file of many: ``ok`` and for which targets, or the first thing that is wrong."""
    file, judged = on_one_line(verdict.path), verdict.judged
    if verdict.ok(portable=portable):
        whose = f" for {', '.join(verdict.targets)}" if verdict.targets else ""
        whose += "" if judged.data_checked else ", but its data is NOT CHECKED"
        remarks = [f for f in judged.findings if f.level == "note" and f.violation.kind == "file"]
        return f"{file}: ok{whose}{_harmless(judged)}" + "".join(f"; {f.violation.message}" for f in remarks[:1])
    findings = wrong_findings(judged, portable=portable)
    if not findings:
        return f"{file}: wrong: it is no program"
    first = finding_line(file, "wrong", findings[0], several=False).replace(": wrong: file: ", ": wrong: ")
    return first + (f"; and {len(findings) - 1} more" if len(findings) > 1 else "")


def wrong_findings(judged: Judged, *, portable: bool) -> list[Finding]:
    """Return the findings that make a file wrong, the worst first."""
    levels = ("error", "portability", "warning") if portable else ("error",)
    return [f for level in levels for f in judged.findings if f.level == level]


def summary_line(verdicts: Sequence[FileVerdict], passed: int, *, portable: bool) -> str:
    """``96 files: 95 ok, 1 wrong; 3 others passed over``."""
    right = [verdict for verdict in verdicts if verdict.ok(portable=portable)]
    wrong = f", {len(verdicts) - len(right)} wrong" if len(right) < len(verdicts) else ""
    unchecked = sum(not verdict.judged.data_checked for verdict in right)
    data = f" (data of {unchecked} NOT CHECKED)" if unchecked else ""
    others = f"; {counted(passed, 'other')} passed over" if passed else ""
    return f"{counted(len(verdicts), 'file')}: {len(right)} ok{data}{wrong}{others}"


def junit(verdicts: Sequence[FileVerdict], *, portable: bool) -> bytes:
    """A test case for each file, as CI systems read them (JUnit XML)."""
    from xml.etree import ElementTree

    wrong = sum(not verdict.ok(portable=portable) for verdict in verdicts)
    counts = {"tests": str(len(verdicts)), "failures": str(wrong), "errors": "0"}
    root = ElementTree.Element("testsuites", counts)
    suite = ElementTree.SubElement(root, "testsuite", {"name": "hetesynth verify", **counts})
    for verdict in verdicts:
        names = {"classname": _xml(str(verdict.path.parent)), "name": _xml(verdict.path.name)}
        case = ElementTree.SubElement(suite, "testcase", names)
        said = _xml(one_line(verdict, portable=portable))
        if not verdict.ok(portable=portable):
            findings = wrong_findings(verdict.judged, portable=portable)
            lines = [finding_line(on_one_line(verdict.path), f.level, f, several=True) for f in findings]
            ElementTree.SubElement(case, "failure", {"message": said}).text = _xml("\n".join(lines))
        elif not verdict.judged.data_checked:
            ElementTree.SubElement(case, "system-out").text = said
    ElementTree.indent(root, " ")
    return bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True)) + b"\n"


def _xml(text: str) -> str:
    """Return ``text`` with the characters that XML 1.0 cannot hold escaped."""
    allowed = "\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff"
    return re.sub(f"[^{allowed}]", lambda match: f"\\u{ord(match[0]):04x}", text)
