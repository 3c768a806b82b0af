"""The command ``hetesynth``: finds the subcommand, turns failures into messages and exit codes.

Exit codes: 0 ok; 1 the answer is no (violations, infeasible); 2 usage or input; 3 gave up; 70 our bug.
"""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from importlib import import_module

import click

from hetesynth import __version__
from hetesynth.errors import HetesynthError, InternalError

COMMANDS = {
    "synth": "synth",
    "verify": "verify",
    "install-hint": "install_hint",
    "run": "run",
    "import": "import_",
    "simulate": "simulate",
    "bounds": "bounds",
    "topo": "topo",
    "bench": "bench",
}
ISSUES = "this is a bug in hetesynth: please report it with the command and the input"


class _Commands(click.Group):
    """Imports a subcommand when it is asked for, so that ``--help`` stays quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"hetesynth.cli.{COMMANDS[cmd_name]}").command
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line ``arguments``; the exit code."""
    gc.set_threshold(100_000, 20, 20)  # large clusters are millions of small values that all stay
    try:
        result = cli.main(args=arguments, prog_name="hetesynth", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except HetesynthError as error:
        click.echo(error.render(), err=True)
        return error.exit_code
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as error:
        error.show()
        return 2
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted before there was anything to keep", err=True)
        return 3
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:  # a full disk behind standard output, a name the system refuses
        with suppress(OSError):
            where = f" ({error.filename})" if error.filename else ""
            click.echo(f"error: {error.strerror or error}{where}", err=True)
        return 2
    except InternalError as error:
        click.echo(f"internal error: {error}\n  {ISSUES}", err=True)
        return 70
    except Exception as error:
        if os.environ.get("HETESYNTH_TRACEBACK"):
            raise
        click.echo(f"internal error: {type(error).__name__}: {error}\n  {ISSUES}", err=True)
        click.echo("  set HETESYNTH_TRACEBACK=1 to see where", err=True)
        return 70


if __name__ == "__main__":
    main()
