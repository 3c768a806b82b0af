"""What commands print: the one place where text of any origin goes to standard output and standard error.

Names come from files and command lines of others. They are data: what would steer a terminal is shown escaped.
"""

import json
import os
import sys
from collections.abc import Iterable
from itertools import islice

import click

from hetesynth.model.diagnostics import visible

SHOWN_NAMES = 4


def show(text: str, *, err: bool = False) -> None:
    """Print ``text`` and a line end, whatever characters are in it and whatever the stream can encode."""
    stream = sys.stderr if err else sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        click.echo(visible(text).encode(encoding, "backslashreplace").decode(encoding), err=err)
    except BrokenPipeError:  # nobody reads any more: the rest counts as printed
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"standard {'error' if err else 'output'}") from error


def show_lines(lines: Iterable[str], *, err: bool = False) -> None:
    """Print ``lines``, of which there may be millions, without holding all of them."""
    rest = iter(lines)
    while batch := list(islice(rest, 10_000)):
        show("\n".join(batch), err=err)


def show_json(document: object) -> None:
    """Print ``document`` as ``--json`` and ``--sarif`` do."""
    show(json.dumps(document, indent=2))


def answer(document: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print ``document``, or ``lines`` that say the same."""
    if as_json:
        show_json(document)
    else:
        show_lines(lines)


def some(items: Iterable[object], number: int = SHOWN_NAMES) -> str:
    """The first ``number`` of ``items``, and how many there are in all."""
    listed = [str(item) for item in items]
    return ", ".join(listed[:number]) + (f", ... ({len(listed)} in all)" if len(listed) > number else "")


def on_one_line(file: object) -> str:
    """Return the name of a file with line ends escaped; a line of its own would pass for a verdict."""
    return str(file).replace("\n", "\\u000a")
