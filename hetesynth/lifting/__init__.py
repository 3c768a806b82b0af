"""Programs and schedules of anybody back to a ``Schedule`` on given links, by what they move and what waits."""
