"""Manifests that are wrong (wrong/*.toml) and what is said about each (wrong/*.txt)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError

WRONG = Path(__file__).resolve().parent / "wrong"
CASES = sorted(path.name for path in WRONG.glob("*.toml"))


@pytest.mark.parametrize("name", CASES)
def test_message_is_the_golden_one(
    name: str, golden: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(WRONG)
    with pytest.raises(HetesynthError) as caught:
        read_manifest(Path(name))
    assert caught.value.exit_code == 2 and isinstance(caught.value, SourceError)
    lines = [*(Path(name).read_text().splitlines() or [""]), ""]
    for finding in caught.value.diagnostics:  # which points into its source
        assert finding.code.startswith("HS86") and finding.help
        assert finding.span.line <= len(lines)
        assert finding.span.column <= len(lines[finding.span.line - 1]) + 1
    golden((WRONG / name).with_suffix(".txt"), (caught.value.render() + "\n").encode())


def test_every_code_is_shown() -> None:
    shown = "".join(path.read_text() for path in WRONG.glob("*.txt"))
    assert all(f"HS86{digit}" in shown for digit in range(1, 9))
