"""What Z3 is given: models, resource units, neighbourhoods."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SmtPolicy:
    """What Z3 is given: models, resource units, neighbourhoods."""
