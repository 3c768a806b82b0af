"""Any command on any files: a known exit code, no traceback, no hang, no gigabytes, no raw escape characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_fuzz import outcomes

FIRST, LAST = 1000, 1200


@pytest.mark.slow
def test_no_command_breaks(tmp_path: Path) -> None:
    found = dict(outcomes(FIRST, LAST, tmp_path))
    assert {seed: o.complaint for seed, o in found.items() if o.complaint} == {}
    assert {0, 1, 2} <= {o.code for o in found.values()}, "the inputs are not as different as they should be"
