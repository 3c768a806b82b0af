"""``--log``: what CEGIS did is written when the search has ended, however it ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hetesynth.cli.progress import warned
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace


@contextmanager
def logging_to(log: Path | None, strategy: str) -> Iterator[CegisTrace]:
    """A trace whose entries are in ``log`` after the work inside, after Ctrl-C and failures too.

    Where CEGIS did not run the log is empty, which a note says; where the work failed before it ran nothing is
    written.
    """
    trace = CegisTrace()
    try:
        yield trace
    except BaseException:
        if log is not None and trace.entries:
            try:
                _write(log, trace)
            except HetesynthError as failure:  # what ended the work is told after it
                warned(failure.message)
        raise
    if log is None:
        return
    _write(log, trace)
    if not trace.entries:
        why = "there was no time" if strategy == "cegis" else "--strategy cegis runs it"
        warned(f"{log} is empty: CEGIS did not run (strategy {strategy}); {why}")


def _write(log: Path, trace: CegisTrace) -> None:
    from hetesynth.engine.places import write_log

    write_log(log, trace)
