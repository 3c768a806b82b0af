"""Make the pictures of the documentation, each as `hetesynth synth ... --report FILE.svg` draws it.

python docs/pictures/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from hetesynth.cli.main import run

HERE = Path(__file__).resolve().parent
PICTURES = {"h20_4p8.svg": ("h20_4p8", "allgather")}


def make(folder: Path) -> None:
    """Write every picture into ``folder``."""
    for name, (example, collective) in PICTURES.items():
        topology = HERE.parents[1] / "examples" / example / "topo.dsl"
        with TemporaryDirectory() as away:
            code = run(
                [
                    "synth",
                    str(topology),
                    "--coll",
                    collective,
                    "--objective",
                    "steps",
                    "-o",
                    away,
                    "--report",
                    str(folder / name),
                ]
            )
        if code:
            sys.exit(code)


if __name__ == "__main__":
    make(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
