"""The verdict stands first in the text and on the page, and no figure beside it goes by a wrong name."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest

from hetesynth.cli import main

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "h20_4p8" / "topo.dsl"


@pytest.mark.parametrize("options", [["--size", "64MB"], ["--objective", "steps"]])
def test_the_page_begins_with_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    page = tmp_path / "page.html"
    words = ["synth", str(EXAMPLE), "--coll", "allgather", *options, "-o", str(tmp_path / "x")]
    assert main.run([*words, "--report", str(page)]) == 0
    text = capsys.readouterr().out
    verdict = text.splitlines()[0]
    assert verdict.startswith("program ")
    header = unescape(page.read_text()).split("</header>")[0]
    assert f'<p class="verdict">{verdict}</p>' in header
    assert (
        header.index(verdict)
        < header.index("Program, predicted")
        < header.index("Schedule step by step, predicted")
    )
