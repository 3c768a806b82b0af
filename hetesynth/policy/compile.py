"""From a request to files: peers, chunking, predictions nobody asked for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CompilePolicy:
    """From a request to files: peers, chunking, predictions nobody asked for."""
