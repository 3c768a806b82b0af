"""Schedules as tables of rounds."""
