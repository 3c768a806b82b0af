"""Files written whole or not at all; the schedule document."""
