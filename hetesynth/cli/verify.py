"""``hetesynth verify``: judge any MSCCL XML or MSCCL++ plan."""

from __future__ import annotations

import dataclasses
import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, json_option, root_option, targets_of, targets_option
from hetesynth.cli.terminal import show

if TYPE_CHECKING:
    from hetesynth.commands.verify import Finding, Judged
    from hetesynth.model.verdict import Violation

SHOWN_ALIKE = 3  # findings of one rule


@click.command(name="verify", short_help="Execute and judge an MSCCL XML file or an MSCCL++ plan.")
@click.argument("program", type=click.Path(path_type=Path))
@click.option("--topo", "topology", type=TOPOLOGY, help="Also check every connection against this topology.")
@topology_losses
@root_option
@targets_option("Judge as this runtime would")
@click.option(
    "--sms", type=click.IntRange(1), metavar="N",
    help="Multiprocessors (compute units) of a GPU: all thread blocks must fit [default: the target's].",
)  # fmt: skip
@click.option(
    "--portable", is_flag=True,
    help="Warnings, and findings that only some runtimes refuse, count as well.",
)  # fmt: skip
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="A SARIF 2.1.0 log on standard output.")
def command(
    program: Path,
    topology: os.PathLike[str] | None,
    root: int | None,
    targets: tuple[str, ...],
    sms: int | None,
    portable: bool,
    as_json: bool,
    as_sarif: bool,
) -> int:
    """Execute PROGRAM symbolically and report what is wrong with it.

    Exits 0 when nothing is, 1 when something is, 2 when it is no MSCCL XML and no plan at all.

    Checks connections, dependences, deadlock with the FIFO slots a runtime has, races, ranges, and that every
    rank ends with the right data, in place and out of place as the file claims. With --target: whether that
    runtime's reader takes the file, and all that goes wrong there. Without: what goes wrong on every runtime; what
    only breaks the limits that all share is listed apart and does not fail the file unless --portable is given.
    docs/verify.md lists the rules.
    """
    from hetesynth.commands import verify as judging

    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    question = targets_of(targets) if targets else ()
    judged = judging.judge_file(program, judging.Question(topology, root, question, sms))
    bad = judged.count("error") > 0 or (portable and judged.count("portability", "warning") > 0)
    if as_sarif:
        show(json.dumps(judging.sarif(program, judged), indent=2))
    elif as_json:
        show(json.dumps(_document(program, judged, ok=not bad), indent=2))
    else:
        _print(program, judged)
    return int(bad) if judged.readable else 2


def _document(program: Path, judged: Judged, *, ok: bool) -> dict[str, Any]:
    def of(level: str) -> list[dict[str, Any]]:
        return [_plain(f) for f in judged.findings if f.level == level]

    document: dict[str, Any] = {
        "file": str(program),
        "ok": ok,
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


def _print(file: Path, judged: Judged) -> None:
    program = str(file).replace("\n", "\\u000a")  # a line of its own would pass for a verdict
    helped: set[str] = set()
    for label in ("error", "portability", "warning", "note"):
        findings = [f for f in judged.findings if f.level == label]
        alike: Counter[tuple[str | None, tuple[str, ...]]] = Counter()
        for finding in findings:
            alike[finding.violation.rule, finding.targets] += 1
            if alike[finding.violation.rule, finding.targets] > SHOWN_ALIKE:
                continue
            show(_line(program, label, finding, several=len(judged.acceptance) > 1))
            if finding.help and finding.help not in helped:
                helped.add(finding.help)
                show(f"  help: {finding.help}")
        for (rule, _), count in alike.items():
            if count > SHOWN_ALIKE:
                show(f"  and {count - SHOWN_ALIKE} more of {rule or label} (--json has all)")
    for target, acceptance in judged.acceptance:
        wrong = sum(f.level == "error" and target in f.targets for f in judged.findings)
        show(f"{program}: {target}: {_fate(acceptance, wrong)}")
    show(_verdict(program, judged))


def _line(program: str, label: str, finding: Finding, *, several: bool) -> str:
    v: Violation = finding.violation
    line = f":{v.line}" if v.line is not None else ""
    rule = f" [{v.rule}]" if v.rule is not None else ""
    whose = f" ({', '.join(finding.targets)})" if several and finding.targets else ""
    return f"{program}{line}: {label}: {v.kind}: {v.message}{rule}{whose}"


def _fate(acceptance: str, wrong: int) -> str:
    words = {
        "accepted": "the reader takes the file",
        "refused": "the reader refuses the file",
        "crashes": "the reader crashes",
    }
    if not wrong:
        return "ok"
    return f"{words[acceptance]}; {wrong} violation{'' if wrong == 1 else 's'}"


def _verdict(program: str, judged: Judged) -> str:
    from hetesynth.report.words import counted

    stricter, warnings = judged.count("portability"), judged.count("warning")
    more = "" if not stricter else f"; {stricter} findings for runtimes with stricter limits"
    more += "" if not warnings else f"; {counted(warnings, 'warning')}"
    errors = judged.count("error")
    return f"{program}: {errors} violations{more}" if errors else f"{program}: ok{more}"
