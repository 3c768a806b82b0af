"""The command line. An interrupt while it is still being loaded ends it as the signal does: no traceback.

Closed standard streams are opened before anything else is.
"""

from __future__ import annotations

import sys
from types import TracebackType

from hetesynth.cli.streams import open_missing

open_missing()

_before = sys.excepthook


def _quiet(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        _before(kind, error, where)


sys.excepthook = _quiet
