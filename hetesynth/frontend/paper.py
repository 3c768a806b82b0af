"""The paper form (HeteCCL Appendix A, Figure 10), lowered to the block form."""

from __future__ import annotations

from hetesynth.frontend.findings import Findings
from hetesynth.frontend.syntax import File


def lowered(file: File, findings: Findings) -> File:
    """``file`` with its ``define`` statements replaced."""
    return file
