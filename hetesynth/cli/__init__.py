"""The command line. An interrupt while it is still being loaded ends it as the signal does: no traceback.

Closed standard streams are opened before anything else is.
"""

import os
import sys
from types import TracebackType


def open_missing() -> None:
    """Open the null device under every one of the descriptors 0, 1 and 2 that is closed: it would be given to the
    next file that is opened, and what is printed would end up in it."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


open_missing()

_before = sys.excepthook


def _quiet(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _before(kind, error, where)


sys.excepthook = _quiet
