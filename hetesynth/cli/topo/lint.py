"""``hetesynth topo lint``: what is doubtful about topology files that are right."""

import os

import click

from hetesynth.cli.options import FILE, json_option, topology_losses_of
from hetesynth.cli.terminal import show, show_json
from hetesynth.deploy import topology_files as linting
from hetesynth.model.diagnostics import render
from hetesynth.model.words import counted


@click.command(name="lint")
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--strict", is_flag=True, help="Exit 1 when there is a warning.")
@json_option
@click.option("--sarif", "as_sarif", is_flag=True, help="A SARIF 2.1.0 log on standard output.")
@topology_losses_of("files")
def command(files: tuple[os.PathLike[str], ...], strict: bool, as_json: bool, as_sarif: bool) -> int:
    """Look at FILES for what is right and probably not meant: wrong units, missing links, idle hardware.

    Exits 2 when a file cannot be read or is wrong, else 1 with --strict and a warning, else 0. docs/lint.md lists
    the rules.
    """
    if as_json and as_sarif:
        raise click.UsageError("--json and --sarif exclude each other")
    linted = linting.lint_files(files)
    wrong = [file.error for file in linted if file.error is not None]
    bad = strict and any(file.count("warning") for file in linted)
    if as_sarif:
        show_json(linting.sarif(linted))
    elif as_json:
        show_json(linting.document(linted, ok=not wrong and not bad))
    else:
        for file in linted:
            if file.error is not None:
                show(f"{file.error.render()}\n{file.path}: wrong")
                continue
            for finding in file.findings:
                show(render(finding, file.sources.get(finding.span.file)))
            warnings, notes = file.count("warning"), file.count("note")
            told = [counted(warnings, "warning")] * bool(warnings) + [counted(notes, "note")] * bool(notes)
            show(f"{file.path}: {', '.join(told) or 'ok'}")
    return 2 if wrong else int(bad)
