"""Rectangles and curves of drawings."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle by its left upper corner."""

    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> tuple[float, float]:
        """The centre."""
        return self.x + self.width / 2, self.y + self.height / 2

    def moved(self, down: float) -> Box:
        """The box further down."""
        return replace(self, y=self.y + down)


@dataclass(frozen=True, slots=True)
class WireCurve:
    """A quadratic curve: from, control point, to."""

    x1: float
    y1: float
    cx: float
    cy: float
    x2: float
    y2: float

    def at(self, t: float) -> tuple[float, float]:
        """The point at ``t``, from 0 to 1."""
        u = 1 - t
        return (
            u * u * self.x1 + 2 * u * t * self.cx + t * t * self.x2,
            u * u * self.y1 + 2 * u * t * self.cy + t * t * self.y2,
        )
