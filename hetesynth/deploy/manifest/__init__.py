"""``hetesynth.toml``: which schedules a repository keeps, as text and as values."""
