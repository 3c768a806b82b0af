"""``hetesynth verify``: judge any MSCCL XML or MSCCL++ plan, and folders of them."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, NewPath, json_option, root_option, targets_of, targets_option
from hetesynth.cli.terminal import show, show_lines
from hetesynth.files.atomic import write_atomically

if TYPE_CHECKING:
    from hetesynth.deploy.verify_files import FileVerdict
    from hetesynth.engine.verify import Judged, Question

SHOWN_ALIKE = 3  # findings of one rule


@click.command(name="verify", short_help="Execute and judge MSCCL XML files and MSCCL++ plans.")
@click.argument("paths", metavar="PATH...", type=click.Path(path_type=Path), nargs=-1, required=True)
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
@click.option(
    "--jobs", type=click.IntRange(1), metavar="N",
    help="Processes, of many files [default: as many as there are cores].",
)  # fmt: skip
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="A SARIF 2.1.0 log on standard output.")
@click.option(
    "--junit", "junit_file", type=NewPath(path_type=Path), metavar="FILE",
    help="Also write a JUnit XML with a test case for each file.",
)  # fmt: skip
def command(
    paths: tuple[Path, ...], portable: bool, jobs: int | None, as_json: bool, as_sarif: bool,
    junit_file: Path | None, **asked: Any,
) -> int:  # fmt: skip
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
    question = _question(**asked)
    form = Form(portable, "json" if as_json else "sarif" if as_sarif else "text")
    if len(paths) == 1 and not paths[0].is_dir():
        return _one(paths[0], question, form, junit_file)
    from hetesynth.processes import processors

    return _many(paths, question, form, jobs or processors(), junit_file)


def _question(
    topology: os.PathLike[str] | None, root: int | None, targets: tuple[str, ...], sms: int | None
) -> Question:  # fmt: skip
    from hetesynth.engine.verify import Question

    return Question(topology, root, targets_of(targets) if targets else (), sms)


@dataclass(frozen=True, slots=True)
class Form:
    """What counts, and how it is shown."""

    portable: bool
    kind: Literal["text", "json", "sarif"]


def _one(program: Path, question: Question, form: Form, junit_file: Path | None) -> int:
    from hetesynth.cli.render.verify import file_document, junit
    from hetesynth.deploy.verify_files import FileVerdict
    from hetesynth.engine import verify as judging

    judged = judging.judge_file(program, question)
    bad = judged.count("error") > 0 or (form.portable and judged.count("portability", "warning") > 0)
    if junit_file is not None:
        write_atomically(junit_file, junit([FileVerdict(program, judged)], portable=form.portable))
    if form.kind == "sarif":
        show(json.dumps(judging.sarif(program, judged), indent=2))
    elif form.kind == "json":
        show(json.dumps(file_document(str(program), judged, ok=not bad), indent=2))
    else:
        _print(program, judged)
    return int(bad) if judged.readable else 2


def _many(
    paths: Sequence[Path], question: Question, form: Form, jobs: int, junit_file: Path | None
) -> int:  # fmt: skip
    from hetesynth.cli.render.verify import files_document, junit, one_line, summary_line
    from hetesynth.deploy.verify_files import file_verdicts, loaded, walked
    from hetesynth.engine.verify import sarif_of

    walk = walked(paths)
    verdicts = []
    streamed = form.kind == "text" and not sys.stderr.isatty()
    judging = file_verdicts(walk.candidates, loaded(question, walk), jobs)
    for verdict in _with_progress(judging, len(walk.candidates)):
        verdicts.append(verdict)
        if streamed:
            show(one_line(verdict, portable=form.portable))
    if junit_file is not None:
        write_atomically(junit_file, junit(verdicts, portable=form.portable))
    if form.kind == "sarif":
        show(json.dumps(sarif_of([(verdict.path, verdict.judged) for verdict in verdicts]), indent=2))
    elif form.kind == "json":
        show(json.dumps(files_document(verdicts, walk.passed, portable=form.portable), indent=2))
    else:
        show_lines(one_line(verdict, portable=form.portable) for verdict in verdicts if not streamed)
        show(summary_line(verdicts, walk.passed, portable=form.portable))
    if any(verdict.unusable for verdict in verdicts):
        return 2
    return int(not all(verdict.ok(portable=form.portable) for verdict in verdicts))


def _with_progress(verdicts: Iterator[FileVerdict], number: int) -> Iterator[FileVerdict]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield from verdicts
        return
    with click.progressbar(verdicts, length=number, label="judging", file=sys.stderr, show_pos=True) as bar:
        yield from bar


def _print(file: Path, judged: Judged) -> None:
    from hetesynth.cli.render.verify import fate, finding_line, on_one_line, verdict_line

    program = on_one_line(file)
    helped: set[str] = set()
    for label in ("error", "portability", "warning", "note"):
        findings = [f for f in judged.findings if f.level == label]
        alike: Counter[tuple[str | None, tuple[str, ...]]] = Counter()
        for finding in findings:
            alike[finding.violation.rule, finding.targets] += 1
            if alike[finding.violation.rule, finding.targets] > SHOWN_ALIKE:
                continue
            show(finding_line(program, label, finding, several=len(judged.acceptance) > 1))
            if finding.help and finding.help not in helped:
                helped.add(finding.help)
                show(f"  help: {finding.help}")
        for (rule, _), count in alike.items():
            if count > SHOWN_ALIKE:
                show(f"  and {count - SHOWN_ALIKE} more of {rule or label} (--json has all)")
    for target, acceptance in judged.acceptance:
        wrong = sum(f.level == "error" and target in f.targets for f in judged.findings)
        show(f"{program}: {target}: {fate(acceptance, wrong)}")
    show(verdict_line(program, judged))
