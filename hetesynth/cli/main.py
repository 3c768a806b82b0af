"""The command ``hetesynth``: finds the subcommand, turns failures into messages and exit codes.

Exit codes: 0 ok; 1 the answer is no (violations, infeasible); 2 usage or input; 3 gave up; 70 our bug.
docs/errors.md has the table of the error codes.
"""

import gc
import io
import itertools
import json
import os
import sys
import time
import warnings
from contextlib import suppress
from typing import Any, TextIO

import click

from hetesynth import __version__
from hetesynth.cli.groups import CommandTable
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.diagnostics import SourceError, SourceWarning

COMMANDS = {
    "synth": ("synth", "Synthesize a schedule and write the program."),
    "repair": ("repair", "Repair a schedule after a GPU, a NIC or a link is lost."),
    "verify": ("verify", "Execute and judge MSCCL XML files and MSCCL++ plans."),
    "install-hint": ("install_hint", "Say how a runtime is made to use a file or a folder."),
    "run": ("run", "Execute a program with real data and check every byte."),
    "import": ("import_", "Turn an MSCCL XML into a schedule, and into files for other targets."),
    "simulate": ("simulate", "Predict the time of a schedule or a program."),
    "compare": ("compare", "Compare strategies by predicted time, size by size."),
    "atlas": ("atlas", "Write one schedule for each range of sizes, or each single loss."),
    "build": ("build", "Make the schedules of a manifest, where they are stale."),
    "bounds": ("bounds", "Print the lower bounds and how each is proved."),
    "pareto": ("pareto", "Find the frontier of steps and rounds."),
    "topo": ("topo", "Look at a topology, compare two."),
    "init": ("init", "Write a first topology or manifest to be edited."),
    "strategies": ("strategies", "List the strategies."),
}
ISSUES = "this is a bug in hetesynth: please report it with the command and the input"
USAGE, INTERRUPTED, SYSTEM, BUG = "HS001", "HS002", "HS003", "HS070"


@click.group(
    cls=CommandTable,
    table=COMMANDS,
    package="hetesynth.cli",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="hetesynth")
def cli() -> None:
    """Collective communication schedules for mixed GPU clusters, verified twice, with a proof of quality."""


def main() -> None:
    """Entry point: run, and exit with the code that says what happened."""
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # already reported; the interpreter would say it again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 2
    with suppress(OSError):
        sys.stderr.flush()
    if "mpi4py" not in sys.modules:
        os._exit(code)  # nothing is left to close; unloading compiled code would take as long as a small search
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line ``arguments`` and return the exit code. A failure is told on standard error and, with
    ``--json`` or ``--sarif`` among the arguments, on standard output in that form."""
    gc.set_threshold(1_000_000, 20, 20)  # large clusters are millions of small values that all stay
    try:
        for argument in arguments:  # what the system refuses later, and a name whose second line passes for ours
            if "\0" in argument or "\n" in argument:
                message = f"the argument '{argument[:200]}' has a NUL or a line end in it"
                raise HetesynthError(message, code=USAGE, help="leave it out; rename the file")
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
            began = time.monotonic()  # a time budget counts from here on, what is imported for a command included
            result = cli.main(args=arguments, prog_name="hetesynth", standalone_mode=False, obj=began)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except SystemExit:  # click's, where nobody reads its help any more
        return 0
    except (Exception, KeyboardInterrupt) as error:
        options = set(itertools.takewhile(lambda argument: argument != "--", arguments))
        return _fail(error, as_json="--json" in options, as_sarif="--sarif" in options)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning on standard error: about an input file its text alone, else as Python shows it."""
    about_input = issubclass(category, SourceWarning)
    text = str(message) if about_input else warnings.formatwarning(message, category, filename, lineno, line)
    show(text.rstrip("\n"), err=True)


def _fail(error: BaseException, *, as_json: bool, as_sarif: bool) -> int:
    """Say what went wrong; return the exit code."""
    coded = _coded(error)
    with suppress(OSError):  # a full disk behind standard error
        if isinstance(error, click.ClickException):
            usage = io.StringIO()
            error.show(usage)
            show(usage.getvalue().removesuffix("\n"), err=True)
        elif isinstance(error, HetesynthError):
            show(error.render(), err=True)
        else:
            label = "error: " if coded.code == SYSTEM else ""
            show(f"{label}{coded.message}" + (f"\n  {coded.help}" if coded.help else ""), err=True)
    document: dict[str, Any] | None = None
    if as_json:
        names = ("code", "message", "help", "exit_code")
        fields: dict[str, Any] = {name: getattr(coded, name) for name in names}
        if isinstance(coded, SourceError):
            fields["diagnostics"] = [diagnostic.plain() for diagnostic in coded.diagnostics]
        document = {"error": fields}
    elif as_sarif:
        from hetesynth.report.sarif import sarif_failure

        document = sarif_failure(coded, __version__)
    if document is not None:
        with suppress(OSError):
            show(json.dumps(document, indent=2))
    if coded.code == BUG and not isinstance(error, InternalError) and os.environ.get("HETESYNTH_TRACEBACK"):
        raise error
    return coded.exit_code


def _coded(error: BaseException) -> HetesynthError:
    """Return ``error`` as a failure with a code, a message and a way out."""
    if isinstance(error, HetesynthError):
        return error
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        help_ = f"{context.command_path} --help lists the options" if context else ""
        return HetesynthError(" ".join(error.format_message().split()), code=USAGE, help=help_)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        message = "interrupted before there was anything to keep"
        return HetesynthError(message, code=INTERRUPTED, exit_code=3)
    if isinstance(error, OSError):  # a full disk behind standard output, a name the system refuses
        where = f" ({error.filename})" if error.filename else ""
        return HetesynthError(f"{error.strerror or error}{where}", code=SYSTEM)
    if isinstance(error, InternalError):
        return HetesynthError(f"internal error: {error}", code=BUG, help=ISSUES, exit_code=70)
    message = f"internal error: {type(error).__name__}: {error}"
    help_ = f"{ISSUES}\n  set HETESYNTH_TRACEBACK=1 to see where"
    return HetesynthError(message, code=BUG, help=help_, exit_code=70)


if __name__ == "__main__":
    main()
